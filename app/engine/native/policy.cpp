// Which experts of one layer get a slot: the decisions. The rules are in policy.h; cache_policy.py repeats them.
#include "policy.h"

#include <algorithm>
#include <cmath>

namespace expert_device {

namespace {

size_t at(int32_t index) {
    return static_cast<size_t>(index);
}

constexpr size_t POWERS_KEPT = 512;

// `factor` to the power of `exponent`, by multiplications only: std::pow may differ by a last bit between
// C libraries, and then from the simulator.
double power(double factor, int64_t exponent) {
    double result = 1.0;
    for (; exponent > 0; exponent >>= 1) {
        if ((exponent & 1) != 0) {
            result *= factor;
        }
        factor *= factor;
    }
    return result;
}

}  // namespace

LayerPolicy::LayerPolicy(int32_t experts)
    : slot_of_(at(experts), -1),
      pins_(at(experts), EXPERT_DEVICE_AUTO),
      heat_(at(experts), 0.0),
      heat_at_(at(experts), 0),
      last_routed_(at(experts), -1) {}

// ---- what is where ---------------------------------------------------------------------------------

int32_t LayerPolicy::resident() const {
    int32_t count = 0;
    for (size_t slot = 0; slot < expert_of_.size(); ++slot) {
        count += expert_of_[slot] >= 0 && loading_[slot] == 0 ? 1 : 0;
    }
    return count;
}

int32_t LayerPolicy::ready_slot(int32_t expert) const {
    const int32_t slot = slot_of_[at(expert)];
    return slot >= 0 && loading_[at(slot)] == 0 ? slot : -1;
}

int32_t LayerPolicy::lane(int32_t expert) const {
    const int32_t slot = slot_of_[at(expert)];
    if (slot < 0) {
        return EXPERT_DEVICE_LANE_CPU;
    }
    return loading_[at(slot)] != 0 ? EXPERT_DEVICE_LANE_COPYING : EXPERT_DEVICE_LANE_GPU;
}

int32_t LayerPolicy::pinned_to_gpu() const {
    return static_cast<int32_t>(std::count(pins_.begin(), pins_.end(), uint8_t{EXPERT_DEVICE_PIN_GPU}));
}

int32_t LayerPolicy::unplaced_pins() const {
    // Every slot that holds no pinned expert is to be had, sooner or later.
    return std::max(pinned_to_gpu() - slots(), 0);
}

float LayerPolicy::heat(int32_t expert) const {
    return static_cast<float>(exact_heat(expert));
}

double LayerPolicy::exact_heat(int32_t expert) const {
    const int64_t age = now_ - heat_at_[at(expert)];
    const bool kept = age < static_cast<int64_t>(powers_.size());
    return heat_[at(expert)] * (kept ? powers_[static_cast<size_t>(age)] : power(decay_, age));
}

bool LayerPolicy::routed_now(int32_t expert) const {
    return expert >= 0 && last_routed_[at(expert)] == now_;
}

bool LayerPolicy::colder(int32_t kind, int32_t expert, int32_t other) const {
    const int64_t routed = last_routed_[at(expert)];
    const int64_t other_routed = last_routed_[at(other)];
    if (kind == EXPERT_DEVICE_LRU && routed != other_routed) {
        return routed < other_routed;
    }
    const double heat = exact_heat(expert);
    const double other_heat = exact_heat(other);
    return heat != other_heat ? heat < other_heat : routed < other_routed;
}

// ---- a decoded token -------------------------------------------------------------------------------

void LayerPolicy::step(const expert_device_policy & settings, const int32_t * routed, const float * weights,
                       int32_t n, std::vector<Insert> & out) {
    set_decay(static_cast<double>(settings.decay));
    ++now_;
    note_routing(settings, routed, weights, n);
    const int32_t placed = place_pins(settings.kind, settings.insert_cap, true, out);
    if (settings.kind == EXPERT_DEVICE_LRU || settings.kind == EXPERT_DEVICE_DECAY) {
        insert_candidates(settings, settings.insert_cap - placed, out);
    }
    // The token that may have been under way when a pin freed a slot is this one, no later one.
    std::fill(withdrawn_.begin(), withdrawn_.end(), -1);
}

void LayerPolicy::insert_candidates(const expert_device_policy & settings, int32_t left, std::vector<Insert> & out) {
    int32_t coldest = -1;
    bool looked = false;  // `coldest` is up to date: it stays so until an insert
    for (const Candidate & candidate : candidates_) {
        if (left <= 0) {
            break;
        }
        int32_t slot = free_slot(true);
        if (slot < 0) {
            if (!looked) {
                coldest = coldest_slot(settings.kind, true);
                looked = true;
            }
            if (coldest < 0) {
                break;
            }
            if (!admitted(settings, candidate, coldest)) {
                continue;
            }
            slot = coldest;
        }
        reserve(slot, candidate.expert, out);
        looked = false;
        --left;
    }
}

void LayerPolicy::set_decay(double decay) {
    if (decay == decay_) {
        return;
    }
    // The tokens so far cooled by the old factor.
    for (int32_t expert = 0; expert < experts(); ++expert) {
        heat_[at(expert)] = exact_heat(expert);
        heat_at_[at(expert)] = now_;
    }
    decay_ = decay;
    powers_.resize(POWERS_KEPT);
    for (size_t exponent = 0; exponent < powers_.size(); ++exponent) {
        powers_[exponent] = power(decay, static_cast<int64_t>(exponent));
    }
}

void LayerPolicy::note_routing(const expert_device_policy & settings, const int32_t * routed, const float * weights,
                               int32_t n) {
    candidates_.clear();
    for (int32_t i = 0; i < n; ++i) {
        const int32_t expert = routed[i];
        if (expert < 0 || expert >= experts() || routed_now(expert)) {
            continue;
        }
        // Rounded before the addition: fused into one operation it would differ from the simulator's.
        const volatile double cooled = exact_heat(expert);
        heat_[at(expert)] = cooled + 1.0;
        heat_at_[at(expert)] = now_;
        const int64_t before = last_routed_[at(expert)];
        last_routed_[at(expert)] = now_;
        const float weight = weights != nullptr ? weights[i] : std::nanf("");
        const bool worth_it = std::isnan(weight) || weight >= settings.threshold;
        if (worth_it && slot_of_[at(expert)] < 0 && pins_[at(expert)] == EXPERT_DEVICE_AUTO) {
            candidates_.push_back({expert, weight, before});
        }
    }
    std::stable_sort(candidates_.begin(), candidates_.end(), [](const Candidate & a, const Candidate & b) {
        if (std::isnan(a.weight) || std::isnan(b.weight)) {
            return !std::isnan(a.weight) && std::isnan(b.weight);
        }
        return a.weight > b.weight;
    });
}

bool LayerPolicy::admitted(const expert_device_policy & settings, const Candidate & candidate, int32_t coldest) const {
    if (settings.kind == EXPERT_DEVICE_LRU) {
        return settings.window <= 0 || (candidate.before >= 0 && now_ - candidate.before <= settings.window);
    }
    const double least = exact_heat(expert_of_[at(coldest)]) * static_cast<double>(settings.margin);
    return exact_heat(candidate.expert) > least;
}

// ---- slots -----------------------------------------------------------------------------------------

int32_t LayerPolicy::free_slot(bool in_token) const {
    for (int32_t slot = 0; slot < slots(); ++slot) {
        if (expert_of_[at(slot)] < 0 && !(in_token && routed_now(withdrawn_[at(slot)]))) {
            return slot;
        }
    }
    return -1;
}

int32_t LayerPolicy::coldest_slot(int32_t kind, bool in_token) const {
    int32_t coldest = -1;
    for (int32_t slot = 0; slot < slots(); ++slot) {
        const int32_t expert = expert_of_[at(slot)];
        if (expert < 0 || loading_[at(slot)] != 0 || pin(expert) == EXPERT_DEVICE_PIN_GPU ||
            (in_token && routed_now(expert))) {
            continue;
        }
        if (coldest < 0 || colder(kind, expert, expert_of_[at(coldest)])) {
            coldest = slot;
        }
    }
    return coldest;
}

void LayerPolicy::reserve(int32_t slot, int32_t expert, std::vector<Insert> & out) {
    out.push_back({expert, slot, expert_of_[at(slot)]});
    if (expert_of_[at(slot)] >= 0) {
        release(slot);
        ++evictions_;
    }
    expert_of_[at(slot)] = expert;
    slot_of_[at(expert)] = slot;
    loading_[at(slot)] = 1;
    withdrawn_[at(slot)] = -1;
}

void LayerPolicy::release(int32_t slot) {
    slot_of_[at(expert_of_[at(slot)])] = -1;
    expert_of_[at(slot)] = -1;
    loading_[at(slot)] = 0;
}

void LayerPolicy::complete(int32_t slot, int32_t expert, bool ok) {
    if (slot < 0 || slot >= slots() || expert_of_[at(slot)] != expert || loading_[at(slot)] == 0) {
        return;
    }
    loading_[at(slot)] = 0;
    if (!ok || pin(expert) == EXPERT_DEVICE_PIN_CPU) {
        release(slot);
    }
}

// ---- pins, heat, size ------------------------------------------------------------------------------

void LayerPolicy::set_pin(int32_t expert, int32_t pin) {
    pins_[at(expert)] = static_cast<uint8_t>(pin);
    const int32_t slot = slot_of_[at(expert)];
    if (pin == EXPERT_DEVICE_PIN_CPU && slot >= 0 && loading_[at(slot)] == 0) {
        release(slot);
        withdrawn_[at(slot)] = expert;
    }
}

bool LayerPolicy::pin_waits() const {
    for (int32_t expert = 0; expert < experts(); ++expert) {
        if (pins_[at(expert)] == EXPERT_DEVICE_PIN_GPU && slot_of_[at(expert)] < 0) {
            return true;
        }
    }
    return false;
}

int32_t LayerPolicy::hottest_waiting_pin() const {
    int32_t hottest = -1;
    for (int32_t expert = 0; expert < experts(); ++expert) {
        if (pins_[at(expert)] == EXPERT_DEVICE_PIN_GPU && slot_of_[at(expert)] < 0 &&
            (hottest < 0 || exact_heat(expert) > exact_heat(hottest))) {
            hottest = expert;
        }
    }
    return hottest;
}

int32_t LayerPolicy::place_pins(int32_t kind, int32_t limit, bool in_token, std::vector<Insert> & out) {
    int32_t placed = 0;
    while (placed < limit && pin_waits()) {
        // The slot first: with more pins than slots, hundreds wait at every token for nothing.
        int32_t slot = free_slot(in_token);
        if (slot < 0) {
            slot = coldest_slot(kind, in_token);
        }
        if (slot < 0) {
            break;
        }
        reserve(slot, hottest_waiting_pin(), out);
        ++placed;
    }
    return placed;
}

void LayerPolicy::fill(const expert_device_policy & settings, int32_t limit, std::vector<Insert> & out) {
    int32_t left = limit - place_pins(settings.kind, limit, false, out);
    if (settings.kind == EXPERT_DEVICE_MANUAL || left <= 0 || free_slot(false) < 0) {
        return;
    }
    std::vector<int32_t> order;
    for (int32_t expert = 0; expert < experts(); ++expert) {
        if (slot_of_[at(expert)] < 0 && pins_[at(expert)] == EXPERT_DEVICE_AUTO && exact_heat(expert) > 0.0) {
            order.push_back(expert);
        }
    }
    std::stable_sort(order.begin(), order.end(),
                     [this](int32_t a, int32_t b) { return exact_heat(a) > exact_heat(b); });
    for (const int32_t expert : order) {
        const int32_t slot = free_slot(false);
        if (left <= 0 || slot < 0) {
            break;
        }
        reserve(slot, expert, out);
        --left;
    }
}

void LayerPolicy::resize(const expert_device_policy & settings, int32_t slots, std::vector<Move> & moves) {
    std::vector<Move> kept;
    for (int32_t slot = 0; slot < this->slots(); ++slot) {
        if (expert_of_[at(slot)] >= 0 && loading_[at(slot)] == 0) {
            kept.push_back({expert_of_[at(slot)], slot, slot});
        }
    }
    std::stable_sort(kept.begin(), kept.end(), [this, &settings](const Move & a, const Move & b) {
        const bool a_pinned = pin(a.expert) == EXPERT_DEVICE_PIN_GPU;
        const bool b_pinned = pin(b.expert) == EXPERT_DEVICE_PIN_GPU;
        return a_pinned != b_pinned ? a_pinned : colder(settings.kind, b.expert, a.expert);
    });
    kept.resize(std::min(kept.size(), at(std::max(slots, 0))));

    std::fill(slot_of_.begin(), slot_of_.end(), -1);
    expert_of_.assign(at(std::max(slots, 0)), -1);
    withdrawn_.assign(expert_of_.size(), -1);
    loading_.assign(expert_of_.size(), 0);
    for (const Move & move : kept) {
        if (move.from < slots) {
            expert_of_[at(move.from)] = move.expert;
        }
    }
    for (Move & move : kept) {
        if (move.from >= slots) {
            move.to = free_slot(false);
            expert_of_[at(move.to)] = move.expert;
        }
        slot_of_[at(move.expert)] = move.to;
    }
    std::sort(kept.begin(), kept.end(), [](const Move & a, const Move & b) { return a.to < b.to; });
    moves.insert(moves.end(), kept.begin(), kept.end());
}

void LayerPolicy::set_heat(const float * heat) {
    for (int32_t expert = 0; expert < experts(); ++expert) {
        const float saved = heat[expert];
        heat_[at(expert)] = std::isfinite(saved) && saved > 0.0F ? static_cast<double>(saved) : 0.0;
        heat_at_[at(expert)] = now_;
    }
}

}  // namespace expert_device
