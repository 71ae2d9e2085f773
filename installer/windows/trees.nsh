; Files on the disk: what an installation laid is deleted by its list; trees are measured and deleted.
; Numbers and paths go over the stack: what is pushed is taken, what is told is pushed.

!define LIST_NAME "installed-files.txt"
!define ATTRIBUTE_FOLDER 0x10
!define ATTRIBUTE_LINK 0x400
!define GENERIC_WRITE 0x40000000
!define SHARE_ALL 7
!define OPEN_EXISTING 3
!define SHARING_VIOLATION 32

!macro TREE_FUNCTIONS UN

; A line; tells it without the marks of its end.
Function ${UN}WithoutLineEnd
  Exch $0
  Push $1
  ${Do}
    StrCpy $1 $0 1 -1
    ${If} $1 != "$\r"
    ${AndIf} $1 != "$\n"
      ${ExitDo}
    ${EndIf}
    StrCpy $0 $0 -1
  ${Loop}
  Pop $1
  Exch $0
FunctionEnd

; A folder with a list of the files laid in it; deletes those, then the folders that are empty. What others put there
; stays. Tells how many files could not be deleted; without a list that can be read that is -1,
; and nothing is touched. A line that names more than one file, or one further above, is not from us and is passed over.
Function ${UN}RemoveListed
  Exch $0
  Push $1
  Push $2
  Push $3
  Push $4
  StrCpy $4 -1
  ClearErrors
  FileOpen $1 "$0\${LIST_NAME}" r
  ${IfNot} ${Errors}
    FileReadUTF16LE $1 $2
    Push $2
    Call ${UN}WithoutLineEnd
    Pop $2
    ${If} $2 == "${LIST_HEADER}"
      StrCpy $4 0
      ${Do}
        ClearErrors
        FileReadUTF16LE $1 $2
        ${If} ${Errors}
          ${ExitDo}
        ${EndIf}
        Push $2
        Call ${UN}WithoutLineEnd
        Pop $2
        System::Call 'shlwapi::StrPBrkW(w r2, w "*?") p .r3'
        ${If} $3 P<> 0
          ${Continue}
        ${EndIf}
        System::Call 'shlwapi::StrStrW(w r2, w "..") p .r3'
        ${If} $3 P<> 0
          ${Continue}
        ${EndIf}
        StrCpy $3 $2 1 -1
        ${If} $3 == "\"
          StrCpy $2 $2 -1
          Push "$0\$2"
          Call ${UN}RemoveEmpty
        ${ElseIf} $2 != ""
          ClearErrors
          Delete "$0\$2"
          ${If} ${Errors}
            IntOp $4 $4 + 1
            DetailPrint "$0\$2: $(KEPT_FILE)"
          ${EndIf}
        ${EndIf}
      ${Loop}
    ${EndIf}
    FileClose $1
  ${EndIf}
  ${If} $4 = 0
    Delete "$0\${LIST_NAME}"
    Push "$0"
    Call ${UN}RemoveEmpty
  ${EndIf}
  StrCpy $0 $4
  Pop $4
  Pop $3
  Pop $2
  Pop $1
  Exch $0
FunctionEnd

; A folder; tells the bytes of all files in it and below. Links to other places count nothing.
Function ${UN}TreeBytes
  Exch $0
  Push $1
  Push $2
  Push $3
  Push $4
  StrCpy $3 0
  ClearErrors
  FindFirst $1 $2 "$0\*.*"
  ${DoUntil} ${Errors}
    ${If} $2 != "."
    ${AndIf} $2 != ".."
      Push "$0\$2"
      Call ${UN}EntryBytes
      Pop $4
      System::Int64Op $3 + $4
      Pop $3
    ${EndIf}
    ClearErrors
    FindNext $1 $2
  ${Loop}
  FindClose $1
  ClearErrors
  StrCpy $0 $3
  Pop $4
  Pop $3
  Pop $2
  Pop $1
  Exch $0
FunctionEnd

; A path; tells the bytes of the file, or of the folder with all below it; 0 where there is nothing.
Function ${UN}EntryBytes
  Exch $0
  Push $1
  Push $2
  Push $3
  Push $4
  StrCpy $4 0
  System::Alloc 36 ; attributes, three times of two words each, the size's upper and lower word
  Pop $1
  System::Call 'kernel32::GetFileAttributesExW(w r0, i 0, p r1) i .r2'
  ${If} $2 <> 0
    System::Call '*$1(i .r2, i, i, i, i, i, i, i .r3, i .r4)'
    ; The lower word has no sign, which the plug-in gives it.
    System::Int64Op $4 & 4294967295
    Pop $4
    System::Int64Op $3 * 4294967296
    Pop $3
    System::Int64Op $3 + $4
    Pop $4
    IntOp $3 $2 & ${ATTRIBUTE_LINK}
    IntOp $2 $2 & ${ATTRIBUTE_FOLDER}
    ${If} $3 <> 0
      StrCpy $4 0
    ${ElseIf} $2 <> 0
      Push $0
      Call ${UN}TreeBytes
      Pop $4
    ${EndIf}
  ${EndIf}
  System::Free $1
  StrCpy $0 $4
  Pop $4
  Pop $3
  Pop $2
  Pop $1
  Exch $0
FunctionEnd

; The folder of a version; tells 1 where one of its programs is in use, also by another user, whose programs are not
; ours to see; else 0. The system lets nobody write into a program that runs.
Function ${UN}InUse
  Exch $0
  Push $1
  Push $2
  Push $3
  StrCpy $3 0
  Push "${TERMINAL_PROGRAM}"
  Push "${WINDOW_PROGRAM}"
  ${Do}
    Pop $1
    System::Call 'kernel32::CreateFileW(w "$0\$1", i ${GENERIC_WRITE}, i ${SHARE_ALL}, p 0, i ${OPEN_EXISTING}, i 0, p 0) p .r2 ?e'
    Exch $0
    ${If} $2 P<> -1
      System::Call 'kernel32::CloseHandle(p r2)'
    ${ElseIf} $0 = ${SHARING_VIOLATION}
      StrCpy $3 1
    ${EndIf}
    Pop $0
  ${LoopUntil} $1 == "${TERMINAL_PROGRAM}"
  StrCpy $0 $3
  Pop $3
  Pop $2
  Pop $1
  Exch $0
FunctionEnd

; A folder; removes it if it is empty. A link to another place stays: the system would remove it whatever lies there.
Function ${UN}RemoveEmpty
  Exch $0
  Push $1
  System::Call 'kernel32::GetFileAttributesW(w r0) i .r1'
  ${If} $1 <> -1
    IntOp $1 $1 & ${ATTRIBUTE_LINK}
    ${If} $1 = 0
      RMDir "$0"
    ${EndIf}
  ${EndIf}
  ClearErrors
  Pop $1
  Pop $0
FunctionEnd

!macroend

; Only the uninstaller deletes trees, and only below the app's own folder for data: a path, and all below it. Of a link
; to another place the link goes and the place stays, also where the path itself is the link.
Function un.RemoveTree
  Exch $0
  Push $1
  Push $2
  Push $3
  System::Call 'kernel32::GetFileAttributesW(w r0) i .r3'
  ${If} $3 <> -1
    IntOp $1 $3 & ${ATTRIBUTE_FOLDER}
    IntOp $2 $3 & ${ATTRIBUTE_LINK}
    ${If} $1 = 0
      Delete "$0"
    ${ElseIf} $2 <> 0
      System::Call 'kernel32::RemoveDirectoryW(w r0)'
    ${Else}
      ClearErrors
      FindFirst $1 $2 "$0\*.*"
      ${DoUntil} ${Errors}
        ${If} $2 != "."
        ${AndIf} $2 != ".."
          Push "$0\$2"
          Call un.RemoveTree
        ${EndIf}
        ClearErrors
        FindNext $1 $2
      ${Loop}
      FindClose $1
      RMDir "$0"
    ${EndIf}
  ${EndIf}
  ClearErrors
  Pop $3
  Pop $2
  Pop $1
  Pop $0
FunctionEnd

; A path; tells 1 where it is a link to another place, else 0.
Function un.IsLink
  Exch $0
  System::Call 'kernel32::GetFileAttributesW(w r0) i .r0'
  ${If} $0 = -1
    StrCpy $0 0
  ${EndIf}
  IntOp $0 $0 & ${ATTRIBUTE_LINK}
  ${If} $0 <> 0
    StrCpy $0 1
  ${EndIf}
  Exch $0
FunctionEnd
