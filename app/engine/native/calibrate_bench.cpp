// Runs on one device: a token through many layers, a batch through one, a layer with nothing in it, and copies.
#include "calibrate_bench.h"

#include "threads.h"
#include "weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

namespace expert_device {

namespace {

// Of a frequent model (Qwen3-30B-A3B): neither its experts nor its activations are unusually large or small.
constexpr int64_t hidden = 2048, feed_forward = 768, used = 8;
// A layer whose products take next to no time.
constexpr int64_t small_hidden = 64, small_feed_forward = 64;
constexpr int layers_at_once = 4;

// A layer's chain of ops; the result is [hidden, used, tokens].
ggml_tensor * chain(ggml_context * context, const BenchWeights & weights, ggml_tensor * input, ggml_tensor * ids) {
    ggml_tensor * up = ggml_mul_mat_id(context, weights.up, input, ids);
    ggml_tensor * gate = ggml_mul_mat_id(context, weights.gate, input, ids);
    return ggml_mul_mat_id(context, weights.down, ggml_swiglu_split(context, gate, up), ids);
}

// Without memory yet. A later layer reads the sum of what the one before read and its first expert's rows.
BenchGraph build_graph(const BenchWeights & weights, int64_t tokens, int64_t layers) {
    BenchGraph made;
    made.tokens = tokens;
    made.layers = layers;
    const size_t n = static_cast<size_t>(layers);
    ggml_init_params inputs = {(n + 2) * ggml_tensor_overhead(), nullptr, true};
    ggml_init_params nodes = {8 * n * ggml_tensor_overhead() + ggml_graph_overhead_custom(8 * n, false), nullptr, true};
    made.inputs_context.reset(ggml_init(inputs));
    made.context.reset(ggml_init(nodes));
    ggml_context * context = made.context.get();
    ggml_tensor * input = made.activations =
        ggml_new_tensor_3d(made.inputs_context.get(), GGML_TYPE_F32, weights.up->ne[0], 1, tokens);
    for (int64_t i = 0; i < layers; ++i) {
        if (made.output != nullptr) {
            ggml_tensor * first = ggml_view_3d(context, made.output, made.output->ne[0], 1, tokens, made.output->nb[1],
                                               made.output->nb[2], 0);
            input = ggml_add(context, input, first);
        }
        made.ids.push_back(ggml_new_tensor_2d(made.inputs_context.get(), GGML_TYPE_I32, used, tokens));
        made.output = chain(context, weights, input, made.ids.back());
    }
    ggml_set_output(made.output);
    made.graph = ggml_new_graph_custom(context, 8 * n, false);
    ggml_build_forward_expand(made.graph, made.output);
    return made;
}

// Random activations, and every expert in turn: a token's experts differ, and none is used again before all were.
void fill_inputs(const BenchGraph & graph, int64_t experts) {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    std::vector<float> activations(static_cast<size_t>(ggml_nelements(graph.activations)));
    for (float & value : activations) {
        value = normal(random);
    }
    ggml_backend_tensor_set(graph.activations, activations.data(), 0, ggml_nbytes(graph.activations));
    int64_t next = 0;
    for (ggml_tensor * ids : graph.ids) {
        std::vector<int32_t> chosen(static_cast<size_t>(ggml_nelements(ids)));
        for (int32_t & expert : chosen) {
            expert = static_cast<int32_t>(next++ % experts);
        }
        ggml_backend_tensor_set(ids, chosen.data(), 0, ggml_nbytes(ids));
    }
}

}  // namespace

std::unique_ptr<Bench> Bench::open(const std::string & device) {
    ggml_backend_dev_t dev = ggml_backend_dev_by_name(device.c_str());
    // An accelerator computes in main memory, as this very device does.
    const bool none = dev == nullptr || ggml_backend_dev_type(dev) == GGML_BACKEND_DEVICE_TYPE_ACCEL;
    BackendPtr backend(none ? nullptr : ggml_backend_dev_init(dev, nullptr));
    return backend ? std::unique_ptr<Bench>(new Bench(dev, std::move(backend))) : nullptr;
}

Bench::Bench(ggml_backend_dev_t dev, BackendPtr backend)
    : dev_(dev), backend_(std::move(backend)), allocator_(ggml_gallocr_new(ggml_backend_dev_buffer_type(dev))),
      small_allocator_(ggml_gallocr_new(ggml_backend_dev_buffer_type(dev))) {}

Bench::~Bench() = default;

void Bench::set_threads(int32_t threads) {
    if (is_cpu()) {
        compute_with(backend_.get(), threads);
    }
}

bool Bench::supports(const BenchGraph & graph) const {
    for (int i = 0; i < ggml_graph_n_nodes(graph.graph); ++i) {
        if (!ggml_backend_dev_supports_op(dev_, ggml_graph_node(graph.graph, i))) {
            return false;
        }
    }
    return true;
}

// The layout that all three products take, or nullptr.
ggml_backend_buffer_type_t Bench::type_for(const BenchWeights & weights, bool repacked) const {
    const BenchGraph graph = build_graph(weights, 1, 1);
    if (!repacked) {
        return supports(graph) ? ggml_backend_dev_buffer_type(dev_) : nullptr;
    }
    ggml_backend_buffer_type_t type = nullptr;
    for (int i = 0; is_cpu() && i < ggml_graph_n_nodes(graph.graph); ++i) {
        const ggml_tensor * node = ggml_graph_node(graph.graph, i);
        if (node->op != GGML_OP_MUL_MAT_ID) {
            continue;
        }
        ggml_backend_buffer_type_t own = faster_type(node);
        if (own == nullptr || (type != nullptr && own != type)) {
            return nullptr;
        }
        type = own;
    }
    return type;
}

int32_t Bench::set_weights(const std::string & name, bool repacked, uint64_t most_bytes) {
    ggml_type type = GGML_TYPE_F32;
    if (!weight_type(name, type)) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    const BenchWeights least = describe_weights(type, hidden, feed_forward, used);
    ggml_backend_buffer_type_t memory = type_for(least, repacked);
    if (memory == nullptr) {
        return EXPERT_DEVICE_UNSUPPORTED;
    }
    const int64_t experts = static_cast<int64_t>(most_bytes / least.expert_bytes()) / used * used;
    if (experts == 0) {
        return EXPERT_DEVICE_NO_MEMORY;
    }
    graph_ = {};
    weights_ = {};  // before the next ones are made: they would take twice the memory
    BenchWeights made = describe_weights(type, hidden, feed_forward, experts);
    if (!allocate_weights(made, memory, repacked)) {
        return EXPERT_DEVICE_NO_MEMORY;
    }
    weights_ = std::move(made);
    return EXPERT_DEVICE_OK;
}

bool Bench::place(BenchGraph & graph, ggml_gallocr * allocator) {
    graph.inputs_buffer.reset(
        ggml_backend_alloc_ctx_tensors_from_buft(graph.inputs_context.get(), ggml_backend_dev_buffer_type(dev_)));
    return graph.inputs_buffer && ggml_gallocr_reserve(allocator, graph.graph) &&
           ggml_gallocr_alloc_graph(allocator, graph.graph);
}

// The graph for that many tokens, ready to be computed.
int32_t Bench::prepare(int64_t tokens) {
    if (weights_.up == nullptr || tokens < 1) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    if (graph_.graph != nullptr && graph_.tokens == tokens) {
        return EXPERT_DEVICE_OK;
    }
    BenchGraph made = build_graph(weights_, tokens, tokens == 1 ? weights_.experts() / used : 1);
    graph_ = {};
    if (!place(made, allocator_.get())) {
        return EXPERT_DEVICE_NO_MEMORY;
    }
    fill_inputs(made, weights_.experts());
    graph_ = std::move(made);
    return EXPERT_DEVICE_OK;
}

int32_t Bench::run(int32_t threads, int64_t tokens, expert_calibrate_pass & out) {
    const int32_t prepared = prepare(tokens);
    if (prepared != EXPERT_DEVICE_OK) {
        return prepared;
    }
    set_threads(threads);
    ggml_backend_synchronize(backend_.get());
    const uint64_t begin = now_ns();
    if (ggml_backend_graph_compute(backend_.get(), graph_.graph) != GGML_STATUS_SUCCESS) {
        return EXPERT_DEVICE_DEVICE_FAILED;
    }
    out.seconds = seconds_since(begin);
    const int64_t pairs = used * tokens * graph_.layers;
    out.bytes = static_cast<uint64_t>(std::min(pairs, weights_.experts())) * weights_.expert_bytes();
    out.flops = static_cast<uint64_t>(2 * pairs * 3 * hidden * feed_forward);
    return EXPERT_DEVICE_OK;
}

int32_t Bench::layer(int32_t threads, double & seconds) {
    if (small_graph_.graph == nullptr) {
        BenchWeights weights = describe_weights(GGML_TYPE_Q8_0, small_hidden, small_feed_forward, used);
        BenchGraph graph = build_graph(weights, 1, 1);
        if (!supports(graph)) {
            return EXPERT_DEVICE_UNSUPPORTED;
        }
        if (!allocate_weights(weights, ggml_backend_dev_buffer_type(dev_), false) ||
            !place(graph, small_allocator_.get())) {
            return EXPERT_DEVICE_NO_MEMORY;
        }
        fill_inputs(graph, used);
        small_weights_ = std::move(weights);
        small_graph_ = std::move(graph);
    }
    set_threads(threads);
    const BenchGraph & graph = small_graph_;
    ggml_tensor * ids = graph.ids.front();
    std::vector<float> activations(small_hidden, 1.0F), rows(static_cast<size_t>(ggml_nelements(graph.output)));
    std::array<int32_t, used> chosen{};
    for (size_t i = 0; i < chosen.size(); ++i) {
        chosen[i] = static_cast<int32_t>(i);
    }
    ggml_backend_synchronize(backend_.get());
    const uint64_t begin = now_ns();
    for (int i = 0; i < layers_at_once; ++i) {
        ggml_backend_tensor_set_async(backend_.get(), graph.activations, activations.data(), 0,
                                      ggml_nbytes(graph.activations));
        ggml_backend_tensor_set_async(backend_.get(), ids, chosen.data(), 0, ggml_nbytes(ids));
        const ggml_status status = ggml_backend_graph_compute_async(backend_.get(), graph.graph);
        if (status != GGML_STATUS_SUCCESS) {
            return EXPERT_DEVICE_DEVICE_FAILED;
        }
        ggml_backend_tensor_get_async(backend_.get(), graph.output, rows.data(), 0, ggml_nbytes(graph.output));
        ggml_backend_synchronize(backend_.get());
    }
    seconds = seconds_since(begin) / layers_at_once;
    return EXPERT_DEVICE_OK;
}

int32_t Bench::prepare_copies(bool pinned) {
    if (room_.device.tensors.empty()) {
        Slab made;
        ggml_init_params size = {2 * ggml_tensor_overhead(), nullptr, true};
        made.context.reset(ggml_init(size));
        ggml_tensor * tensor = ggml_new_tensor_1d(made.context.get(), GGML_TYPE_I8, room_bytes);
        made.buffer.reset(
            ggml_backend_alloc_ctx_tensors_from_buft(made.context.get(), ggml_backend_dev_buffer_type(dev_)));
        if (!made.buffer) {
            return EXPERT_DEVICE_NO_MEMORY;
        }
        made.tensors.push_back(tensor);
        room_.device = std::move(made);
    }
    if (!pinned && !room_.pageable) {
        room_.pageable = std::make_unique<char[]>(room_bytes);  // zeros: its pages are there from now on
    }
    if (pinned && !room_.pinned) {
        ggml_backend_buffer_type_t type = ggml_backend_dev_host_buffer_type(dev_);
        BufferPtr made(type != nullptr ? ggml_backend_buft_alloc_buffer(type, room_bytes) : nullptr);
        // Backends give ordinary memory instead where locking is refused.
        if (!made || ggml_backend_buffer_get_type(made.get()) != type) {
            return EXPERT_DEVICE_UNSUPPORTED;
        }
        std::memset(ggml_backend_buffer_get_base(made.get()), 0, room_bytes);
        room_.pinned = std::move(made);
    }
    return EXPERT_DEVICE_OK;
}

char * Bench::copy_memory(bool pinned) const {
    return pinned ? static_cast<char *>(ggml_backend_buffer_get_base(room_.pinned.get())) : room_.pageable.get();
}

int32_t Bench::copy(bool to_device, bool pinned, expert_calibrate_pass & out) {
    const int32_t prepared = prepare_copies(pinned);
    if (prepared != EXPERT_DEVICE_OK) {
        return prepared;
    }
    ggml_tensor * tensor = room_.device.tensors.front();
    char * memory = copy_memory(pinned);
    const uint64_t begin = now_ns();
    for (size_t at = 0; at < room_bytes; at += slice_bytes) {
        if (to_device) {
            ggml_backend_tensor_set(tensor, memory + at, at, slice_bytes);
        } else {
            ggml_backend_tensor_get(tensor, memory + at, at, slice_bytes);
        }
    }
    out = {seconds_since(begin), room_bytes, 0};
    return EXPERT_DEVICE_OK;
}

}  // namespace expert_device
