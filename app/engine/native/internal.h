// What the parts of the expert device share with each other.
#pragma once

#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "routing.h"

#include <cstdint>
#include <memory>

namespace expert_device {

// --- device.cpp ---
ggml_backend_reg_t registry();
ggml_backend_dev_t device();

// --- buffer.cpp: host memory, mapped or owned, that holds expert tensors ---
ggml_backend_buffer_type_t buffer_type();
ggml_backend_buffer_t buffer_from_host(void * data, size_t size);
bool is_ours(const ggml_tensor * weights);
void set_model_tag(int64_t tag);
int32_t owned_layers(int64_t tag, uint8_t * layers, int32_t limit);
uint64_t owned_bytes(int64_t tag);

// --- chain.cpp: which ops of a graph belong to an expert's chain ---
bool claims(const ggml_tensor * op);

// --- backend.cpp: one context's stream of graphs ---
struct Context {
    int64_t id = 0;
    ggml_backend_t cpu = nullptr;
    RoutingCounts routing;
    std::atomic<int32_t> phase{0};
    std::atomic<uint64_t> graphs{0};
    std::atomic<uint64_t> nodes{0};

    Context() = default;
    Context(const Context &) = delete;
    Context & operator=(const Context &) = delete;
    ~Context() {
        if (cpu) {
            ggml_backend_free(cpu);
        }
    }
};

ggml_backend_t new_backend();  // nullptr when no CPU backend can be made
std::shared_ptr<Context> find_context(int64_t id);
int64_t last_context_of_this_thread();
void set_n_threads(ggml_backend_t backend, int n_threads);
void set_abort_callback(ggml_backend_t backend, ggml_abort_callback callback, void * data);

// The layer of a tensor named "blk.<layer>.…", or -1.
int32_t layer_of(const char * name);

}  // namespace expert_device
