// Reads one scheduler split: which expert layers it computes and the (token, expert) pairs of each.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"
#include "routing.h"

#include <cstdint>
#include <vector>

namespace expert_device {

// One layer's chain within a split. A split holds one chain as a rule; where nothing of another
// device lies between two layers it can hold several.
struct Chain {
    int32_t layer = -1;
    int32_t experts = 0;               // experts of the weight tensor
    const ggml_tensor * ids = nullptr; // i32 [top_k, tokens], often a strided view
};

// The chains of `graph` in order; each MUL_MAT_ID with other ids or of another layer than the one before begins one.
std::vector<Chain> chains_of(ggml_cgraph * graph);

// Appends the pairs that `chain` routes. Ids outside 0 … experts - 1 (padding is -1) are left out.
void pairs_of(const Chain & chain, std::vector<Pair> & pairs);

}  // namespace expert_device
