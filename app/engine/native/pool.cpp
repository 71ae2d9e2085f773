// Slots on one device: how many each layer gets, moving them, and filling them from the file's bytes.
#include "pool.h"

#include "ggml-impl.h"
#include "threads.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace expert_device {

namespace {

// Of the clones on one device, as far as `least_pairs_at_once` allows.
constexpr uint64_t most_working_bytes = uint64_t{64} << 20;
constexpr size_t least_pairs_at_once = 64;

// The slot of a copy that ended becomes ready, or free again; a copy that failed turns the pool off.
void end_copy(Pool & pool, Layer & layer, const CopyJob & job) {
    layer.policy.complete(job.slot, job.expert, job.ok && pool.usable());
    if (!job.ok) {
        pool.fail(EXPERT_DEVICE_DEVICE_FAILED, pool.name() + " failed while an expert was copied to it.");
    }
}

// Copies the experts that keep a slot from the layer's slab to `next`; false when the device failed.
bool move_experts(ggml_backend_t backend, const Layer & layer, const Slab & next,
                  const std::vector<LayerPolicy::Move> & moves) {
    ggml_init_params size = {2 * moves.size() * layer.tensors.size() * ggml_tensor_overhead() + ggml_tensor_overhead(),
                             nullptr, true};
    const ContextPtr context(ggml_init(size));
    try {
        for (const LayerPolicy::Move & move : moves) {
            for (size_t i = 0; i < layer.tensors.size(); ++i) {
                const ExpertTensor & tensor = layer.tensors[i];
                ggml_backend_tensor_copy(
                    one_expert(context.get(), layer.slots.tensors[i], tensor.bias, move.from, tensor.bytes),
                    one_expert(context.get(), next.tensors[i], tensor.bias, move.to, tensor.bytes));
            }
        }
        ggml_backend_synchronize(backend);
        return true;
    } catch (...) {  // backends throw types of their own when a device is lost
        return false;
    }
}

}  // namespace

ggml_tensor * one_expert(ggml_context * context, ggml_tensor * slab, bool bias, int32_t place, uint64_t bytes) {
    const size_t offset = static_cast<size_t>(place) * bytes;
    ggml_tensor * t = bias ? ggml_view_1d(context, slab, slab->ne[0], offset)
                           : ggml_view_2d(context, slab, slab->ne[0], slab->ne[1], slab->nb[1], offset);
    ggml_backend_view_init(t);
    return t;
}

std::unique_ptr<Pool> Pool::open(const std::string & device, int n_threads) {
    ggml_backend_dev_t dev = ggml_backend_dev_by_name(device.c_str());
    // An accelerator computes in main memory, as this very device does.
    const bool none = dev == nullptr || ggml_backend_dev_type(dev) == GGML_BACKEND_DEVICE_TYPE_ACCEL;
    BackendPtr backend(none ? nullptr : ggml_backend_dev_init(dev, nullptr));
    if (!backend) {
        return nullptr;
    }
    if (ggml_backend_dev_type(dev) == GGML_BACKEND_DEVICE_TYPE_CPU) {  // computes on the same threads, in turn
        compute_with(backend.get(), n_threads);
    }
    return std::unique_ptr<Pool>(new Pool(device, dev, std::move(backend)));
}

Pool::Pool(std::string device, ggml_backend_dev_t dev, BackendPtr backend)
    : name_(std::move(device)), dev_(dev), backend_(std::move(backend)), clones(type()), arena(dev), stream_arena(dev),
      locks(dev) {}

ggml_backend_buffer_type_t Pool::type() const {
    return ggml_backend_get_default_buffer_type(backend_.get());
}

void Pool::fail(int32_t result, const std::string & reason) {
    if (result_ != EXPERT_DEVICE_DEVICE_FAILED) {
        result_ = result;
        reason_ = reason;
    }
}

// Memory for weights, all zero: kernels read a little past an expert's last row and multiply it by zero, so that it
// must not be a NaN. False, and why in words, when the device refuses it or fails.
template <typename Allocate> bool Pool::give_memory(BufferPtr & to, Allocate allocate, const std::string & refusal) {
    try {
        to.reset(allocate());
    } catch (...) {  // backends throw types of their own
        to.reset();
    }
    if (!to) {
        fail(EXPERT_DEVICE_NO_MEMORY, refusal);
        return false;
    }
    try {
        ggml_backend_buffer_set_usage(to.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        ggml_backend_buffer_clear(to.get(), 0);
        return true;
    } catch (...) {
        to.reset();
        fail(EXPERT_DEVICE_DEVICE_FAILED, name_ + " failed while memory on it was cleared.");
        return false;
    }
}

Slab Pool::make_tensors(const Layer & layer, int32_t n) const {
    Slab slab;
    ggml_init_params size = {(layer.tensors.size() + 1) * ggml_tensor_overhead(), nullptr, true};
    slab.context.reset(ggml_init(size));
    for (const ExpertTensor & tensor : layer.tensors) {
        slab.tensors.push_back(tensor.bias
                                   ? ggml_new_tensor_2d(slab.context.get(), tensor.type, tensor.ne0, n)
                                   : ggml_new_tensor_3d(slab.context.get(), tensor.type, tensor.ne0, tensor.ne1, n));
    }
    return slab;
}

uint64_t Pool::slab_bytes(const Layer & layer, int32_t n) const {
    if (n == 0) {
        return 0;
    }
    const size_t alignment = ggml_backend_buft_get_alignment(type());
    uint64_t sum = 0;
    for (const ExpertTensor & tensor : layer.tensors) {  // asked thousands of times: without a ggml context
        ggml_tensor shape = {};
        shape.type = tensor.type;
        const int64_t ne[] = {tensor.ne0, tensor.bias ? n : tensor.ne1, tensor.bias ? 1 : n, 1};
        std::copy(std::begin(ne), std::end(ne), shape.ne);
        shape.nb[0] = ggml_type_size(tensor.type);
        shape.nb[1] = ggml_row_size(tensor.type, tensor.ne0);
        shape.nb[2] = shape.nb[1] * static_cast<size_t>(ne[1]);
        shape.nb[3] = shape.nb[2] * static_cast<size_t>(ne[2]);
        sum += GGML_PAD(ggml_backend_buft_get_alloc_size(type(), &shape), alignment);
    }
    return sum;
}

std::map<int32_t, int32_t> Pool::allot(const Layers & layers, uint64_t bytes) const {
    std::map<int32_t, int32_t> slots;
    uint64_t used = 0;
    int32_t most = 0;
    const auto grow = [&](const Layer & layer, int32_t wanted) {
        int32_t & have = slots[layer.index];
        wanted = std::min(wanted, layer.experts());
        while (have < wanted) {
            const uint64_t more = slab_bytes(layer, have + 1) - slab_bytes(layer, have);
            if (used + more > bytes) {
                return;
            }
            used += more;
            ++have;
        }
    };
    const auto mine = [&](const Layer & layer) { return layer.device == name_ && !layer.tensors.empty(); };
    for (const auto & [index, layer] : layers) {
        if (mine(*layer)) {
            slots[index] = 0;
            most = std::max(most, layer->experts());
            grow(*layer, layer->policy.pinned_to_gpu());
        }
    }
    for (int32_t level = 1; level <= most; ++level) {
        for (const auto & [index, layer] : layers) {
            if (mine(*layer)) {
                grow(*layer, level);
            }
        }
    }
    return slots;
}

const char * Pool::unsupported_op(const Layer & layer, const Slab & slab) const {
    for (const LayerChain & part : layer.chains) {
        std::vector<ggml_tensor *> weights;
        for (const size_t index : part.tensors) {
            weights.push_back(slab.tensors[index]);
        }
        const auto clone = build_clone(part.chain, weights, {1, 1, true, false, false});
        for (int i = 0; clone && i < ggml_graph_n_nodes(clone->graph); ++i) {
            const ggml_tensor * node = ggml_graph_node(clone->graph, i);
            if (!is_view(node) && !ggml_backend_dev_supports_op(dev_, node)) {
                return ggml_op_desc(node);
            }
        }
    }
    return nullptr;
}

bool Pool::resize(Layer & layer, int32_t slots, const expert_device_policy & settings) {
    std::vector<CopyJob> dropped, ended;
    copier.withdraw(layer.index, dropped, ended);
    for (const CopyJob & job : dropped) {
        layer.policy.complete(job.slot, job.expert, false);
    }
    for (const CopyJob & job : ended) {
        end_copy(*this, layer, job);
    }
    if (slots == layer.policy.slots()) {
        return true;
    }
    std::vector<LayerPolicy::Move> moves;
    Slab next;
    bool given = true;
    if (slots > 0) {
        next = make_tensors(layer, slots);
        given = give_memory(
            next.buffer, [&] { return ggml_backend_alloc_ctx_tensors_from_buft(next.context.get(), type()); },
            name_ + " refused memory for " + std::to_string(slots) + " experts of layer " +
                std::to_string(layer.index) + ".");
        const char * op = given ? unsupported_op(layer, next) : nullptr;
        if (op != nullptr) {
            fail(EXPERT_DEVICE_UNSUPPORTED, name_ + " cannot compute " + op + ", which this model's experts need.");
            given = false;
        }
    }
    layer.policy.resize(settings, given ? slots : 0, moves);
    if (given && slots > 0 && !moves.empty() && !move_experts(backend_.get(), layer, next, moves)) {
        fail(EXPERT_DEVICE_DEVICE_FAILED, name_ + " failed while experts were moved on it.");
        std::vector<LayerPolicy::Move> none;
        layer.policy.resize(settings, 0, none);  // its table tells of slots that were never filled
        given = false;
    }
    clones.clear();  // they point into the old slab
    layer.slots = given ? std::move(next) : Slab{};
    return given;
}

bool Pool::resize_staging(uint64_t bytes, const Layers & layers) {
    if (bytes == staging_bytes()) {
        return true;
    }
    for (const auto & [index, layer] : layers) {
        if (layer->device == name_) {
            give_up_staging(*layer);
        }
    }
    staging_.reset();
    return bytes == 0 || give_memory(
                             staging_, [&] { return ggml_backend_buft_alloc_buffer(type(), bytes); },
                             name_ + " refused memory for the staging area.");
}

void Pool::give_up_staging(Layer & layer) {
    copier.stop_ahead();
    ahead.forget();
    clones.clear();
    layer.staging = {};
    layer.whole = {};
    ways.forget();
}

void Pool::lock_host(Layer & layer) {
    copier.stop_ahead();
    ahead.forget();
    locks.lock(layer);
}

void Pool::release(const Layers & layers, const expert_device_policy & settings) {
    for (const auto & [index, layer] : layers) {
        if (layer->device == name_) {
            resize(*layer, 0, settings);
            locks.unlock(*layer);
        }
    }
    resize_staging(0, layers);
}

size_t Pool::staging_bytes() const {
    return staging_ ? ggml_backend_buffer_get_size(staging_.get()) : 0;
}

int32_t Pool::prepare_staging(Layer & layer) {
    if (layer.unstreamable || staging_bytes() == 0) {
        return 0;
    }
    if (!layer.staging[0].tensors.empty()) {
        return static_cast<int32_t>(layer.tensors.front().bias ? layer.staging[0].tensors.front()->ne[1]
                                                               : layer.staging[0].tensors.front()->ne[2]);
    }
    const size_t alignment = ggml_backend_buft_get_alignment(type());
    const uint64_t half = staging_bytes() / 2 / alignment * alignment;
    int32_t n = 0;
    while (n < layer.experts() && slab_bytes(layer, n + 1) <= half) {
        ++n;
    }
    if (n == 0) {
        return 0;
    }
    for (size_t side = 0; side < layer.staging.size(); ++side) {
        layer.staging[side] = make_tensors(layer, n);
        place_in_staging(layer.staging[side], side * half);
    }
    if (const char * op = unsupported_op(layer, layer.staging[0])) {
        fail(EXPERT_DEVICE_UNSUPPORTED, name_ + " cannot compute " + op + ", which this model's experts need.");
        layer.staging = {};
        layer.unstreamable = true;
        return 0;
    }
    return n;
}

void Pool::place_in_staging(Slab & slab, size_t offset) {
    const size_t alignment = ggml_backend_buft_get_alignment(type());
    char * base = static_cast<char *>(ggml_backend_buffer_get_base(staging_.get()));
    for (ggml_tensor * tensor : slab.tensors) {
        ggml_backend_tensor_alloc(staging_.get(), tensor, base + offset);
        offset += GGML_PAD(ggml_backend_buft_get_alloc_size(type(), tensor), alignment);
    }
}

bool Pool::prepare_whole(Layer & layer) {
    if (!layer.whole.tensors.empty()) {
        return true;
    }
    const int32_t n = layer.experts() + 1;
    // The halves' tensors show that the device computes them.
    if (slab_bytes(layer, n) > staging_bytes() || prepare_staging(layer) == 0) {
        return false;
    }
    layer.whole = make_tensors(layer, n);
    place_in_staging(layer.whole, 0);
    return true;
}

bool Pool::reserve_working(const Layers & layers) {
    uint64_t most_a_pair = 1;
    for (const auto & [index, layer] : layers) {
        for (const LayerChain & part : layer->chains) {
            uint64_t a_pair = 0;
            for (const ChainNode & node : part.chain.nodes) {
                a_pair += is_view_op(node.op) ? 0 : ggml_row_size(node.type, node.ne0);
            }
            for (const ChainInput & input : part.chain.inputs) {
                a_pair += ggml_row_size(input.type, input.ne0);
            }
            most_a_pair = std::max(most_a_pair, a_pair);
        }
    }
    pairs_at_once_ = std::clamp<size_t>(most_working_bytes / most_a_pair, least_pairs_at_once, most_pairs_at_once);
    for (const auto & [index, layer] : layers) {
        if (layer->device != name_) {
            continue;
        }
        const Slab & slab =
            layer->policy.slots() > 0 || prepare_staging(*layer) == 0 ? layer->slots : layer->staging[0];
        for (const LayerChain & part : layer->chains) {
            std::vector<ggml_tensor *> weights;
            for (const size_t index_of : part.tensors) {
                if (index_of < slab.tensors.size()) {
                    weights.push_back(slab.tensors[index_of]);
                }
            }
            if (weights.size() != part.tensors.size()) {
                continue;  // no slots here, nothing to compute
            }
            const auto n = static_cast<int64_t>(pairs_at_once_);
            const int64_t whole_tokens = std::max<int64_t>(n / part.chain.top_k, 1);
            if (!clones.reserve(part.chain, weights, {1, n, false, false, false}) ||
                (part.chain.only_tail_leaves &&
                 !clones.reserve(part.chain, weights, {part.chain.top_k, whole_tokens, false, true, true}))) {
                fail(EXPERT_DEVICE_NO_MEMORY, name_ + " refused the memory to compute experts in.");
                return false;
            }
        }
    }
    return true;
}

void Pool::copy_in(Layer & layer, const std::vector<Insert> & inserts) {
    for (const Insert & insert : inserts) {
        copier.enqueue(
            {layer.index, insert.expert, insert.slot, layer.pieces(layer.slots, insert.expert, insert.slot)});
    }
}

std::vector<CopyJob> Pool::take_done(const Layers & layers) {
    std::vector<CopyJob> done;
    copier.take_done(done);
    for (const CopyJob & job : done) {
        const auto layer = layers.find(job.layer);
        if (layer != layers.end()) {
            end_copy(*this, *layer->second, job);
        }
    }
    return done;
}

}  // namespace expert_device
