// The trace simulator: LRU for all sizes in one pass, the cache's policy by replay, and the best there could be.
#include "simulate.h"

#include "policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <vector>

namespace expert_device {

namespace {

constexpr int32_t QUARTERS = EXPERT_SIMULATOR_QUARTERS;
constexpr int32_t NEVER = std::numeric_limits<int32_t>::max();

using Layer = expert_simulator_layer;
using Counts = expert_simulator_counts;

size_t at(int64_t index) {
    return static_cast<size_t>(index);
}

// The first step of a quarter; that of the one after the last is the number of steps.
int64_t quarter_start(const Layer & layer, int32_t quarter) {
    return layer.steps / QUARTERS * quarter + layer.steps % QUARTERS * quarter / QUARTERS;
}

int32_t check(const Layer * layer) {
    if (layer == nullptr || layer->experts < 1 || layer->experts > std::numeric_limits<int16_t>::max() ||
        layer->steps < 0 || layer->steps >= NEVER || layer->starts == nullptr || layer->starts[0] != 0) {
        return EXPERT_SIMULATOR_BAD_ARGUMENT;
    }
    for (int64_t step = 0; step < layer->steps; ++step) {
        const int64_t size = layer->starts[step + 1] - layer->starts[step];
        if (size < 0 || (size > 0 && layer->routed == nullptr)) {
            return EXPERT_SIMULATOR_BAD_ARGUMENT;
        }
    }
    std::vector<int32_t> seen(at(layer->experts), -1);  // the step an expert was routed to last
    for (int64_t step = 0; step < layer->steps; ++step) {
        for (int64_t entry = layer->starts[step]; entry < layer->starts[step + 1]; ++entry) {
            const int32_t expert = layer->routed[entry];
            if (expert < 0 || expert >= layer->experts || seen[at(expert)] == step) {
                return EXPERT_SIMULATOR_BAD_ROUTING;
            }
            seen[at(expert)] = static_cast<int32_t>(step);
        }
    }
    return EXPERT_SIMULATOR_OK;
}

// ---- LRU, all sizes --------------------------------------------------------------------------------

// Every expert's place in the order of recency, 0 for the latest: a hit for every pool of more slots than that.
class RecencyStack {
  public:
    explicit RecencyStack(int32_t experts) : place_(at(experts)), seen_(at(experts), 0) {
        for (int32_t expert = 0; expert < experts; ++expert) {
            place_[at(expert)] = static_cast<int16_t>(expert);  // those never seen sink below all others
        }
    }

    // Its place, or the number of experts (no pool is large enough) when it was not routed to before.
    int32_t place(int32_t expert) const {
        return seen_[at(expert)] != 0 ? place_[at(expert)] : static_cast<int32_t>(place_.size());
    }

    void to_top(int32_t expert) {
        seen_[at(expert)] = 1;
        const int16_t place = place_[at(expert)];
        if (place == 0) {
            return;
        }
        // One pass over a small array without branches beats any tree: compilers make vector code of it.
        int16_t * const places = place_.data();
        const size_t count = place_.size();
        for (size_t i = 0; i < count; ++i) {
            places[i] = static_cast<int16_t>(places[i] + (places[i] < place ? 1 : 0));
        }
        places[at(expert)] = 0;
    }

  private:
    std::vector<int16_t> place_;
    std::vector<uint8_t> seen_;
};

// Every expert's decayed count of its tokens.
class Heat {
  public:
    Heat(int32_t experts, double decay) : heat_(at(experts), 0.0), routed_(at(experts), 0), powers_(512), decay_(decay) {
        for (size_t exponent = 0; exponent < powers_.size(); ++exponent) {
            powers_[exponent] = std::pow(decay, static_cast<double>(exponent));
        }
    }

    // Its heat after being routed to in this step.
    double add(int32_t expert, int64_t step) {
        const size_t age = at(step - routed_[at(expert)]);
        const double factor = age < powers_.size() ? powers_[age] : std::pow(decay_, static_cast<double>(age));
        routed_[at(expert)] = step;
        return heat_[at(expert)] = heat_[at(expert)] * factor + 1.0;
    }

  private:
    std::vector<double> heat_;     // [experts], as of the step it was routed to last
    std::vector<int64_t> routed_;  // [experts]
    std::vector<double> powers_;   // of decay_, the first ones
    double decay_;
};

// An expert of a step, and its heat then.
struct Routed {
    int32_t expert;
    double heat;
};

void lru_curve(const Layer & layer, double decay, uint64_t * hits) {
    RecencyStack stack(layer.experts);
    Heat heat(layer.experts, decay);
    std::vector<Routed> routed;
    const size_t width = at(layer.experts) + 1;
    std::fill(hits, hits + QUARTERS * width, uint64_t{0});
    for (int32_t quarter = 0; quarter < QUARTERS; ++quarter) {
        uint64_t * const of_quarter = hits + at(quarter) * width;
        const int64_t last = quarter_start(layer, quarter + 1);
        std::vector<uint64_t> at_place(width, 0);
        for (int64_t step = quarter_start(layer, quarter); step < last; ++step) {
            routed.clear();
            for (int64_t entry = layer.starts[step]; entry < layer.starts[step + 1]; ++entry) {
                const int32_t expert = layer.routed[entry];
                ++at_place[at(stack.place(expert))];
                const Routed one{expert, heat.add(expert, step)};
                // Coldest first, and of equals the one recorded last.
                auto before = std::find_if(routed.begin(), routed.end(),
                                           [&one](const Routed & other) { return other.heat >= one.heat; });
                routed.insert(before, one);
            }
            for (const Routed & one : routed) {
                stack.to_top(one.expert);
            }
        }
        for (size_t slots = 1; slots < width; ++slots) {
            of_quarter[slots] = of_quarter[slots - 1] + at_place[slots - 1];
        }
    }
}

// ---- the cache's policy ----------------------------------------------------------------------------

void complete_all(LayerPolicy & policy, std::vector<Insert> & inserts) {
    for (const Insert & insert : inserts) {
        policy.complete(insert.slot, insert.expert, true);
    }
    inserts.clear();
}

void replay(const Layer & layer, const expert_simulator_policy & asked, int32_t slots, const uint8_t * pins,
            const float * heat, Counts * counts, int32_t & filled) {
    expert_device_policy settings{};
    settings.kind = asked.kind;
    settings.insert_cap = asked.insert_cap;
    settings.window = asked.window;
    settings.decay = asked.decay;
    settings.margin = asked.margin;
    settings.threshold = asked.threshold;
    LayerPolicy policy(layer.experts);
    std::vector<LayerPolicy::Move> moves;
    policy.resize(settings, slots, moves);
    if (pins != nullptr) {
        for (int32_t expert = 0; expert < layer.experts; ++expert) {
            policy.set_pin(expert, pins[expert]);
        }
    }
    if (heat != nullptr) {
        policy.set_heat(heat);
    }
    std::vector<Insert> inserts;
    policy.fill(settings, slots, inserts);
    filled = static_cast<int32_t>(inserts.size());
    complete_all(policy, inserts);
    for (int32_t quarter = 0; quarter < QUARTERS; ++quarter) {
        Counts & told = counts[quarter];
        const uint64_t evictions = policy.evictions();
        const int64_t last = quarter_start(layer, quarter + 1);
        for (int64_t step = quarter_start(layer, quarter); step < last; ++step) {
            const int64_t first = layer.starts[step];
            const auto count = static_cast<int32_t>(layer.starts[step + 1] - first);
            const int32_t * const routed = layer.routed + first;
            uint64_t hits = 0;
            for (int32_t i = 0; i < count; ++i) {
                hits += policy.ready_slot(routed[i]) >= 0 ? 1 : 0;
            }
            told.hits += hits;
            told.misses += static_cast<uint64_t>(count) - hits;
            policy.step(settings, routed, layer.weights != nullptr ? layer.weights + first : nullptr, count, inserts);
            told.inserts += inserts.size();
            complete_all(policy, inserts);
        }
        told.evictions = policy.evictions() - evictions;
    }
}

// ---- the best there could be -----------------------------------------------------------------------

// For every entry the step in which its expert is routed to next, NEVER for none; `first_use` is [experts].
std::vector<int32_t> next_uses(const Layer & layer, std::vector<int32_t> & first_use) {
    std::vector<int32_t> next(at(layer.starts[layer.steps]));
    first_use.assign(at(layer.experts), NEVER);
    for (int64_t step = layer.steps; step-- > 0;) {
        for (int64_t entry = layer.starts[step]; entry < layer.starts[step + 1]; ++entry) {
            next[at(entry)] = first_use[at(layer.routed[entry])];
        }
        for (int64_t entry = layer.starts[step]; entry < layer.starts[step + 1]; ++entry) {
            first_use[at(layer.routed[entry])] = static_cast<int32_t>(step);
        }
    }
    return next;
}

// A pool that knows when each of its experts is routed to next.
class ForesightPool {
  public:
    ForesightPool(int32_t experts, int32_t slots) : slot_of_(at(experts), -1), slots_(at(slots)) {
        const size_t room = at(std::min(experts, slots));
        expert_of_.reserve(room);
        next_.reserve(room);
    }

    bool holds(int32_t expert) const { return slot_of_[at(expert)] >= 0; }

    void set_next(int32_t expert, int32_t next) { next_[at(slot_of_[at(expert)])] = next; }

    // Takes `expert` in where that is of use: not to be routed to again, or later than all others, it is of none.
    void offer(int32_t expert, int32_t next, Counts & counts) {
        if (next == NEVER || slots_ == 0) {
            return;
        }
        size_t slot = expert_of_.size();
        if (slot < slots_) {
            expert_of_.push_back(expert);
            next_.push_back(next);
        } else {
            slot = latest();
            if (next_[slot] <= next) {
                return;
            }
            slot_of_[at(expert_of_[slot])] = -1;
            expert_of_[slot] = expert;
            next_[slot] = next;
            ++counts.evictions;
        }
        slot_of_[at(expert)] = static_cast<int32_t>(slot);
        ++counts.inserts;
    }

  private:
    size_t latest() const {
        int32_t latest = next_[0];
        for (const int32_t next : next_) {
            latest = std::max(latest, next);
        }
        return at(std::find(next_.begin(), next_.end(), latest) - next_.begin());
    }

    std::vector<int32_t> slot_of_;    // [experts], -1 none
    std::vector<int32_t> expert_of_;  // by slot, of those in use
    std::vector<int32_t> next_;       // the same, the step it is routed to next
    size_t slots_;
};

// An expert to offer, and the step it is routed to next.
struct Offer {
    int32_t expert, next;
};

// Soonest first: then no one that was taken in has to go again for another one of the same token.
void offer_all(std::vector<Offer> & offers, ForesightPool & pool, Counts & counts) {
    std::sort(offers.begin(), offers.end(), [](const Offer & a, const Offer & b) {
        return a.next != b.next ? a.next < b.next : a.expert < b.expert;
    });
    for (const Offer & offer : offers) {
        pool.offer(offer.expert, offer.next, counts);
    }
    offers.clear();
}

void oracle(const Layer & layer, int32_t slots, bool prefilled, Counts * counts, int32_t & filled) {
    std::vector<int32_t> first_use;
    const std::vector<int32_t> next = next_uses(layer, first_use);
    ForesightPool pool(layer.experts, slots);
    std::vector<Offer> offers;
    Counts before{};
    if (prefilled) {
        for (int32_t expert = 0; expert < layer.experts; ++expert) {
            offers.push_back({expert, first_use[at(expert)]});
        }
        offer_all(offers, pool, before);
    }
    filled = static_cast<int32_t>(before.inserts);
    for (int32_t quarter = 0; quarter < QUARTERS; ++quarter) {
        Counts & told = counts[quarter];
        const int64_t last = quarter_start(layer, quarter + 1);
        for (int64_t step = quarter_start(layer, quarter); step < last; ++step) {
            for (int64_t entry = layer.starts[step]; entry < layer.starts[step + 1]; ++entry) {
                const int32_t expert = layer.routed[entry];
                if (pool.holds(expert)) {
                    ++told.hits;
                    pool.set_next(expert, next[at(entry)]);
                } else {
                    ++told.misses;
                    offers.push_back({expert, next[at(entry)]});
                }
            }
            offer_all(offers, pool, told);
        }
    }
}

bool usable(const expert_simulator_policy * policy) {
    return policy != nullptr && policy->kind >= EXPERT_DEVICE_LRU && policy->kind <= EXPERT_DEVICE_MANUAL &&
           policy->insert_cap >= 1 && policy->window >= 0 && policy->decay > 0.0F && policy->decay <= 1.0F &&
           policy->margin >= 1.0F && policy->threshold >= 0.0F;
}

// Runs `body` on a layer that is in order, where the other arguments are; nothing is thrown past here.
template <typename Body> int32_t run(const Layer * layer, bool arguments_right, const Body & body) {
    try {
        const int32_t checked = check(layer);
        if (checked != EXPERT_SIMULATOR_OK) {
            return checked;
        }
        if (!arguments_right) {
            return EXPERT_SIMULATOR_BAD_ARGUMENT;
        }
        body();
        return EXPERT_SIMULATOR_OK;
    } catch (const std::bad_alloc &) {
        return EXPERT_SIMULATOR_NO_MEMORY;
    }
}

void clear(Counts * counts) {
    std::fill(counts, counts + QUARTERS, Counts{});
}

}  // namespace

}  // namespace expert_device

// ---- exports ---------------------------------------------------------------------------------------

int32_t expert_simulator_abi(void) {
    return EXPERT_SIMULATOR_ABI;
}

int32_t expert_simulator_lru_curve(const expert_simulator_layer * layer, float decay, uint64_t * hits) {
    const bool right = decay > 0.0F && decay <= 1.0F && hits != nullptr;
    return expert_device::run(layer, right,
                              [&] { expert_device::lru_curve(*layer, static_cast<double>(decay), hits); });
}

int32_t expert_simulator_replay(const expert_simulator_layer * layer, const expert_simulator_policy * policy,
                                int32_t slots, const uint8_t * pins, const float * heat,
                                expert_simulator_counts * counts, int32_t * filled) {
    const bool right = expert_device::usable(policy) && slots >= 0 && counts != nullptr && filled != nullptr;
    return expert_device::run(layer, right, [&] {
        expert_device::clear(counts);
        expert_device::replay(*layer, *policy, std::min(slots, layer->experts), pins, heat, counts, *filled);
    });
}

int32_t expert_simulator_oracle(const expert_simulator_layer * layer, int32_t slots, int32_t prefilled,
                                expert_simulator_counts * counts, int32_t * filled) {
    const bool right = slots >= 0 && counts != nullptr && filled != nullptr;
    return expert_device::run(layer, right, [&] {
        expert_device::clear(counts);
        expert_device::oracle(*layer, slots, prefilled != 0, counts, *filled);
    });
}
