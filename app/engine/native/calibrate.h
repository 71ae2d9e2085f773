// The C interface for measuring how fast this machine's devices work on expert weights.
//
// A bench is one ggml device with weights made up for the purpose: random ones in valid blocks, far more than a
// cache holds, in the shape of one MoE layer (hidden 2048, feed-forward 768, 8 experts a token). Results are enum
// expert_device_result. Nothing throws; every call is short, so that its caller can stop between two. All calls for
// one bench come from one thread, and no other CPU backend computes meanwhile: two would fight for the cores.
#pragma once

#include "expert_device.h"

#ifdef __cplusplus
extern "C" {
#endif

// One measured run.
struct expert_calibrate_pass {
    double seconds;
    uint64_t bytes;  // of weights, each routed expert counted once
    uint64_t flops;  // two a weight and token
};

// What is left of each rate while all three go on at once, as shares of what each was alone just before.
struct expert_calibrate_shares {
    double cpu;
    double device;
    double copy;
};

// Makes a bench on the ggml device of that name. NO_DEVICE: there is none, or it cannot be started.
EXPERT_DEVICE_API int32_t expert_calibrate_open(const char * device, int64_t * bench);

// Gives a bench weights of the type that ggml calls so, instead of those it had; `repacked` asks for the CPU's faster
// layout. At most `most_bytes` of memory. BAD_ARGUMENT: no type of weights. UNSUPPORTED: not that type, or not in that
// layout, on this device; it keeps those it had. NO_MEMORY: refused, or `most_bytes` is less than one token's experts.
EXPERT_DEVICE_API int32_t expert_calibrate_weights(int64_t bench, const char * type, int32_t repacked,
                                                   uint64_t most_bytes);

// Computes with the weights and waits for the end. With one token: layer after layer until every expert was used
// once, each layer reading the one before. With more: one layer, over all experts. `threads` counts for the CPU.
EXPERT_DEVICE_API int32_t expert_calibrate_run(int64_t bench, int32_t threads, int32_t tokens,
                                               struct expert_calibrate_pass * out);

// Seconds that one layer takes beside its products: inputs to the device, launch, result back, waiting for the end.
EXPERT_DEVICE_API int32_t expert_calibrate_layer(int64_t bench, int32_t threads, double * seconds);

// Copies between main memory and the device, slice by slice as experts are. `pinned` takes the device's page-locked
// memory. UNSUPPORTED: it has none to give.
EXPERT_DEVICE_API int32_t expert_calibrate_copy(int64_t bench, int32_t to_device, int32_t pinned,
                                                struct expert_calibrate_pass * out);

// One token's work on the CPU bench and batches of `tokens` on the other, with copies to the other all the while. Both
// have weights. A batch, because it takes few launches: those would take the processor's time.
EXPERT_DEVICE_API int32_t expert_calibrate_together(int64_t cpu, int64_t device, int32_t threads, int32_t tokens,
                                                    struct expert_calibrate_shares * out);

// Frees a bench and its memory.
EXPERT_DEVICE_API void expert_calibrate_close(int64_t bench);

#ifdef __cplusplus
}
#endif
