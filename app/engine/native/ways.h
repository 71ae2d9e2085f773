// Which of two ways to compute a prompt's layer is faster on this machine: both are tried, the faster is kept, and the
// other is tried again from time to time, for contexts grow and machines warm up.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace expert_device {

class WayTrial {
  public:
    // Whether the next layer of a batch of so many tokens is to be computed whole on the device, and not divided.
    bool whole_next(int64_t tokens);
    // What it took. `spoilt`: something else took time, too.
    void took(int64_t tokens, bool whole, uint64_t ns, bool spoilt);
    // Pool or staging area changed: what was measured is no longer so.
    void forget() { sizes_ = {}; }

  private:
    static constexpr int32_t least_tries = 3;    // of each way; the first ones touch memory and compile kernels
    static constexpr int32_t most_repeats = 48;  // layers, before the slower way is tried again
    static constexpr double newest_share = 0.25;

    struct Way {
        int32_t tries = 0;
        double ns_per_token = 0;
    };
    struct Size {  // of batches with as many bits in their number of tokens
        std::array<Way, 2> ways;
        int32_t repeats = 0;
    };
    std::array<Size, 32> sizes_;

    Size & size_of(int64_t tokens);
};

}  // namespace expert_device
