; The Windows installer of Expert Lanes: for one user, without administrator's rights. nsis.py compiles it.
;
; What lies where, below a folder that is %LOCALAPPDATA%\Programs\Expert Lanes unless the user picks another:
;   0.1.0\           one version, with the list of the files laid in it; nothing in use is ever written over
;   0.0.9\           the version before it, kept until the next update: the way back
;   uninstall.exe    removes all versions
; A version that is laid again while it runs gets a second folder, 0.1.0-2.
;
; Options: /S says nothing and asks nothing; /D=FOLDER, the last one and without quotes; /DESKTOP=0 or 1 and
; /ASSOCIATE=0 or 1 for the two parts that may be left out (as they are now, unless told); /WAIT=SECONDS for a running
; app to close, 30 unless told. Of the uninstaller: /S, /WAIT=SECONDS, /MODELS=delete, /CHATS=delete (kept unless told).
;
; Exit codes beside NSIS's own (0 done, 1 cancelled, 2 ended by the script):
!define CODE_BESIDE 10        ; installed beside a program that did not close; of the uninstaller: nothing removed
!define CODE_WINDOWS 11       ; refused: Windows is too old
!define CODE_ROOM 12          ; refused: not enough room on a disk
!define CODE_PATH 13          ; refused: the folder's path is too long
!define CODE_FOLDER 14        ; refused: no whole path, not writable, another program's, or installed already elsewhere
!define CODE_NOT_LAID 15      ; a file could not be written; the version in use is still the one before
!define CODE_NOT_REMOVED 16   ; of the uninstaller: some files could not be deleted; it can be run again
!define CODE_ANOTHER_SETUP 17 ; refused: another set-up or uninstaller runs
;
; From nsis.py: VERSION, VERSION_NUMBERS (four), TARGET, FILES (script that lays the files), LIST (file of their
; names), LIST_HEADER (its first line), LONGEST_NAME (characters of the longest), NEEDED_MB, ICON,
; SIDE_PICTURE (beside the words of the last page); SIGN, where it is to be signed (the command that signs a file).

Unicode true
Target amd64-unicode
!ifdef QUICK ; to be tried, not to be given to anybody: nothing is packed
  SetCompressor zlib
  SetCompress off
!else
  SetCompressor /SOLID lzma
  SetCompressorDictSize 64
!endif
RequestExecutionLevel user
ManifestDPIAware true
ManifestSupportedOS Win10

!define NAME "Expert Lanes"
!define REGISTERED "Software\Microsoft\Windows\CurrentVersion\Uninstall\Expert Lanes"
!define CLASSES "Software\Classes"
!define PROGID "ExpertLanes.gguf"
!define SHORTCUT "$SMPROGRAMS\${NAME}.lnk"
!define SHORTCUT_BACK_NAME "${NAME} (previous version).lnk"
!define SHORTCUT_BACK "$SMPROGRAMS\${SHORTCUT_BACK_NAME}"
!define SHORTCUT_DESKTOP "$DESKTOP\${NAME}.lnk"
!define USUAL_FOLDER "$LOCALAPPDATA\Programs\${NAME}"
!define WAIT_SECONDS 30

Name "${NAME}"
OutFile "${TARGET}"
InstallDir "${USUAL_FOLDER}"
!ifdef SIGN
  !uninstfinalize '${SIGN} "%1"' = 0 ; before it is packed: the set-up itself is signed when it is made
!endif
BrandingText "${NAME} ${VERSION}"
VIProductVersion "${VERSION_NUMBERS}"
VIFileVersion "${VERSION_NUMBERS}"

Var Laid             ; the version's folder, whole path
Var Folder           ; and its name
Var Installed        ; where it is installed already, or ""
Var InstalledVersion
Var Current          ; name of the folder in use before, or ""
Var Previous         ; name of the folder that is the way back, or ""
Var Beside           ; 1: an older program still runs
Var FinishText
Var WaitSeconds

!include LogicLib.nsh
!include WinMessages.nsh
!include WinVer.nsh
!include FileFunc.nsh
!include WordFunc.nsh
!include Sections.nsh
!include nsDialogs.nsh
!include MUI2.nsh
!include running.nsh
!include trees.nsh
!include shortcuts.nsh

; What starts first lies first: the rest is unpacked only once it is needed.
ReserveFile /plugin System.dll
ReserveFile /plugin nsDialogs.dll

; ---- pages ----
!define MUI_ICON "${ICON}"
!define MUI_UNICON "${ICON}"
!define MUI_WELCOMEFINISHPAGE_BITMAP "${SIDE_PICTURE}"
!define MUI_ABORTWARNING
!define MUI_COMPONENTSPAGE_SMALLDESC
!define MUI_PAGE_CUSTOMFUNCTION_SHOW ShowParts
!insertmacro MUI_PAGE_COMPONENTS
!define MUI_DIRECTORYPAGE_TEXT_TOP "$(FOLDER_TEXT)"
!define MUI_PAGE_CUSTOMFUNCTION_PRE SkipFolderPage
!define MUI_PAGE_CUSTOMFUNCTION_LEAVE LeaveFolderPage
!insertmacro MUI_PAGE_DIRECTORY
!insertmacro MUI_PAGE_INSTFILES
!define MUI_FINISHPAGE_TEXT "$FinishText"
!define MUI_FINISHPAGE_RUN
!define MUI_FINISHPAGE_RUN_TEXT "$(START_NOW)"
!define MUI_FINISHPAGE_RUN_FUNCTION StartNow
!define MUI_PAGE_CUSTOMFUNCTION_SHOW ShowFinishPage
!insertmacro MUI_PAGE_FINISH
!insertmacro MUI_UNPAGE_CONFIRM
UninstPage custom un.ShowData un.LeaveData
!insertmacro MUI_UNPAGE_INSTFILES
!insertmacro MUI_LANGUAGE "English"
!insertmacro MUI_LANGUAGE "German"

!macro ABOUT LANGUAGE
  VIAddVersionKey /LANG=${LANGUAGE} "ProductName" "${NAME}"
  VIAddVersionKey /LANG=${LANGUAGE} "ProductVersion" "${VERSION}"
  VIAddVersionKey /LANG=${LANGUAGE} "FileDescription" "${NAME} Setup"
  VIAddVersionKey /LANG=${LANGUAGE} "FileVersion" "${VERSION}"
  VIAddVersionKey /LANG=${LANGUAGE} "CompanyName" "Expert Lanes contributors"
  VIAddVersionKey /LANG=${LANGUAGE} "LegalCopyright" "Expert Lanes contributors"
!macroend
!insertmacro ABOUT ${LANG_ENGLISH}
!insertmacro ABOUT ${LANG_GERMAN}

!include refuse.nsh
!insertmacro RUNNING_FUNCTIONS ""
!insertmacro RUNNING_FUNCTIONS "un."
!insertmacro TREE_FUNCTIONS ""
!insertmacro TREE_FUNCTIONS "un."
!insertmacro SHORTCUT_FUNCTIONS ""
!insertmacro SHORTCUT_FUNCTIONS "un."
!include data.nsh
!include versions.nsh
!include words.nsh

; ---- what is installed ----
Section "-close"
  Call CloseRunning
  Call ChooseFolder
SectionEnd

Section "$(PROGRAM)" PART_PROGRAM
  SectionIn RO
  StrCpy $Laid "$INSTDIR\$Folder"
  ${If} ${FileExists} "$Laid\${LIST_NAME}"
    Push $Laid
    Call RemoveListed
    Pop $0
  ${EndIf}
  ClearErrors
  SetOutPath $Laid
  File "/oname=${LIST_NAME}" "${LIST}"
  !include "${FILES}"
  ; Shortcuts begin where this stands: not in a folder that an update wants to remove.
  SetOutPath $PROFILE
  StrCpy $0 0
  ${IfNot} ${Errors} ; to ask for them forgets them
    Call LayUninstaller
    Pop $0
  ${EndIf}
  ${If} $0 = 0
  ${OrIfNot} ${FileExists} "$Laid\${WINDOW_PROGRAM}"
    SetErrorLevel ${CODE_NOT_LAID}
    StrCpy $0 "$(NOT_LAID)"
    ${If} $Folder == $Current ; what was there of it is deleted already
      StrCpy $0 "$(NOT_LAID_AGAIN)"
    ${ElseIf} $Folder == $Previous
      StrCpy $0 "$(NOT_LAID_BACK)"
    ${EndIf}
    Push $0
    Call Undo
    Pop $0
    MessageBox MB_OK|MB_ICONSTOP $0 /SD IDOK
    Abort $0
  ${EndIf}
SectionEnd

Section /o "$(ON_DESKTOP)" PART_DESKTOP
  CreateShortcut "${SHORTCUT_DESKTOP}" "$Laid\${WINDOW_PROGRAM}" "" "$Laid\${WINDOW_PROGRAM}" 0 SW_SHOWNORMAL "" "$(SHORTCUT_TOLD)"
SectionEnd

Section /o "$(OPENS_GGUF)" PART_GGUF
  WriteRegStr HKCU "${CLASSES}\${PROGID}" "" "$(GGUF_FILE)"
  WriteRegStr HKCU "${CLASSES}\${PROGID}\DefaultIcon" "" "$Laid\${WINDOW_PROGRAM},0"
  WriteRegStr HKCU "${CLASSES}\${PROGID}\shell\open\command" "" '"$Laid\${WINDOW_PROGRAM}" "%1"'
  ; Among the programs for such files; which one is the user's own choice is not touched.
  WriteRegStr HKCU "${CLASSES}\.gguf\OpenWithProgids" "${PROGID}" ""
SectionEnd

Section "-register"
  ${IfNot} ${SectionIsSelected} ${PART_DESKTOP}
    Delete "${SHORTCUT_DESKTOP}"
  ${EndIf}
  ${IfNot} ${SectionIsSelected} ${PART_GGUF}
    !insertmacro FORGET_GGUF
  ${EndIf}
  Call SwitchToLaid
  Call RemoveOlder
  Call Register
  ; Last: it opens files of others, and whatever that meets, the version is installed already.
  Call UsersOwnWays
  !insertmacro TELL_OF_GGUF
  StrCpy $FinishText "$(FINISHED)"
  ${If} $Beside = 1
    StrCpy $FinishText "$(FINISHED_BESIDE)"
    SetErrorLevel ${CODE_BESIDE}
  ${EndIf}
SectionEnd

!insertmacro MUI_FUNCTION_DESCRIPTION_BEGIN
  !insertmacro MUI_DESCRIPTION_TEXT ${PART_PROGRAM} "$(PROGRAM_TOLD)"
  !insertmacro MUI_DESCRIPTION_TEXT ${PART_DESKTOP} "$(ON_DESKTOP_TOLD)"
  !insertmacro MUI_DESCRIPTION_TEXT ${PART_GGUF} "$(OPENS_GGUF_TOLD)"
!insertmacro MUI_FUNCTION_DESCRIPTION_END

; ---- begin ----
!macro REFUSE
  ${If} $Why != ""
    MessageBox MB_OK|MB_ICONSTOP "$Why" /SD IDOK
    SetErrorLevel $WhyCode
    Quit
  ${EndIf}
!macroend

Function .onInit
  SetShellVarContext current
  !insertmacro ONE_AT_A_TIME
  Call CheckWindows
  !insertmacro REFUSE
  StrCpy $0 $INSTDIR 1 -1
  ${If} $0 == "\"
    StrCpy $INSTDIR $INSTDIR -1
  ${EndIf}
  Call CheckTold
  !insertmacro REFUSE
  Call ReadInstalled
  ; An update goes where the app is.
  ${If} $Installed != ""
  ${AndIf} $INSTDIR == "${USUAL_FOLDER}"
    StrCpy $INSTDIR $Installed
  ${ElseIf} $Installed != ""
  ${AndIf} $INSTDIR != $Installed
    MessageBox MB_OK|MB_ICONSTOP "$(ELSEWHERE)" /SD IDOK
    SetErrorLevel ${CODE_FOLDER}
    Quit
  ${EndIf}
  ${If} $InstalledVersion != ""
    ${VersionCompare} $InstalledVersion ${VERSION} $0
    ${If} $0 = 1
      MessageBox MB_YESNO|MB_ICONQUESTION|MB_DEFBUTTON2 "$(NEWER)" /SD IDYES IDYES older
      SetErrorLevel 1
      Quit
    older:
    ${EndIf}
  ${EndIf}
  ; Where there is no page to choose another folder on, this one is what there is.
  ${If} ${Silent}
  ${OrIf} $Installed != ""
    Call CheckFolder
    !insertmacro REFUSE
  ${EndIf}
  ${GetParameters} $0
  !insertmacro READ_WAIT
  Call ChooseParts
FunctionEnd

; The parts that may be left out: as told, else as they are.
Function ChooseParts
  ClearErrors
  ${GetOptions} $0 "/DESKTOP=" $1
  ${If} ${Errors}
    StrCpy $1 0
    ${If} ${FileExists} "${SHORTCUT_DESKTOP}"
      StrCpy $1 1
    ${EndIf}
  ${EndIf}
  ${If} $1 = 1
    !insertmacro SelectSection ${PART_DESKTOP}
  ${EndIf}
  ClearErrors
  ${GetOptions} $0 "/ASSOCIATE=" $1
  ${If} ${Errors}
    ReadRegStr $2 HKCU "${CLASSES}\${PROGID}" ""
    StrCpy $1 0
    ${If} $2 != ""
      StrCpy $1 1
    ${EndIf}
  ${EndIf}
  ${If} $1 = 1
    !insertmacro SelectSection ${PART_GGUF}
  ${EndIf}
  ClearErrors
FunctionEnd

; Where the page for the folder is skipped, this one's button is what begins.
Function ShowParts
  ${If} $Installed != ""
    GetDlgItem $0 $HWNDPARENT 1
    SendMessage $0 ${WM_SETTEXT} 0 "STR:$(^InstallBtn)"
  ${EndIf}
FunctionEnd

Function SkipFolderPage
  ${If} $Installed != ""
    Abort
  ${EndIf}
FunctionEnd

Function LeaveFolderPage
  Call CheckFolder
  ${If} $Why != ""
    MessageBox MB_OK|MB_ICONEXCLAMATION "$Why"
    Abort
  ${EndIf}
FunctionEnd

; Also where NSIS itself ended: a disk was full, or the user to whom it said that a file cannot be written said so.
Function .onInstFailed
  ${If} $Laid != ""
    SetErrorLevel ${CODE_NOT_LAID}
    Call Undo
  ${EndIf}
FunctionEnd

; Started now, it would only bring the one that still runs to the front.
Function ShowFinishPage
  ${If} $Beside = 1
    SendMessage $mui.FinishPage.Run ${BM_SETCHECK} ${BST_UNCHECKED} 0
  ${EndIf}
FunctionEnd

Function StartNow
  Exec '"$Laid\${WINDOW_PROGRAM}"'
FunctionEnd

; ---- uninstalling ----
Function un.onInit
  SetShellVarContext current
  !insertmacro ONE_AT_A_TIME
  ${GetParameters} $0
  !insertmacro READ_WAIT
  ${GetOptions} $0 "/MODELS=" $1
  ${If} $1 == "delete"
    StrCpy $DeleteModels 1
  ${EndIf}
  ${GetOptions} $0 "/CHATS=" $2
  ${If} $2 == "delete"
    StrCpy $DeleteChats 1
  ${EndIf}
  ClearErrors
FunctionEnd

Section "Uninstall"
  SetOutPath $TEMP ; no folder of ours is stood in
  Call un.CloseRunning
  Call un.RemoveVersions
  Pop $0
  StrCpy $1 $INSTDIR
  ${If} $0 = 0
    Call un.RemoveData
    Pop $0
    StrCpy $1 "${DATA}"
  ${EndIf}
  ; Before the uninstaller itself goes, and what Windows knows of it: it can be run again.
  ${If} $0 > 0
    SetErrorLevel ${CODE_NOT_REMOVED}
    MessageBox MB_OK|MB_ICONEXCLAMATION "$(NOT_REMOVED)" /SD IDOK
    Abort "$(NOT_REMOVED)"
  ${EndIf}
  Delete "$INSTDIR\uninstall.new" ; left by a set-up that was ended while it wrote it
  Delete "$INSTDIR\uninstall.exe"
  Push $INSTDIR
  Call un.RemoveEmpty
  Delete "${SHORTCUT}"
  Delete "${SHORTCUT_BACK}"
  Delete "${SHORTCUT_DESKTOP}"
  Call un.UsersOwnWays
  !insertmacro FORGET_GGUF
  !insertmacro TELL_OF_GGUF
  DeleteRegKey HKCU "${REGISTERED}"
SectionEnd
