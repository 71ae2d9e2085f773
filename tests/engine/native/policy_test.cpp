// Drives LayerPolicy for long at random and checks what must hold whatever it decides. Built with sanitizers.
#include "policy.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>

namespace {

using expert_device::Insert;
using expert_device::LayerPolicy;

void check(bool condition, const char * what) {
    if (!condition) {
        std::fprintf(stderr, "failed: %s\n", what);
        std::exit(1);
    }
}

class Drive {
  public:
    Drive(uint32_t seed, int32_t experts) : random_(seed), policy_(experts) {}

    void act() {
        const int32_t what = below(20);
        if (what < 11) {
            step();
        } else if (what < 15) {
            complete(below(8) != 0);
        } else if (what < 17) {
            policy_.set_pin(below(policy_.experts()), below(3));
        } else if (what == 17) {
            std::vector<Insert> inserts;
            const int32_t limit = below(5);
            policy_.fill(settings_, limit, inserts);
            accept(inserts, limit);
        } else if (what == 18) {
            settings_ = {below(4), 1 + below(4), below(6), 0.5F + 0.1F * static_cast<float>(below(6)),
                         1.0F + 0.25F * static_cast<float>(below(3)), 0.1F * static_cast<float>(below(4)), 0, 0};
        } else if (below(4) == 0) {
            resize();
        } else {
            std::vector<float> heat(static_cast<size_t>(policy_.experts()));
            for (float & value : heat) {
                value = below(10) == 0 ? std::nanf("") : static_cast<float>(below(100)) - 10.0F;
            }
            policy_.set_heat(heat.data());
        }
        check_table();
    }

    uint64_t evictions() const { return policy_.evictions(); }

  private:
    int32_t below(int32_t limit) { return std::uniform_int_distribution<int32_t>(0, limit - 1)(random_); }

    void step() {
        std::set<int32_t> routed;
        const int32_t used = 1 + below(4);
        for (int32_t i = 0; i < used; ++i) {
            // Squared: low numbers come often, so that there are hits.
            const int32_t expert = below(policy_.experts()) * below(policy_.experts()) / policy_.experts();
            routed.insert(expert);
        }
        if (below(20) == 0) {
            routed.insert(-1);
        }
        const std::vector<int32_t> ids(routed.begin(), routed.end());
        std::vector<float> weights;
        for (size_t i = 0; i < ids.size(); ++i) {
            weights.push_back(below(5) == 0 ? std::nanf("") : 0.1F * static_cast<float>(below(10)));
        }
        std::vector<int32_t> ready_before;
        for (const int32_t id : ids) {
            ready_before.push_back(id < 0 ? -1 : policy_.ready_slot(id));
        }
        std::vector<Insert> inserts;
        policy_.step(settings_, ids.data(), below(10) == 0 ? nullptr : weights.data(),
                     static_cast<int32_t>(ids.size()), inserts);
        for (size_t i = 0; i < ids.size(); ++i) {
            check(ready_before[i] < 0 || policy_.ready_slot(ids[i]) == ready_before[i],
                  "an expert that a token uses keeps its slot");
        }
        accept(inserts, settings_.insert_cap);
    }

    void accept(const std::vector<Insert> & inserts, int32_t cap) {
        check(static_cast<int32_t>(inserts.size()) <= cap, "no more inserts than allowed");
        for (const Insert & insert : inserts) {
            check(policy_.pin(insert.expert) != EXPERT_DEVICE_PIN_CPU, "what is pinned to the CPU is not inserted");
            check(insert.evicted < 0 || policy_.pin(insert.evicted) == EXPERT_DEVICE_AUTO,
                  "what is pinned is not evicted");
            check(policy_.lane(insert.expert) == EXPERT_DEVICE_LANE_COPYING, "an insert is being copied");
            if (settings_.kind == EXPERT_DEVICE_MANUAL ||
                (settings_.kind == EXPERT_DEVICE_FROZEN && insert.evicted >= 0)) {
                check(policy_.pin(insert.expert) == EXPERT_DEVICE_PIN_GPU, "only pins move");
            }
            loading_.push_back(insert);
        }
    }

    void complete(bool ok) {
        if (loading_.empty()) {
            policy_.complete(below(policy_.slots() + 2) - 1, below(policy_.experts()), ok);  // no such copy
            return;
        }
        const size_t which = static_cast<size_t>(below(static_cast<int32_t>(loading_.size())));
        const Insert done = loading_[which];
        loading_.erase(loading_.begin() + static_cast<std::ptrdiff_t>(which));
        policy_.complete(done.slot, done.expert, ok);
        check((policy_.ready_slot(done.expert) == done.slot) ==
                  (ok && policy_.pin(done.expert) != EXPERT_DEVICE_PIN_CPU),
              "a copy that went well is ready unless the CPU shall have it");
    }

    void resize() {
        while (!loading_.empty()) {
            complete(true);
        }
        const int32_t slots = below(policy_.experts() + 1);
        std::vector<LayerPolicy::Move> moves;
        policy_.resize(settings_, slots, moves);
        check(static_cast<int32_t>(moves.size()) <= slots, "no more experts are kept than there are slots");
        for (const LayerPolicy::Move & move : moves) {
            check(policy_.ready_slot(move.expert) == move.to, "a kept expert is ready in its new slot");
            check(move.from == move.to || move.from >= slots, "who can stay does");
        }
    }

    void check_table() {
        std::vector<int32_t> holder(static_cast<size_t>(policy_.slots()), -1);
        int32_t resident = 0;
        for (int32_t expert = 0; expert < policy_.experts(); ++expert) {
            const float heat = policy_.heat(expert);
            check(heat >= 0.0F && std::isfinite(heat), "heat is a plain number");
            const int32_t slot = policy_.ready_slot(expert);
            check((slot >= 0) == (policy_.lane(expert) == EXPERT_DEVICE_LANE_GPU), "ready experts are on the GPU lane");
            if (slot >= 0) {
                check(slot < policy_.slots() && holder[static_cast<size_t>(slot)] < 0, "a slot holds one expert");
                check(policy_.pin(expert) != EXPERT_DEVICE_PIN_CPU, "what is pinned to the CPU is not in the pool");
                holder[static_cast<size_t>(slot)] = expert;
                ++resident;
            }
        }
        check(resident == policy_.resident(), "residents are counted");
        for (const Insert & insert : loading_) {
            check(holder[static_cast<size_t>(insert.slot)] < 0, "a slot being copied into holds nothing else");
            holder[static_cast<size_t>(insert.slot)] = insert.expert;
        }
    }

    std::mt19937 random_;
    LayerPolicy policy_;
    expert_device_policy settings_{EXPERT_DEVICE_LRU, 2, 4, 0.9F, 1.1F, 0.0F, 0, 0};
    std::vector<Insert> loading_;
};

}  // namespace

int main() {
    uint64_t evictions = 0;
    for (uint32_t seed = 0; seed < 40; ++seed) {
        Drive drive(seed, 1 + static_cast<int32_t>(seed));
        for (int i = 0; i < 5000; ++i) {
            drive.act();
        }
        evictions += drive.evictions();
    }
    check(evictions > 1000, "the drive evicts");
    std::puts("ok");
}
