; The versions side by side: which folder a new one gets, which stay, which go, and what Windows is told of them.

!define REPLACE 1

; $0 holds the parameters.
!macro READ_WAIT
  ClearErrors
  ${GetOptions} $0 "/WAIT=" $WaitSeconds
  ${If} ${Errors}
    StrCpy $WaitSeconds ${WAIT_SECONDS}
  ${EndIf}
  ClearErrors
!macroend

!macro FORGET_GGUF
  DeleteRegKey HKCU "${CLASSES}\${PROGID}"
  DeleteRegValue HKCU "${CLASSES}\.gguf\OpenWithProgids" "${PROGID}"
  DeleteRegKey /ifempty HKCU "${CLASSES}\.gguf\OpenWithProgids"
  DeleteRegKey /ifempty HKCU "${CLASSES}\.gguf"
!macroend

; SHCNE_ASSOCCHANGED: open folders show the files' icons anew.
!macro TELL_OF_GGUF
  System::Call 'shell32::SHChangeNotify(i 0x08000000, i 0, p 0, p 0)'
!macroend

; Reads what the last installation registered; what is gone from the disk counts as not installed.
Function ReadInstalled
  ReadRegStr $Installed HKCU "${REGISTERED}" "InstallLocation"
  ReadRegStr $InstalledVersion HKCU "${REGISTERED}" "DisplayVersion"
  ReadRegStr $Current HKCU "${REGISTERED}" "Folder"
  ReadRegStr $Previous HKCU "${REGISTERED}" "PreviousFolder"
  ${If} $Installed == ""
  ${OrIfNot} ${FileExists} "$Installed\uninstall.exe"
    StrCpy $Installed ""
    StrCpy $InstalledVersion ""
    StrCpy $Current ""
    StrCpy $Previous ""
  ${EndIf}
  ClearErrors
FunctionEnd

; Asks what runs to close, and waits. If it does not: silently, beside it; else as the user says.
Function CloseRunning
  Push $0
  ${If} $Installed == ""
    Goto closed
  ${EndIf}
  Push $Installed
  Call CountRunning
  Pop $0
  ${If} $0 = 0
    Goto closed
  ${EndIf}
  MessageBox MB_OKCANCEL|MB_ICONINFORMATION "$(RUNNING_ASK)" /SD IDOK IDOK ask
  Abort "$(NOTHING_DONE)"
ask:
  DetailPrint "$(RUNNING_WAIT)"
  Push $Installed
  Call AskToClose
  Push $Installed
  Call WaitForEnd
  Pop $0
  ${If} $0 > 0
    MessageBox MB_YESNOCANCEL|MB_ICONQUESTION "$(RUNNING_STILL)" /SD IDNO IDYES ask IDNO beside
    Abort "$(NOTHING_DONE)"
  beside:
    StrCpy $Beside 1
  ${EndIf}
closed:
  Pop $0
FunctionEnd

Function un.CloseRunning
  Push $0
ask:
  Push $INSTDIR
  Call un.CountRunning
  Pop $0
  ${If} $0 > 0
    DetailPrint "$(RUNNING_WAIT)"
    Push $INSTDIR
    Call un.AskToClose
    Push $INSTDIR
    Call un.WaitForEnd
    Pop $0
    ${If} $0 > 0
      MessageBox MB_RETRYCANCEL|MB_ICONEXCLAMATION "$(RUNNING_KEEPS)" /SD IDCANCEL IDRETRY ask
      SetErrorLevel ${CODE_BESIDE}
      Abort "$(NOTHING_DONE)"
    ${EndIf}
  ${EndIf}
  Pop $0
FunctionEnd

; The version's own folder, if it is new or ours with nothing running in it; else the first such one with a number. Of a
; set-up that was ended at its very beginning there may be a folder with nothing in it.
Function ChooseFolder
  Push $0
  Push $1
  Push $2
  Push "$INSTDIR\${VERSION}"
  Call RemoveEmpty
  StrCpy $0 1
  StrCpy $Folder "${VERSION}"
  ${While} ${FileExists} "$INSTDIR\$Folder"
    ${If} ${FileExists} "$INSTDIR\$Folder\${LIST_NAME}"
      Push "$INSTDIR\$Folder"
      Call CountRunning
      Pop $1
      Push "$INSTDIR\$Folder"
      Call InUse
      Pop $2
      ${If} $1 = 0
      ${AndIf} $2 = 0
        ${ExitWhile}
      ${EndIf}
    ${EndIf}
    IntOp $0 $0 + 1
    StrCpy $Folder "${VERSION}-$0"
  ${EndWhile}
  Pop $2
  Pop $1
  Pop $0
FunctionEnd

; A version could not be laid whole: what is there of it goes, for the disk may be full, and a part of it is of no use.
; Not where it is the one in use: to lay that once more is all that helps.
Function Undo
  SetOutPath $PROFILE ; out of what goes
  ${If} $Folder != $Current
    Push $Laid
    Call RemoveListed
    Pop $0
    ${If} $Folder == $Previous
      Delete "${SHORTCUT_BACK}"
      WriteRegStr HKCU "${REGISTERED}" "PreviousFolder" ""
    ${EndIf}
  ${EndIf}
  StrCpy $Laid ""
  Push $INSTDIR
  Call RemoveEmpty
FunctionEnd

; The uninstaller, written beside the one there is: a disk that is full must not leave half of one. Tells 1 where it could
; be, else 0.
Function LayUninstaller
  Push $0
  StrCpy $0 0
  ClearErrors
  WriteUninstaller "$INSTDIR\uninstall.new"
  ${IfNot} ${Errors}
    SetFileAttributes "$INSTDIR\uninstall.exe" NORMAL
    System::Call 'kernel32::MoveFileExW(w "$INSTDIR\uninstall.new", w "$INSTDIR\uninstall.exe", i ${REPLACE}) i .r0'
  ${EndIf}
  ${If} $0 = 0
    Delete "$INSTDIR\uninstall.new"
  ${EndIf}
  ClearErrors
  Exch $0
FunctionEnd

; All is laid: from here on the new version is the one that starts, and the one before it is the way back.
Function SwitchToLaid
  ${If} $Current != ""
  ${AndIf} $Current != $Folder
    StrCpy $Previous $Current
  ${EndIf}
  CreateShortcut "${SHORTCUT}" "$Laid\${WINDOW_PROGRAM}" "" "$Laid\${WINDOW_PROGRAM}" 0 SW_SHOWNORMAL "" "$(SHORTCUT_TOLD)"
  ${If} $Previous != ""
  ${AndIf} ${FileExists} "$INSTDIR\$Previous\${WINDOW_PROGRAM}"
    CreateShortcut "${SHORTCUT_BACK}" "$INSTDIR\$Previous\${WINDOW_PROGRAM}"
  ${Else}
    StrCpy $Previous ""
    Delete "${SHORTCUT_BACK}"
  ${EndIf}
FunctionEnd

; Versions that are neither in use nor the way back, if nothing runs in them.
Function RemoveOlder
  Push $0
  Push $1
  Push $2
  Push $3
  ClearErrors
  FindFirst $0 $1 "$INSTDIR\*.*"
  ${DoUntil} ${Errors}
    ${If} $1 != $Folder
    ${AndIf} $1 != $Previous
    ${AndIf} $1 != "."
    ${AndIf} $1 != ".."
    ${AndIf} ${FileExists} "$INSTDIR\$1\${LIST_NAME}"
      Push "$INSTDIR\$1"
      Call CountRunning
      Pop $2
      Push "$INSTDIR\$1"
      Call InUse
      Pop $3
      ${If} $2 = 0
      ${AndIf} $3 = 0
        Push "$INSTDIR\$1"
        Call RemoveListed
        Pop $2
      ${EndIf}
    ${EndIf}
    ClearErrors
    FindNext $0 $1
  ${Loop}
  FindClose $0
  ClearErrors
  Pop $3
  Pop $2
  Pop $1
  Pop $0
FunctionEnd

; What Windows' list of programs shows; the size is that of both versions, as they lie on the disk.
Function Register
  Push $0
  Push $1
  Push $Laid
  Call TreeBytes
  Pop $0
  ${If} $Previous != ""
    Push "$INSTDIR\$Previous"
    Call TreeBytes
    Pop $1
    System::Int64Op $0 + $1
    Pop $0
  ${EndIf}
  System::Int64Op $0 / 1024
  Pop $0
  WriteRegStr HKCU "${REGISTERED}" "DisplayName" "${NAME}"
  WriteRegStr HKCU "${REGISTERED}" "DisplayVersion" "${VERSION}"
  WriteRegStr HKCU "${REGISTERED}" "DisplayIcon" "$Laid\${WINDOW_PROGRAM},0"
  WriteRegStr HKCU "${REGISTERED}" "Publisher" "Expert Lanes contributors"
  WriteRegStr HKCU "${REGISTERED}" "InstallLocation" "$INSTDIR"
  WriteRegStr HKCU "${REGISTERED}" "UninstallString" '"$INSTDIR\uninstall.exe"'
  WriteRegStr HKCU "${REGISTERED}" "QuietUninstallString" '"$INSTDIR\uninstall.exe" /S'
  WriteRegStr HKCU "${REGISTERED}" "Folder" "$Folder"
  WriteRegStr HKCU "${REGISTERED}" "PreviousFolder" "$Previous"
  WriteRegDWORD HKCU "${REGISTERED}" "EstimatedSize" $0
  WriteRegDWORD HKCU "${REGISTERED}" "NoModify" 1
  WriteRegDWORD HKCU "${REGISTERED}" "NoRepair" 1
  Pop $1
  Pop $0
FunctionEnd

; Every version below the uninstaller's folder; tells how many files could not be deleted. A version whose list is
; damaged stays: nobody knows what is ours in it. One that another user runs stays whole.
Function un.RemoveVersions
  Push $0
  Push $1
  Push $2
  Push $3
  StrCpy $3 0
  ClearErrors
  FindFirst $0 $1 "$INSTDIR\*.*"
  ${DoUntil} ${Errors}
    ${If} $1 != "."
    ${AndIf} $1 != ".."
    ${AndIf} ${FileExists} "$INSTDIR\$1\${LIST_NAME}"
      Push "$INSTDIR\$1"
      Call un.InUse
      Pop $2
      ${If} $2 = 0
        Push "$INSTDIR\$1"
        Call un.RemoveListed
        Pop $2
      ${EndIf}
      ${If} $2 > 0
        IntOp $3 $3 + $2
      ${EndIf}
    ${EndIf}
    ClearErrors
    FindNext $0 $1
  ${Loop}
  FindClose $0
  ClearErrors
  StrCpy $0 $3
  Pop $3
  Pop $2
  Pop $1
  Exch $0
FunctionEnd
