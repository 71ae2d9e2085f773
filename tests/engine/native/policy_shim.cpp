// A C face of LayerPolicy alone, for the test that drives it beside the Python policy.
#include "policy.h"

#include <cstring>

namespace expert_device {

struct LayerPolicyProbe {
    static double heat(const LayerPolicy & policy, int32_t expert) { return policy.exact_heat(expert); }
};

}  // namespace expert_device

namespace {

using expert_device::Insert;
using expert_device::LayerPolicy;

// Everything the policy tells of its state, in the order of the test's structure.
struct Counts {
    int32_t slots, resident, pinned_to_gpu, unplaced_pins;
    uint64_t evictions;
};

// Rows of three numbers; there are never more of them than experts.
template <typename Row> int32_t write_rows(const std::vector<Row> & rows, int32_t * out) {
    static_assert(sizeof(Row) == 3 * sizeof(int32_t), "rows are read as three numbers each");
    if (!rows.empty()) {
        std::memcpy(out, rows.data(), rows.size() * sizeof(Row));
    }
    return static_cast<int32_t>(rows.size());
}

}  // namespace

extern "C" {

LayerPolicy * policy_new(int32_t experts) {
    return new LayerPolicy(experts);
}

void policy_free(LayerPolicy * policy) {
    delete policy;
}

int32_t policy_step(LayerPolicy * policy, const expert_device_policy * settings, const int32_t * routed,
                    const float * weights, int32_t n, int32_t * out) {
    std::vector<Insert> inserts;
    policy->step(*settings, routed, weights, n, inserts);
    return write_rows(inserts, out);
}

int32_t policy_fill(LayerPolicy * policy, const expert_device_policy * settings, int32_t limit, int32_t * out) {
    std::vector<Insert> inserts;
    policy->fill(*settings, limit, inserts);
    return write_rows(inserts, out);
}

int32_t policy_resize(LayerPolicy * policy, const expert_device_policy * settings, int32_t slots, int32_t * out) {
    std::vector<LayerPolicy::Move> moves;
    policy->resize(*settings, slots, moves);
    return write_rows(moves, out);
}

void policy_complete(LayerPolicy * policy, int32_t slot, int32_t expert, int32_t ok) {
    policy->complete(slot, expert, ok != 0);
}

void policy_set_pin(LayerPolicy * policy, int32_t expert, int32_t pin) {
    policy->set_pin(expert, pin);
}

void policy_set_heat(LayerPolicy * policy, const float * heat) {
    policy->set_heat(heat);
}

// The four arrays hold one value for each expert.
void policy_read(const LayerPolicy * policy, Counts * counts, double * heat, int32_t * lane, int32_t * slot,
                 int32_t * pin) {
    *counts = {policy->slots(), policy->resident(), policy->pinned_to_gpu(), policy->unplaced_pins(),
               policy->evictions()};
    for (int32_t expert = 0; expert < policy->experts(); ++expert) {
        heat[expert] = expert_device::LayerPolicyProbe::heat(*policy, expert);
        lane[expert] = policy->lane(expert);
        slot[expert] = policy->ready_slot(expert);
        pin[expert] = policy->pin(expert);
    }
}

float policy_heat(const LayerPolicy * policy, int32_t expert) {
    return policy->heat(expert);
}

}  // extern "C"
