// Experts of a later layer that are copied to a free half of the staging area while llama.cpp computes what lies
// between two expert layers, and whether that pays.
#pragma once

#include "copier.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace expert_device {

// The thread that streams plans, copies and takes; the compute thread may look while no task runs. Whoever frees the
// staging area stops the copies first (`Copier::stop_ahead`) and forgets them.
class CopyAhead {
  public:
    struct Half {
        int32_t layer = -1;
        size_t side = 0;
        std::vector<int32_t> experts;  // by place, as far as they were copied
        bool ok = true;                // false when the device failed at the next one
    };

    // What is to be copied; nothing is yet.
    void plan(int32_t layer, size_t side, std::vector<int32_t> experts, std::vector<std::vector<Piece>> pieces);
    bool planned() const { return half_.layer >= 0; }
    // Copies one expert after the other until all are there or `stop` is set.
    void copy(const std::atomic<bool> & stop);
    // How many of a layer's experts are there so far, and which: the first of `experts()`.
    size_t there(int32_t layer) const { return half_.layer == layer ? done_.load() : 0; }
    const std::vector<int32_t> & experts() const { return half_.experts; }
    // What is there, whatever layer it is of; nothing is afterwards.
    Half take();
    void forget() { take(); }

  private:
    Half half_;
    std::vector<std::vector<Piece>> pieces_;
    std::atomic<size_t> done_{0};
};

// Whether copying ahead pays, by trial: of two batches of one size that follow each other, one is computed with it and
// one without; so from time to time, for contexts grow and machines warm up.
class AheadTrial {
  public:
    // Before and after each split of a layer; a batch begins with the lowest of its layers. Times in nanoseconds.
    void begin_split(int32_t layer, int64_t tokens, uint64_t now_ns);
    void end_split(uint64_t now_ns);
    // Something else took time in this batch: it does not count.
    void spoil() { spoilt_ = true; }
    bool copies_ahead() const { return choice_ != trying_other_; }

  private:
    static constexpr int32_t most_repeats = 16;  // of the choice before the other way is tried again

    void end_batch();

    bool choice_ = true;         // the faster way so far
    bool trying_other_ = false;  // in this batch
    int32_t repeats_ = most_repeats;
    uint64_t before_ns_ = 0;  // what the batch before took
    int64_t tokens_ = 0;
    int32_t last_layer_ = -1;
    int32_t splits_ = 0, most_splits_ = 0;
    uint64_t begin_ns_ = 0, end_ns_ = 0;
    bool spoilt_ = false;
};

}  // namespace expert_device
