// One device under measurement: made-up expert weights, the graphs over them, and room for copies.
#pragma once

#include "calibrate.h"
#include "clone.h"
#include "compute.h"
#include "layer.h"
#include "pool.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace expert_device {

// One tensor's share of an expert of a frequent model, about; and what a run of copies moves, more than most caches hold.
constexpr size_t slice_bytes = size_t{1} << 20, room_bytes = size_t{64} << 20;

inline double seconds_since(uint64_t begin) {
    return static_cast<double>(now_ns() - begin) * 1e-9;
}

struct AllocatorFree {
    void operator()(ggml_gallocr * allocator) const { ggml_gallocr_free(allocator); }
};

// The three tensors of a MoE layer's experts.
struct BenchWeights {
    ContextPtr context;
    BufferPtr buffer;
    ggml_tensor * up = nullptr;
    ggml_tensor * gate = nullptr;
    ggml_tensor * down = nullptr;

    int64_t experts() const { return up->ne[2]; }
    uint64_t expert_bytes() const { return up->nb[2] + gate->nb[2] + down->nb[2]; }
};

// The type of weights that ggml calls so; false for none.
bool weight_type(const std::string & name, ggml_type & type);
// Without memory yet.
BenchWeights describe_weights(ggml_type type, int64_t hidden, int64_t feed_forward, int64_t experts);
// Gives them memory of that type and values; false when it is refused.
bool allocate_weights(BenchWeights & weights, ggml_backend_buffer_type_t type, bool repacked);

struct BenchGraph {
    int64_t tokens = 0;
    int64_t layers = 0;
    ContextPtr inputs_context, context;
    BufferPtr inputs_buffer;  // of their own: a graph is computed many times over the same inputs
    ggml_tensor * activations = nullptr;
    std::vector<ggml_tensor *> ids;  // of each layer
    ggml_tensor * output = nullptr;
    ggml_cgraph * graph = nullptr;
};

class Bench {
  public:
    // nullptr when there is no such device.
    static std::unique_ptr<Bench> open(const std::string & device);
    ~Bench();
    Bench(const Bench &) = delete;
    Bench & operator=(const Bench &) = delete;

    int32_t set_weights(const std::string & type, bool repacked, uint64_t most_bytes);
    int32_t run(int32_t threads, int64_t tokens, expert_calibrate_pass & out);
    int32_t layer(int32_t threads, double & seconds);
    int32_t copy(bool to_device, bool pinned, expert_calibrate_pass & out);

    // This bench, the processor's, and another one at once.
    int32_t together(Bench & device, int32_t threads, int64_t tokens, expert_calibrate_shares & out);

  private:
    struct CopyRoom {
        Slab device;
        BufferPtr pinned;
        std::unique_ptr<char[]> pageable;
    };

    Bench(ggml_backend_dev_t dev, BackendPtr backend);
    bool is_cpu() const { return ggml_backend_dev_type(dev_) == GGML_BACKEND_DEVICE_TYPE_CPU; }
    ggml_backend_buffer_type_t type_for(const BenchWeights & weights, bool repacked) const;
    bool supports(const BenchGraph & graph) const;
    bool place(BenchGraph & graph, ggml_gallocr * allocator);
    int32_t prepare(int64_t tokens);
    void set_threads(int32_t threads);
    int32_t prepare_copies(bool pinned);
    char * copy_memory(bool pinned) const;

    ggml_backend_dev_t dev_;
    BackendPtr backend_;
    BenchWeights weights_, small_weights_;
    BenchGraph graph_, small_graph_;
    std::unique_ptr<ggml_gallocr, AllocatorFree> allocator_, small_allocator_;
    CopyRoom room_;
};

}  // namespace expert_device
