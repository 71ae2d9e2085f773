; What is looked at before anything is laid. Each check tells in words why it cannot be, or "".

!define OLDEST_BUILD 17763 ; Windows 10 1809: the oldest that Qt 6 supports
!define LONGEST_PATH 259
!define ALREADY_EXISTS 183

Var Why
Var WhyCode

; One set-up or uninstaller at a time, in whichever of the user's sessions: the system lets go of the name when this
; program ends. One that another user runs is not ours to see, and has folders of its own.
!macro ONE_AT_A_TIME
  System::Call 'kernel32::CreateMutexW(p 0, i 0, w "Global\ExpertLanesSetup") p .r0 ?e'
  Pop $0
  ${If} $0 = ${ALREADY_EXISTS}
    MessageBox MB_OK|MB_ICONEXCLAMATION "$(ANOTHER_SETUP)" /SD IDOK
    SetErrorLevel ${CODE_ANOTHER_SETUP}
    Quit
  ${EndIf}
!macroend

; On a 32-bit Windows this very program does not start: the system says so itself.
Function CheckWindows
  StrCpy $Why ""
  ${IfNot} ${AtLeastBuild} ${OLDEST_BUILD}
    StrCpy $Why "$(TOO_OLD)"
    StrCpy $WhyCode ${CODE_WINDOWS}
  ${EndIf}
FunctionEnd

; A folder that was told but is no whole path: NSIS drops it without a word, and would lay all into the usual one.
Function CheckTold
  Push $0
  Push $1
  StrCpy $Why ""
  System::Call 'kernel32::GetCommandLineW() w .r0'
  ClearErrors
  ${GetOptions} $0 "/D=" $1
  ${IfNot} ${Errors}
    StrCpy $0 $1 1 -1
    ${If} $0 == "\"
      StrCpy $1 $1 -1
    ${EndIf}
    ${If} $INSTDIR == "${USUAL_FOLDER}"
    ${AndIf} $1 != "${USUAL_FOLDER}"
      StrCpy $INSTDIR $1
      StrCpy $Why "$(NO_FOLDER)"
      StrCpy $WhyCode ${CODE_FOLDER}
    ${EndIf}
  ${EndIf}
  ClearErrors
  Pop $1
  Pop $0
FunctionEnd

; Tells 1 where a folder in $INSTDIR is a version of ours, else 0.
Function HoldsVersions
  Push $0
  Push $1
  Push $2
  StrCpy $2 0
  ClearErrors
  FindFirst $0 $1 "$INSTDIR\*.*"
  ${DoUntil} ${Errors}
    ${If} $1 != "."
    ${AndIf} $1 != ".."
    ${AndIf} ${FileExists} "$INSTDIR\$1\${LIST_NAME}"
      StrCpy $2 1
    ${EndIf}
    ClearErrors
    FindNext $0 $1
  ${Loop}
  FindClose $0
  ClearErrors
  StrCpy $0 $2
  Pop $2
  Pop $1
  Exch $0
FunctionEnd

; Looks at $INSTDIR: short enough, no other program's, writable, with room. What it makes to find that out it removes;
; only folders above $INSTDIR that were missing stay.
Function CheckFolder
  Push $0
  StrCpy $Why ""
  StrLen $0 "$INSTDIR\${VERSION}-9\"
  IntOp $0 $0 + ${LONGEST_NAME}
  ${If} $0 > ${LONGEST_PATH}
    IntOp $0 $0 - ${LONGEST_PATH}
    StrCpy $Why "$(TOO_LONG)"
    StrCpy $WhyCode ${CODE_PATH}
    Goto looked
  ${EndIf}
  ; An uninstaller that we did not lay would be written over, and later deleted. The usual folder is ours alone.
  ${If} $Installed == ""
  ${AndIf} $INSTDIR != "${USUAL_FOLDER}"
  ${AndIf} ${FileExists} "$INSTDIR\uninstall.exe"
    Call HoldsVersions
    Pop $0
    ${If} $0 = 0
      StrCpy $Why "$(OTHERS_FOLDER)"
      StrCpy $WhyCode ${CODE_FOLDER}
      Goto looked
    ${EndIf}
  ${EndIf}
  ClearErrors
  CreateDirectory $INSTDIR
  GetTempFileName $0 $INSTDIR
  ${If} ${Errors}
    StrCpy $Why "$(NOT_WRITABLE)"
    StrCpy $WhyCode ${CODE_FOLDER}
  ${Else}
    Delete $0
    Call CheckRoom
  ${EndIf}
  Push $INSTDIR
  Call RemoveEmpty
  ClearErrors
looked:
  Pop $0
FunctionEnd

; While it installs, all is unpacked into the folder for temporary files first, and then copied: both need the room.
Function CheckRoom
  Push $0
  Push $1
  Push $2
  StrCpy $0 ${NEEDED_MB}
  StrCpy $1 $INSTDIR 3
  StrCpy $2 $TEMP 3
  ${If} $1 == $2
    IntOp $0 $0 * 2
  ${Else}
    Push $TEMP
    Call FreeMegabytes
    Pop $2
    ${If} $2 < $0
      StrCpy $1 $TEMP
      StrCpy $Why "$(NO_ROOM)"
      StrCpy $WhyCode ${CODE_ROOM}
    ${EndIf}
  ${EndIf}
  Push $INSTDIR
  Call FreeMegabytes
  Pop $2
  ${If} $2 < $0
    StrCpy $1 $INSTDIR
    StrCpy $Why "$(NO_ROOM)"
    StrCpy $WhyCode ${CODE_ROOM}
  ${EndIf}
  Pop $2
  Pop $1
  Pop $0
FunctionEnd

; A folder; tells the MiB that this user may still write there. Where the system does not tell, more than enough: the
; copying itself ends in words where a disk is full.
Function FreeMegabytes
  Exch $0
  Push $1
  Push $2
  System::Call 'kernel32::GetDiskFreeSpaceExW(w r0, *l .r1, p 0, p 0) i .r2'
  StrCpy $0 2147483647
  ${If} $2 <> 0
    System::Int64Op $1 / 1048576
    Pop $0
  ${EndIf}
  Pop $2
  Pop $1
  Exch $0
FunctionEnd
