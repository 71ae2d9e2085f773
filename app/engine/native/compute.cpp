// One split of the scheduler: who computes which pairs, the GPU launched first, the CPU meanwhile, rows put back.
#include "compute.h"
#include "expert_device.h"
#include "ggml-impl.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace expert_device {

namespace {

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
        const bool routed = read_pairs(split_, context_.pairs) && !context_.pairs.empty();
        apply_pending(context_);
        layer_ = meet_layer(context_, split_);
        if (layer_ == nullptr) {
            return whole_on_cpu();
        }
        read_routing_weights(context_, split_, phase_);  // their memory may be given to a later result of the split
        pool_ = routed && split_.complete ? usable_pool() : nullptr;
        facts_.phase = phase_;
        facts_.tokens = static_cast<int32_t>(split_.tokens());
        facts_.whole_layer = first_part();
        facts_.new_batch = facts_.whole_layer && (context_.last_layer < 0 || split_.layer <= context_.last_layer);
        facts_.misses = static_cast<int32_t>(context_.pairs.size());
        const bool tried =
            pool_ != nullptr && phase_ == EXPERT_DEVICE_PROMPT && split_.tokens() >= least_tokens_divided;
        if (tried && facts_.whole_layer) {
            pool_->trial.begin_split(split_.layer, split_.tokens(), begin);
        }
        if (facts_.new_batch) {
            context_.disk.begin_batch(context_.layers);
        }
        const ggml_status status = pool_ != nullptr ? in_lanes() : routed ? alone() : whole_on_cpu();
        if (tried) {
            pool_->trial.end_split(now_ns());
        }
        if (status != GGML_STATUS_SUCCESS) {
            return status;  // an aborted batch was not routed: it counts when it is computed again
        }
        facts_.total_ns = now_ns() - begin;
        if (phase_ != EXPERT_DEVICE_IGNORE && routed) {
            learn(context_, *layer_, pool_, split_, facts_);
        }
        context_.facts.end_split(facts_.new_batch);
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

    // Without a pool: experts may have to be read first.
    ggml_status alone() {
        if (!context_.disk.on()) {
            return whole_on_cpu();
        }
        const uint64_t begin = now_ns(), stalled = facts_.stall_ns;
        const ggml_status status = compute_alone(context_, *layer_, graph_, split_, facts_);
        facts_.cpu_ns += now_ns() - begin - (facts_.stall_ns - stalled);
        return status;
    }

    // A layer whose chain is cut has several splits a batch: the one that was met first begins it.
    bool first_part() const { return layer_->first_weight == split_.first_weight; }

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
        const uint64_t begin = now_ns();
        count_hits();
        // Large batches of a prompt: either way may be the faster one.
        const bool open = phase_ == EXPERT_DEVICE_PROMPT && split_.tokens() >= least_tokens_divided && may_be_whole();
        const bool always = context_.settings.stream == EXPERT_DEVICE_STREAM_ALWAYS;
        bool whole = open && (always || pool_->ways.whole_next(split_.tokens()));
        bool spoilt = whole;  // copying ahead was not on trial
        const bool first_time =
            whole && facts_.misses > 0 && !std::exchange(layer_->gathered, true);  // pages are mapped
        if (!whole) {
            if (context_.settings.stream == EXPERT_DEVICE_STREAM_AUTO && pool_->staging_bytes() > 0 &&
                !pool_->rates.tried) {
                measure_rates(context_, *layer_, *pool_);
                spoilt = true;
            }
            divide(context_, *layer_, *pool_, phase_, division);
            whole = facts_.misses == 0 && division.on_cpu.empty() && split_.chain.only_tail_leaves &&
                    context_.pairs.size() <= pool_->pairs_at_once();
        }
        if (spoilt) {
            pool_->trial.spoil();
        }
        const bool on_device = whole || !division.resident.empty() || !division.streamed.empty();
        pool_->out_of_memory = false;
        ggml_status status = GGML_STATUS_SUCCESS;
        if (on_device && !bring_copied(whole, division)) {
            return GGML_STATUS_FAILED;
        }
        const bool done = !on_device || (reset_arenas() && (whole ? whole_on_device() : mixed(division, status)));
        if (!on_device) {
            status = alone();
        }
        if (status != GGML_STATUS_SUCCESS) {
            return status;
        }
        if (open && done) {
            pool_->ways.took(split_.tokens(), whole, now_ns() - begin, whole ? first_time : spoilt);
        }
        if (!done) {
            if (pool_->out_of_memory) {
                pool_->fail(EXPERT_DEVICE_NO_MEMORY, pool_->name() + " has no working memory left for experts; "
                                                                     "the processor computes what does not fit.");
            } else {
                pool_->fail(EXPERT_DEVICE_DEVICE_FAILED, pool_->name() + " failed while it computed experts; "
                                                                         "the processor computes them all now.");
            }
            facts_.misses = static_cast<int32_t>(context_.pairs.size());
            facts_.hits = facts_.streamed = 0;
            return alone();
        }
        return status;
    }

    // What is copied to the device must be in main memory.
    bool bring_copied(bool whole, const Division & division) {
        if (!context_.disk.on()) {
            return true;
        }
        std::vector<Pair> copied;
        if (whole) {
            std::copy_if(context_.pairs.begin(), context_.pairs.end(), std::back_inserter(copied),
                         [&](const Pair & pair) { return layer_->policy.ready_slot(pair.expert) < 0; });
        } else {
            copied = division.streamed;
        }
        return bring_experts(context_, *layer_, copied, facts_);
    }

    bool reset_arenas() {
        try {
            pool_->arena.reset();
            pool_->stream_arena.reset();
            return true;
        } catch (...) {  // as in `launch`
            return false;
        }
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

    // Whether the device can compute the whole batch: from slots, or from all of the layer's experts brought together.
    // A second CPU backend gains nothing by copies within main memory.
    bool may_be_whole() {
        if (!split_.chain.only_tail_leaves) {
            return false;
        }
        if (facts_.misses == 0) {
            return true;
        }
        const bool streams = context_.settings.stream == EXPERT_DEVICE_STREAM_ALWAYS ||
                             (context_.settings.stream == EXPERT_DEVICE_STREAM_AUTO && !pool_->on_cpu());
        return streams && readable(*layer_) && pool_->prepare_whole(*layer_);
    }

    bool whole_on_device() {
        if (facts_.misses == 0) {
            return compute_whole(*pool_, split_, layer_->in_order(layer_->slots, split_.weights),
                                 slots_of(context_.pairs), facts_);
        }
        const uint64_t begin = now_ns();
        if (!gather_layer(*pool_, *layer_, context_.pairs, facts_.streamed_bytes)) {
            return false;
        }
        facts_.gather_ns += now_ns() - begin;
        facts_.streamed = facts_.misses;
        std::vector<int32_t> places(context_.pairs.size());
        std::transform(context_.pairs.begin(), context_.pairs.end(), places.begin(),
                       [](const Pair & pair) { return pair.expert; });
        return compute_whole(*pool_, split_, layer_->in_order(layer_->whole, split_.weights), places, facts_);
    }

    bool mixed(const Division & division, ggml_status & status) {
        const uint64_t begin = now_ns();
        std::vector<Rows> rows;
        DeviceWork work(pool_->backend());
        bool ok = true;
        if (!division.resident.empty()) {
            ok = launch_resident(division.resident, rows);
        }
        const uint64_t launched = now_ns();
        facts_.gather_ns += launched - begin;
        std::vector<Rows> streamed;
        bool streamed_ok = true;
        const bool streams = ok && !division.streamed.empty();
        Layer * next = streams ? layer_to_copy_ahead(context_, *layer_, *pool_, division, phase_) : nullptr;
        const auto stream_all = [&] {
            streamed_ok = stream(*pool_, *layer_, split_, division.streamed, next, streamed, facts_.streamed_bytes);
        };
        std::optional<TaskEnd> end;  // of the task that refers to this frame
        if (streams && !pool_->on_cpu()) {
            pool_->copier.start_task(stream_all);
            end.emplace(pool_->copier);
        }
        static thread_local CpuRows on_cpu;
        if (ok && !division.on_cpu.empty()) {
            const uint64_t cpu_begin = now_ns(), stalled = facts_.stall_ns;
            status = compute_in_turn(context_, *layer_, split_, division.on_cpu, facts_, on_cpu);
            facts_.cpu_ns += now_ns() - cpu_begin - (facts_.stall_ns - stalled);
        }
        const uint64_t waiting = now_ns();
        end.reset();
        if (streams && pool_->on_cpu()) {
            stream_all();
        }
        ok = work.wait() && ok && streamed_ok;
        const uint64_t ready = now_ns();
        facts_.wait_ns += ready - waiting;
        facts_.gpu_ns += ready - launched;
        if (status != GGML_STATUS_SUCCESS || !ok) {
            return ok;
        }
        if (next != nullptr && context_.settings.wait_for_copies != 0) {
            pool_->copier.wait_for_ahead();
        }
        facts_.streamed = static_cast<int32_t>(
            std::count_if(division.streamed.begin(), division.streamed.end(),
                          [&](const Pair & pair) { return layer_->policy.ready_slot(pair.expert) < 0; }));
        for (const Rows & part : rows) {
            scatter(split_, part);
        }
        for (const Rows & part : streamed) {
            scatter(split_, part);
        }
        for (size_t i = 0; i < on_cpu.parts.size() && !division.on_cpu.empty(); ++i) {
            scatter(split_, on_cpu.parts[i]);
        }
        status = sum_over_experts(context_.cpu.get(), graph_, split_);
        facts_.scatter_ns += now_ns() - ready;
        return true;
    }

    // In parts of so many pairs that working memory stays small; the parts follow each other on the device.
    bool launch_resident(const std::vector<Pair> & pairs, std::vector<Rows> & rows) {
        const std::vector<ggml_tensor *> weights = layer_->in_order(layer_->slots, split_.weights);
        for (size_t begin = 0; begin < pairs.size(); begin += pool_->pairs_at_once()) {
            const size_t end = std::min(pairs.size(), begin + pool_->pairs_at_once());
            const std::vector<Pair> part(pairs.begin() + static_cast<std::ptrdiff_t>(begin),
                                         pairs.begin() + static_cast<std::ptrdiff_t>(end));
            rows.emplace_back();
            if ((begin > 0 && !DeviceWork(pool_->backend()).wait()) ||
                !launch(*pool_, pool_->arena, split_, weights, part, slots_of(part), rows.back())) {
                return false;
            }
        }
        return true;
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
    } catch (...) {                       // our own lack of memory, or what a backend throws
        return GGML_STATUS_ALLOC_FAILED;  // llama.cpp ends the decode with an error
    }
}

}  // namespace expert_device
