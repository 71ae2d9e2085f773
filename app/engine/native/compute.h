// Parts of computing one split over its pairs, shared by the hybrid path and the streaming of misses.
#pragma once

#include "internal.h"

#include <chrono>
#include <utility>
#include <vector>

namespace expert_device {

inline uint64_t now_ns() {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

// The device's work that was sent and not waited for. It reads and writes our memory, so no frame ends before it, be
// it by an exception: lack of memory on this side.
class DeviceWork {
  public:
    explicit DeviceWork(ggml_backend_t backend) : backend_(backend) {}
    ~DeviceWork() { wait(); }
    DeviceWork(const DeviceWork &) = delete;
    DeviceWork & operator=(const DeviceWork &) = delete;

    // False when the device failed. Once: nothing may be sent afterwards.
    bool wait() {
        ggml_backend_t backend = std::exchange(backend_, nullptr);
        try {
            if (backend != nullptr) {
                ggml_backend_synchronize(backend);
            }
            return true;
        } catch (...) {  // backends throw types of their own when a device is lost
            return false;
        }
    }

  private:
    ggml_backend_t backend_;
};

// --- meeting.cpp ---
// The state of the split's layer; new tensors and chains are noted. Null for a second set of experts in one layer.
Layer * meet_layer(Context & context, Split & split);

// The (token, expert) pairs of a split, token by token. False where ids lie outside 0 … experts - 1 (padding): such a
// split is left to the CPU backend as it stands.
bool read_pairs(const Split & split, std::vector<Pair> & pairs);

// Rows computed for some pairs: for each of the split's outputs, one row after the other in `pairs`' order.
struct Rows {
    std::vector<Pair> pairs;
    std::vector<const char *> data;
};

// Runs `pairs` on the CPU backend over the split's own weights. Rows are valid until the next clone on the CPU.
ggml_status compute_on_cpu(Context & context, const Split & split, const std::vector<Pair> & pairs, Rows & rows);

// --- in_turn.cpp ---

// Rows that some parts of `pairs` gave, kept until all parts are computed.
struct CpuRows {
    std::vector<Rows> parts;
    std::vector<std::vector<char>> kept;
};

// As `compute_on_cpu`, for pairs whose experts may have to be read from the disk first: those in memory are computed
// while the others are read, these as they come. Pairs of one expert stay together, so that every bit is the same.
// FAILED where an expert cannot be read.
ggml_status compute_in_turn(Context & context, Layer & layer, const Split & split, const std::vector<Pair> & pairs,
                            SplitFacts & facts, CpuRows & rows);

// The same for all of the context's pairs, their rows written where they belong. Where nothing has to be read the graph
// is computed as it stands, as it is where the split is not understood in full.
ggml_status compute_alone(Context & context, Layer & layer, ggml_cgraph * graph, const Split & split,
                          SplitFacts & facts);

// Waits until the experts of `pairs` are in memory. False where one cannot be read.
bool bring_experts(Context & context, Layer & layer, const std::vector<Pair> & pairs, SplitFacts & facts);

// Sends `pairs` to the pool's device over `weights`, where the expert of a pair is at `places[i]`. Returns at once
// where the device works asynchronously; rows are valid after `ggml_backend_synchronize`. False when it failed.
bool launch(Pool & pool, HostArena & arena, const Split & split, const std::vector<ggml_tensor *> & weights,
            const std::vector<Pair> & pairs, const std::vector<int32_t> & places, Rows & rows);

// Writes the rows to where the split's outputs are.
void scatter(const Split & split, const Rows & rows);

// --- tail.cpp: the sum over a token's experts, from the split's outputs; nothing to do where it has none.
ggml_status sum_over_experts(ggml_backend_t cpu, const ggml_cgraph * graph, const Split & split);

// --- learn.cpp ---
void read_routing_weights(Context & context, const Split & split, int32_t phase);  // of `context.pairs`
void learn(Context & context, Layer & layer, Pool * pool, const Split & split, SplitFacts & facts);

// --- whole.cpp ---

// Puts the experts of `pairs` into `layer.whole`, each at its own number: from slots, and from main memory, whose bytes
// are added to `bytes`. The copies are in the device's queue then. False when the device failed.
bool gather_layer(Pool & pool, Layer & layer, const std::vector<Pair> & pairs, uint64_t & bytes);

// The split over `weights`, where the expert of the context's pair i is at `places[i]`, in parts of as many tokens as
// working memory is for; the sum over experts is written to the split's end. False when the device failed.
bool compute_whole(Pool & pool, const Split & split, const std::vector<ggml_tensor *> & weights,
                   const std::vector<int32_t> & places, SplitFacts & facts);

// --- stream.cpp ---

// Whether every expert's bytes can be read in the file's layout: only then can they be copied.
bool readable(const Layer & layer);

// A layer's pairs by who computes them.
struct Division {
    std::vector<Pair> resident;  // from slots
    std::vector<Pair> streamed;  // grouped by expert
    std::vector<Pair> on_cpu;
};

// Tokens from which a batch is divided anew as a whole: residents may be computed by the CPU too then.
constexpr int64_t least_tokens_divided = 16;

// Divides the pairs of `context.split` by what is resident and by what was measured.
void divide(Context & context, Layer & layer, Pool & pool, int32_t phase, Division & out);

// The layer whose first experts are to be copied while llama.cpp computes what comes before it: where this one streams
// a prompt's misses and that is found to pay. Its staging tensors are there. Null for none.
Layer * layer_to_copy_ahead(Context & context, const Layer & layer, Pool & pool, const Division & division,
                            int32_t phase);

// Copies the streamed pairs' experts over, half a staging area at a time, and computes them; then begins to copy those
// of `next`, if any, in the background. Runs on the copier's thread. False when the device failed.
bool stream(Pool & pool, Layer & layer, const Split & split, const std::vector<Pair> & pairs, Layer * next,
            std::vector<Rows> & rows, uint64_t & bytes);

// Measures `pool.rates` with this layer; on the compute thread.
void measure_rates(Context & context, Layer & layer, Pool & pool);

}  // namespace expert_device
