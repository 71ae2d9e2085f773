// The C interface of the trace simulator: one layer's recorded routing, run through caches of any size.
//
// A library of its own, without ggml: it is loaded where no engine is. Nothing is kept between calls, every
// function may be called from any thread, and none throws.
//
// In all of them a token's hits are judged before its misses are copied in, and every copy is done before the
// layer's next token.
#pragma once

#include "expert_device.h"

#ifdef __cplusplus
extern "C" {
#endif

// Changes whenever a signature or the meaning of a value here does.
#define EXPERT_SIMULATOR_ABI 1

// Counts are kept apart for each quarter of a layer's steps: the first is the transient, the last two are steady.
#define EXPERT_SIMULATOR_QUARTERS 4

enum expert_simulator_result {
    EXPERT_SIMULATOR_OK = 0,
    EXPERT_SIMULATOR_BAD_ARGUMENT = 1,  // a negative size, a policy there is none of, steps that do not rise
    EXPERT_SIMULATOR_BAD_ROUTING = 2,   // a routed expert that the layer does not have, or twice in one step
    EXPERT_SIMULATOR_NO_MEMORY = 3,
};

// What one layer was routed to.
struct expert_simulator_layer {
    int32_t experts;         // 1 to 32767
    int64_t steps;           // decoded tokens of this layer
    const int64_t * starts;  // [steps + 1], step i has the entries starts[i] to starts[i + 1] - 1; starts[0] is 0
    const int32_t * routed;  // [starts[steps]], experts, those of one step distinct
    const float * weights;   // [starts[steps]], NaN where unknown; null: all unknown
};

// The settings of the policy, as in `expert_device_policy`: what concerns decisions.
struct expert_simulator_policy {
    int32_t kind;  // enum expert_device_policy_kind
    int32_t insert_cap;
    int32_t window;
    float decay;
    float margin;
    float threshold;
};

// What a cache made of one quarter.
struct expert_simulator_counts {
    uint64_t hits;       // routed experts that were in the pool when their token came
    uint64_t misses;     // those that were not
    uint64_t inserts;    // experts copied in
    uint64_t evictions;  // experts that lost their slot to another
};

EXPERT_DEVICE_API int32_t expert_simulator_abi(void);

// Hits of a plain LRU cache for every number of slots at once, by stack distance (Mattson et al., "Evaluation
// techniques for storage hierarchies", 1970). Plain is: every miss is copied in and the least recently routed
// expert goes; of those of one token the one of least heat, which cools by `decay` with every token as the
// policy's does, and of these the one that was recorded last. From top-k slots on, the policy without window and
// threshold and with a cap of top-k decides the same, but for the last of these rules.
// `hits` is [EXPERT_SIMULATOR_QUARTERS][experts + 1], by slots from 0 on.
EXPERT_DEVICE_API int32_t expert_simulator_lru_curve(const struct expert_simulator_layer * layer, float decay,
                                                     uint64_t * hits);

// The cache's own policy (policy.h) with `slots` slots. `pins` is [experts] of enum expert_device_pin, `heat`
// [experts] as saved; either may be null. With them slots are filled before the first step, which `filled` counts.
// `counts` is [EXPERT_SIMULATOR_QUARTERS].
EXPERT_DEVICE_API int32_t expert_simulator_replay(const struct expert_simulator_layer * layer,
                                                  const struct expert_simulator_policy * policy, int32_t slots,
                                                  const uint8_t * pins, const float * heat,
                                                  struct expert_simulator_counts * counts, int32_t * filled);

// The most hits that any cache of `slots` slots can have that copies in nothing but what was just routed (MIN, of
// Belady): of the residents and the token's experts, those stay that are routed to again soonest. `prefilled` not
// 0: it starts with those that are routed to first, which `filled` counts; else it starts empty.
EXPERT_DEVICE_API int32_t expert_simulator_oracle(const struct expert_simulator_layer * layer, int32_t slots,
                                                  int32_t prefilled, struct expert_simulator_counts * counts,
                                                  int32_t * filled);

#ifdef __cplusplus
}
#endif
