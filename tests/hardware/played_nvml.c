/* A libnvidia-ml of one card, so that the binding is tested through the real pynvml. */
#include <stdio.h>
#include <string.h>

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;

enum { OK = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7 };
static int card;

int nvmlInitWithFlags(unsigned flags) { return flags ? NOT_SUPPORTED : OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == NOT_SUPPORTED ? "Not Supported" : "Unknown"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "550.54.14"); return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = &card; return (int)index; }
int nvmlDeviceGetName(void *device, char *text, unsigned size) {
    (void)device;
    snprintf(text, size, "NVIDIA GeForce RTX 3060");
    return OK;
}
int nvmlDeviceGetPciInfo_v3(void *device, Pci *pci) {
    (void)device;
    memset(pci, 0, sizeof *pci);
    strcpy(pci->bus_id, "00000000:01:00.0");
    return OK;
}
int nvmlDeviceGetMemoryInfo(void *device, Memory *memory) {
    (void)device;
    memory->total = 12ULL << 30;
    memory->used = 2ULL << 30;
    memory->free = 10ULL << 30;
    return OK;
}
static int number(unsigned *out, unsigned value) { *out = value; return OK; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *out) { (void)device; return number(out, 1); }
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *out) { (void)device; return number(out, 8); }
int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *out) { (void)device; return number(out, 4); }
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *out) { (void)device; return number(out, 16); }
int nvmlDeviceGetUUID(void *device, char *text, unsigned size) {
    (void)device;
    snprintf(text, size, "GPU-00000000-0000-0000-0000-000000000001");
    return OK;
}
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12040; return OK; }
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *out) { (void)device; return number(out, 115000); }
int nvmlDeviceGetPowerManagementLimitConstraints(void *device, unsigned *least, unsigned *most) {
    (void)device;
    *least = 100000;
    *most = 170000;
    return OK;
}
int nvmlDeviceGetUtilizationRates(void *device, Utilization *rates) {
    (void)device;
    *rates = (Utilization){97, 40};
    return OK;
}
/* Clocks by kind: graphics 0, memory 2. The highest memory clock is not told. */
int nvmlDeviceGetClockInfo(void *device, unsigned kind, unsigned *out) {
    (void)device;
    return number(out, kind == 0 ? 1777 : kind == 2 ? 7501 : 1);
}
int nvmlDeviceGetMaxClockInfo(void *device, unsigned kind, unsigned *out) {
    (void)device;
    return kind == 0 ? number(out, 2100) : NOT_SUPPORTED;
}
int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *out) {
    (void)device;
    return sensor == 0 ? number(out, 81) : NOT_SUPPORTED;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *out) { (void)device; return number(out, 169500); }
/* A driver from before the function was called ...ClocksEventReasons: power limit and temperature. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out) {
    (void)device;
    *out = 0x24;
    return OK;
}
/* Process 7 computes with 1 GiB; of process 8 the system tells no figure (as Windows does). */
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, Process *processes) {
    (void)device;
    if (*count < 2) { *count = 2; return INSUFFICIENT_SIZE; }
    *count = 2;
    processes[0] = (Process){7, 1ULL << 30, 0, 0};
    processes[1] = (Process){8, ~0ULL, 0, 0};
    return OK;
}
/* A computing card without graphics. */
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, Process *processes) {
    (void)device, (void)count, (void)processes;
    return NOT_SUPPORTED;
}
