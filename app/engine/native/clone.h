// A chain as a graph of its own on one device, over some of a batch's pairs or over all of them.
#pragma once

#include "chain.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace expert_device {

// How pairs are laid out as [ranks, tokens] of the clone. Each pair computes its own rows, so any layout
// gives the same values; which is fast depends on the kernel (one token: products with vectors).
struct CloneShape {
    int64_t ranks = 0;
    int64_t tokens = 0;
    bool one_token = false;         // inputs per token are one row that all pairs share
    bool with_tail = false;         // layout of the batch itself: the sum over experts is part of the graph
    bool per_token_inputs = false;  // with_tail: inputs per token keep one row a token

    int64_t pairs() const { return ranks * tokens; }
    bool operator==(const CloneShape & other) const {
        return ranks == other.ranks && tokens == other.tokens && one_token == other.one_token &&
               with_tail == other.with_tail && per_token_inputs == other.per_token_inputs;
    }
};

struct ContextFree {
    void operator()(ggml_context * context) const { ggml_free(context); }
};
using ContextPtr = std::unique_ptr<ggml_context, ContextFree>;

struct Clone {
    CloneShape shape;
    std::vector<ggml_tensor *> weights;  // what it was built over
    ContextPtr context;
    ggml_cgraph * graph = nullptr;
    std::vector<ggml_tensor *> inputs;   // by input index
    ggml_tensor * ids = nullptr;         // i32 [ranks, tokens]
    std::vector<ggml_tensor *> outputs;  // as the template's outputs, or the tail's end alone

    ggml_tensor * tail_end() const { return outputs.front(); }
};

// Builds the graph; no memory for it yet. `weights` by weight index.
std::unique_ptr<Clone> build_clone(const ChainTemplate & chain, const std::vector<ggml_tensor *> & weights,
                                   const CloneShape & shape);

// Clones of one device with one working memory, which they use in turn. Small ones are kept.
class CloneCache {
  public:
    explicit CloneCache(ggml_backend_buffer_type_t type);
    ~CloneCache();
    CloneCache(const CloneCache &) = delete;
    CloneCache & operator=(const CloneCache &) = delete;

    // The clone with its memory, or nullptr when the device has none for it. Valid until the next call.
    Clone * get(const ChainTemplate & chain, const std::vector<ggml_tensor *> & weights, const CloneShape & shape);
    // Working memory for such a clone, so that none has to be found in the middle of an answer.
    bool reserve(const ChainTemplate & chain, const std::vector<ggml_tensor *> & weights, const CloneShape & shape);
    void clear();
    size_t bytes() const;

  private:
    struct Kept {
        ChainTemplate chain;
        std::unique_ptr<Clone> clone;
    };
    ggml_gallocr_t allocator_;
    std::unordered_map<uint64_t, std::vector<Kept>> kept_;
    size_t n_kept_ = 0;
    std::unique_ptr<Clone> large_;
};

}  // namespace expert_device
