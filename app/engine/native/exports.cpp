// The C interface: argument checks and version checks, then the parts behind it.
#include "expert_device.h"
#include "internal.h"

#include <atomic>
#include <cstring>
#include <mutex>

namespace ed = expert_device;

int32_t expert_device_abi(void) {
    return EXPERT_DEVICE_ABI;
}

const char * expert_device_built_for(void) {
    return BUILT_FOR_GGML;
}

const char * expert_device_running_with(void) {
    return ggml_version();
}

int32_t expert_device_register(void) {
    static std::once_flag once;
    static int32_t result = EXPERT_DEVICE_OK;
    std::call_once(once, [] {
        if (std::strcmp(ggml_version(), BUILT_FOR_GGML) != 0) {
            result = EXPERT_DEVICE_WRONG_GGML;
        } else if (ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) == nullptr) {
            result = EXPERT_DEVICE_NO_CPU;
        } else {
            ggml_backend_register(ed::registry());
        }
    });
    return result;
}

int64_t expert_device_last_context(void) {
    return ed::last_context_of_this_thread();
}

int32_t expert_device_set_phase(int64_t context, int32_t phase) {
    if (phase < EXPERT_DEVICE_PROMPT || phase > EXPERT_DEVICE_IGNORE) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    const auto found = ed::find_context(context);
    if (!found) {
        return EXPERT_DEVICE_NO_CONTEXT;
    }
    found->phase.store(phase, std::memory_order_relaxed);
    return EXPERT_DEVICE_OK;
}

bool expert_device_abort_when_set(void * flag) {
    // The flag is a plain int32_t of the caller's; an aligned 32-bit store is seen whole.
    return reinterpret_cast<std::atomic<int32_t> *>(flag)->load(std::memory_order_relaxed) != 0;
}

int32_t expert_device_owned_layers(int64_t model_tag, uint8_t * layers, int32_t limit) {
    if (layers == nullptr || limit <= 0) {
        return 0;
    }
    return ed::owned_layers(model_tag, layers, limit);
}

uint64_t expert_device_owned_bytes(int64_t model_tag) {
    return ed::owned_bytes(model_tag);
}

void expert_device_set_model_tag(int64_t model_tag) {
    ed::set_model_tag(model_tag);
}

int32_t expert_device_shape(int64_t context, int32_t * layers, int32_t * experts) {
    if (layers == nullptr || experts == nullptr) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    const auto found = ed::find_context(context);
    if (!found) {
        return EXPERT_DEVICE_NO_CONTEXT;
    }
    found->routing.shape(*layers, *experts);
    return EXPERT_DEVICE_OK;
}

int32_t expert_device_read_routing(int64_t context, int32_t phase, uint64_t * out, int32_t layers,
                                   int32_t experts) {
    if (out == nullptr || layers < 0 || experts < 0 || phase < EXPERT_DEVICE_PROMPT || phase > EXPERT_DEVICE_DECODE) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    const auto found = ed::find_context(context);
    if (!found) {
        return EXPERT_DEVICE_NO_CONTEXT;
    }
    found->routing.read(phase, out, layers, experts);
    return EXPERT_DEVICE_OK;
}

int32_t expert_device_read_work(int64_t context, uint64_t * graphs, uint64_t * nodes) {
    if (graphs == nullptr || nodes == nullptr) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    const auto found = ed::find_context(context);
    if (!found) {
        return EXPERT_DEVICE_NO_CONTEXT;
    }
    *graphs = found->graphs.load(std::memory_order_relaxed);
    *nodes = found->nodes.load(std::memory_order_relaxed);
    return EXPERT_DEVICE_OK;
}
