// Which threads are kept for which count, and handing them to CPU backends.
#include "threads.h"

#include <map>
#include <mutex>

namespace expert_device {

namespace {

std::mutex kept_mutex;
std::map<int, ggml_threadpool_t> kept;

ggml_threadpool_t kept_for(int count) {
    std::lock_guard<std::mutex> lock(kept_mutex);
    const auto found = kept.find(count);
    return found == kept.end() ? nullptr : found->second;
}

}  // namespace

void keep_threads(int count, ggml_threadpool_t threads) {
    std::lock_guard<std::mutex> lock(kept_mutex);
    if (threads == nullptr) {
        kept.erase(count);
    } else {
        kept[count] = threads;
    }
}

void compute_with(ggml_backend_t cpu, int count) {
    if (auto set = cpu_function<ggml_backend_set_n_threads_t>(cpu, "ggml_backend_set_n_threads")) {
        set(cpu, count);
    }
    using SetThreads = void (*)(ggml_backend_t, ggml_threadpool_t);
    if (auto set = cpu_function<SetThreads>(cpu, "ggml_backend_cpu_set_threadpool")) {
        set(cpu, kept_for(count));  // ggml lets those of another count sleep
    }
}

}  // namespace expert_device
