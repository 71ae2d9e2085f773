; Shortcuts that the user, or Windows for him, made of a program in a version's folder, and what "Open with" kept of one.
; A window that is pinned to the taskbar is pinned as a shortcut to the program it runs from, whole path and all; so is
; what is dragged to the desktop. An update leads them to the new version; the uninstaller removes them.
;
; Why this way. A starter beside the versions would serve shortcuts to itself alone: Windows pins the program that runs.
; A name given to the app for the taskbar (AppUserModelID) makes Windows copy the start menu's shortcut instead, which
; leads to one version as well. Without such a name the taskbar goes by the program's path: a pin that leads to the
; version that runs is one button with its window, and that is what it is led to here.
; From trees.nsh: LIST_NAME, ATTRIBUTE_LINK. Paths go over the stack: what is pushed is taken, what is told is pushed.

!include "Win/COM.nsh"

!define COMMAND_END '" "%1"' ; as Windows writes it behind the path of a program that was picked by hand
!define SHELL_UPDATES_ITEM 0x2000
!define SHELL_NAMED_BY_PATH 5

!macro SHORTCUT_FUNCTIONS UN

; A path; tells the program's name where it is one of ours, right in the folder of a version, else "". Gone programs are
; ours by their place and name; of those that are there, the list beside them says it.
Function ${UN}OurProgram
  Exch $0
  Push $1
  Push $2
  Push $3
  StrCpy $3 ""
  StrLen $1 "$INSTDIR\"
  StrCpy $2 $0 $1
  ${If} $2 == "$INSTDIR\"
    StrCpy $0 $0 "" $1
    ${GetFileName} $0 $1
    ${GetParent} $0 $0 ; the version's folder
    ${GetFileName} $0 $2 ; the same, unless it lies further below
    ${If} $0 != ""
    ${AndIf} $0 == $2
      ${If} $1 == "${WINDOW_PROGRAM}"
      ${OrIf} $1 == "${TERMINAL_PROGRAM}"
        ${If} ${FileExists} "$INSTDIR\$0\${LIST_NAME}"
        ${OrIfNot} ${FileExists} "$INSTDIR\$0\$1"
          StrCpy $3 $1
        ${EndIf}
      ${EndIf}
    ${EndIf}
  ${EndIf}
  StrCpy $0 $3
  Pop $3
  Pop $2
  Pop $1
  Exch $0
FunctionEnd

; A shortcut's file. Where it leads to a program of ours, the uninstaller removes it; the set-up leads it to the new
; version, with the folder it starts in and its icon where those are the old version's. All else of it stays.
Function ${UN}OneShortcut
  Exch $0
  Push $1
  Push $2
  Push $3
  Push $4
  Push $5
  StrCpy $5 ""
  !insertmacro ComHlpr_CreateInProcInstance ${CLSID_ShellLink} ${IID_IShellLink} r1 ""
  ${If} $1 P<> 0
    ${IUnknown::QueryInterface} $1 '("${IID_IPersistFile}", .r2)'
    ${If} $2 P<> 0
      ${IPersistFile::Load} $2 '(r0, ${STGM_READ}).r3'
      ${If} $3 = 0
        ${IShellLink::GetPath} $1 '(.r4, ${NSIS_MAX_STRLEN}, 0, 0).r3'
        ${If} $3 = 0
          Push $4
          Call ${UN}OurProgram
          Pop $5
          !if "${UN}" == ""
            ${If} $5 != ""
              Call LeadShortcut
            ${EndIf}
          !endif
        ${EndIf}
      ${EndIf}
      ${IUnknown::Release} $2 ""
    ${EndIf}
    ${IUnknown::Release} $1 ""
  ${EndIf}
  !if "${UN}" != ""
    ${If} $5 != ""
      Push $0
      Call un.Unpin
      Delete "$0"
    ${EndIf}
  !endif
  ClearErrors
  Pop $5
  Pop $4
  Pop $3
  Pop $2
  Pop $1
  Pop $0
FunctionEnd

; A folder, then 1 for all below it too, else 0: every shortcut there. Links to other places are not followed. Windows may
; know no such folder: then its name is empty, and without that being asked all of the disk would be looked through.
Function ${UN}ShortcutsIn
  Exch $1
  Exch
  Exch $0
  Push $2
  Push $3
  Push $4
  ClearErrors
  StrCpy $2 ""
  ${If} $0 == ""
    SetErrors
  ${Else}
    FindFirst $2 $3 "$0\*.*"
  ${EndIf}
  ${DoUntil} ${Errors}
    ${If} $3 != "."
    ${AndIf} $3 != ".."
      StrCpy $4 $3 "" -4
      ${If} ${FileExists} "$0\$3\*.*"
        System::Call 'kernel32::GetFileAttributesW(w "$0\$3") i .r4'
        IntOp $4 $4 & ${ATTRIBUTE_LINK}
        ${If} $1 = 1
        ${AndIf} $4 = 0
          Push "$0\$3"
          Push 1
          Call ${UN}ShortcutsIn
        ${EndIf}
      ${ElseIf} $4 == ".lnk"
        Push "$0\$3"
        Call ${UN}OneShortcut
      ${EndIf}
    ${EndIf}
    ClearErrors
    FindNext $2 $3
  ${Loop}
  FindClose $2
  ClearErrors
  Pop $4
  Pop $3
  Pop $2
  Pop $0
  Pop $1
FunctionEnd

; Every place where this user's shortcuts are looked for: the pins are below the quick launch. Of the desktop only what
; lies on it: the folders there hold the user's work and may be large.
Function ${UN}AllShortcuts
  Push "$QUICKLAUNCH"
  Push 1
  Call ${UN}ShortcutsIn
  Push "$STARTMENU"
  Push 1
  Call ${UN}ShortcutsIn
  Push "$DESKTOP"
  Push 0
  Call ${UN}ShortcutsIn
  Push "$SENDTO"
  Push 0
  Call ${UN}ShortcutsIn
FunctionEnd

; A program's name: what Windows wrote when it was picked by hand to open a file. Led to the new version, or forgotten.
Function ${UN}PickedByHand
  Exch $0
  Push $1
  Push $2
  Push $3
  ReadRegStr $1 HKCU "${CLASSES}\Applications\$0\shell\open\command" ""
  StrLen $2 '${COMMAND_END}'
  StrCpy $3 $1 "" -$2
  ${If} $3 == '${COMMAND_END}'
    StrCpy $2 $1 -$2 1
    Push $2
    Call ${UN}OurProgram
    Pop $3
    ${If} $3 == $0
      !if "${UN}" == ""
        WriteRegStr HKCU "${CLASSES}\Applications\$0\shell\open\command" "" '"$Laid\$0${COMMAND_END}'
      !else
        DeleteRegKey HKCU "${CLASSES}\Applications\$0"
      !endif
    ${EndIf}
  ${EndIf}
  ClearErrors
  Pop $3
  Pop $2
  Pop $1
  Pop $0
FunctionEnd

; All of it, once a version is laid, or once none is there any more.
Function ${UN}UsersOwnWays
  Call ${UN}AllShortcuts
  Push "${WINDOW_PROGRAM}"
  Call ${UN}PickedByHand
  Push "${TERMINAL_PROGRAM}"
  Call ${UN}PickedByHand
FunctionEnd

!macroend

; Of OneShortcut: its file in $0, its two interfaces in $1 and $2, where it leads in $4, the program's name in $5.
; One that is named as the way back leads to that.
Function LeadShortcut
  Push $3
  Push $4
  Push $6
  Push $7
  Push $8
  StrCpy $7 $Laid
  ${GetFileName} $0 $6
  ${If} $6 == "${SHORTCUT_BACK_NAME}"
    StrCpy $7 ""
    ${If} $Previous != ""
      StrCpy $7 "$INSTDIR\$Previous"
    ${EndIf}
  ${EndIf}
  ${If} $7 != ""
  ${AndIf} $4 != "$7\$5"
    StrCpy $6 "$7\$5"
    ${IShellLink::SetPath} $1 '(r6).r3'
    ${If} $3 = 0
      ${GetParent} $4 $4
      ${IShellLink::GetWorkingDirectory} $1 '(.r6, ${NSIS_MAX_STRLEN})'
      StrLen $3 "$4\"
      StrCpy $8 "$6\" $3
      ${If} $8 == "$4\"
        ${IShellLink::SetWorkingDirectory} $1 '(r7)'
      ${EndIf}
      ${IShellLink::GetIconLocation} $1 '(.r6, ${NSIS_MAX_STRLEN}, .r8)'
      StrCpy $3 $6 $3
      ${If} $3 == "$4\"
        StrCpy $6 "$7\$5"
        ${IShellLink::SetIconLocation} $1 '(r6, r8)'
      ${EndIf}
      ${IPersistFile::Save} $2 '(r0, 1).r3'
    ${EndIf}
    ${If} $3 = 0
      System::Call 'shell32::SHChangeNotify(i ${SHELL_UPDATES_ITEM}, i ${SHELL_NAMED_BY_PATH}, w r0, p 0)'
    ${Else}
      DetailPrint "$0: $(KEPT_SHORTCUT)"
    ${EndIf}
  ${EndIf}
  Pop $8
  Pop $7
  Pop $6
  Pop $4
  Pop $3
FunctionEnd

; A shortcut's file: Windows takes what it made of it off the taskbar and the start menu. Where it cannot, the file goes
; all the same.
Function un.Unpin
  Exch $0
  Push $1
  Push $2
  !insertmacro ComHlpr_CreateInProcInstance ${CLSID_StartMenuPin} ${IID_IStartMenuPinnedList} r1 ""
  ${If} $1 P<> 0
    System::Call 'shell32::SHCreateItemFromParsingName(w r0, p 0, g "${IID_IShellItem}", *p .r2)'
    ${If} $2 P<> 0
      ${IStartMenuPinnedList::RemoveFromList} $1 '(r2)'
      ${IUnknown::Release} $2 ""
    ${EndIf}
    ${IUnknown::Release} $1 ""
  ${EndIf}
  Pop $2
  Pop $1
  Pop $0
FunctionEnd
