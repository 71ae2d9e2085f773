// What a computed split teaches: sums for readers, counts of routings, and the policy's next inserts.
#include "compute.h"
#include "expert_device.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace expert_device {

namespace {

// Bytes of copies that may wait in the background; beyond it nothing more is inserted, so that what is
// evicted for them is not missing for long.
constexpr uint64_t most_waiting_bytes = uint64_t{256} << 20;
// Readers look at most so often; heat alone is not worth a copy of a layer's state for every token.
constexpr uint64_t publish_interval_ns = 40'000'000;

// The distinct experts of one token and their weights.
struct Routed {
    std::vector<int32_t> experts;
    std::vector<float> weights;

    void read(const Context & context, size_t top_k, size_t token) {
        experts.clear();
        weights.clear();
        for (size_t pair = token * top_k; pair < (token + 1) * top_k; ++pair) {
            const int32_t expert = context.pairs[pair].expert;
            if (std::find(experts.begin(), experts.end(), expert) == experts.end()) {
                experts.push_back(expert);
                weights.push_back(context.weights.empty() ? std::numeric_limits<float>::quiet_NaN()
                                                          : context.weights[pair]);
            }
        }
    }
};

void step_policy(Context & context, Layer & layer, Pool * pool, const Split & split) {
    static thread_local Routed routed;
    static thread_local std::vector<Insert> inserts;
    bool changed = false;
    expert_device_policy settings = context.settings;
    const bool waits = settings.wait_for_copies != 0;
    if (pool == nullptr || (!waits && pool->copier.waiting_bytes() > most_waiting_bytes)) {
        settings.insert_cap = 0;
    }
    for (int64_t token = 0; token < split.tokens(); ++token) {
        routed.read(context, static_cast<size_t>(split.top_k()), static_cast<size_t>(token));
        const auto n = static_cast<int32_t>(routed.experts.size());
        context.facts.trace(split.layer, routed.experts.data(), routed.weights.data(), n,
                            context.decoded_tokens + static_cast<uint32_t>(token));
        inserts.clear();
        layer.policy.step(settings, routed.experts.data(), routed.weights.data(), n, inserts);
        if (pool == nullptr || inserts.empty()) {
            continue;
        }
        changed = true;
        for (const Insert & insert : inserts) {
            context.facts.add_insert(EXPERT_DEVICE_DECODE, layer.expert_bytes(), insert.evicted >= 0);
        }
        pool->copy_in(layer, inserts);
        if (waits) {
            pool->copier.wait_for(layer.index);
            take_copies(context, *pool);
        }
    }
    const uint64_t now = now_ns();
    if (changed || now - layer.published_ns > publish_interval_ns) {
        context.facts.publish(split.layer, layer.policy);
        layer.published_ns = now;
    }
}

}  // namespace

void read_routing_weights(Context & context, const Split & split, int32_t phase) {
    context.weights.clear();
    const ggml_tensor * from = split.routing_weights;
    if (from == nullptr || phase != EXPERT_DEVICE_DECODE) {
        return;
    }
    for (const Pair & pair : context.pairs) {
        float weight = 0;
        std::memcpy(&weight,
                    static_cast<const char *>(from->data) + static_cast<size_t>(pair.token) * from->nb[2] +
                        static_cast<size_t>(pair.rank) * from->nb[1],
                    sizeof weight);
        context.weights.push_back(weight);
    }
}

void learn(Context & context, Layer & layer, Pool * pool, const Split & split, SplitFacts & facts) {
    if (!facts.whole_layer) {
        facts.hits = facts.misses = facts.streamed = 0;  // its pairs are counted with the layer's first split
    }
    context.facts.add(facts);
    if (!facts.whole_layer) {
        return;
    }
    context.routing.add(split.layer, split.experts, facts.phase, context.pairs.data(), context.pairs.size());
    if (facts.phase != EXPERT_DEVICE_DECODE) {
        return;  // a prompt says little of what the answer will need
    }
    if (facts.new_batch) {
        context.decoded_tokens += static_cast<uint32_t>(context.last_batch_tokens);
        context.last_batch_tokens = facts.tokens;
    }
    step_policy(context, layer, pool != nullptr && pool->usable() ? pool : nullptr, split);
}

}  // namespace expert_device
