// What one scheduler split computes, as data: the ops of an expert layer's chain, without tensors.
#pragma once

#include "ggml-backend-impl.h"
#include "ggml.h"

#include <array>
#include <cstdint>
#include <vector>

namespace expert_device {

// Ops that compute nothing.
inline bool is_view_op(ggml_op op) {
    return op == GGML_OP_VIEW || op == GGML_OP_RESHAPE;
}

inline bool is_view(const ggml_tensor * t) {
    return is_view_op(t->op);
}

// Where an op's operand comes from.
struct Operand {
    enum Kind : uint8_t { none, node, external, weight, ids };
    Kind kind = none;
    int16_t index = 0;

    bool operator==(const Operand & other) const { return kind == other.kind && index == other.index; }
};

// One op over (token, expert) pairs; its result is [ne0, top_k, tokens].
struct ChainNode {
    ggml_op op = GGML_OP_NONE;
    ggml_type type = GGML_TYPE_F32;
    int64_t ne0 = 0;
    size_t view_offset = 0;  // VIEW only: bytes into a row
    bool output = false;     // read by the tail or outside the split
    std::array<int32_t, GGML_MAX_OP_PARAMS / sizeof(int32_t)> params{};
    std::array<Operand, 3> src{};

    bool operator==(const ChainNode & other) const;
};

// What is computed before the split and read by it.
struct ChainInput {
    int64_t ne0 = 0;
    ggml_type type = GGML_TYPE_F32;
    bool per_pair = false;  // [ne0, top_k, tokens], else [ne0, 1, tokens]

    bool operator==(const ChainInput & other) const {
        return ne0 == other.ne0 && type == other.type && per_pair == other.per_pair;
    }
};

// The sum over a token's experts: each step adds two of (rank of the last output node) or earlier steps.
struct TailStep {
    int32_t left_rank = -1, left_step = -1;
    int32_t right_rank = -1, right_step = -1;  // both -1: a copy of the left (top-1)

    bool operator==(const TailStep & other) const {
        return left_rank == other.left_rank && left_step == other.left_step && right_rank == other.right_rank &&
               right_step == other.right_step;
    }
};

// The chain of one split. Equal templates compute the same; the tensors may be others with every graph.
struct ChainTemplate {
    std::vector<ChainNode> nodes;
    std::vector<ChainInput> inputs;
    std::vector<TailStep> tail;
    int32_t tail_node = -1;         // whose ranks the tail adds
    bool only_tail_leaves = false;  // nothing but the tail's end is read outside the split
    int32_t weights = 0;
    int64_t top_k = 0;

    bool operator==(const ChainTemplate & other) const;
};

// A split of a running graph, matched to its template. Pointers live as long as the graph.
struct Split {
    ChainTemplate chain;
    int32_t layer = -1;
    int32_t experts = 0;
    const ggml_tensor * first_weight = nullptr;     // of the first product
    const ggml_tensor * ids = nullptr;              // i32 [top_k, tokens], often a strided view
    std::vector<const ggml_tensor *> weights;       // by weight index; the last dimension is the expert
    std::vector<const ggml_tensor *> inputs;        // by input index
    std::vector<ggml_tensor *> outputs;             // pair nodes with `output`, in order of nodes
    int32_t tail_begin = 0;                         // graph position of the first node after the chain
    ggml_tensor * tail_end = nullptr;               // null without a tail
    const ggml_tensor * routing_weights = nullptr;  // f32 [1, top_k, tokens] where the weighting is in the split
    const void * noted_in = nullptr;                // the layer's state that knows this chain
    bool complete = false;  // understood in full: it may be computed in parts. Else only the graph itself may.

    int64_t tokens() const { return ids->ne[1]; }
    int64_t top_k() const { return ids->ne[0]; }
    void clear();
};

// Whether the device computes `op`: an expert chain's op, by its operands.
bool claims(const ggml_tensor * op);

// Reads a split of the scheduler. `split.layer` stays -1 where it holds no expert layer.
void read_split(const ggml_cgraph * graph, Split & split);

}  // namespace expert_device
