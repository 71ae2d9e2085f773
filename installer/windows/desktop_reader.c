/* Tells what is on a desktop of Windows, to the rehearsal of the installer: windows, what stands in them, programs.
 *
 * It reads commands from its input, one a line, and answers each with lines of JSON and a line with a full stop:
 *   look              every visible window, from the front to the back, its visible controls, and every program
 *   front HANDLE      puts a window in front, as a click on its button of the taskbar does
 *   text HANDLE WORDS writes into a field, as if pasted
 *   value KEY|NAME    a text of the registry, below HKEY_CURRENT_USER
 *   link FILE         where a shortcut leads
 */
#define COBJMACROS
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>
#include <psapi.h>
#include <shlobj.h>

#define MOST 4096
#define PATIENCE_MILLISECONDS 500

static void tell_text(const char *name, const wchar_t *text)
{
    char bytes[3 * MOST];
    int count = WideCharToMultiByte(CP_UTF8, 0, text, -1, bytes, sizeof bytes, NULL, NULL);
    printf("\"%s\": \"", name);
    for (int place = 0; place < count - 1; place++) {
        unsigned char byte = (unsigned char) bytes[place];
        if (byte < 0x20)
            printf("\\u%04x", byte);
        else
            printf(byte == '"' || byte == '\\' ? "\\%c" : "%c", byte);
    }
    printf("\", ");
}

static void tell_program(DWORD id)
{
    wchar_t path[MOST] = L"";
    DWORD length = MOST;
    HANDLE program = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, id);
    if (program) {
        if (!QueryFullProcessImageNameW(program, 0, path, &length)) path[0] = 0;
        CloseHandle(program);
    }
    tell_text("program", path);
    printf("\"process\": %lu", id);
}

static LRESULT ask(HWND window, UINT message, WPARAM word, LPARAM more)
{
    DWORD_PTR answer = 0;
    /* A window that hangs must not hold up the rehearsal, which wants to see just that. */
    SendMessageTimeoutW(window, message, word, more, SMTO_ABORTIFHUNG, PATIENCE_MILLISECONDS, &answer);
    return (LRESULT) answer;
}

static void tell_window(const char *kind, HWND window, HWND top)
{
    wchar_t name[256] = L"", text[MOST] = L"";
    RECT box = {0, 0, 0, 0};
    DWORD process = 0;
    GetClassNameW(window, name, 256);
    ask(window, WM_GETTEXT, MOST - 1, (LPARAM) text);
    GetWindowRect(window, &box);
    GetWindowThreadProcessId(window, &process);
    printf("{\"kind\": \"%s\", \"handle\": %lu, \"top\": %lu, ", kind, (unsigned long) (ULONG_PTR) window,
           (unsigned long) (ULONG_PTR) top);
    tell_text("class", name);
    tell_text("text", text);
    printf("\"box\": [%ld, %ld, %ld, %ld], \"enabled\": %s, ", box.left, box.top, box.right, box.bottom,
           IsWindowEnabled(window) ? "true" : "false");
    printf("\"checked\": %s, ", !wcscmp(name, L"Button") && ask(window, BM_GETCHECK, 0, 0) ? "true" : "false");
    tell_program(process);
    printf("}\n");
}

static BOOL CALLBACK tell_control(HWND control, LPARAM top)
{
    if (IsWindowVisible(control)) tell_window("control", control, (HWND) top);
    return TRUE;
}

static BOOL CALLBACK tell_top(HWND window, LPARAM unused)
{
    (void) unused;
    if (IsWindowVisible(window)) {
        tell_window("window", window, window);
        EnumChildWindows(window, tell_control, (LPARAM) window);
    }
    return TRUE;
}

static void look(void)
{
    DWORD processes[MOST], bytes = 0;
    EnumWindows(tell_top, 0);
    if (!EnumProcesses(processes, sizeof processes, &bytes)) bytes = 0;
    for (DWORD place = 0; place < bytes / sizeof *processes; place++) {
        printf("{\"kind\": \"program\", ");
        tell_program(processes[place]);
        printf("}\n");
    }
}

static void write_text(const char *command)
{
    char *words = NULL;
    wchar_t text[MOST];
    HWND field = (HWND) (ULONG_PTR) strtoul(command, &words, 10);
    if (*words == ' ') words++;
    if (MultiByteToWideChar(CP_UTF8, 0, words, -1, text, MOST)) ask(field, WM_SETTEXT, 0, (LPARAM) text);
}

static void tell_answer(const wchar_t *text)
{
    printf("{");
    tell_text("text", text);
    printf("\"kind\": \"answer\"}\n");
}

static void tell_value(const char *asked)
{
    wchar_t key[MOST], text[MOST] = L"";
    DWORD bytes = sizeof text;
    if (!MultiByteToWideChar(CP_UTF8, 0, asked, -1, key, MOST)) return;
    wchar_t *name = wcschr(key, L'|');
    if (!name) return;
    *name++ = 0;
    if (RegGetValueW(HKEY_CURRENT_USER, key, name, RRF_RT_REG_SZ, NULL, text, &bytes) != ERROR_SUCCESS) return;
    tell_answer(text);
}

static void tell_link(const char *asked)
{
    wchar_t file[MOST], text[MOST] = L"";
    IShellLinkW *link = NULL;
    IPersistFile *stored = NULL;
    if (!MultiByteToWideChar(CP_UTF8, 0, asked, -1, file, MOST)) return;
    if (FAILED(CoCreateInstance(&CLSID_ShellLink, NULL, CLSCTX_ALL, &IID_IShellLinkW, (void **) &link))) return;
    if (SUCCEEDED(IShellLinkW_QueryInterface(link, &IID_IPersistFile, (void **) &stored))) {
        PIDLIST_ABSOLUTE names = NULL;
        /* The list of names is what Windows follows. The path beside it has, by Wine, only the system's own letters. */
        if (SUCCEEDED(IPersistFile_Load(stored, file, STGM_READ)) && IShellLinkW_GetIDList(link, &names) == S_OK) {
            if (SHGetPathFromIDListW(names, text)) tell_answer(text);
            CoTaskMemFree(names);
        }
        IPersistFile_Release(stored);
    }
    IShellLinkW_Release(link);
}

int main(void)
{
    static char line[3 * MOST];
    CoInitialize(NULL);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\r\n")] = 0;
        if (!strcmp(line, "look")) look();
        if (!strncmp(line, "front ", 6)) SetForegroundWindow((HWND) (ULONG_PTR) strtoul(line + 6, NULL, 10));
        if (!strncmp(line, "text ", 5)) write_text(line + 5);
        if (!strncmp(line, "value ", 6)) tell_value(line + 6);
        if (!strncmp(line, "link ", 5)) tell_link(line + 5);
        printf(".\n");
        fflush(stdout);
    }
    return 0;
}
