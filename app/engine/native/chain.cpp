// Which ops the device claims: an expert's chain from its first product to the sum over a token's experts.
//
// Every claimed op but that sum is row-wise over (token, expert) pairs, so a chain can be computed for any
// subset of pairs on any device. An op that is not known to be so is not claimed and llama.cpp
// computes it as it would without us.
#include "chain.h"

#include "expert_device.h"
#include "internal.h"
#include "weights.h"

namespace expert_device {

namespace {

// Deep enough for the longest chain llama.cpp builds (gated tanh units: 8 ops from product to product).
constexpr int max_depth = 16;

bool in_chain(const ggml_tensor * t, int depth);

// `pairs` times one value (or one row) a pair that comes from outside: routing weights, scales of experts.
bool scales_pairs(const ggml_tensor * pairs, const ggml_tensor * other, int depth) {
    return other->ne[1] == pairs->ne[1] && other->ne[2] == pairs->ne[2] && other->ne[3] == 1 &&
           (other->ne[0] == 1 || other->ne[0] == pairs->ne[0]) && in_chain(pairs, depth);
}

// True when `t` is computed, row by row, from products of expert tensors in our care.
bool in_chain(const ggml_tensor * t, int depth) {
    if (t == nullptr || depth > max_depth) {
        return false;
    }
    switch (t->op) {
        case GGML_OP_MUL_MAT_ID: return is_expert_weight(t->src[0]);
        case GGML_OP_ADD_ID: return is_expert_weight(t->src[1]) && in_chain(t->src[0], depth + 1);
        case GGML_OP_VIEW:
        case GGML_OP_RESHAPE:
        case GGML_OP_UNARY:
        case GGML_OP_CLAMP:
        case GGML_OP_SCALE:
        case GGML_OP_SQR: return in_chain(t->src[0], depth + 1);
        case GGML_OP_GLU:
            return in_chain(t->src[0], depth + 1) && (t->src[1] == nullptr || in_chain(t->src[1], depth + 1));
        case GGML_OP_MUL: return scales_pairs(t->src[0], t->src[1], depth + 1);
        default: return false;
    }
}

// A view of one rank of a chain's result, [ne0, tokens]: what the sum over experts adds up.
const ggml_tensor * ranked(const ggml_tensor * t) {
    if (t == nullptr || t->op != GGML_OP_VIEW) {
        return nullptr;
    }
    const ggml_tensor * pairs = t->src[0];
    const bool whole_rows = pairs != nullptr && !is_view(pairs) && t->ne[0] == pairs->ne[0] &&
                            t->ne[1] == pairs->ne[2] && t->ne[2] == 1 && t->nb[1] == pairs->nb[2] &&
                            t->view_offs % pairs->nb[1] == 0;
    return whole_rows && in_chain(pairs, 0) ? pairs : nullptr;
}

bool sums_ranks(const ggml_tensor * op) {
    if (op->op == GGML_OP_CONT) {
        return ranked(op->src[0]) != nullptr;
    }
    if (op->op != GGML_OP_ADD) {
        return false;
    }
    const ggml_tensor * pairs = ranked(op->src[1]);
    if (pairs == nullptr) {
        return false;
    }
    const ggml_tensor * left = op->src[0];
    // By induction: what is added to is the first rank, or a sum that was claimed itself.
    return (left->op == GGML_OP_ADD ? left->src[1] : left)->src[0] == pairs &&
           ranked(left->op == GGML_OP_ADD ? left->src[1] : left) != nullptr;
}

// The loader asks, with a buffer of no bytes, where a tensor should be kept.
bool is_question_of_loader(const ggml_tensor * weights) {
    return weights->buffer != nullptr && weights->buffer->size == 0;
}

}  // namespace

bool claims(const ggml_tensor * op) {
    if (op->op == GGML_OP_NONE || is_view(op)) {
        return true;  // no work: asked by the scheduler for placement only
    }
    if (op->op == GGML_OP_MUL_MAT_ID && is_question_of_loader(op->src[0]) && is_ours(op->src[0])) {
        return residency() == EXPERT_DEVICE_MAPPED || !cpu_would_repack(op);
    }
    if (op->op == GGML_OP_ADD_ID && op->src[0]->op == GGML_OP_NONE) {
        return is_ours(op->src[1]);  // the loader asks for a bias tensor with operands that have no history
    }
    return in_chain(op, 0) || sums_ranks(op);
}

bool ChainNode::operator==(const ChainNode & other) const {
    return op == other.op && type == other.type && ne0 == other.ne0 && view_offset == other.view_offset &&
           output == other.output && params == other.params && src == other.src;
}

bool ChainTemplate::operator==(const ChainTemplate & other) const {
    return nodes == other.nodes && inputs == other.inputs && tail == other.tail && tail_node == other.tail_node &&
           only_tail_leaves == other.only_tail_leaves && weights == other.weights && top_k == other.top_k;
}

}  // namespace expert_device
