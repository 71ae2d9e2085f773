// Which experts of one layer get a slot: pure bookkeeping, no ggml, no threads of its own.
//
// `app/placement/cache/policy.py` is the same policy in Python, decision by decision: the simulator. A test
// drives both with the same routings; a change here is a change there.
//
// The rules, for both:
//  - One `step` is one decoded token of this layer. All heat is multiplied by `decay` and every routed expert
//    gains 1; heat is a double, made of the settings' float32 values.
//  - A candidate is a routed expert without a slot (not even loading), with no pin, whose weight is unknown
//    (NaN) or at least `threshold`. Heavier candidates go first, unknown weights last, equals as given.
//  - Experts pinned to the GPU that have no slot yet go before all candidates, the hottest first (equals: the
//    lower number), whatever threshold, window and margin say. They count towards `insert_cap` too.
//  - An insert takes the lowest free slot. Without one, the coldest resident goes that is neither pinned to the
//    GPU, nor loading, nor routed in this token. Coldest is, for LRU, least recently routed, then least hot; for
//    the others least hot, then least recently routed; for all then in the lowest slot.
//  - LRU evicts only for a candidate that was routed at most `window` tokens ago, this one not counted
//    (`window` 0: for any). DECAY evicts only for one that is hotter than the coldest by `margin`.
//    Both give free slots to any candidate.
//  - FROZEN takes no candidates: it evicts for pins only and its free slots are for `fill`.
//    MANUAL inserts pins only. Residents that are not pinned stay until a pin needs their slot.
#pragma once

#include "expert_device.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace expert_device {

// An expert that is to be copied into a slot. `evicted` lost it (its table entry is gone already), or -1.
struct Insert {
    int32_t expert = -1;
    int32_t slot = -1;
    int32_t evicted = -1;
};

// `fill` and `resize` are for between tokens: while nothing computes from this layer's slots. The rest may be
// called whenever the caller's lock is held. Experts and slots given must exist, settings must be valid.
class LayerPolicy {
  public:
    explicit LayerPolicy(int32_t experts);

    int32_t experts() const { return static_cast<int32_t>(slot_of_.size()); }
    int32_t slots() const { return static_cast<int32_t>(expert_of_.size()); }
    int32_t resident() const;  // slots whose expert is ready

    // The slot of an expert that is ready to compute from, or -1.
    int32_t ready_slot(int32_t expert) const;
    // LANE_GPU when ready, LANE_COPYING while it is being copied in, else LANE_CPU.
    int32_t lane(int32_t expert) const;

    // Decoding routed a token to `routed` experts (distinct, any order) with these weights (NaN: unknown; null:
    // all unknown): updates heat and recency, then appends the inserts to be copied to `out`. Each insert's slot
    // is reserved until `complete`. Slots used by this token or still loading are never taken. Ids that are no
    // expert's (-1 marks an unused place) and repetitions are passed over.
    void step(const expert_device_policy & settings, const int32_t * routed, const float * weights, int32_t n,
              std::vector<Insert> & out);

    // At most `limit` inserts that need no routing: pinned experts first, as in `step`, but the last token's
    // experts may lose their slots too. Then, but not for MANUAL, free slots are filled with experts that have
    // any heat, the hottest first (equals: the lower number).
    void fill(const expert_device_policy & settings, int32_t limit, std::vector<Insert> & out);

    // A copy has ended: the expert is ready, or (not ok, or pinned to the CPU meanwhile) its slot is free again.
    // Without effect when `expert` is not what `slot` is loading.
    void complete(int32_t slot, int32_t expert, bool ok);

    // A pin to the CPU frees the expert's slot at once unless it is loading; then `complete` frees it. The token
    // under way may still compute from that slot: the next `step` leaves it alone where it routed to the expert.
    void set_pin(int32_t expert, int32_t pin);
    int32_t pin(int32_t expert) const { return pins_[static_cast<size_t>(expert)]; }
    int32_t pinned_to_gpu() const;
    int32_t unplaced_pins() const;  // pinned to the GPU, neither resident nor loading, and no slot to be had

    // A new number of slots. No slot may be loading. Keeps, in this order, GPU pins, then the warmest by the
    // policy's own measure; `moves` gets (expert, old slot, new slot) of those kept, by new slot. Who can keep
    // its slot does, so no move goes into a slot that another one comes from.
    struct Move {
        int32_t expert, from, to;
    };
    void resize(const expert_device_policy & settings, int32_t slots, std::vector<Move> & moves);

    void set_heat(const float * heat);  // [experts]; what is not a positive number counts as 0
    float heat(int32_t expert) const;
    uint64_t evictions() const { return evictions_; }  // experts that lost their slot to another

  private:
    friend struct LayerPolicyProbe;  // tests compare heat to the last bit

    struct Candidate {
        int32_t expert;
        float weight;
        int64_t before;  // the token it was routed in before this one, -1 never
    };

    double exact_heat(int32_t expert) const;
    bool routed_now(int32_t expert) const;
    bool colder(int32_t kind, int32_t expert, int32_t other) const;
    bool admitted(const expert_device_policy & settings, const Candidate & candidate, int32_t coldest) const;
    int32_t free_slot(bool in_token) const;
    int32_t coldest_slot(int32_t kind, bool in_token) const;
    bool pin_waits() const;
    int32_t hottest_waiting_pin() const;
    int32_t place_pins(int32_t kind, int32_t limit, bool in_token, std::vector<Insert> & out);
    void set_decay(double decay);
    void note_routing(const expert_device_policy & settings, const int32_t * routed, const float * weights, int32_t n);
    void insert_candidates(const expert_device_policy & settings, int32_t left, std::vector<Insert> & out);
    void reserve(int32_t slot, int32_t expert, std::vector<Insert> & out);
    void release(int32_t slot);

    std::vector<int32_t> slot_of_;       // [experts], -1 none; also while loading
    std::vector<int32_t> expert_of_;     // [slots], -1 free
    std::vector<int32_t> withdrawn_;     // [slots], whose pin to the CPU freed it since the last step, -1 none
    std::vector<uint8_t> loading_;       // [slots]
    std::vector<uint8_t> pins_;          // [experts]
    std::vector<double> heat_;           // [experts], as of token `heat_at_`
    std::vector<int64_t> heat_at_;       // [experts]
    std::vector<int64_t> last_routed_;   // [experts], -1 never
    std::vector<Candidate> candidates_;  // of the step that runs; kept for its memory
    double decay_ = 1.0;
    std::vector<double> powers_;         // of `decay_`, the first ones: a search for the coldest takes many
    int64_t now_ = 0;                    // tokens stepped
    uint64_t evictions_ = 0;
};

}  // namespace expert_device
