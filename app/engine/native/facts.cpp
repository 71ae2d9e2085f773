// Sums and records of one context; the lock is held for copies only, never while anything is computed.
#include "facts.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace expert_device {

void Facts::add(const SplitFacts & split) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (split.phase != EXPERT_DEVICE_PROMPT && split.phase != EXPERT_DEVICE_DECODE) {
        return;
    }
    expert_device_totals & sum = totals_[static_cast<size_t>(split.phase)];
    sum.tokens += split.new_batch ? static_cast<uint64_t>(split.tokens) : 0;
    sum.hits += static_cast<uint64_t>(split.hits);
    sum.misses += static_cast<uint64_t>(split.misses);
    sum.streamed += static_cast<uint64_t>(split.streamed);
    sum.streamed_bytes += split.streamed_bytes;
    sum.layers += split.whole_layer ? 1 : 0;
    sum.total_ns += split.total_ns;
    sum.cpu_ns += split.cpu_ns;
    sum.gpu_ns += split.gpu_ns;
    sum.wait_ns += split.wait_ns;
    sum.gather_ns += split.gather_ns;
    sum.scatter_ns += split.scatter_ns;
    sum.cold_experts += static_cast<uint64_t>(split.cold_experts);
    sum.cold_reads += static_cast<uint64_t>(split.cold_reads);
    sum.cold_bytes += split.cold_bytes;
    sum.stall_ns += split.stall_ns;
    if (split.new_batch || batches_.empty()) {
        begin_batch();
        if (batches_.size() == batches_kept) {
            batches_.pop_front();
        }
        expert_device_token made = {};
        made.index = next_batch_++;
        made.tokens = split.tokens;
        made.phase = split.phase;
        batches_.push_back(made);
        newest_over_ = false;
    }
    expert_device_token & batch = batches_.back();
    batch.hits += split.hits;
    batch.misses += split.misses;
    batch.streamed += split.streamed;
    batch.copied_bytes += split.streamed_bytes;
    batch.cpu_ns += split.cpu_ns;
    batch.gpu_ns += split.gpu_ns;
    batch.wait_ns += split.wait_ns;
    batch.total_ns += split.total_ns;
    batch.cold_experts += split.cold_experts;
    batch.cold_reads += split.cold_reads;
    batch.cold_bytes += split.cold_bytes;
    batch.stall_ns += split.stall_ns;
}

void Facts::end_split(bool new_batch) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (new_batch && !begun_) {
        begin_batch();  // of a phase that is not counted
    }
    begun_ = false;
    ++splits_;
    newest_over_ = newest_over_ || (most_splits_ > 0 && splits_ >= most_splits_);
}

void Facts::begin_batch() {
    most_splits_ = std::max(most_splits_, std::exchange(splits_, 0));
    newest_over_ = true;  // the one before
    begun_ = true;
}

void Facts::add_insert(int32_t phase, uint64_t bytes, bool evicted) {
    std::lock_guard<std::mutex> lock(mutex_);
    expert_device_totals & sum = totals_[phase == EXPERT_DEVICE_DECODE ? 1 : 0];
    sum.inserts += 1;
    sum.evictions += evicted ? 1 : 0;
    sum.inserted_bytes += bytes;
    if (!batches_.empty() && !newest_over_) {  // else between two batches, and part of neither
        batches_.back().copied_bytes += bytes;
    }
}

void Facts::trace(int32_t layer, const int32_t * experts, const float * weights, int32_t n, uint32_t token) {
    if (!tracing_.load(std::memory_order_relaxed)) {
        return;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    for (int32_t i = 0; i < n && trace_capacity_ > 0; ++i) {
        while (trace_.size() >= trace_capacity_) {
            trace_.pop_front();
            ++dropped_;
        }
        const float weight = weights != nullptr ? weights[i] : std::numeric_limits<float>::quiet_NaN();
        trace_.push_back({token, static_cast<int16_t>(layer), static_cast<int16_t>(experts[i]), weight});
    }
}

void Facts::publish(int32_t layer, const LayerPolicy & policy) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (static_cast<size_t>(layer) >= layers_.size()) {
        layers_.resize(static_cast<size_t>(layer) + 1);
    }
    Published & shown = layers_[static_cast<size_t>(layer)];
    const auto n = static_cast<size_t>(policy.experts());
    shown.heat.resize(n);
    shown.lane.resize(n);
    shown.pin.resize(n);
    for (size_t e = 0; e < n; ++e) {
        shown.heat[e] = policy.heat(static_cast<int32_t>(e));
        shown.lane[e] = static_cast<uint8_t>(policy.lane(static_cast<int32_t>(e)));
        shown.pin[e] = static_cast<uint8_t>(policy.pin(static_cast<int32_t>(e)));
    }
}

void Facts::totals(int32_t phase, expert_device_totals & out) const {
    std::lock_guard<std::mutex> lock(mutex_);
    out = totals_[static_cast<size_t>(phase)];
}

int32_t Facts::batches(uint64_t since, expert_device_token * out, int32_t limit) const {
    std::lock_guard<std::mutex> lock(mutex_);
    int32_t n = 0;
    for (const expert_device_token & batch : batches_) {
        const bool over = batch.index + 1 < next_batch_ || newest_over_;
        if (over && batch.index >= since && n < limit) {
            out[n++] = batch;
        }
    }
    return n;
}

void Facts::set_trace(int32_t capacity) {
    std::lock_guard<std::mutex> lock(mutex_);
    trace_capacity_ = static_cast<size_t>(capacity);
    tracing_.store(capacity > 0, std::memory_order_relaxed);
    if (capacity == 0) {
        trace_.clear();
        dropped_ = 0;
    }
}

int32_t Facts::take_trace(expert_device_routing_entry * out, int32_t limit, uint64_t & dropped) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto n = std::min(trace_.size(), static_cast<size_t>(limit));
    std::copy_n(trace_.begin(), n, out);
    trace_.erase(trace_.begin(), trace_.begin() + static_cast<std::ptrdiff_t>(n));
    dropped = dropped_;
    return static_cast<int32_t>(n);
}

void Facts::experts(float * heat, uint8_t * lane, uint8_t * pin, int32_t layers, int32_t experts) const {
    const auto width = static_cast<size_t>(experts);
    const size_t cells = static_cast<size_t>(layers) * width;
    std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < cells; ++i) {
        const size_t layer = i / width, expert = i % width;
        const bool known = layer < layers_.size() && expert < layers_[layer].heat.size();
        if (heat != nullptr) {
            heat[i] = known ? layers_[layer].heat[expert] : 0.0F;
        }
        if (lane != nullptr) {
            lane[i] = known ? layers_[layer].lane[expert] : uint8_t{0};
        }
        if (pin != nullptr) {
            pin[i] = known ? layers_[layer].pin[expert] : uint8_t{0};
        }
    }
}

}  // namespace expert_device
