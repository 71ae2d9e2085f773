// Pairs in, rows out: fills a clone's inputs, runs it on the CPU or on a pool's device, and writes the rows back.
#include "compute.h"
#include "expert_device.h"

#include <algorithm>
#include <cstring>

namespace expert_device {

namespace {

// Pairs up to which a device gets them as ranks of one token: products of matrix and vector.
constexpr size_t most_vector_pairs = 64;
// Most ranks of a CPU clone; its rows are converted in parallel over ranks.
constexpr int64_t most_cpu_ranks = 8;

const char * row_of(const ggml_tensor * input, const Pair & pair) {
    const auto rank = static_cast<size_t>(input->ne[1] > 1 ? pair.rank : 0);
    return static_cast<const char *>(input->data) + static_cast<size_t>(pair.token) * input->nb[2] +
           rank * input->nb[1];
}

// The rows of one input for the first `n` pairs.
void gather(const ggml_tensor * input, const std::vector<Pair> & pairs, size_t n, char * to) {
    const size_t bytes = ggml_row_size(input->type, input->ne[0]);
    for (size_t i = 0; i < n; ++i) {
        std::memcpy(to + i * bytes, row_of(input, pairs[i]), bytes);
    }
}

bool shares_row(const CloneShape & shape, const ChainInput & input) {
    return shape.one_token && !input.per_pair;
}

// Most pairs that one expert has.
int64_t most_of_one(const std::vector<Pair> & pairs, int32_t experts) {
    static thread_local std::vector<int32_t> counts;
    counts.assign(static_cast<size_t>(experts), 0);
    int32_t most = 0;
    for (const Pair & pair : pairs) {
        most = std::max(most, ++counts[static_cast<size_t>(pair.expert)]);
    }
    return most;
}

// The CPU's kernels have room for as many rows of one expert as the clone has tokens. Nothing is padded: one row
// more of an expert may be computed by another kernel, with other last bits.
CloneShape cpu_shape(const Split & split, const std::vector<Pair> & pairs) {
    const auto n = static_cast<int64_t>(pairs.size());
    const int64_t most = most_of_one(pairs, split.experts);
    if (split.tokens() == 1 && most == 1) {
        return {n, 1, true, false, false};
    }
    int64_t ranks = std::min(most_cpu_ranks, std::max<int64_t>(split.top_k(), 1));
    for (; ranks > 1; --ranks) {
        if (n % ranks == 0 && n / ranks >= most) {
            return {ranks, n / ranks, false, false, false};
        }
    }
    return {1, n, false, false, false};
}

// CUDA's kernels for weights that are not quantised take an expert once a token.
bool may_repeat(const Split & split, const std::vector<ggml_tensor *> & weights, const std::vector<int32_t> & places) {
    const auto & nodes = split.chain.nodes;
    const bool quantised = std::all_of(nodes.begin(), nodes.end(), [&](const ChainNode & node) {
        return node.op != GGML_OP_MUL_MAT_ID ||
               ggml_is_quantized(weights[static_cast<size_t>(node.src[0].index)]->type);
    });
    if (quantised) {
        return true;
    }
    std::vector<int32_t> sorted = places;
    std::sort(sorted.begin(), sorted.end());
    return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

CloneShape device_shape(const Split & split, const std::vector<ggml_tensor *> & weights,
                        const std::vector<int32_t> & places) {
    const size_t n = places.size();
    if (n <= most_vector_pairs && may_repeat(split, weights, places)) {
        return {static_cast<int64_t>(n), 1, split.tokens() == 1, false, false};
    }
    return {1, static_cast<int64_t>(n), false, false, false};
}

}  // namespace

bool read_pairs(const Split & split, std::vector<Pair> & pairs) {
    pairs.clear();
    const ggml_tensor * ids = split.ids;
    const char * base = static_cast<const char *>(ids->data);
    for (int64_t token = 0; token < ids->ne[1]; ++token) {
        for (int64_t rank = 0; rank < ids->ne[0]; ++rank) {
            int32_t expert = 0;
            std::memcpy(&expert,
                        base + static_cast<size_t>(token) * ids->nb[1] + static_cast<size_t>(rank) * ids->nb[0],
                        sizeof expert);
            if (expert < 0 || expert >= split.experts) {
                return false;
            }
            pairs.push_back({static_cast<int32_t>(token), static_cast<int32_t>(rank), expert});
        }
    }
    return true;
}

ggml_status compute_on_cpu(Context & context, const Split & split, const std::vector<Pair> & pairs, Rows & rows) {
    const CloneShape shape = cpu_shape(split, pairs);
    std::vector<ggml_tensor *> weights;
    for (const ggml_tensor * weight : split.weights) {
        weights.push_back(const_cast<ggml_tensor *>(weight));
    }
    Clone * clone = context.cpu_clones->get(split.chain, weights, shape);
    if (clone == nullptr) {
        return GGML_STATUS_ALLOC_FAILED;
    }
    for (size_t i = 0; i < split.inputs.size(); ++i) {
        gather(split.inputs[i], pairs, shares_row(shape, split.chain.inputs[i]) ? 1 : pairs.size(),
               static_cast<char *>(clone->inputs[i]->data));
    }
    auto * ids = static_cast<int32_t *>(clone->ids->data);
    for (size_t i = 0; i < pairs.size(); ++i) {
        ids[i] = pairs[i].expert;
    }
    rows.pairs = pairs;
    rows.data.clear();
    for (const ggml_tensor * output : clone->outputs) {
        rows.data.push_back(static_cast<const char *>(output->data));
    }
    return ggml_backend_graph_compute(context.cpu.get(), clone->graph);
}

bool launch(Pool & pool, HostArena & arena, const Split & split, const std::vector<ggml_tensor *> & weights,
            const std::vector<Pair> & pairs, const std::vector<int32_t> & places, Rows & rows) {
    if (weights.empty()) {
        return false;
    }
    const CloneShape shape = device_shape(split, weights, places);
    try {
        Clone * clone = pool.clones.get(split.chain, weights, shape);
        if (clone == nullptr) {
            pool.out_of_memory = true;
            return false;
        }
        for (size_t i = 0; i < split.inputs.size(); ++i) {
            const size_t n = shares_row(shape, split.chain.inputs[i]) ? 1 : pairs.size();
            const size_t bytes = n * ggml_row_size(split.inputs[i]->type, split.inputs[i]->ne[0]);
            char * host = arena.take(bytes);
            gather(split.inputs[i], pairs, n, host);
            ggml_backend_tensor_set_async(pool.backend(), clone->inputs[i], host, 0, bytes);
        }
        const size_t ids_bytes = places.size() * sizeof(int32_t);
        char * ids = arena.take(ids_bytes);
        std::memcpy(ids, places.data(), ids_bytes);
        ggml_backend_tensor_set_async(pool.backend(), clone->ids, ids, 0, ids_bytes);
        if (ggml_backend_graph_compute_async(pool.backend(), clone->graph) != GGML_STATUS_SUCCESS) {
            return false;
        }
        rows.pairs = pairs;
        rows.data.clear();
        for (const ggml_tensor * output : clone->outputs) {
            char * host = arena.take(ggml_nbytes(output));
            ggml_backend_tensor_get_async(pool.backend(), output, host, 0, ggml_nbytes(output));
            rows.data.push_back(host);
        }
        return true;
    } catch (...) {  // backends throw types of their own when a device is lost or full
        return false;
    }
}

void scatter(const Split & split, const Rows & rows) {
    for (size_t o = 0; o < split.outputs.size(); ++o) {
        ggml_tensor * output = split.outputs[o];
        const size_t bytes = ggml_row_size(output->type, output->ne[0]);
        for (size_t i = 0; i < rows.pairs.size(); ++i) {
            const Pair & pair = rows.pairs[i];
            std::memcpy(static_cast<char *>(output->data) + static_cast<size_t>(pair.token) * output->nb[2] +
                            static_cast<size_t>(pair.rank) * output->nb[1],
                        rows.data[o] + i * bytes, bytes);
        }
    }
}

}  // namespace expert_device
