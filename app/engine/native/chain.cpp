// Which ops the device claims: an expert's chain from its first product to its last, nothing else.
//
// Every claimed op is row-wise over (token, expert) pairs, so a chain can be computed for any subset
// of pairs on any device. An op that is not known to be row-wise is not claimed and llama.cpp
// computes it as it would without us.
#include "internal.h"

namespace expert_device {

namespace {

// Deep enough for the longest chain llama.cpp builds (clamped SwiGLU: 5 ops from product to product).
constexpr int max_depth = 12;

bool is_view(const ggml_tensor * t) {
    return t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE;
}

// True when `t` is computed, row by row, from products of expert tensors in our buffers.
bool in_chain(const ggml_tensor * t, int depth) {
    if (t == nullptr || depth > max_depth) {
        return false;
    }
    switch (t->op) {
        case GGML_OP_MUL_MAT_ID:
            return is_ours(t->src[0]);
        case GGML_OP_ADD_ID:
            return is_ours(t->src[1]) && in_chain(t->src[0], depth + 1);
        case GGML_OP_VIEW:
        case GGML_OP_RESHAPE:
        case GGML_OP_UNARY:
        case GGML_OP_CLAMP:
        case GGML_OP_SCALE:
        case GGML_OP_SQR:
            return in_chain(t->src[0], depth + 1);
        case GGML_OP_GLU:
            return in_chain(t->src[0], depth + 1) && (t->src[1] == nullptr || in_chain(t->src[1], depth + 1));
        case GGML_OP_MUL:
            return ggml_are_same_shape(t->src[0], t->src[1]) && in_chain(t->src[0], depth + 1) &&
                   in_chain(t->src[1], depth + 1);
        default:
            return false;
    }
}

}  // namespace

bool claims(const ggml_tensor * op) {
    if (op->op == GGML_OP_NONE || is_view(op)) {
        return true;  // no work: asked by the scheduler for placement only
    }
    if (op->op == GGML_OP_ADD_ID && op->src[0]->op == GGML_OP_NONE) {
        return is_ours(op->src[1]);  // the loader asks for a bias tensor with operands that have no history
    }
    return in_chain(op, 0);
}

}  // namespace expert_device
