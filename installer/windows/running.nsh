; Programs that run out of a folder: how many there are, and how their windows are asked to close.
; Nothing is ever ended by force: an engine may be writing, and an answer may be on its way to the disk.
; Numbers and paths go over the stack: what is pushed is taken, what is told is pushed.

!define WINDOW_PROGRAM "expert-lanes-window.exe"
!define TERMINAL_PROGRAM "expert-lanes.exe"
!define OWNER_OF_WINDOW 4
!define QUERY_PROGRAM 0x1000
!define PROCESS_LIST_BYTES 65536 ; 16,384 processes
!define MOST_WINDOWS 20000 ; the walk over them may run in circles while they change their order
!define LOOK_MILLISECONDS 200
!define ASK_AGAIN_MILLISECONDS 3000 ; a multiple of the line above

!macro RUNNING_FUNCTIONS UN

; A process id; tells the path of its program, "" where that is not ours to know.
Function ${UN}ProgramOf
  Exch $0
  Push $1
  Push $2
  Push $3
  StrCpy $3 ""
  System::Call 'kernel32::OpenProcess(i ${QUERY_PROGRAM}, i 0, i r0) p .r1'
  ${If} $1 <> 0
    System::Call 'kernel32::QueryFullProcessImageNameW(p r1, i 0, w .r3, *i ${NSIS_MAX_STRLEN}) i .r2'
    ${If} $2 = 0
      StrCpy $3 ""
    ${EndIf}
    System::Call 'kernel32::CloseHandle(p r1)'
  ${EndIf}
  StrCpy $0 $3
  Pop $3
  Pop $2
  Pop $1
  Exch $0
FunctionEnd

; A folder; tells how many programs run from anywhere below it, this one and an uninstaller left aside.
Function ${UN}CountRunning
  Exch $0
  Push $1
  Push $2
  Push $3
  Push $4
  Push $5
  Push $6
  Push $7
  System::Call 'kernel32::GetLongPathNameW(w r0, w .r1, i ${NSIS_MAX_STRLEN}) i .r2'
  ${If} $2 > 0
    StrCpy $0 $1
  ${EndIf}
  StrCpy $0 "$0\"
  StrLen $1 $0
  StrCpy $7 0
  System::Alloc ${PROCESS_LIST_BYTES}
  Pop $2
  System::Call 'kernel32::K32EnumProcesses(p r2, i ${PROCESS_LIST_BYTES}, *i .r3) i .r4'
  ${If} $4 = 0
    StrCpy $3 0
  ${EndIf}
  StrCpy $4 0
  ${While} $4 < $3
    IntPtrOp $5 $2 + $4
    System::Call '*$5(i .r6)'
    System::Call 'kernel32::GetCurrentProcessId() i .r5'
    ${If} $6 <> $5
      Push $6
      Call ${UN}ProgramOf
      Pop $6
      StrCpy $5 $6 $1
      ${If} $5 == $0
      ${AndIf} $6 != "$0uninstall.exe"
        IntOp $7 $7 + 1
      ${EndIf}
    ${EndIf}
    IntOp $4 $4 + 4
  ${EndWhile}
  System::Free $2
  StrCpy $0 $7
  Pop $7
  Pop $6
  Pop $5
  Pop $4
  Pop $3
  Pop $2
  Pop $1
  Exch $0
FunctionEnd

; A folder; asks every window of the window program below it to close, as its own cross would.
; Consoles are left alone: to close one ends what runs in it.
Function ${UN}AskToClose
  Exch $0
  Push $1
  Push $2
  Push $3
  Push $4
  Push $5
  Push $6
  System::Call 'kernel32::GetLongPathNameW(w r0, w .r1, i ${NSIS_MAX_STRLEN}) i .r2'
  ${If} $2 > 0
    StrCpy $0 $1
  ${EndIf}
  StrCpy $0 "$0\"
  StrLen $1 $0
  StrCpy $2 0
  StrCpy $3 0
  StrCpy $6 0
  ; First all are found and then asked: a window that is gone ends the walk.
  ${Do}
    System::Call 'user32::FindWindowExW(p 0, p r2, p 0, p 0) p .r2'
    IntOp $3 $3 + 1
    ${If} $2 = 0
    ${OrIf} $3 > ${MOST_WINDOWS}
      ${ExitDo}
    ${EndIf}
    System::Call 'user32::IsWindowVisible(p r2) i .r4'
    System::Call 'user32::GetWindow(p r2, i ${OWNER_OF_WINDOW}) p .r5'
    ${If} $4 <> 0
    ${AndIf} $5 = 0
      System::Call 'user32::GetWindowThreadProcessId(p r2, *i .r5) i .r4'
      Push $5
      Call ${UN}ProgramOf
      Pop $4
      StrLen $5 "\${WINDOW_PROGRAM}"
      StrCpy $5 $4 "" -$5
      StrCpy $4 $4 $1
      ${If} $4 == $0
      ${AndIf} $5 == "\${WINDOW_PROGRAM}"
        Push $2
        IntOp $6 $6 + 1
      ${EndIf}
    ${EndIf}
  ${Loop}
  ${While} $6 > 0
    Pop $2
    System::Call 'user32::PostMessageW(p r2, i ${WM_CLOSE}, p 0, p 0)'
    IntOp $6 $6 - 1
  ${EndWhile}
  Pop $6
  Pop $5
  Pop $4
  Pop $3
  Pop $2
  Pop $1
  Pop $0
FunctionEnd

; A folder; waits until nothing runs below it, $WaitSeconds at most, and tells how many programs still do.
Function ${UN}WaitForEnd
  Exch $0
  Push $1
  Push $2
  IntOp $1 $WaitSeconds * 1000
  ${Do}
    Push $0
    Call ${UN}CountRunning
    Pop $2
    ${If} $2 = 0
    ${OrIf} $1 <= 0
      ${ExitDo}
    ${EndIf}
    Sleep ${LOOK_MILLISECONDS}
    IntOp $1 $1 - ${LOOK_MILLISECONDS}
    ; Once more from time to time: a window does not hear it while a message stands before it, and that closes first.
    IntOp $2 $1 % ${ASK_AGAIN_MILLISECONDS}
    ${If} $2 = 0
    ${AndIf} $1 > 0
      Push $0
      Call ${UN}AskToClose
    ${EndIf}
  ${Loop}
  StrCpy $0 $2
  Pop $2
  Pop $1
  Exch $0
FunctionEnd

!macroend
