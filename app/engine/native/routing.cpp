// Routing counters: plain relaxed atomics, a layer's block is published once and lives with the context.
#include "routing.h"

#include <algorithm>

namespace expert_device {

RoutingCounts::RoutingCounts() {
    for (auto & layer : layers_) {
        layer.store(nullptr, std::memory_order_relaxed);
    }
}

RoutingCounts::~RoutingCounts() {
    for (auto & layer : layers_) {
        delete layer.load(std::memory_order_relaxed);
    }
}

void RoutingCounts::meet(int32_t layer, int32_t experts) {
    if (layer < 0 || layer >= max_layers || experts <= 0) {
        return;
    }
    auto & place = layers_[static_cast<size_t>(layer)];
    if (place.load(std::memory_order_relaxed) == nullptr) {
        place.store(new LayerCounts(experts), std::memory_order_release);
    }
}

int32_t RoutingCounts::experts_of(int32_t layer) const {
    if (layer < 0 || layer >= max_layers) {
        return 0;
    }
    const LayerCounts * counts = layers_[static_cast<size_t>(layer)].load(std::memory_order_acquire);
    return counts == nullptr ? 0 : counts->experts;
}

void RoutingCounts::add(int32_t layer, int32_t experts, int32_t phase, const Pair * pairs, size_t n_pairs) {
    if (layer < 0 || layer >= max_layers || experts <= 0 || (phase != 0 && phase != 1)) {
        return;
    }
    meet(layer, experts);
    LayerCounts * counts = layers_[static_cast<size_t>(layer)].load(std::memory_order_relaxed);
    for (size_t i = 0; i < n_pairs; ++i) {
        const int32_t expert = pairs[i].expert;
        if (expert >= 0 && expert < counts->experts) {
            // The compute thread is the only writer: a plain add, published for readers.
            auto & cell = counts->counts[static_cast<size_t>(phase * counts->experts + expert)];
            cell.store(cell.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        }
    }
}

void RoutingCounts::shape(int32_t & layers, int32_t & experts) const {
    layers = 0;
    experts = 0;
    for (int32_t i = 0; i < max_layers; ++i) {
        const LayerCounts * counts = layers_[static_cast<size_t>(i)].load(std::memory_order_acquire);
        if (counts != nullptr) {
            layers = i + 1;
            experts = std::max(experts, counts->experts);
        }
    }
}

void RoutingCounts::read(int32_t phase, uint64_t * out, int32_t layers, int32_t experts) const {
    std::fill(out, out + static_cast<size_t>(layers) * static_cast<size_t>(experts), uint64_t{0});
    for (int32_t i = 0; i < std::min(layers, max_layers); ++i) {
        const LayerCounts * counts = layers_[static_cast<size_t>(i)].load(std::memory_order_acquire);
        if (counts == nullptr) {
            continue;
        }
        for (int32_t e = 0; e < std::min(experts, counts->experts); ++e) {
            out[static_cast<size_t>(i) * static_cast<size_t>(experts) + static_cast<size_t>(e)] =
                counts->counts[static_cast<size_t>(phase * counts->experts + e)].load(std::memory_order_relaxed);
        }
    }
}

}  // namespace expert_device
