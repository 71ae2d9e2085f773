// The sum over a token's experts, after their rows were put back.
#include "compute.h"
#include "ggml-impl.h"

#include <cstring>

namespace expert_device {

namespace {

// Tokens up to which it is added up here: a graph of the CPU backend costs more than that.
constexpr int64_t most_tokens_summed_here = 4;

// ((rank + rank) + rank) …, or the copy of one rank, in f32.
bool is_simple(const Split & split) {
    const std::vector<TailStep> & tail = split.chain.tail;
    for (size_t i = 0; i < tail.size(); ++i) {
        const bool follows = i == 0 ? tail[i].left_rank >= 0 : tail[i].left_step == static_cast<int32_t>(i) - 1;
        const bool adds = tail[i].right_rank >= 0 || (tail.size() == 1 && tail[i].right_step < 0);
        if (!follows || !adds) {
            return false;
        }
    }
    return split.tail_end->type == GGML_TYPE_F32 && split.tail_end->nb[0] == sizeof(float);
}

const ggml_tensor * summed_node(const Split & split) {
    size_t output = 0;
    for (int32_t node = 0; node < split.chain.tail_node; ++node) {
        output += split.chain.nodes[static_cast<size_t>(node)].output ? 1 : 0;
    }
    return split.outputs[output];
}

void add_up(const Split & split, const ggml_tensor * pairs, int64_t token) {
    const auto rank_row = [&](int32_t rank) {
        return reinterpret_cast<const float *>(static_cast<const char *>(pairs->data) +
                                               static_cast<size_t>(token) * pairs->nb[2] +
                                               static_cast<size_t>(rank) * pairs->nb[1]);
    };
    static thread_local std::vector<float> sum;
    const float * first = rank_row(split.chain.tail.front().left_rank);
    const auto n = static_cast<size_t>(pairs->ne[0]);
    sum.assign(first, first + n);
    for (const TailStep & step : split.chain.tail) {
        if (step.right_rank >= 0) {
            const float * row = rank_row(step.right_rank);
            for (size_t i = 0; i < n; ++i) {
                sum[i] += row[i];
            }
        }
    }
    // Written last: the result may lie where the rows did.
    std::memcpy(static_cast<char *>(split.tail_end->data) + static_cast<size_t>(token) * split.tail_end->nb[1],
                sum.data(), n * sizeof(float));
}

}  // namespace

ggml_status sum_over_experts(ggml_backend_t cpu, const ggml_cgraph * graph, const Split & split) {
    if (split.tail_end == nullptr) {
        return GGML_STATUS_SUCCESS;
    }
    if (split.tokens() <= most_tokens_summed_here && split.chain.only_tail_leaves && is_simple(split)) {
        const ggml_tensor * pairs = summed_node(split);
        for (int64_t token = 0; token < split.tokens(); ++token) {
            add_up(split, pairs, token);
        }
        return GGML_STATUS_SUCCESS;
    }
    ggml_cgraph tail = *graph;
    tail.nodes = graph->nodes + split.tail_begin;
    tail.n_nodes = graph->n_nodes - split.tail_begin;
    tail.n_leafs = 0;
    tail.uid = 0;
    return ggml_backend_graph_compute(cpu, &tail);
}

}  // namespace expert_device
