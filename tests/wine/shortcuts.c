/* Shortcuts of Windows, written and read for the tests of the installer.
 *
 * "write FILE TARGET ARGUMENTS FOLDER ICON HOTKEY" writes one, with picture 3 of the icon's file and the hotkey's number;
 * of what is empty nothing is written. "read OUT FILE..." writes into OUT a line for each file with those same six
 * facts, the file's own path first, and tabs between them. "hold FILE READY END" lets nobody write the file, makes READY,
 * and ends once END is there.
 */
#include <shlobj.h>
#include <stdio.h>
#include <wchar.h>
#include <windows.h>

static const int PICTURE = 3;

static int failed(HRESULT result) { return result < 0; }

static int write(IShellLinkW *link, IPersistFile *file, wchar_t **told)
{
    if (failed(link->lpVtbl->SetPath(link, told[1]))) return 1;
    if (told[2][0] && failed(link->lpVtbl->SetArguments(link, told[2]))) return 1;
    if (told[3][0] && failed(link->lpVtbl->SetWorkingDirectory(link, told[3]))) return 1;
    if (told[4][0] && failed(link->lpVtbl->SetIconLocation(link, told[4], PICTURE))) return 1;
    if (told[5][0] && failed(link->lpVtbl->SetHotkey(link, (WORD) _wtoi(told[5])))) return 1;
    return failed(file->lpVtbl->Save(file, told[0], TRUE));
}

static int read(IShellLinkW *link, IPersistFile *file, const wchar_t *name, FILE *out)
{
    wchar_t target[1024] = L"", arguments[1024] = L"", folder[1024] = L"", icon[1024] = L"";
    WORD hotkey = 0;
    int picture = 0;
    if (failed(file->lpVtbl->Load(file, name, STGM_READ))) return 1;
    if (failed(link->lpVtbl->GetPath(link, target, 1024, NULL, 0))) return 1;
    if (failed(link->lpVtbl->GetArguments(link, arguments, 1024))) return 1;
    if (failed(link->lpVtbl->GetWorkingDirectory(link, folder, 1024))) return 1;
    if (failed(link->lpVtbl->GetIconLocation(link, icon, 1024, &picture))) return 1;
    if (failed(link->lpVtbl->GetHotkey(link, &hotkey))) return 1;
    fwprintf(out, L"%ls\t%ls\t%ls\t%ls\t%ls,%d\t%d\n", name, target, arguments, folder, icon, picture, hotkey);
    return 0;
}

static int hold(wchar_t **told)
{
    HANDLE file = CreateFileW(told[0], GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE_VALUE) return 1;
    CloseHandle(CreateFileW(told[1], GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL));
    while (GetFileAttributesW(told[2]) == INVALID_FILE_ATTRIBUTES) Sleep(20);
    CloseHandle(file);
    return 0;
}

int wmain(int count, wchar_t **told)
{
    if (count == 5 && !wcscmp(told[1], L"hold")) return hold(told + 2);
    int wrong = count < 3 || failed(CoInitialize(NULL));
    FILE *out = wrong || wcscmp(told[1], L"read") ? NULL : _wfopen(told[2], L"w, ccs=UTF-8");
    for (int place = out ? 3 : 2; !wrong && place < (out ? count : 3); place++) {
        IShellLinkW *link;
        IPersistFile *file;
        wrong = failed(CoCreateInstance(&CLSID_ShellLink, NULL, CLSCTX_INPROC_SERVER, &IID_IShellLinkW, (void **) &link))
             || failed(link->lpVtbl->QueryInterface(link, &IID_IPersistFile, (void **) &file));
        if (wrong) break;
        wrong = out ? read(link, file, told[place], out) : count < 8 || write(link, file, told + 2);
        file->lpVtbl->Release(file);
        link->lpVtbl->Release(link);
    }
    if (out) fclose(out);
    return wrong;
}
