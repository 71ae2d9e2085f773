// Threads that wait between graphs, for a ggml that would else start new ones for each graph.
//
// A ggml with threads of its own (built without OpenMP, as for Windows) starts them when a CPU backend begins a graph
// and ends them with it, unless it is given some. A token is two graphs a layer here: one of llama.cpp's and one of
// this device's. Both are computed in turn on the same thread, so both use the same threads.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

namespace expert_device {

// Functions of the CPU backend that only its registry hands out; it may be a loaded library.
template <typename F> F cpu_function(ggml_backend_t cpu, const char * name) {
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(cpu));
    return reinterpret_cast<F>(ggml_backend_reg_get_proc_address(reg, name));
}

// From now on CPU backends that compute with `count` threads use `threads`; with nullptr they start their own.
void keep_threads(int count, ggml_threadpool_t threads);

// Says that `cpu`, a CPU backend, computes with `count` threads: those kept for that count, if any.
void compute_with(ggml_backend_t cpu, int count);

}  // namespace expert_device
