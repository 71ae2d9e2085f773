// One expert layer of one context: its tensors, its chains, its slots.
#pragma once

#include "chain.h"
#include "clone.h"
#include "copier.h"
#include "expert_device.h"
#include "policy.h"
#include "weights.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace expert_device {

struct BufferFree {
    void operator()(ggml_backend_buffer * buffer) const { ggml_backend_buffer_free(buffer); }
};
using BufferPtr = std::unique_ptr<ggml_backend_buffer, BufferFree>;

// Tensors of n experts each on a device, one for every expert tensor of the layer.
struct Slab {
    ContextPtr context;
    BufferPtr buffer;  // none for tensors within another buffer
    std::vector<ggml_tensor *> tensors;

    size_t bytes() const { return buffer ? ggml_backend_buffer_get_size(buffer.get()) : 0; }
};

// One of the splits that a layer consists of (one, but for chains that are cut by ops of others).
struct LayerChain {
    ChainTemplate chain;
    std::vector<size_t> tensors;  // of the layer, by weight index
};

struct Layer {
    Layer(int32_t index_, int32_t experts_) : index(index_), policy(experts_) {}

    int32_t index;
    int32_t used = 0;                   // top-k
    std::vector<ExpertTensor> tensors;  // every one met in a chain
    std::vector<LayerChain> chains;
    LayerPolicy policy;
    std::string device;  // that its pool is on, by name
    Slab slots;
    std::array<Slab, 2> staging;          // halves, within the pool's staging buffer
    Slab whole;                           // all experts and one place more, within it too, where it has that room
    bool gathered = false;                // once at least
    bool unstreamable = false;            // the device cannot compute it
    const void * first_weight = nullptr;  // of the split that begins the layer
    uint64_t published_ns = 0;

    int32_t experts() const { return policy.experts(); }

    uint64_t expert_bytes() const {
        uint64_t sum = 0;
        for (const ExpertTensor & tensor : tensors) {
            sum += tensor.bytes;
        }
        return sum;
    }

    // The slab's tensors in the order in which a split names its weights; empty if one is missing.
    std::vector<ggml_tensor *> in_order(const Slab & slab, const std::vector<const ggml_tensor *> & weights) const {
        std::vector<ggml_tensor *> ordered;
        for (const ggml_tensor * weight : weights) {
            for (size_t i = 0; i < tensors.size() && i < slab.tensors.size(); ++i) {
                if (tensors[i].tensor == weight) {
                    ordered.push_back(slab.tensors[i]);
                }
            }
        }
        if (ordered.size() != weights.size()) {
            ordered.clear();
        }
        return ordered;
    }

    // What must be copied for `n` experts from `expert` on to be at `place` and after it in the slab.
    std::vector<Piece> pieces(const Slab & slab, int32_t expert, int32_t place, int32_t n = 1) const {
        std::vector<Piece> made;
        for (size_t i = 0; i < tensors.size() && i < slab.tensors.size(); ++i) {
            const size_t to = static_cast<size_t>(place) * tensors[i].bytes;
            const char * from = tensors[i].expert(expert);
            const char * end = from + static_cast<size_t>(n) * tensors[i].bytes;
            // Cut where page-locked memory begins and ends.
            for (const char * begin = from; begin < end;) {
                const char * cut = begin < tensors[i].locked_begin ? tensors[i].locked_begin
                                   : begin < tensors[i].locked_end ? tensors[i].locked_end
                                                                   : end;
                cut = std::min(cut, end);
                made.push_back(
                    {slab.tensors[i], to + static_cast<size_t>(begin - from), begin, static_cast<size_t>(cut - begin)});
                begin = cut;
            }
        }
        return made;
    }
};

}  // namespace expert_device
