// The parts of the mapped file that one expert's bytes lie in.
#pragma once

#include "layer.h"
#include "pages.h"

#include <cstddef>
#include <cstdint>

namespace expert_device {

template <typename Visit> void for_slices(const Layer & layer, int32_t expert, Visit visit) {
    for (const ExpertTensor & tensor : layer.tensors) {
        if (is_mapped(tensor.tensor)) {
            visit(ByteRange{tensor.expert(expert), static_cast<size_t>(tensor.bytes)});
        }
    }
}

inline uint64_t mapped_bytes(const Layer & layer) {
    uint64_t sum = 0;
    for (const ExpertTensor & tensor : layer.tensors) {
        sum += is_mapped(tensor.tensor) ? tensor.bytes : 0;
    }
    return sum;
}

}  // namespace expert_device
