// The C interface: argument checks and version checks, then the parts behind it.
#include "expert_device.h"
#include "exports.h"
#include "internal.h"
#include "threads.h"
#include "weights.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>

namespace ed = expert_device;
using ed::for_readers;
using ed::with_context;

namespace {

bool is_phase(int32_t phase) {
    return phase == EXPERT_DEVICE_PROMPT || phase == EXPERT_DEVICE_DECODE;
}

expert_device_layer facts_of(const ed::Layer & layer) {
    expert_device_layer made = {};
    made.layer = layer.index;
    made.experts = layer.experts();
    made.used = layer.used;
    made.expert_bytes = layer.expert_bytes();
    made.slots = layer.policy.slots();
    made.resident = layer.policy.resident();
    for (const ed::ExpertTensor & tensor : layer.tensors) {
        made.residency = std::max(made.residency, ed::is_repacked(tensor.tensor) ? int32_t{EXPERT_DEVICE_REPACKED} : 0);
    }
    return made;
}

void write_words(char (&to)[256], const std::string & words) {
    std::snprintf(to, sizeof to, "%s", words.c_str());
}

void read_pool(ed::Context & context, const char * device, expert_device_pool & out) {
    const auto pool = context.pools.find(device);
    if (pool == context.pools.end()) {
        return;
    }
    ed::take_copies(context, *pool->second);
    out.requested = pool->second->requested;
    out.staging = pool->second->staging_bytes();
    out.working = pool->second->working_bytes();
    out.locked = pool->second->locks.bytes();
    out.ahead = pool->second->used_ahead.load(std::memory_order_relaxed);
    out.result = pool->second->result();
    write_words(out.reason, pool->second->reason());
    for (const auto & [index, layer] : context.layers) {
        if (layer->device == device) {
            out.allocated += layer->slots.bytes();
            out.slots += layer->policy.slots();
            out.resident += layer->policy.resident();
            out.unplaced_pins += layer->policy.unplaced_pins();
        }
    }
}

expert_device_pool & shown_pool(ed::Context & context, const char * device) {
    std::lock_guard<std::mutex> lock(context.shown_mutex);
    return context.shown_pools[device];
}

// Tokens of one expert from which copying it over beats the CPU; 0 for never.
double break_even(const ed::Rates & rates) {
    const double gain_a_row = rates.cpu_next_ns - rates.gpu_next_ns;
    const double behind = rates.copy_ns + rates.gpu_first_ns - rates.cpu_first_ns;
    if (behind <= 0) {
        return 1;
    }
    return gain_a_row > 0 ? 1 + behind / gain_a_row : 0;
}

}  // namespace

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

int32_t expert_device_keep_threads(int32_t count, void * threadpool) {
    if (count < 1) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    try {
        ed::keep_threads(count, static_cast<ggml_threadpool_t>(threadpool));
    } catch (const std::bad_alloc &) {
        return EXPERT_DEVICE_NO_MEMORY;
    }
    return EXPERT_DEVICE_OK;
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

int32_t expert_device_set_residency(int32_t residency) {
    if (residency != EXPERT_DEVICE_MAPPED && residency != EXPERT_DEVICE_REPACKED) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    ed::set_residency(residency);
    return EXPERT_DEVICE_OK;
}

int32_t expert_device_add_source(int64_t context, const char * utf8_path, const char * tensor, uint64_t offset,
                                 uint64_t bytes) {
    if (utf8_path == nullptr || tensor == nullptr) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    return with_context(context, [&](ed::Context & found) {
        std::lock_guard<std::mutex> lock(found.mutex);
        return found.sources.add(utf8_path, tensor, offset, bytes) ? EXPERT_DEVICE_OK : EXPERT_DEVICE_NO_SOURCE;
    });
}

int32_t expert_device_read_layers(int64_t context, expert_device_layer * out, int32_t limit) {
    int32_t n = 0;
    const auto read = [&](ed::Context & found) {
        std::vector<expert_device_layer> layers;
        for_readers(found, found.shown_layers, layers, [&] {
            for (const auto & [index, layer] : found.layers) {
                layers.push_back(facts_of(*layer));
            }
        });
        n = static_cast<int32_t>(layers.size());
        if (out != nullptr) {
            std::copy_n(layers.begin(), std::min(n, std::max(limit, 0)), out);
        }
        return int32_t{EXPERT_DEVICE_OK};
    };
    return with_context(context, read) == EXPERT_DEVICE_OK ? n : 0;
}

int32_t expert_device_set_layer_device(int64_t context, int32_t layer, const char * device) {
    if (device == nullptr) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    return with_context(context, [&](ed::Context & found) {
        std::lock_guard<std::mutex> lock(found.control);
        ed::set_layer_device(found, layer, device);
        return EXPERT_DEVICE_OK;
    });
}

int32_t expert_device_set_pool(int64_t context, const char * device, uint64_t pool_bytes, uint64_t staging_bytes) {
    if (device == nullptr) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    return with_context(context, [&](ed::Context & found) {
        const int32_t result = ed::set_pool(found, device, pool_bytes, staging_bytes);
        expert_device_pool & shown = shown_pool(found, device);
        std::lock_guard<std::mutex> lock(found.mutex);
        std::lock_guard<std::mutex> shown_lock(found.shown_mutex);
        shown = {};
        read_pool(found, device, shown);
        return result;
    });
}

int32_t expert_device_read_pool(int64_t context, const char * device, expert_device_pool * out) {
    if (device == nullptr || out == nullptr) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    *out = {};
    return with_context(context, [&](ed::Context & found) {
        for_readers(found, shown_pool(found, device), *out, [&] { read_pool(found, device, *out); });
        return EXPERT_DEVICE_OK;
    });
}

int32_t expert_device_set_host_lock(int64_t context, uint64_t most_bytes) {
    return with_context(context, [&](ed::Context & found) {
        std::lock_guard<std::mutex> lock(found.mutex);
        found.lock_bytes = most_bytes;
        return EXPERT_DEVICE_OK;
    });
}

int32_t expert_device_set_policy(int64_t context, const expert_device_policy * policy) {
    if (policy == nullptr || !ed::valid(*policy)) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    return with_context(context, [&](ed::Context & found) {
        {
            std::lock_guard<std::mutex> lock(found.pending_mutex);
            found.pending.settings = *policy;
            found.has_pending.store(true);
        }
        return EXPERT_DEVICE_OK;
    });
}

int32_t expert_device_set_pins(int64_t context, const expert_device_pin_entry * entries, int32_t n) {
    if (entries == nullptr || n < 0) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    return with_context(context, [&](ed::Context & found) { return ed::set_pins(found, entries, n); });
}

int32_t expert_device_set_heat(int64_t context, int32_t layer, const float * heat, int32_t experts) {
    if (heat == nullptr) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    return with_context(context, [&](ed::Context & found) { return ed::set_heat(found, layer, heat, experts); });
}

int32_t expert_device_read_experts(int64_t context, float * heat, uint8_t * lane, uint8_t * pin, int32_t layers,
                                   int32_t experts) {
    if (layers < 0 || experts < 0) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    return with_context(context, [&](ed::Context & found) {
        // Between splits the state itself is told; while one is computed, what was published last.
        if (std::unique_lock<std::mutex> lock(found.mutex, std::try_to_lock); lock.owns_lock()) {
            ed::publish_all(found);
        }
        found.facts.experts(heat, lane, pin, layers, experts);
        return EXPERT_DEVICE_OK;
    });
}

int32_t expert_device_read_totals(int64_t context, int32_t phase, expert_device_totals * out) {
    if (out == nullptr || !is_phase(phase)) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    return with_context(context, [&](ed::Context & found) {
        found.facts.totals(phase, *out);
        return EXPERT_DEVICE_OK;
    });
}

int32_t expert_device_read_tokens(int64_t context, uint64_t since, expert_device_token * out, int32_t limit) {
    int32_t n = 0;
    with_context(context, [&](ed::Context & found) {
        n = out != nullptr ? found.facts.batches(since, out, limit) : 0;
        return EXPERT_DEVICE_OK;
    });
    return n;
}

int32_t expert_device_set_trace(int64_t context, int32_t capacity) {
    if (capacity < 0) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    return with_context(context, [&](ed::Context & found) {
        found.facts.set_trace(capacity);
        return EXPERT_DEVICE_OK;
    });
}

int32_t expert_device_read_trace(int64_t context, expert_device_routing_entry * out, int32_t limit,
                                 uint64_t * dropped) {
    int32_t n = 0;
    uint64_t lost = 0;
    with_context(context, [&](ed::Context & found) {
        n = out != nullptr && limit > 0 ? found.facts.take_trace(out, limit, lost) : 0;
        return EXPERT_DEVICE_OK;
    });
    if (dropped != nullptr) {
        *dropped = lost;
    }
    return n;
}

int32_t expert_device_read_rates(int64_t context, const char * device, expert_device_rates * out) {
    if (device == nullptr || out == nullptr) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    return with_context(context, [&](ed::Context & found) {
        std::lock_guard<std::mutex> lock(found.mutex);
        const auto pool = found.pools.find(device);
        if (pool == found.pools.end() || !pool->second->rates.known) {
            return EXPERT_DEVICE_NOT_READY;
        }
        const ed::Rates & rates = pool->second->rates;
        out->copy_bytes_per_second = rates.copy_ns > 0 ? rates.copy_bytes / rates.copy_ns * 1e9 : 0;
        out->cpu_first_row_ns = rates.cpu_first_ns;
        out->cpu_next_row_ns = rates.cpu_next_ns;
        out->gpu_first_row_ns = rates.gpu_first_ns;
        out->gpu_next_row_ns = rates.gpu_next_ns;
        out->break_even_rows = break_even(rates);
        return EXPERT_DEVICE_OK;
    });
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

int32_t expert_device_read_routing(int64_t context, int32_t phase, uint64_t * out, int32_t layers, int32_t experts) {
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
