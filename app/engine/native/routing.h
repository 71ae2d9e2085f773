// Counts how often each expert of each layer is routed to; written by the compute thread, read by any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace expert_device {

struct Pair {
    int32_t token;
    int32_t rank;  // 0 … top_k - 1
    int32_t expert;
};

// One layer's counters for both phases: counts[phase * experts + expert].
struct LayerCounts {
    explicit LayerCounts(int32_t n) : experts(n), counts(new std::atomic<uint64_t>[2 * static_cast<size_t>(n)]) {
        for (size_t i = 0; i < 2 * static_cast<size_t>(n); ++i) {
            counts[i].store(0, std::memory_order_relaxed);
        }
    }
    const int32_t experts;
    const std::unique_ptr<std::atomic<uint64_t>[]> counts;
};

class RoutingCounts {
  public:
    static constexpr int32_t max_layers = 1024;  // llama.cpp's own bound is 512

    RoutingCounts();
    RoutingCounts(const RoutingCounts &) = delete;
    RoutingCounts & operator=(const RoutingCounts &) = delete;
    ~RoutingCounts();

    // Called by the compute thread only. `meet` makes a layer known without counting.
    void meet(int32_t layer, int32_t experts);
    void add(int32_t layer, int32_t experts, int32_t phase, const Pair * pairs, size_t n_pairs);

    // Called by any thread.
    void shape(int32_t & layers, int32_t & experts) const;
    int32_t experts_of(int32_t layer) const;  // 0 for a layer that was not met
    void read(int32_t phase, uint64_t * out, int32_t layers, int32_t experts) const;

  private:
    std::array<std::atomic<LayerCounts *>, max_layers> layers_;
};

}  // namespace expert_device
