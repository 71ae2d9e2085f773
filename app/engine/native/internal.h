// What the parts of the expert device share with each other.
#pragma once

#include "chain.h"
#include "clone.h"
#include "disk_lane.h"
#include "expert_device.h"
#include "facts.h"
#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "layer.h"
#include "pool.h"
#include "routing.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace expert_device {

// --- device.cpp ---
ggml_backend_reg_t registry();
ggml_backend_dev_t device();

// --- buffer.cpp: host memory, mapped or owned, that holds expert tensors ---
ggml_backend_buffer_type_t buffer_type();
ggml_backend_buffer_t buffer_from_host(void * data, size_t size);
bool is_ours(const ggml_tensor * weights);

// The layer of a tensor named "blk.<layer>.…", or -1.
int32_t layer_of(const char * name);

// Changes asked for by other threads, taken over between two splits.
struct Pending {
    std::vector<expert_device_pin_entry> pins;
    std::optional<expert_device_policy> settings;
    std::optional<uint64_t> resident_bytes, most_locked;
    bool warm_up = false, release = false;  // of experts in main memory; the release first
};

// --- backend.cpp: one context's stream of graphs ---
struct Context {
    Context();
    ~Context();
    Context(const Context &) = delete;
    Context & operator=(const Context &) = delete;

    int64_t id = 0;
    BackendPtr cpu;
    std::atomic<int> n_threads{1};
    RoutingCounts routing;
    Facts facts;
    std::atomic<int32_t> phase{EXPERT_DEVICE_PROMPT};
    std::atomic<uint64_t> graphs{0};
    std::atomic<uint64_t> nodes{0};

    std::mutex control;  // one change of pools at a time; taken before `mutex`
    std::mutex mutex;    // held while a split is computed, and while slots change: guards all below
    Sources sources;
    Layers layers;  // before the pools: slots outlive the threads that copy to them
    DiskLane disk;
    std::map<std::string, std::unique_ptr<Pool>> pools;
    std::string default_device;
    std::map<int32_t, std::string> layer_devices;
    expert_device_policy settings;
    uint64_t lock_bytes = 0;  // of main memory that may be page-locked for copies
    std::unique_ptr<CloneCache> cpu_clones;

    std::mutex pending_mutex;
    Pending pending;
    std::atomic<bool> has_pending{false};

    std::mutex shown_mutex;  // what was read last, for readers while a split is computed
    std::map<std::string, expert_device_pool> shown_pools;
    std::vector<expert_device_layer> shown_layers;
    expert_device_memory shown_memory{};
    std::vector<uint8_t> shown_residents;

    // The compute thread's own.
    std::unordered_map<uint64_t, Split> splits;  // as read, by the graph's id: llama.cpp computes a graph many times
    Split unnamed_split;                         // of a graph without an id
    Split * split = nullptr;                     // that is computed now
    std::vector<Pair> pairs;
    std::vector<float> weights;  // the routing weights of `pairs`, empty where they are not known
    int32_t last_layer = -1;
    uint32_t decoded_tokens = 0;  // before this batch
    int32_t last_batch_tokens = 0;
};

ggml_backend_t new_backend();  // nullptr when no CPU backend can be made
std::shared_ptr<Context> find_context(int64_t id);
int64_t last_context_of_this_thread();
void set_n_threads(ggml_backend_t backend, int n_threads);
void set_abort_callback(ggml_backend_t backend, ggml_abort_callback callback, void * data);

// --- compute.cpp ---
ggml_status compute_graph(Context & context, ggml_cgraph * graph);

// --- changes.cpp: what other threads change. Results are enum expert_device_result. ---
void apply_pending(Context & context);  // with `mutex` held
// After adding to `pending`, and after every use of `mutex`: at once if nobody holds it, else its holder does it.
void change_soon(Context & context);
void publish_all(Context & context);  // with `mutex` held
bool valid(const expert_device_policy & settings);
int32_t set_pool(Context & context, const std::string & device, uint64_t pool_bytes, uint64_t staging_bytes);
int32_t set_pins(Context & context, const expert_device_pin_entry * entries, int32_t n);
int32_t set_heat(Context & context, int32_t layer, const float * heat, int32_t experts);
void set_layer_device(Context & context, int32_t layer, const std::string & device);
// Fills what needs no routing (pins, free slots by heat) and takes over copies that ended; with `mutex` held.
void fill_slots(Context & context, Layer & layer);
void take_copies(Context & context, Pool & pool);

}  // namespace expert_device
