// Runs random routings, whole and damaged, through every function of the simulator. Built with sanitizers.
#include "simulate.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

void check(bool condition, const char * what) {
    if (!condition) {
        std::fprintf(stderr, "failed: %s\n", what);
        std::exit(1);
    }
}

// A layer and the arrays it points to.
struct Routing {
    std::vector<int64_t> starts{0};
    std::vector<int32_t> routed;
    std::vector<float> weights;
    int32_t experts = 1;

    expert_simulator_layer layer(bool with_weights) const {
        return {experts, static_cast<int64_t>(starts.size()) - 1, starts.data(), routed.data(),
                with_weights ? weights.data() : nullptr};
    }
};

class Drive {
  public:
    explicit Drive(uint32_t seed) : random_(seed) {}

    void run() {
        const Routing routing = draw();
        const expert_simulator_layer layer = routing.layer(below(2) != 0);
        const auto width = static_cast<size_t>(routing.experts) + 1;
        std::vector<uint64_t> hits(EXPERT_SIMULATOR_QUARTERS * width);
        check(expert_simulator_lru_curve(&layer, 0.9F, hits.data()) == EXPERT_SIMULATOR_OK, "the curve");
        for (size_t at = 1; at < hits.size(); ++at) {
            check(at % width == 0 || hits[at - 1] <= hits[at], "more slots, fewer hits");
        }
        const int32_t slots = below(routing.experts + 3);
        check(count(layer, slots, -1) >= count(layer, slots, EXPERT_DEVICE_LRU), "lru beats the oracle");
        for (const int32_t kind : {EXPERT_DEVICE_DECAY, EXPERT_DEVICE_FROZEN, EXPERT_DEVICE_MANUAL}) {
            check(count(layer, slots, -1) >= count(layer, slots, kind), "a policy beats the oracle");
        }
        damage(routing);
    }

  private:
    int32_t below(int32_t limit) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(limit)); }

    Routing draw() {
        Routing made;
        made.experts = 1 + below(20);
        for (int32_t step = below(30); step > 0; --step) {
            std::vector<bool> taken(static_cast<size_t>(made.experts));
            for (int32_t wanted = below(5); wanted > 0; --wanted) {
                const int32_t expert = below(made.experts);
                if (!taken[static_cast<size_t>(expert)]) {
                    taken[static_cast<size_t>(expert)] = true;
                    made.routed.push_back(expert);
                    made.weights.push_back(below(3) == 0 ? std::nanf("") : 0.1F * static_cast<float>(below(9)));
                }
            }
            made.starts.push_back(static_cast<int64_t>(made.routed.size()));
        }
        return made;
    }

    // Hits of a policy, of the prefilled oracle for -1.
    uint64_t count(const expert_simulator_layer & layer, int32_t slots, int32_t kind) {
        expert_simulator_counts counts[EXPERT_SIMULATOR_QUARTERS];
        int32_t filled = -1;
        std::vector<uint8_t> pins(static_cast<size_t>(layer.experts), EXPERT_DEVICE_AUTO);
        pins[0] = EXPERT_DEVICE_PIN_GPU;
        const std::vector<float> heat(pins.size(), 1.5F);
        const expert_simulator_policy policy{kind, 1 + below(3), below(5), 0.9F, 1.1F, 0.0F};
        const int32_t result =
            kind < 0 ? expert_simulator_oracle(&layer, slots, 1, counts, &filled)
                     : expert_simulator_replay(&layer, &policy, slots, below(2) != 0 ? pins.data() : nullptr,
                                               below(2) != 0 ? heat.data() : nullptr, counts, &filled);
        check(result == EXPERT_SIMULATOR_OK, "a run");
        check(filled >= 0 && filled <= slots, "more were filled in than there are slots");
        uint64_t hits = 0;
        uint64_t all = 0;
        for (const expert_simulator_counts & quarter : counts) {
            hits += quarter.hits;
            all += quarter.hits + quarter.misses;
        }
        check(all == static_cast<uint64_t>(layer.starts[layer.steps]), "a routing is neither hit nor miss");
        return hits;
    }

    // What is wrong is refused, and nothing outside the arrays is touched.
    void damage(Routing routing) {
        std::vector<uint64_t> hits(EXPERT_SIMULATOR_QUARTERS * (static_cast<size_t>(routing.experts) + 1));
        check(expert_simulator_lru_curve(nullptr, 1.0F, hits.data()) == EXPERT_SIMULATOR_BAD_ARGUMENT, "no layer");
        expert_simulator_layer layer = routing.layer(true);
        check(expert_simulator_lru_curve(&layer, 1.0F, nullptr) == EXPERT_SIMULATOR_BAD_ARGUMENT, "no result");
        check(expert_simulator_lru_curve(&layer, std::nanf(""), hits.data()) == EXPERT_SIMULATOR_BAD_ARGUMENT, "NaN");
        layer.experts = below(2) != 0 ? 0 : 32768;
        check(expert_simulator_lru_curve(&layer, 1.0F, hits.data()) == EXPERT_SIMULATOR_BAD_ARGUMENT, "experts");
        if (!routing.routed.empty()) {
            const int32_t wrong[] = {-1, routing.experts, 1 << 30, -(1 << 30)};
            routing.routed[static_cast<size_t>(below(static_cast<int32_t>(routing.routed.size())))] = wrong[below(4)];
            layer = routing.layer(true);
            check(expert_simulator_lru_curve(&layer, 1.0F, hits.data()) == EXPERT_SIMULATOR_BAD_ROUTING, "an expert");
            layer.routed = nullptr;
            check(expert_simulator_lru_curve(&layer, 1.0F, hits.data()) == EXPERT_SIMULATOR_BAD_ARGUMENT, "no ids");
            routing.starts[0] = 1;
            layer = routing.layer(true);
            check(expert_simulator_lru_curve(&layer, 1.0F, hits.data()) == EXPERT_SIMULATOR_BAD_ARGUMENT, "steps");
        }
    }

    std::mt19937 random_;
};

}  // namespace

int main() {
    check(expert_simulator_abi() == EXPERT_SIMULATOR_ABI, "the interface");
    for (uint32_t seed = 1; seed <= 3000; ++seed) {
        Drive(seed).run();
    }
    std::puts("ok");
    return 0;
}
