// Exercises the routing counters as they are used: one writer, readers at any moment. Built with sanitizers.
#include "routing.h"

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

void check(bool condition, const char * what) {
    if (!condition) {
        std::fprintf(stderr, "failed: %s\n", what);
        std::exit(1);
    }
}

}  // namespace

int main() {
    using expert_device::Pair;
    using expert_device::RoutingCounts;
    constexpr int32_t layers = 6;
    constexpr int32_t experts = 5;
    constexpr int rounds = 20000;

    RoutingCounts counts;
    int32_t seen_layers = -1;
    int32_t seen_experts = -1;
    counts.shape(seen_layers, seen_experts);
    check(seen_layers == 0 && seen_experts == 0, "nothing is seen before anything is counted");

    std::thread writer([&counts] {
        std::vector<Pair> pairs = {{0, 0, 1}, {0, 1, 4}, {1, 0, 1}, {1, 1, 1}};  // a repeated expert counts twice
        for (int i = 0; i < rounds; ++i) {
            counts.add(i % layers, experts, i % 2, pairs.data(), pairs.size());
        }
    });
    std::vector<std::thread> readers;
    for (int r = 0; r < 2; ++r) {
        readers.emplace_back([&counts] {
            std::vector<uint64_t> out(static_cast<size_t>(layers * experts));
            uint64_t last = 0;
            for (int i = 0; i < 500; ++i) {
                counts.read(1, out.data(), layers, experts);
                const uint64_t now = out[1 * experts + 1];
                check(now >= last, "a counter never goes back");
                last = now;
            }
        });
    }
    writer.join();
    for (auto & reader : readers) {
        reader.join();
    }

    uint64_t sum = 0;
    std::vector<uint64_t> out(static_cast<size_t>(layers * experts));
    for (int32_t phase = 0; phase < 2; ++phase) {
        counts.read(phase, out.data(), layers, experts);
        for (const uint64_t value : out) {
            sum += value;
        }
    }
    check(sum == 4ull * rounds, "every pair is counted once");
    counts.shape(seen_layers, seen_experts);
    check(seen_layers == layers && seen_experts == experts, "the shape is what was counted");

    const Pair stray = {0, 0, experts};
    counts.add(0, experts, 0, &stray, 1);
    counts.add(-1, experts, 0, &stray, 1);
    counts.add(RoutingCounts::max_layers, experts, 0, &stray, 1);
    counts.add(0, experts, 7, &stray, 1);
    uint64_t after = 0;
    for (int32_t phase = 0; phase < 2; ++phase) {
        counts.read(phase, out.data(), layers, experts);
        for (const uint64_t value : out) {
            after += value;
        }
    }
    check(after == sum, "experts, layers and phases out of range are left out");

    std::vector<uint64_t> wide(static_cast<size_t>((layers + 2) * (experts + 3)), 99);
    counts.read(0, wide.data(), layers + 2, experts + 3);
    check(wide.back() == 0 && wide[experts] == 0, "cells beyond the shape read as zero");
    std::puts("ok");
    return 0;
}
