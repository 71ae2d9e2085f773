// The copier and the facts as a context uses them, from every thread that touches them. Built with sanitizers.
#include "host_device.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

namespace {

constexpr int32_t n_tokens = 1500;

struct DeviceLost {};

}  // namespace

namespace expert_device {

Gate gate;
std::atomic<int> copies_for_a_failure{0};

}  // namespace expert_device

// The device.
void ggml_backend_tensor_set(ggml_tensor * tensor, const void * data, size_t offset, size_t size) {
    {
        std::unique_lock<std::mutex> lock(expert_device::gate.mutex);
        expert_device::gate.reached = true;
        expert_device::gate.moved.notify_all();
        expert_device::gate.moved.wait(lock, [] { return !expert_device::gate.closed; });
        expert_device::gate.reached = false;
    }
    static std::atomic<int> copies{0};
    const int every = expert_device::copies_for_a_failure.load();
    if (every > 0 && copies.fetch_add(1) % every == 0) {
        throw DeviceLost();
    }
    std::memcpy(static_cast<char *>(tensor->data) + offset, data, size);
}

namespace {

using namespace expert_device;

// What a context does with one pool, under one lock as there; readers take none of it.
class Cache {
  public:
    Cache() {
        for (int32_t layer = 0; layer < n_layers; ++layer) {
            layers_.emplace_back(layer);
        }
    }

    Facts facts;
    Copier & copier() { return copier_; }

    void compute(int32_t token, std::mt19937 & random) {
        for (TestLayer & layer : layers_) {
            std::lock_guard<std::mutex> lock(mutex_);
            take_done();
            int32_t routed[top_k] = {static_cast<int32_t>(random() % n_experts), 0};
            routed[1] = (routed[0] + 1 + static_cast<int32_t>(random() % (n_experts - 1))) % n_experts;
            SplitFacts split;
            split.phase = EXPERT_DEVICE_DECODE;
            split.tokens = 1;
            split.new_batch = layer.index == 0;
            for (const int32_t expert : routed) {
                const int32_t slot = layer.policy.ready_slot(expert);
                check(slot < 0 || holds(layer.slots->at(slot), pattern(layer.index, expert)), "a ready slot holds its expert");
                (slot < 0 ? split.misses : split.hits) += 1;
            }
            if (token % 3 == 0) {
                stream(layer, routed[0]);
                split.streamed = 1;
                split.streamed_bytes = expert_bytes;
            }
            facts.add(split);
            const float weights[top_k] = {0.75F, 0.25F};
            facts.trace(layer.index, routed, weights, top_k, static_cast<uint32_t>(token));
            std::vector<Insert> inserts;
            layer.policy.step(settings_, routed, weights, top_k, inserts);
            copy_in(layer, inserts);
            if (token % 5 == 0) {
                copier_.wait_for(layer.index);
                take_done();
                for (const Insert & insert : inserts) {
                    check(layer.policy.lane(insert.expert) != EXPERT_DEVICE_LANE_COPYING, "nothing is copied after the wait");
                }
            }
            facts.publish(layer.index, layer.policy);
            facts.end_split(split.new_batch);
        }
    }

    void resize(int32_t index, int32_t n) {
        std::lock_guard<std::mutex> lock(mutex_);
        TestLayer & layer = layers_[static_cast<size_t>(index)];
        std::vector<CopyJob> dropped, ended;
        copier_.withdraw(index, dropped, ended);
        for (const CopyJob & job : dropped) {
            layer.policy.complete(job.slot, job.expert, false);
        }
        for (const CopyJob & job : ended) {
            layer.policy.complete(job.slot, job.expert, job.ok);
        }
        for (int32_t expert = 0; expert < n_experts; ++expert) {
            check(layer.policy.lane(expert) != EXPERT_DEVICE_LANE_COPYING, "nothing is copied after a withdrawal");
        }
        auto next = std::make_unique<Slots>(n);
        std::vector<LayerPolicy::Move> moves;
        layer.policy.resize(settings_, n, moves);
        for (const LayerPolicy::Move & move : moves) {
            std::memcpy(next->at(move.to), layer.slots->at(move.from), expert_bytes);
        }
        layer.slots = std::move(next);
        std::vector<Insert> inserts;
        layer.policy.fill(settings_, n_experts, inserts);
        copy_in(layer, inserts);
        facts.publish(index, layer.policy);
    }

    void pin(int32_t index, int32_t expert, int32_t pin) {
        std::lock_guard<std::mutex> lock(mutex_);
        layers_[static_cast<size_t>(index)].policy.set_pin(expert, pin);
        facts.publish(index, layers_[static_cast<size_t>(index)].policy);
    }

  private:
    void take_done() {
        std::vector<CopyJob> done;
        copier_.take_done(done);
        for (const CopyJob & job : done) {
            layers_[static_cast<size_t>(job.layer)].policy.complete(job.slot, job.expert, job.ok);
        }
    }

    void copy_in(TestLayer & layer, const std::vector<Insert> & inserts) {
        for (const Insert & insert : inserts) {
            facts.add_insert(EXPERT_DEVICE_DECODE, expert_bytes, insert.evicted >= 0);
            copier_.enqueue(layer.job(insert.expert, insert.slot));
        }
    }

    // An urgent copy on the copier's thread, whose result this thread reads.
    void stream(TestLayer & layer, int32_t expert) {
        Slots staging(1);
        bool ok = false;
        copier_.start_task([&] {
            CopyJob job = layer.job(expert, 0);
            for (Piece & piece : job.pieces) {
                piece.to = &staging.tensor;
            }
            ok = copy_pieces(job.pieces);
        });
        copier_.finish_task();
        check(!ok || holds(staging.at(0), pattern(layer.index, expert)), "a finished task has copied");
    }

    expert_device_policy settings_{EXPERT_DEVICE_LRU, 4, 0, 0.98F, 1.1F, 0.0F, EXPERT_DEVICE_STREAM_OFF, 0};
    std::mutex mutex_;
    std::vector<TestLayer> layers_;
    Copier copier_;
};

void read_sums(const Cache & cache) {
    expert_device_totals sum = {};
    static thread_local expert_device_totals last = {};
    cache.facts.totals(EXPERT_DEVICE_DECODE, sum);
    check(sum.hits + sum.misses == top_k * sum.layers, "every pair of a layer is a hit or a miss");
    check(sum.hits >= last.hits && sum.inserts >= last.inserts && sum.tokens >= last.tokens, "sums never go back");
    check(sum.evictions <= sum.inserts && sum.inserted_bytes == sum.inserts * expert_bytes, "inserts are counted whole");
    last = sum;
    std::vector<expert_device_token> batches(Facts::batches_kept + 1);
    const int32_t n = cache.facts.batches(0, batches.data(), static_cast<int32_t>(batches.size()));
    check(n <= static_cast<int32_t>(Facts::batches_kept), "no more batches than are kept");
    for (int32_t i = 0; i < n; ++i) {
        const expert_device_token & batch = batches[static_cast<size_t>(i)];
        check(i == 0 || batch.index == batches[static_cast<size_t>(i) - 1].index + 1, "batches follow each other");
        check(batch.hits + batch.misses == top_k * n_layers, "a batch that is told of is whole");
    }
}

void read_experts(Cache & cache) {
    constexpr size_t cells = static_cast<size_t>((n_layers + 1) * (n_experts + 1));
    std::vector<float> heat(cells);
    std::vector<uint8_t> lane(cells), pin(cells);
    cache.facts.experts(heat.data(), lane.data(), pin.data(), n_layers + 1, n_experts + 1);
    for (size_t i = 0; i < cells; ++i) {
        const bool beyond = i / (n_experts + 1) == n_layers || i % (n_experts + 1) == n_experts;
        check(std::isfinite(heat[i]) && heat[i] >= 0 && lane[i] <= EXPERT_DEVICE_LANE_COPYING && pin[i] <= EXPERT_DEVICE_PIN_CPU,
              "an expert's state is one of those there are");
        check(!beyond || (heat[i] == 0 && lane[i] == 0 && pin[i] == 0), "what is no expert has no state");
    }
    check(cache.copier().waiting_bytes() <= 2 * n_layers * n_experts * expert_bytes, "no more waits than there are experts");
}

void read_trace(Cache & cache, int round) {
    if (round % 50 == 0) {
        cache.facts.set_trace(round % 100 == 0 ? 40 : 0);
    }
    std::vector<expert_device_routing_entry> entries(64);
    uint64_t dropped = 0;
    const int32_t n = cache.facts.take_trace(entries.data(), 64, dropped);
    check(n <= 40, "a trace keeps to its room");
    for (int32_t i = 1; i < n; ++i) {
        check(entries[static_cast<size_t>(i)].token >= entries[static_cast<size_t>(i) - 1].token, "a trace is in order");
    }
}

void everything_at_once() {
    Cache cache;
    copies_for_a_failure = 61;
    std::atomic<bool> over{false};
    std::vector<std::thread> others;
    const auto until_over = [&](const std::function<void(int)> & what) {
        others.emplace_back([&over, what] {
            for (int round = 0; !over.load(); ++round) {
                what(round);
                std::this_thread::yield();
            }
        });
    };
    std::mt19937 chance(7);
    until_over([&](int) {
        cache.resize(static_cast<int32_t>(chance() % n_layers), static_cast<int32_t>(chance() % (n_experts + 1)));
        cache.pin(static_cast<int32_t>(chance() % n_layers), static_cast<int32_t>(chance() % n_experts), static_cast<int32_t>(chance() % 3));
    });
    until_over([&](int) { read_sums(cache); });
    until_over([&](int) { read_experts(cache); });
    until_over([&](int round) { read_trace(cache, round); });
    std::mt19937 random(3);
    for (int32_t token = 0; token < n_tokens; ++token) {
        cache.compute(token, random);
        std::this_thread::yield();
    }
    over = true;
    for (std::thread & other : others) {
        other.join();
    }
    copies_for_a_failure = 0;
    for (int32_t layer = 0; layer < n_layers; ++layer) {
        cache.resize(layer, 0);
    }
    check(cache.copier().waiting_bytes() == 0, "nothing waits in the end");
    expert_device_totals sum = {};
    cache.facts.totals(EXPERT_DEVICE_DECODE, sum);
    check(sum.tokens == n_tokens && sum.layers == n_tokens * n_layers, "every token of every layer was counted");
    check(sum.hits > 0 && sum.misses > 0 && sum.evictions > 0, "there were hits, misses and evictions");
}

int32_t batches_told(const Facts & facts, expert_device_token & newest) {
    std::vector<expert_device_token> batches(8);
    const int32_t n = facts.batches(0, batches.data(), 8);
    newest = n > 0 ? batches[static_cast<size_t>(n) - 1] : expert_device_token{};
    return n;
}

void a_batch_is_told_of_when_nothing_is_added_to_it_any_more() {
    Facts facts;
    expert_device_token newest = {};
    const auto compute = [&](int32_t layer, int32_t phase) {
        SplitFacts split;
        split.phase = phase;
        split.tokens = 1;
        split.new_batch = layer == 0;
        split.hits = 1;
        if (phase != EXPERT_DEVICE_IGNORE) {
            facts.add(split);
        }
        facts.end_split(split.new_batch);
    };
    const auto batch = [&](int32_t layers, int32_t phase) {
        for (int32_t layer = 0; layer < layers; ++layer) {
            compute(layer, phase);
        }
    };
    batch(3, EXPERT_DEVICE_IGNORE);  // a warm-up: known afterwards is how many layers there are
    batch(2, EXPERT_DEVICE_PROMPT);
    check(batches_told(facts, newest) == 0, "a batch that is under way is not told of");
    facts.add_insert(EXPERT_DEVICE_PROMPT, 10, false);
    compute(2, EXPERT_DEVICE_PROMPT);
    check(batches_told(facts, newest) == 1 && newest.hits == 3 && newest.copied_bytes == 10, "one that is over is");
    facts.add_insert(EXPERT_DEVICE_DECODE, 5, false);
    check(batches_told(facts, newest) == 1 && newest.copied_bytes == 10, "what comes between two batches is of neither");
    batch(2, EXPERT_DEVICE_DECODE);  // ended early
    check(batches_told(facts, newest) == 1, "an aborted batch might still go on");
    batch(3, EXPERT_DEVICE_IGNORE);
    check(batches_told(facts, newest) == 2 && newest.hits == 2, "it is over when another one begins");
}

void a_smaller_trace_keeps_to_its_room() {
    Facts facts;
    std::vector<int32_t> routed(n_experts);
    std::vector<expert_device_routing_entry> entries(64);
    facts.set_trace(30);
    for (uint32_t token = 0; token < 3; ++token) {
        facts.trace(0, routed.data(), nullptr, n_experts, token);
    }
    facts.set_trace(10);
    for (uint32_t token = 3; token < 6; ++token) {
        facts.trace(0, routed.data(), nullptr, n_experts, token);
    }
    uint64_t dropped = 0;
    const int32_t n = facts.take_trace(entries.data(), 64, dropped);
    check(n == 10 && dropped == 6 * n_experts - 10, "what has no room is dropped and counted");
    check(entries[0].token == 4 && entries[9].token == 5 && std::isnan(entries[9].weight), "the latest stay");
}

}  // namespace

int main() {
    copier_tests();
    ahead_tests();
    a_batch_is_told_of_when_nothing_is_added_to_it_any_more();
    a_smaller_trace_keeps_to_its_room();
    everything_at_once();
    std::puts("ok");
    return 0;
}
