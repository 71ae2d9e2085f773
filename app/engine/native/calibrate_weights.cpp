// Made-up expert weights: random values quantised to valid blocks, repeated until they fill what was asked for.
#include "calibrate_bench.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace expert_device {

namespace {

// Rows that are quantised; the others repeat them. Quantising all would take longer than measuring, and a product's
// time does not depend on the values.
constexpr int64_t pattern_rows = 31;
// Small enough that a layer adds little to what it reads: values neither grow nor vanish over many layers.
constexpr float deviation = 0.02F;

// Quantising to these begins with tables that take seconds to make (IQ1_S: 4 s on two 2.6 GHz cores, 2026).
bool slow_to_quantise(ggml_type type) {
    switch (type) {
        case GGML_TYPE_IQ1_S:
        case GGML_TYPE_IQ1_M:
        case GGML_TYPE_IQ2_XXS:
        case GGML_TYPE_IQ2_XS:
        case GGML_TYPE_IQ2_S:
        case GGML_TYPE_IQ3_XXS:
        case GGML_TYPE_IQ3_S: return true;
        default: return false;
    }
}

// Blocks of any codes under a scale that gives weights of at most about `deviation`. All but IQ1_M begin with it; there
// its bits are the upper four of the last four 16-bit words, the most significant ones in the last.
void random_blocks(ggml_type type, std::vector<char> & blocks) {
    std::mt19937 random(7);
    for (char & byte : blocks) {
        byte = static_cast<char>(random());
    }
    const ggml_fp16_t scale = ggml_fp32_to_fp16(deviation / 100);
    for (size_t at = 0; at < blocks.size(); at += ggml_type_size(type)) {
        if (type != GGML_TYPE_IQ1_M) {
            std::memcpy(&blocks[at], &scale, sizeof scale);
            continue;
        }
        const size_t scales = at + ggml_type_size(type) - 4 * sizeof scale;
        for (size_t word = 0; word < 4; ++word) {
            char & high = blocks[scales + word * sizeof scale + 1];
            high = static_cast<char>((high & 0x0f) | ((scale >> (4 * word) & 0x0f) << 4));
        }
    }
}

// `pattern_rows` rows of `tensor`'s length and type.
std::vector<char> random_rows(const ggml_tensor * tensor) {
    std::vector<char> made(static_cast<size_t>(pattern_rows) * tensor->nb[1]);
    if (slow_to_quantise(tensor->type)) {
        random_blocks(tensor->type, made);
        return made;
    }
    const int64_t values = pattern_rows * tensor->ne[0];
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0.0F, deviation);
    std::vector<float> rows(static_cast<size_t>(values));
    for (float & value : rows) {
        value = normal(random);
    }
    const std::vector<float> importance(static_cast<size_t>(tensor->ne[0]), 1.0F);
    ggml_quantize_chunk(tensor->type, rows.data(), made.data(), 0, pattern_rows, tensor->ne[0], importance.data());
    return made;
}

void repeat(const std::vector<char> & pattern, char * to, size_t bytes) {
    for (size_t done = 0; done < bytes; done += pattern.size()) {
        std::memcpy(to + done, pattern.data(), std::min(pattern.size(), bytes - done));
    }
}

// A faster layout is made of a whole tensor at once; elsewhere one expert's bytes do for all.
void fill(ggml_tensor * tensor, bool whole) {
    const size_t step = whole ? ggml_nbytes(tensor) : tensor->nb[2];
    std::vector<char> bytes(step);
    repeat(random_rows(tensor), bytes.data(), step);
    for (size_t at = 0; at < ggml_nbytes(tensor); at += step) {
        ggml_backend_tensor_set(tensor, bytes.data(), at, step);
    }
}

}  // namespace

bool weight_type(const std::string & name, ggml_type & type) {
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        type = static_cast<ggml_type>(i);
        const bool intermediate = type == GGML_TYPE_Q8_1 || type == GGML_TYPE_Q8_K;  // of activations only
        const bool weights = (ggml_is_quantized(type) && ggml_blck_size(type) > 0 && !intermediate) ||
                             type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 || type == GGML_TYPE_F32;
        if (weights && name == ggml_type_name(type)) {
            return true;
        }
    }
    return false;
}

BenchWeights describe_weights(ggml_type type, int64_t hidden, int64_t feed_forward, int64_t experts) {
    BenchWeights made;
    ggml_init_params size = {4 * ggml_tensor_overhead(), nullptr, true};
    made.context.reset(ggml_init(size));
    made.up = ggml_new_tensor_3d(made.context.get(), type, hidden, feed_forward, experts);
    made.gate = ggml_new_tensor_3d(made.context.get(), type, hidden, feed_forward, experts);
    made.down = ggml_new_tensor_3d(made.context.get(), type, feed_forward, hidden, experts);
    return made;
}

bool allocate_weights(BenchWeights & weights, ggml_backend_buffer_type_t type, bool repacked) {
    weights.buffer.reset(ggml_backend_alloc_ctx_tensors_from_buft(weights.context.get(), type));
    if (!weights.buffer) {
        return false;
    }
    ggml_backend_buffer_set_usage(weights.buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    for (ggml_tensor * tensor : {weights.up, weights.gate, weights.down}) {
        fill(tensor, repacked);
    }
    return true;
}

}  // namespace expert_device
