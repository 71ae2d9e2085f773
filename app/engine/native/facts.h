// What one context tells of its work: sums, the last batches, a routing trace, and the state of every expert.
#pragma once

#include "expert_device.h"
#include "policy.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

namespace expert_device {

// One split's share, added up by the compute thread.
struct SplitFacts {
    int32_t phase = 0;
    int32_t tokens = 0;
    bool new_batch = false;   // the first expert layer of a batch
    bool whole_layer = true;  // false for a later part of a layer that is cut into several splits
    int32_t hits = 0, misses = 0, streamed = 0;
    uint64_t streamed_bytes = 0;
    uint64_t total_ns = 0, cpu_ns = 0, gpu_ns = 0, wait_ns = 0, gather_ns = 0, scatter_ns = 0;
    int32_t cold_experts = 0, cold_reads = 0;
    uint64_t cold_bytes = 0, stall_ns = 0;
};

class Facts {
  public:
    static constexpr size_t batches_kept = 1024;

    void add(const SplitFacts & split);
    // A split of an expert layer is over, whatever phase it counts as, and nothing more will be added for it.
    void end_split(bool new_batch);
    void add_insert(int32_t phase, uint64_t bytes, bool evicted);
    // The routing of one decoded token; `weights` may be null.
    void trace(int32_t layer, const int32_t * experts, const float * weights, int32_t n, uint32_t token);
    // Copies what readers see of a layer's experts.
    void publish(int32_t layer, const LayerPolicy & policy);

    void totals(int32_t phase, expert_device_totals & out) const;
    // Batches that are over: nothing is added to them any more.
    int32_t batches(uint64_t since, expert_device_token * out, int32_t limit) const;
    void set_trace(int32_t capacity);
    int32_t take_trace(expert_device_routing_entry * out, int32_t limit, uint64_t & dropped);
    void experts(float * heat, uint8_t * lane, uint8_t * pin, int32_t layers, int32_t experts) const;

  private:
    void begin_batch();

    struct Published {
        std::vector<float> heat;
        std::vector<uint8_t> lane, pin;
    };

    mutable std::mutex mutex_;
    std::array<expert_device_totals, 2> totals_{};
    std::deque<expert_device_token> batches_;
    uint64_t next_batch_ = 0;
    // A batch is over when it has had as many splits as any before it, or when the next one begins.
    int32_t splits_ = 0, most_splits_ = 0;
    bool newest_over_ = false;
    bool begun_ = false;  // a batch, by the split that is not over yet
    std::vector<Published> layers_;
    std::deque<expert_device_routing_entry> trace_;
    size_t trace_capacity_ = 0;
    std::atomic<bool> tracing_{false};
    uint64_t dropped_ = 0;
};

}  // namespace expert_device
