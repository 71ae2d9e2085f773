; All words of the set-up and the uninstaller that are not NSIS's own. Variables are filled in when they are shown.

!macro SAY NAME ENGLISH GERMAN
  LangString ${NAME} ${LANG_ENGLISH} "${ENGLISH}"
  LangString ${NAME} ${LANG_GERMAN} "${GERMAN}"
!macroend

; ---- refusals ----
!insertmacro SAY ANOTHER_SETUP "Expert Lanes is already being installed or removed. Let that finish first." "Expert Lanes wird gerade schon installiert oder entfernt. Lassen Sie das zuerst enden."
!insertmacro SAY TOO_OLD "Expert Lanes needs Windows 10, version 1809, or newer. This Windows is older, so nothing was installed." "Expert Lanes braucht Windows 10, Version 1809, oder neuer. Dieses Windows ist älter; es wurde nichts installiert."
!insertmacro SAY NO_FOLDER "$\"$INSTDIR$\" is not the whole path of a folder, such as D:\Programs\Expert Lanes." "„$INSTDIR“ ist kein vollständiger Pfad eines Ordners wie D:\Programme\Expert Lanes."
!insertmacro SAY TOO_LONG "The path of this folder is $0 characters too long: with the names below it, Windows takes ${LONGEST_PATH} at most.$\n$\n$INSTDIR" "Der Pfad dieses Ordners ist um $0 Zeichen zu lang: mit den Namen darunter nimmt Windows höchstens ${LONGEST_PATH}.$\n$\n$INSTDIR"
!insertmacro SAY NOT_WRITABLE "Nothing can be written into this folder. Choose one of your own; an administrator's rights are not needed there.$\n$\n$INSTDIR" "In diesen Ordner kann nichts geschrieben werden. Wählen Sie einen eigenen; dort sind keine Administratorrechte nötig.$\n$\n$INSTDIR"
!insertmacro SAY OTHERS_FOLDER "Another program is installed in this folder: its uninstall.exe lies there. Choose another one, such as a new folder in it.$\n$\n$INSTDIR" "In diesem Ordner ist ein anderes Programm installiert: dessen uninstall.exe liegt dort. Wählen Sie einen anderen, etwa einen neuen Ordner darin.$\n$\n$INSTDIR"
!insertmacro SAY NO_ROOM "There is not enough room: $0 MB are needed while it installs, $2 MB are free.$\n$\n$1" "Der Platz reicht nicht: während der Installation werden $0 MB gebraucht, $2 MB sind frei.$\n$\n$1"
!insertmacro SAY ELSEWHERE "Expert Lanes is already installed in another folder. Uninstall it there first, or update it where it is.$\n$\n$Installed" "Expert Lanes ist schon in einem anderen Ordner installiert. Entfernen Sie es zuerst dort, oder aktualisieren Sie es an seinem Ort.$\n$\n$Installed"
!insertmacro SAY NEWER "Version $InstalledVersion, which is newer, is installed. Go back to version ${VERSION}?$\n$\nThe newer one is kept as the previous version. Conversations that it has written may be unreadable to the older one." "Die neuere Version $InstalledVersion ist installiert. Zur Version ${VERSION} zurückgehen?$\n$\nDie neuere bleibt als vorige Version erhalten. Gespräche, die sie geschrieben hat, kann die ältere vielleicht nicht lesen."

; ---- a running app ----
!insertmacro SAY RUNNING_ASK "Expert Lanes is running and will be asked to close. An answer that is being written is stopped; what is there of it is kept." "Expert Lanes läuft und wird gebeten, sich zu schließen. Eine Antwort, die gerade entsteht, wird angehalten; was davon da ist, bleibt erhalten."
!insertmacro SAY RUNNING_WAIT "Waiting for Expert Lanes to close" "Warten, bis Expert Lanes sich schließt"
!insertmacro SAY RUNNING_STILL "Expert Lanes has not closed, or one of its commands is running. It is not ended by force.$\n$\nYes: ask once more (close it, or its open dialogs, yourself)$\nNo: install beside it; the new version is there when it is started again$\nCancel: install nothing" "Expert Lanes hat sich nicht geschlossen, oder einer seiner Befehle läuft. Es wird nicht mit Gewalt beendet.$\n$\nJa: noch einmal bitten (schließen Sie es oder seine offenen Dialoge selbst)$\nNein: daneben installieren; die neue Version ist beim nächsten Start da$\nAbbrechen: nichts installieren"
!insertmacro SAY RUNNING_KEEPS "Expert Lanes has not closed, or one of its commands is running. While it runs it cannot be removed, and it is not ended by force.$\n$\nClose it and try again." "Expert Lanes hat sich nicht geschlossen, oder einer seiner Befehle läuft. Solange kann es nicht entfernt werden, und mit Gewalt wird es nicht beendet.$\n$\nSchließen Sie es und versuchen Sie es noch einmal."
!insertmacro SAY NOTHING_DONE "Nothing was changed." "Es wurde nichts geändert."

; ---- parts ----
!insertmacro SAY PROGRAM "Expert Lanes" "Expert Lanes"
!insertmacro SAY PROGRAM_TOLD "The app, its engine for processors and graphics cards, and the demo model." "Die App, ihre Engine für Prozessoren und Grafikkarten und das Demo-Modell."
!insertmacro SAY ON_DESKTOP "Shortcut on the desktop" "Verknüpfung auf dem Desktop"
!insertmacro SAY ON_DESKTOP_TOLD "Besides the one in the Start menu, which is always made." "Zusätzlich zu der im Startmenü, die immer angelegt wird."
!insertmacro SAY OPENS_GGUF "Offer to open .gguf files" "Zum Öffnen von .gguf-Dateien anbieten"
!insertmacro SAY OPENS_GGUF_TOLD "Lists it among the programs for model files. What you have chosen for them stays." "Nennt es unter den Programmen für Modelldateien. Was Sie dafür gewählt haben, bleibt."
!insertmacro SAY GGUF_FILE "GGUF language model" "GGUF-Sprachmodell"
!insertmacro SAY SHORTCUT_TOLD "Local chat with Mixture-of-Experts models" "Lokaler Chat mit Mixture-of-Experts-Modellen"

; ---- installing ----
!insertmacro SAY FOLDER_TEXT "Each version gets a folder of its own in this one. An update keeps the version before it as a way back and removes older ones. No administrator's rights are needed." "Jede Version bekommt darin einen eigenen Ordner. Eine Aktualisierung behält die Version davor als Rückweg und entfernt ältere. Administratorrechte sind nicht nötig."
!insertmacro SAY NOT_LAID "Some files could not be written into $Laid, so this version is not installed, and what was there of it is removed. Make room, close what uses these files, and install once more." "Einige Dateien konnten nicht nach $Laid geschrieben werden. Diese Version ist deshalb nicht installiert; was von ihr da war, ist entfernt. Schaffen Sie Platz, schließen Sie, was diese Dateien benutzt, und installieren Sie noch einmal."
!insertmacro SAY NOT_LAID_AGAIN "Some files could not be written into $Laid. What was there of this same version is removed or partly replaced, so it may not start. Make room, close what uses these files, and install once more." "Einige Dateien konnten nicht nach $Laid geschrieben werden. Was dort von derselben Version lag, ist entfernt oder zum Teil ersetzt; sie startet vielleicht nicht. Schaffen Sie Platz, schließen Sie, was diese Dateien benutzt, und installieren Sie noch einmal."
!insertmacro SAY NOT_LAID_BACK "Some files could not be written into $Laid. The previous version, which was to be installed there once more, is removed: there is no way back to it for now. Version $InstalledVersion, which is in use, is as it was. Make room, close what uses these files, and install once more." "Einige Dateien konnten nicht nach $Laid geschrieben werden. Die vorige Version, die dort noch einmal installiert werden sollte, ist entfernt: vorerst führt kein Weg zu ihr zurück. Version $InstalledVersion, die in Gebrauch ist, ist wie zuvor. Schaffen Sie Platz, schließen Sie, was diese Dateien benutzt, und installieren Sie noch einmal."
!insertmacro SAY KEPT_SHORTCUT "this shortcut could not be led to the new version" "diese Verknüpfung konnte nicht auf die neue Version gerichtet werden"
!insertmacro SAY FINISHED "Version ${VERSION} is installed." "Version ${VERSION} ist installiert."
!insertmacro SAY FINISHED_BESIDE "Version ${VERSION} is installed beside the one that is still running. It is there when Expert Lanes is started again." "Version ${VERSION} ist neben der installiert, die noch läuft. Sie ist da, wenn Expert Lanes neu gestartet wird."
!insertmacro SAY START_NOW "Start Expert Lanes now" "Expert Lanes jetzt starten"

; ---- removing ----
!insertmacro SAY KEPT_FILE "could not be deleted" "konnte nicht gelöscht werden"
!insertmacro SAY NOT_REMOVED "Some files are in use or could not be deleted. Close what uses them and uninstall once more.$\n$\n$1" "Einige Dateien sind in Gebrauch oder konnten nicht gelöscht werden. Schließen Sie, was sie benutzt, und deinstallieren Sie noch einmal.$\n$\n$1"
!insertmacro SAY DATA_TITLE "Models and conversations" "Modelle und Gespräche"
!insertmacro SAY DATA_SUBTITLE "They are kept unless you want them deleted." "Sie bleiben erhalten, wenn Sie sie nicht löschen lassen."
!insertmacro SAY DATA_TEXT "The program, its settings, its logs and what it measured of this machine are removed. Tick what else is to go: what is deleted here cannot be brought back." "Das Programm, seine Einstellungen, seine Protokolle und seine Messungen an diesem Rechner werden entfernt. Kreuzen Sie an, was noch gehen soll: was hier gelöscht wird, kann nicht zurückgeholt werden."
!insertmacro SAY DATA_MODELS "Delete the model files ($1)" "Die Modelldateien löschen ($1)"
!insertmacro SAY DATA_MODELS_LINK "Remove the link to the folder of model files (the files stay)" "Die Verknüpfung zum Ordner der Modelldateien entfernen (die Dateien bleiben)"
!insertmacro SAY DATA_CHATS "Delete all conversations ($1)" "Alle Gespräche löschen ($1)"
!insertmacro SAY DATA_PLACE "They lie in ${DATA}. Model files in other folders are not touched." "Sie liegen in ${DATA}. Modelldateien in anderen Ordnern werden nicht angerührt."
!insertmacro SAY DELETING_MODELS "Deleting the model files" "Die Modelldateien werden gelöscht"
!insertmacro SAY DELETING_CHATS "Deleting the conversations" "Die Gespräche werden gelöscht"
