// Pairs on the CPU whose experts may have to be read from the disk: what is in memory first, the rest as it comes.
#include "compute.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace expert_device {

namespace {

// One layer's visit to the disk; over at the end of its scope.
class Visit {
  public:
    Visit(Context & context, Layer & layer, const std::vector<Pair> & pairs, SplitFacts & facts)
        : lane(context.disk), facts_(facts) {
        lane.begin(layer, pairs, facts.phase == EXPERT_DEVICE_DECODE);
    }
    ~Visit() {
        DiskFacts its;
        try {
            lane.end(its);
        } catch (...) {  // no memory, and this may be another exception's way out; `begin` starts anew
        }
        facts_.cold_experts += its.experts;
        facts_.cold_reads += its.reads;
        facts_.cold_bytes += its.bytes;
        facts_.stall_ns += its.stall_ns;
    }
    Visit(const Visit &) = delete;
    Visit & operator=(const Visit &) = delete;

    DiskLane & lane;

  private:
    SplitFacts & facts_;
};

void choose(const std::vector<Pair> & pairs, const std::vector<uint8_t> & experts, std::vector<Pair> & out) {
    out.clear();
    std::copy_if(pairs.begin(), pairs.end(), std::back_inserter(out),
                 [&](const Pair & pair) { return experts[static_cast<size_t>(pair.expert)] != 0; });
}

// The next part is computed where these rows are: they are moved away.
void keep(const Split & split, Rows & rows, std::vector<char> & to) {
    size_t bytes = 0;
    for (const ggml_tensor * output : split.outputs) {
        bytes += ggml_row_size(output->type, output->ne[0]) * rows.pairs.size();
    }
    to.resize(bytes);
    char * at = to.data();
    for (size_t o = 0; o < split.outputs.size(); ++o) {
        const size_t n = ggml_row_size(split.outputs[o]->type, split.outputs[o]->ne[0]) * rows.pairs.size();
        std::memcpy(at, rows.data[o], n);
        rows.data[o] = at;
        at += n;
    }
}

ggml_status compute_parts(Context & context, DiskLane & lane, const Split & split, const std::vector<Pair> & pairs,
                          CpuRows & rows) {
    std::vector<Pair> part;
    std::vector<uint8_t> experts = lane.here();
    rows.parts.clear();
    while (true) {
        choose(pairs, experts, part);
        if (!part.empty()) {
            if (!rows.parts.empty()) {
                rows.kept.resize(std::max(rows.kept.size(), rows.parts.size()));
                keep(split, rows.parts.back(), rows.kept[rows.parts.size() - 1]);
            }
            rows.parts.emplace_back();
            const ggml_status status = compute_on_cpu(context, split, part, rows.parts.back());
            if (status != GGML_STATUS_SUCCESS) {
                return status;
            }
        }
        if (!lane.next(experts)) {
            return GGML_STATUS_FAILED;
        }
        if (experts.empty()) {
            return GGML_STATUS_SUCCESS;
        }
    }
}

}  // namespace

ggml_status compute_in_turn(Context & context, Layer & layer, const Split & split, const std::vector<Pair> & pairs,
                            SplitFacts & facts, CpuRows & rows) {
    if (!context.disk.on()) {
        rows.parts.clear();
        rows.parts.emplace_back();
        return compute_on_cpu(context, split, pairs, rows.parts.back());
    }
    Visit visit(context, layer, pairs, facts);
    return compute_parts(context, visit.lane, split, pairs, rows);
}

ggml_status compute_alone(Context & context, Layer & layer, ggml_cgraph * graph, const Split & split,
                          SplitFacts & facts) {
    static thread_local CpuRows rows;
    Visit visit(context, layer, context.pairs, facts);
    if (visit.lane.all_here() || !split.complete) {
        return visit.lane.bring_all() ? ggml_backend_graph_compute(context.cpu.get(), graph) : GGML_STATUS_FAILED;
    }
    const ggml_status status = compute_parts(context, visit.lane, split, context.pairs, rows);
    if (status != GGML_STATUS_SUCCESS) {
        return status;
    }
    for (const Rows & part : rows.parts) {
        scatter(split, part);
    }
    return sum_over_experts(context.cpu.get(), graph, split);
}

bool bring_experts(Context & context, Layer & layer, const std::vector<Pair> & pairs, SplitFacts & facts) {
    if (!context.disk.on() || pairs.empty()) {
        return true;
    }
    Visit visit(context, layer, pairs, facts);
    return visit.lane.bring_all();
}

}  // namespace expert_device
