/* Stands for the app where its installer is tested: the window program with -DWINDOW, else the one for terminals.
 *
 * What happens to it is appended, a line each, to the file that the variable TOLD names: "opened" with its arguments,
 * "asked" to close, "ended". With the variable REFUSES it does not close when asked, or with "once" in it not the first
 * time. In any case it ends once the file that the variable TOLD names with ".end" behind it exists.
 */
#include <stdio.h>
#include <wchar.h>
#include <windows.h>

static wchar_t told[1024], end[1024];

static void tell(const wchar_t *what, const wchar_t *more)
{
    char line[4096];
    wchar_t wide[1024];
    DWORD written;
    _snwprintf(wide, 1023, L"%ls%ls%ls\n", what, more[0] ? L" " : L"", more);
    wide[1023] = 0;
    int bytes = WideCharToMultiByte(CP_UTF8, 0, wide, -1, line, sizeof line, NULL, NULL) - 1;
    HANDLE file = CreateFileW(told, FILE_APPEND_DATA, 7, NULL, OPEN_ALWAYS, 0, NULL);
    if (file != INVALID_HANDLE_VALUE && bytes > 0) WriteFile(file, line, bytes, &written, NULL);
    CloseHandle(file);
}

static int is_to_end(void) { return GetFileAttributesW(end) != INVALID_FILE_ATTRIBUTES; }

#ifdef WINDOW
static LRESULT CALLBACK answer(HWND window, UINT message, WPARAM word, LPARAM more)
{
    static wchar_t refuses[16];
    static int asked;
    switch (message) {
    case WM_CLOSE:
        tell(L"asked", L"");
        if (!GetEnvironmentVariableW(L"REFUSES", refuses, 16) || (asked++ && !wcscmp(refuses, L"once")))
            DestroyWindow(window);
        return 0;
    case WM_TIMER:
        if (is_to_end()) DestroyWindow(window);
        return 0;
    case WM_DESTROY:
        PostQuitMessage(0);
        return 0;
    }
    return DefWindowProcW(window, message, word, more);
}

static void run(HINSTANCE program)
{
    MSG message;
    WNDCLASSW kind = {.lpfnWndProc = answer, .hInstance = program, .lpszClassName = L"ClosingProgram"};
    RegisterClassW(&kind);
    HWND window = CreateWindowW(kind.lpszClassName, L"Running app", WS_OVERLAPPEDWINDOW | WS_VISIBLE, 20, 20, 300, 120,
                                NULL, NULL, program, NULL);
    if (!window) return;
    SetTimer(window, 1, 50, NULL);
    while (GetMessageW(&message, NULL, 0, 0) > 0) DispatchMessageW(&message);
}
#else
static void run(HINSTANCE program)
{
    (void) program;
    while (!is_to_end()) Sleep(50);
}
#endif

int wmain(int count, wchar_t **arguments)
{
    if (!GetEnvironmentVariableW(L"TOLD", told, 1000)) return 2;
    _snwprintf(end, 1023, L"%ls.end", told);
    tell(L"opened", count > 1 ? arguments[1] : L"");
    run(GetModuleHandleW(NULL));
    tell(L"ended", L"");
    return 0;
}
