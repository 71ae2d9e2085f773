// What the tests of copier and facts share: a device that is memory of this process, and layers with slots on it.
#pragma once

#include "copier.h"
#include "facts.h"
#include "ggml-backend.h"
#include "policy.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

namespace expert_device {

constexpr int32_t n_layers = 3, n_experts = 8, top_k = 2;
constexpr size_t expert_bytes = 96;
constexpr unsigned char never_written = 0xff;

inline void check(bool condition, const char * what) {
    if (!condition) {
        std::fprintf(stderr, "failed: %s\n", what);
        std::_Exit(1);  // the other threads are still at work
    }
}

// Copies wait while the gate is closed; one that waits or works is at the gate.
struct Gate {
    std::mutex mutex;
    std::condition_variable moved;
    bool closed = false, reached = false;
};
extern Gate gate;
// Every so many copies one throws; 0 for none.
extern std::atomic<int> copies_for_a_failure;

inline unsigned char pattern(int32_t layer, int32_t expert) {
    return static_cast<unsigned char>(16 * layer + expert);
}

inline bool holds(const unsigned char * at, unsigned char value) {
    return std::all_of(at, at + expert_bytes, [value](unsigned char byte) { return byte == value; });
}

struct Slots {
    std::vector<unsigned char> bytes;
    ggml_tensor tensor = {};

    explicit Slots(int32_t n) : bytes(static_cast<size_t>(n) * expert_bytes, never_written) { tensor.data = bytes.data(); }
    unsigned char * at(int32_t slot) { return bytes.data() + static_cast<size_t>(slot) * expert_bytes; }
};

struct TestLayer {
    explicit TestLayer(int32_t index_) : index(index_), policy(n_experts), slots(std::make_unique<Slots>(0)) {
        for (int32_t expert = 0; expert < n_experts; ++expert) {
            file.insert(file.end(), expert_bytes, static_cast<char>(pattern(index, expert)));
        }
    }

    int32_t index;
    LayerPolicy policy;
    std::vector<char> file;
    std::unique_ptr<Slots> slots;

    // In two pieces, as an expert of several tensors has several.
    CopyJob job(int32_t expert, int32_t slot) {
        const char * from = file.data() + static_cast<size_t>(expert) * expert_bytes;
        const size_t to = static_cast<size_t>(slot) * expert_bytes, half = expert_bytes / 2;
        return {index, expert, slot, {{&slots->tensor, to, from, half}, {&slots->tensor, to + half, from + half, half}}, false};
    }
};

void copier_tests();  // copier_test.cpp
void ahead_tests();   // ahead_test.cpp

}  // namespace expert_device
