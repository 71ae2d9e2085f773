/* Included before every C source of the engine: what the Windows headers of mingw-w64 10 (Debian 12) do not declare. */
#ifndef EXPERT_LANES_LACKING_H
#define EXPERT_LANES_LACKING_H

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>

/* As Microsoft documents SetThreadInformation; newer headers define these names as macros. */
#ifndef THREAD_POWER_THROTTLING_CURRENT_VERSION
#define THREAD_POWER_THROTTLING_CURRENT_VERSION 1
#define THREAD_POWER_THROTTLING_EXECUTION_SPEED 1
typedef struct {
    ULONG Version;
    ULONG ControlMask;
    ULONG StateMask;
} THREAD_POWER_THROTTLING_STATE;
#endif

#endif
