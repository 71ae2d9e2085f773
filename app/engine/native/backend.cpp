// One llama.cpp context's stream as ggml sees it, and the list of all contexts alive.
#include "expert_device.h"
#include "internal.h"
#include "threads.h"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace expert_device {

namespace {

std::mutex contexts_mutex;
std::unordered_map<int64_t, std::shared_ptr<Context>> contexts;
int64_t next_id = 1;
thread_local int64_t last_id = 0;

// ggml owns the backend; the context is shared with readers on other threads.
struct Stream {
    std::shared_ptr<Context> context;
};

Context & context_of(ggml_backend_t backend) {
    return *static_cast<Stream *>(backend->context)->context;
}

const char * backend_name(ggml_backend_t) {
    return "EXPERTS";
}

void backend_free(ggml_backend_t backend) {
    auto * stream = static_cast<Stream *>(backend->context);
    {
        std::lock_guard<std::mutex> lock(contexts_mutex);
        contexts.erase(stream->context->id);
    }
    {
        // The model may be freed next, and a reader may keep the context a little longer: nothing may copy then.
        Context & context = *stream->context;
        std::lock_guard<std::mutex> one_at_a_time(context.control);
        std::lock_guard<std::mutex> lock(context.mutex);
        context.pools.clear();
        context.disk.set_budget(context.layers, 0);  // its threads end, and the mapping is as it was
        context.layers.clear();
    }
    delete stream;  // the context goes with its last reader
    delete backend;
}

ggml_status graph_compute(ggml_backend_t backend, ggml_cgraph * graph) {
    return compute_graph(context_of(backend), graph);
}

ggml_backend_i backend_interface() {
    ggml_backend_i face = {};
    face.get_name = backend_name;
    face.free = backend_free;
    face.graph_compute = graph_compute;
    return face;
}

ggml_guid_t guid() {
    static ggml_guid value = {0x45, 0x78, 0x70, 0x65, 0x72, 0x74, 0x4c, 0x61,
                              0x6e, 0x65, 0x73, 0x21, 0x1d, 0x9a, 0x02, 0xc7};
    return &value;
}

}  // namespace

Context::Context() : settings{EXPERT_DEVICE_LRU, 2, 64, 0.98F, 1.1F, 0.0F, EXPERT_DEVICE_STREAM_AUTO, 0} {}

Context::~Context() = default;

ggml_backend_t new_backend() {
    auto context = std::make_shared<Context>();
    context->cpu.reset(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
    if (!context->cpu) {
        return nullptr;
    }
    context->cpu_clones = std::make_unique<CloneCache>(ggml_backend_get_default_buffer_type(context->cpu.get()));
    auto stream = std::make_unique<Stream>();
    stream->context = context;
    auto * backend = new ggml_backend{guid(), backend_interface(), device(), stream.get()};
    stream.release();
    std::lock_guard<std::mutex> lock(contexts_mutex);
    context->id = next_id++;
    contexts.emplace(context->id, context);
    last_id = context->id;
    return backend;
}

std::shared_ptr<Context> find_context(int64_t id) {
    std::lock_guard<std::mutex> lock(contexts_mutex);
    const auto found = contexts.find(id);
    return found == contexts.end() ? nullptr : found->second;
}

int64_t last_context_of_this_thread() {
    return last_id;
}

void set_n_threads(ggml_backend_t backend, int n_threads) {
    context_of(backend).n_threads = n_threads;
    compute_with(context_of(backend).cpu.get(), n_threads);
}

void set_abort_callback(ggml_backend_t backend, ggml_abort_callback callback, void * data) {
    ggml_backend_t cpu = context_of(backend).cpu.get();
    if (auto set = cpu_function<ggml_backend_set_abort_callback_t>(cpu, "ggml_backend_set_abort_callback")) {
        set(cpu, callback, data);
    }
}

}  // namespace expert_device
