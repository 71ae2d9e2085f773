// The C interface of the expert device. Every function may be called from any thread and never throws.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#    define EXPERT_DEVICE_API __declspec(dllexport)
#else
#    define EXPERT_DEVICE_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

// Changes whenever a signature or the meaning of a value here does.
#define EXPERT_DEVICE_ABI 1

enum expert_device_result {
    EXPERT_DEVICE_OK = 0,
    EXPERT_DEVICE_WRONG_GGML = 1,   // running ggml is not the one this library was built for
    EXPERT_DEVICE_NO_CPU = 2,       // no CPU backend is registered: load ggml's backends first
    EXPERT_DEVICE_NO_CONTEXT = 3,   // no such context (never made, or freed)
    EXPERT_DEVICE_BAD_ARGUMENT = 4,
};

enum expert_device_phase {
    EXPERT_DEVICE_PROMPT = 0,  // routings count as prompt's
    EXPERT_DEVICE_DECODE = 1,  // routings count as the answer's: these make the heat
    EXPERT_DEVICE_IGNORE = 2,  // routings are not counted (warm-up)
};

// The value of EXPERT_DEVICE_ABI this library was built with.
EXPERT_DEVICE_API int32_t expert_device_abi(void);

// The ggml version this library was built for, and the one it runs with ("0.25.3").
EXPERT_DEVICE_API const char * expert_device_built_for(void);
EXPERT_DEVICE_API const char * expert_device_running_with(void);

// Registers the device with ggml; once per process, further calls return the first one's result.
// Call after ggml's backends are loaded and before a model is.
EXPERT_DEVICE_API int32_t expert_device_register(void);

// The id of the context that llama.cpp made last on the calling thread; 0 for none.
EXPERT_DEVICE_API int64_t expert_device_last_context(void);

// Which of `phase` the next graphs of `context` count as.
EXPERT_DEVICE_API int32_t expert_device_set_phase(int64_t context, int32_t phase);

// Asks the graphs of every context whose flag this is to end early: llama.cpp's abort callback, with
// a pointer to an int32_t as its data; not zero means end. Compiled, so the hot loop takes no lock.
EXPERT_DEVICE_API bool expert_device_abort_when_set(void * flag);

// How many layers below `limit` have expert tensors in this device's buffers; layers[i] becomes 1 for
// those. Counted over all models loaded now that have `model_tag` == the tag current at their load.
EXPERT_DEVICE_API int32_t expert_device_owned_layers(int64_t model_tag, uint8_t * layers, int32_t limit);

// Bytes of those tensors, without the gaps of the mapping between them.
EXPERT_DEVICE_API uint64_t expert_device_owned_bytes(int64_t model_tag);

// Tensors loaded from now on belong to `model_tag` (chosen by the caller, not 0).
EXPERT_DEVICE_API void expert_device_set_model_tag(int64_t model_tag);

// One past the highest layer seen in a graph of `context`, and the experts of its widest layer.
EXPERT_DEVICE_API int32_t expert_device_shape(int64_t context, int32_t * layers, int32_t * experts);

// Copies routing counts since the context was made: out[layer * experts + expert], for the first
// `layers` layers and `experts` experts. Consistent per counter, not across counters; cheap enough
// for 20 Hz while computing.
EXPERT_DEVICE_API int32_t expert_device_read_routing(int64_t context, int32_t phase, uint64_t * out,
                                                     int32_t layers, int32_t experts);

// Graphs and nodes this context has computed, to see that it works.
EXPERT_DEVICE_API int32_t expert_device_read_work(int64_t context, uint64_t * graphs, uint64_t * nodes);

#ifdef __cplusplus
}
#endif
