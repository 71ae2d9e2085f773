// One split of the scheduler: who computes which pairs, the GPU launched first, the CPU meanwhile, rows put back.
#include "compute.h"
#include "expert_device.h"
#include "ggml-impl.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>

namespace expert_device {

namespace {

// Tokens up to which the sum over experts is added up here: a graph of the CPU backend costs more than it.
constexpr int64_t most_tokens_summed_here = 4;
// Bytes of copies that may wait in the background; beyond it nothing more is inserted, so that what is
// evicted for them is not missing for long.
constexpr uint64_t most_waiting_bytes = uint64_t{256} << 20;

// Ids outside 0 … experts - 1 (padding) make a split that is left to the CPU backend as it stands.
bool read_pairs(const Split & split, std::vector<Pair> & pairs) {
    pairs.clear();
    const ggml_tensor * ids = split.ids;
    const char * base = static_cast<const char *>(ids->data);
    for (int64_t token = 0; token < ids->ne[1]; ++token) {
        for (int64_t rank = 0; rank < ids->ne[0]; ++rank) {
            int32_t expert = 0;
            std::memcpy(&expert, base + static_cast<size_t>(token) * ids->nb[1] + static_cast<size_t>(rank) * ids->nb[0],
                        sizeof expert);
            if (expert < 0 || expert >= split.experts) {
                return false;
            }
            pairs.push_back({static_cast<int32_t>(token), static_cast<int32_t>(rank), expert});
        }
    }
    return true;
}

// Graphs that are remembered as read; llama.cpp keeps few alive at a time.
constexpr size_t most_splits_known = 2048;

Split & known_split(Context & context, const ggml_cgraph * graph) {
    if (graph->uid == 0) {
        read_split(graph, context.unnamed_split);
        return context.unnamed_split;
    }
    if (context.splits.size() >= most_splits_known && context.splits.count(graph->uid) == 0) {
        context.splits.clear();
    }
    const auto [place, is_new] = context.splits.try_emplace(graph->uid);
    if (is_new) {
        read_split(graph, place->second);
    }
    return place->second;
}

class SplitComputer {
  public:
    SplitComputer(Context & context, ggml_cgraph * graph)
        : context_(context), graph_(graph), split_(known_split(context, graph)), phase_(context.phase.load()) {}

    ggml_status run() {
        const uint64_t begin = now_ns();
        context_.split = &split_;
        if (split_.layer < 0) {
            return whole_on_cpu();
        }
        std::lock_guard<std::mutex> lock(context_.mutex);
        const bool routed = read_pairs(split_, context_.pairs);
        apply_pending(context_);
        layer_ = &layer();
        read_weights();  // their memory may be given to a later result of the split
        pool_ = routed && split_.complete ? usable_pool() : nullptr;
        facts_.phase = phase_;
        facts_.tokens = static_cast<int32_t>(split_.tokens());
        facts_.whole_layer = first_part();
        facts_.new_batch = facts_.whole_layer && (context_.last_layer < 0 || split_.layer <= context_.last_layer);
        facts_.misses = static_cast<int32_t>(context_.pairs.size());
        const ggml_status status = pool_ != nullptr ? in_lanes() : whole_on_cpu();
        if (status != GGML_STATUS_SUCCESS) {
            return status;  // an aborted batch was not routed: it counts when it is computed again
        }
        facts_.total_ns = now_ns() - begin;
        if (phase_ != EXPERT_DEVICE_IGNORE && routed) {
            count();
        }
        context_.last_layer = split_.layer;
        return status;
    }

  private:
    Context & context_;
    ggml_cgraph * graph_;
    Split & split_;
    const int32_t phase_;
    Layer * layer_ = nullptr;
    Pool * pool_ = nullptr;
    SplitFacts facts_;

    ggml_status whole_on_cpu() {
        const uint64_t begin = now_ns();
        const ggml_status status = ggml_backend_graph_compute(context_.cpu.get(), graph_);
        facts_.cpu_ns += now_ns() - begin;
        return status;
    }

    // The layer's state; new tensors and chains are noted.
    Layer & layer() {
        auto & found = context_.layers[split_.layer];
        if (!found || found->experts() != split_.experts) {
            found = std::make_unique<Layer>(split_.layer, split_.experts);
            const auto own = context_.layer_devices.find(split_.layer);
            found->device = own != context_.layer_devices.end() ? own->second : context_.default_device;
        }
        if (split_.complete && split_.noted_in != found.get()) {
            note_chain(*found);
            split_.noted_in = found.get();
        }
        context_.routing.meet(split_.layer, split_.experts);
        return *found;
    }

    void note_chain(Layer & layer) {
        for (const LayerChain & known : layer.chains) {
            if (known.tensors.size() == split_.weights.size() && layer.tensors[known.tensors.front()].tensor == split_.weights.front() &&
                known.chain == split_.chain) {
                return;
            }
        }
        LayerChain part{split_.chain, {}};
        for (size_t w = 0; w < split_.weights.size(); ++w) {
            const ggml_tensor * weight = split_.weights[w];
            size_t index = 0;
            while (index < layer.tensors.size() && layer.tensors[index].tensor != weight) {
                ++index;
            }
            if (index == layer.tensors.size()) {
                layer.tensors.push_back(expert_tensor(weight, is_bias(w)));
            }
            part.tensors.push_back(index);
        }
        if (layer.chains.empty()) {  // with all experts in a warm-up this is more than top-k; the next batch corrects it
            layer.used = static_cast<int32_t>(split_.top_k());
        }
        layer.used = std::min(layer.used, static_cast<int32_t>(split_.top_k()));
        layer.chains.push_back(std::move(part));
    }

    bool is_bias(size_t weight) const {
        for (const ChainNode & node : split_.chain.nodes) {
            if (node.op == GGML_OP_ADD_ID && node.src[1].kind == Operand::weight && node.src[1].index == static_cast<int>(weight)) {
                return true;
            }
        }
        return false;
    }

    // A layer whose chain is cut has several splits a batch: the one with the tensor that was met first begins it.
    bool first_part() const {
        return layer_->tensors.empty() || split_.weights.empty() || layer_->tensors.front().tensor == split_.weights.front();
    }

    Pool * usable_pool() {
        const auto found = context_.pools.find(layer_->device);
        if (found == context_.pools.end() || !found->second->usable()) {
            return nullptr;
        }
        Pool & pool = *found->second;
        take_copies(context_, pool);
        const bool has_slots = layer_->policy.slots() > 0 && layer_->slots.tensors.size() == layer_->tensors.size();
        return pool.usable() && (has_slots || pool.staging_bytes() > 0) ? &pool : nullptr;
    }

    // ---- in lanes ----------------------------------------------------------------------------

    ggml_status in_lanes() {
        static thread_local Division division;
        if (context_.settings.stream == EXPERT_DEVICE_STREAM_AUTO && pool_->staging_bytes() > 0 && !pool_->rates.known) {
            measure_rates(context_, *layer_, *pool_);
        }
        divide(context_, *layer_, *pool_, phase_, division);
        count_hits();
        if (division.resident.empty() && division.streamed.empty()) {
            return whole_on_cpu();
        }
        pool_->arena.reset();
        pool_->stream_arena.reset();
        const bool all_resident = division.resident.size() == context_.pairs.size();
        ggml_status status = GGML_STATUS_SUCCESS;
        const bool done = all_resident && split_.chain.only_tail_leaves ? whole_on_device() : mixed(division, status);
        if (status != GGML_STATUS_SUCCESS) {
            return status;
        }
        if (!done) {
            pool_->fail(EXPERT_DEVICE_DEVICE_FAILED, pool_->name() + " failed while it computed experts; the processor computes them all now.");
            facts_.misses = static_cast<int32_t>(context_.pairs.size());
            facts_.hits = facts_.streamed = 0;
            return whole_on_cpu();
        }
        return status;
    }

    // A hit is a pair whose expert was in the pool, whoever computes it.
    void count_hits() {
        int32_t hits = 0;
        for (const Pair & pair : context_.pairs) {
            hits += layer_->policy.ready_slot(pair.expert) >= 0 ? 1 : 0;
        }
        facts_.hits = hits;
        facts_.misses -= hits;
    }

    std::vector<int32_t> slots_of(const std::vector<Pair> & pairs) const {
        std::vector<int32_t> slots(pairs.size());
        for (size_t i = 0; i < pairs.size(); ++i) {
            slots[i] = layer_->policy.ready_slot(pairs[i].expert);
        }
        return slots;
    }

    // Every pair is resident: the split's own graph over slots, the sum over experts included.
    bool whole_on_device() {
        const uint64_t begin = now_ns();
        try {
            const CloneShape shape{split_.top_k(), split_.tokens(), false, true, true};
            Clone * clone = pool_->clones.get(split_.chain, layer_->in_order(layer_->slots, split_.weights), shape);
            if (clone == nullptr) {
                return false;
            }
            for (size_t i = 0; i < split_.inputs.size(); ++i) {
                upload_input(*clone, i);
            }
            const std::vector<int32_t> slots = slots_of(context_.pairs);
            char * ids = pool_->arena.take(slots.size() * sizeof(int32_t));
            std::memcpy(ids, slots.data(), slots.size() * sizeof(int32_t));
            ggml_backend_tensor_set_async(pool_->backend(), clone->ids, ids, 0, slots.size() * sizeof(int32_t));
            const uint64_t launched = now_ns();
            facts_.gather_ns += launched - begin;
            if (ggml_backend_graph_compute_async(pool_->backend(), clone->graph) != GGML_STATUS_SUCCESS) {
                return false;
            }
            ggml_backend_tensor_get_async(pool_->backend(), clone->tail_end(), split_.tail_end->data, 0, ggml_nbytes(split_.tail_end));
            ggml_backend_synchronize(pool_->backend());
            facts_.gpu_ns += now_ns() - launched;
            facts_.wait_ns += now_ns() - launched;
            return true;
        } catch (...) {  // as in `launch`
            return false;
        }
    }

    void upload_input(const Clone & clone, size_t index) {
        const ggml_tensor * input = split_.inputs[index];
        const size_t row = ggml_row_size(input->type, input->ne[0]);
        const size_t bytes = ggml_nbytes(clone.inputs[index]);
        const char * from = static_cast<const char *>(input->data);
        if (!ggml_is_contiguous(input)) {
            char * packed = pool_->arena.take(bytes);
            for (int64_t token = 0; token < input->ne[2]; ++token) {
                for (int64_t rank = 0; rank < input->ne[1]; ++rank) {
                    std::memcpy(packed + static_cast<size_t>(token * input->ne[1] + rank) * row,
                                from + static_cast<size_t>(token) * input->nb[2] + static_cast<size_t>(rank) * input->nb[1], row);
                }
            }
            from = packed;
        }
        ggml_backend_tensor_set_async(pool_->backend(), clone.inputs[index], from, 0, bytes);
    }

    bool mixed(const Division & division, ggml_status & status) {
        const uint64_t begin = now_ns();
        std::vector<Rows> rows;
        bool ok = true;
        if (!division.resident.empty()) {
            ok = launch_resident(division.resident, rows);
        }
        const uint64_t launched = now_ns();
        facts_.gather_ns += launched - begin;
        std::vector<Rows> streamed;
        bool streamed_ok = true;
        const bool streams = ok && !division.streamed.empty();
        if (streams) {
            pool_->copier.start_task([&] {
                streamed_ok = stream(*pool_, *layer_, split_, division.streamed, streamed, facts_.streamed_bytes);
            });
        }
        Rows on_cpu;
        if (ok && !division.on_cpu.empty()) {
            const uint64_t cpu_begin = now_ns();
            status = compute_on_cpu(context_, split_, division.on_cpu, on_cpu);
            facts_.cpu_ns += now_ns() - cpu_begin;
        }
        const uint64_t waiting = now_ns();
        if (streams) {
            pool_->copier.finish_task();
        }
        ok = synchronize() && ok && streamed_ok;
        const uint64_t ready = now_ns();
        facts_.wait_ns += ready - waiting;
        facts_.gpu_ns += ready - launched;
        if (status != GGML_STATUS_SUCCESS || !ok) {
            return ok;
        }
        facts_.streamed = static_cast<int32_t>(std::count_if(division.streamed.begin(), division.streamed.end(), [&](const Pair & pair) {
            return layer_->policy.ready_slot(pair.expert) < 0;
        }));
        for (const Rows & part : rows) {
            scatter(split_, part);
        }
        for (const Rows & part : streamed) {
            scatter(split_, part);
        }
        if (!division.on_cpu.empty()) {
            scatter(split_, on_cpu);
        }
        status = sum_over_experts();
        facts_.scatter_ns += now_ns() - ready;
        return true;
    }

    // In parts of so many pairs that working memory stays small; the parts follow each other on the device.
    bool launch_resident(const std::vector<Pair> & pairs, std::vector<Rows> & rows) {
        const std::vector<ggml_tensor *> weights = layer_->in_order(layer_->slots, split_.weights);
        for (size_t begin = 0; begin < pairs.size(); begin += most_pairs_at_once) {
            const size_t end = std::min(pairs.size(), begin + most_pairs_at_once);
            const std::vector<Pair> part(pairs.begin() + static_cast<std::ptrdiff_t>(begin), pairs.begin() + static_cast<std::ptrdiff_t>(end));
            rows.emplace_back();
            if ((begin > 0 && !synchronize()) || !launch(*pool_, pool_->arena, split_, weights, part, slots_of(part), rows.back())) {
                return false;
            }
        }
        return true;
    }

    bool synchronize() {
        try {
            ggml_backend_synchronize(pool_->backend());
            return true;
        } catch (...) {  // as in `launch`
            return false;
        }
    }

    // ---- the sum over experts ----------------------------------------------------------------

    ggml_status sum_over_experts() {
        if (split_.tail_end == nullptr) {
            return GGML_STATUS_SUCCESS;
        }
        if (split_.tokens() <= most_tokens_summed_here && split_.chain.only_tail_leaves && simple_tail()) {
            for (int64_t token = 0; token < split_.tokens(); ++token) {
                add_up(token);
            }
            return GGML_STATUS_SUCCESS;
        }
        ggml_cgraph tail = *graph_;
        tail.nodes = graph_->nodes + split_.tail_begin;
        tail.n_nodes = graph_->n_nodes - split_.tail_begin;
        tail.n_leafs = 0;
        tail.uid = 0;
        return ggml_backend_graph_compute(context_.cpu.get(), &tail);
    }

    // ((rank + rank) + rank) …, or the copy of one rank, in f32.
    bool simple_tail() const {
        const std::vector<TailStep> & tail = split_.chain.tail;
        for (size_t i = 0; i < tail.size(); ++i) {
            const bool follows = i == 0 ? tail[i].left_rank >= 0 : tail[i].left_step == static_cast<int32_t>(i) - 1;
            const bool adds = tail[i].right_rank >= 0 || (tail.size() == 1 && tail[i].right_step < 0);
            if (!follows || !adds) {
                return false;
            }
        }
        return split_.tail_end->type == GGML_TYPE_F32 && split_.tail_end->nb[0] == sizeof(float);
    }

    void add_up(int64_t token) {
        const ggml_tensor * pairs = split_.outputs.front();
        const auto rank_row = [&](int32_t rank) {
            return reinterpret_cast<const float *>(static_cast<const char *>(pairs->data) + static_cast<size_t>(token) * pairs->nb[2] +
                                                   static_cast<size_t>(rank) * pairs->nb[1]);
        };
        static thread_local std::vector<float> sum;
        const float * first = rank_row(split_.chain.tail.front().left_rank);
        const auto n = static_cast<size_t>(pairs->ne[0]);
        sum.assign(first, first + n);
        for (const TailStep & step : split_.chain.tail) {
            if (step.right_rank >= 0) {
                const float * row = rank_row(step.right_rank);
                for (size_t i = 0; i < n; ++i) {
                    sum[i] += row[i];
                }
            }
        }
        // Written last: the result may lie where the rows did.
        std::memcpy(static_cast<char *>(split_.tail_end->data) + static_cast<size_t>(token) * split_.tail_end->nb[1], sum.data(), n * sizeof(float));
    }

    // ---- what is learnt from it --------------------------------------------------------------

    void count() {
        if (!facts_.whole_layer) {
            facts_.hits = facts_.misses = facts_.streamed = 0;  // its pairs are counted with the layer's first split
        }
        context_.facts.add(facts_);
        if (!facts_.whole_layer) {
            return;
        }
        context_.routing.add(split_.layer, split_.experts, phase_, context_.pairs.data(), context_.pairs.size());
        if (phase_ != EXPERT_DEVICE_DECODE) {
            return;  // a prompt says little of what the answer will need
        }
        if (facts_.new_batch) {
            context_.decoded_tokens += static_cast<uint32_t>(context_.last_batch_tokens);
            context_.last_batch_tokens = facts_.tokens;
        }
        step_policy();
    }

    void step_policy() {
        const auto top_k = static_cast<size_t>(split_.top_k());
        static thread_local std::vector<int32_t> experts;
        static thread_local std::vector<float> weights;
        static thread_local std::vector<Insert> inserts;
        inserts.clear();
        Pool * pool = pool_ != nullptr && pool_->usable() ? pool_ : nullptr;
        expert_device_policy settings = context_.settings;
        const bool waits = settings.wait_for_copies != 0;
        if (pool == nullptr || (!waits && pool->copier.waiting_bytes() > most_waiting_bytes)) {
            settings.insert_cap = 0;
        }
        for (int64_t token = 0; token < split_.tokens(); ++token) {
            experts.clear();
            weights.clear();
            for (size_t rank = 0; rank < top_k; ++rank) {
                const size_t pair = static_cast<size_t>(token) * top_k + rank;
                const int32_t expert = context_.pairs[pair].expert;
                if (std::find(experts.begin(), experts.end(), expert) == experts.end()) {
                    experts.push_back(expert);
                    weights.push_back(routing_weight(pair));
                }
            }
            const auto n = static_cast<int32_t>(experts.size());
            context_.facts.trace(split_.layer, experts.data(), weights.data(), n, context_.decoded_tokens + static_cast<uint32_t>(token));
            const size_t before = inserts.size();
            layer_->policy.step(settings, experts.data(), weights.data(), n, inserts);
            for (size_t i = before; i < inserts.size(); ++i) {
                context_.facts.add_insert(phase_, layer_->expert_bytes(), inserts[i].evicted >= 0);
            }
            if (pool != nullptr && waits && inserts.size() > before) {
                pool->copy_in(*layer_, {inserts.begin() + static_cast<std::ptrdiff_t>(before), inserts.end()});
                pool->copier.wait_for(layer_->index);
                take_copies(context_, *pool);
            }
        }
        if (pool != nullptr && !waits) {
            pool->copy_in(*layer_, inserts);
        }
        context_.facts.publish(split_.layer, layer_->policy);
    }

    void read_weights() {
        context_.weights.clear();
        const ggml_tensor * from = split_.routing_weights;
        if (from == nullptr || phase_ != EXPERT_DEVICE_DECODE) {
            return;
        }
        for (const Pair & pair : context_.pairs) {
            float weight = 0;
            std::memcpy(&weight, static_cast<const char *>(from->data) + static_cast<size_t>(pair.token) * from->nb[2] +
                                     static_cast<size_t>(pair.rank) * from->nb[1], sizeof weight);
            context_.weights.push_back(weight);
        }
    }

    float routing_weight(size_t pair) const {
        return context_.weights.empty() ? std::numeric_limits<float>::quiet_NaN() : context_.weights[pair];
    }
};

}  // namespace

ggml_status compute_graph(Context & context, ggml_cgraph * graph) {
    try {
        const ggml_status status = SplitComputer(context, graph).run();
        if (status == GGML_STATUS_SUCCESS) {
            context.graphs.fetch_add(1, std::memory_order_relaxed);
            context.nodes.fetch_add(static_cast<uint64_t>(ggml_graph_n_nodes(graph)), std::memory_order_relaxed);
        }
        change_soon(context);
        return status;
    } catch (const std::exception &) {
        return GGML_STATUS_ALLOC_FAILED;  // llama.cpp ends the decode with an error
    }
}

}  // namespace expert_device
