; What the app keeps for its user, as app/library/folders.py lays it: the uninstaller's page about it, and its removal.
; Models and conversations stay unless their deletion is asked for. What can be made again, and settings, go.

!define DATA "$LOCALAPPDATA\expert-lanes"
!define MODELS "${DATA}\models"
!define CONVERSATIONS "${DATA}\conversations.*" ; the database, its companions, and damaged ones that were kept aside

Var DeleteModels
Var DeleteChats
Var ModelsBox
Var ChatsBox

; Bytes; tells them as Windows shows sizes.
Function un.SizeInWords
  Exch $0
  Push $1
  System::Call 'shlwapi::StrFormatByteSizeW(l r0, w .r1, i 64) p'
  StrCpy $0 $1
  Pop $1
  Exch $0
FunctionEnd

; Tells the bytes of all conversations, -1 where there is none. A folder named like them is not the app's.
Function un.ConversationBytes
  Push $0
  Push $1
  Push $2
  Push $3
  StrCpy $3 -1
  ClearErrors
  FindFirst $1 $2 "${CONVERSATIONS}"
  ${DoUntil} ${Errors}
    ${IfNot} ${FileExists} "${DATA}\$2\*.*"
      ${If} $3 == -1
        StrCpy $3 0
      ${EndIf}
      Push "${DATA}\$2"
      Call un.EntryBytes
      Pop $0
      System::Int64Op $3 + $0
      Pop $3
    ${EndIf}
    ClearErrors
    FindNext $1 $2
  ${Loop}
  FindClose $1
  ClearErrors
  StrCpy $0 $3
  Pop $3
  Pop $2
  Pop $1
  Exch $0
FunctionEnd

; The page: shown where there is something to decide, with a box for what there is.
Function un.ShowData
  StrCpy $ModelsBox ""
  StrCpy $ChatsBox ""
  Call un.ConversationBytes
  Pop $4
  Push "${MODELS}"
  Call un.EntryBytes
  Pop $3
  Push "${MODELS}"
  Call un.IsLink
  Pop $2
  ${If} $2 = 0
  ${AndIf} $3 == 0 ; a folder that is empty goes without a question
  ${AndIf} $4 == -1
    Abort
  ${EndIf}
  !insertmacro MUI_HEADER_TEXT "$(DATA_TITLE)" "$(DATA_SUBTITLE)"
  nsDialogs::Create 1018
  Pop $0
  ${If} $0 == error
    Abort
  ${EndIf}
  ${NSD_CreateLabel} 0 0 100% 34u "$(DATA_TEXT)"
  Pop $0
  ; Back here from the next page, what was ticked is ticked.
  StrCpy $5 42 ; where the next box stands
  ${If} $2 = 1
  ${OrIf} $3 != 0
    Push $3
    Call un.SizeInWords
    Pop $1
    StrCpy $3 "$(DATA_MODELS)"
    ${If} $2 = 1
      StrCpy $3 "$(DATA_MODELS_LINK)"
    ${EndIf}
    ${NSD_CreateCheckbox} 0 $5u 100% 12u $3
    Pop $ModelsBox
    ${NSD_SetState} $ModelsBox $DeleteModels
    ${NSD_SetFocus} $ModelsBox
    IntOp $5 $5 + 16
  ${EndIf}
  ${If} $4 != -1
    Push $4
    Call un.SizeInWords
    Pop $1
    ${NSD_CreateCheckbox} 0 $5u 100% 12u "$(DATA_CHATS)"
    Pop $ChatsBox
    ${NSD_SetState} $ChatsBox $DeleteChats
    ${If} $ModelsBox == ""
      ${NSD_SetFocus} $ChatsBox
    ${EndIf}
    IntOp $5 $5 + 16
  ${EndIf}
  IntOp $5 $5 + 6
  ${NSD_CreateLabel} 0 $5u 100% 24u "$(DATA_PLACE)"
  Pop $0
  nsDialogs::Show
FunctionEnd

Function un.LeaveData
  ${If} $ModelsBox != ""
    ${NSD_GetState} $ModelsBox $DeleteModels
  ${EndIf}
  ${If} $ChatsBox != ""
    ${NSD_GetState} $ChatsBox $DeleteChats
  ${EndIf}
FunctionEnd

; Names only what the app itself writes; whatever else lies there stays, and its folder with it. Tells 1 where models or
; conversations are still there though their deletion was asked for, else 0.
Function un.RemoveData
  Push $0
  Push $1
  StrCpy $0 0
  Push "${DATA}\Logs"
  Call un.RemoveTree
  Push "${DATA}\Cache"
  Call un.RemoveTree
  Push "${DATA}\machine"
  Call un.RemoveTree
  Push "${DATA}\profiles"
  Call un.RemoveTree
  Push "${DATA}\components"
  Call un.RemoveTree
  Delete "${DATA}\settings.json"
  Delete "${DATA}\settings.*.new" ; left by an app that was ended while it wrote
  Delete "${DATA}\settings.unreadable.json"
  ${If} $DeleteModels = 1
    DetailPrint "$(DELETING_MODELS)"
    Push "${MODELS}"
    Call un.RemoveTree
    ${If} ${FileExists} "${MODELS}"
      StrCpy $0 1
      DetailPrint "${MODELS}: $(KEPT_FILE)"
    ${EndIf}
  ${EndIf}
  ${If} $DeleteChats = 1
    DetailPrint "$(DELETING_CHATS)"
    Delete "${CONVERSATIONS}"
    Call un.ConversationBytes
    Pop $1
    ${If} $1 != -1
      StrCpy $0 1
      DetailPrint "${CONVERSATIONS}: $(KEPT_FILE)"
    ${EndIf}
  ${EndIf}
  Push "${MODELS}"
  Call un.RemoveEmpty
  Push "${DATA}"
  Call un.RemoveEmpty
  Pop $1
  Exch $0
FunctionEnd
