// The pool on one device: its backend, the layers' slots, the staging area, and the background copies.
#pragma once

#include "ahead.h"
#include "arena.h"
#include "clone.h"
#include "copier.h"
#include "expert_device.h"
#include "layer.h"
#include "locks.h"
#include "ways.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace expert_device {

// Pairs that are sent to a device at once: bounds its working memory, together with `most_working_bytes`.
constexpr size_t most_pairs_at_once = 1024;

struct BackendFree {
    void operator()(ggml_backend * backend) const { ggml_backend_free(backend); }
};
using BackendPtr = std::unique_ptr<ggml_backend, BackendFree>;

// What one expert's work costs, measured on this context's own tensors.
struct Rates {
    bool tried = false;
    bool known = false;
    double copy_ns = 0;  // one expert, host to device, while the CPU computes
    double copy_bytes = 0;
    double cpu_first_ns = 0, cpu_next_ns = 0;  // one expert for one row, and each further row
    double gpu_first_ns = 0, gpu_next_ns = 0;

    double cpu_ns(int64_t rows) const { return cpu_first_ns + cpu_next_ns * static_cast<double>(rows - 1); }
    double gpu_ns(int64_t rows) const { return gpu_first_ns + gpu_next_ns * static_cast<double>(rows - 1); }
};

using Layers = std::map<int32_t, std::unique_ptr<Layer>>;

class Pool {
  public:
    // nullptr when there is no such device or it cannot be started.
    static std::unique_ptr<Pool> open(const std::string & device, int n_threads);

    const std::string & name() const { return name_; }
    ggml_backend_t backend() const { return backend_.get(); }
    // A second CPU backend: what runs beside this thread's work would fight it for cores.
    bool on_cpu() const { return ggml_backend_dev_type(dev_) == GGML_BACKEND_DEVICE_TYPE_CPU; }
    bool usable() const { return result_ != EXPERT_DEVICE_DEVICE_FAILED; }
    void fail(int32_t result, const std::string & reason);
    int32_t result() const { return result_; }
    const std::string & reason() const { return reason_; }
    void forget_failure() { result_ = EXPERT_DEVICE_OK, reason_.clear(); }
    void remark(const std::string & reason) { reason_ = reason; }  // in use, but

    // Slots for each layer of this device within `bytes`: pins first, then as even as can be.
    std::map<int32_t, int32_t> allot(const Layers & layers, uint64_t bytes) const;
    // Gives a layer `slots` slots and keeps what still has one; false (and 0 slots) when the device refuses.
    bool resize(Layer & layer, int32_t slots, const expert_device_policy & settings);
    // A staging area of at most `bytes`; false when the device refuses.
    bool resize_staging(uint64_t bytes, const Layers & layers);
    // The layer's tensors there are no longer valid.
    void give_up_staging(Layer & layer);
    // Page-locks what may be of the layer's tensors; no copy of it may be waiting, as after `resize`.
    void lock_host(Layer & layer);
    // Slots and staging area of every layer, and what is locked of it.
    void release(const Layers & layers, const expert_device_policy & settings);
    // Experts that one half of the staging area holds of this layer; makes the tensors on first use.
    int32_t prepare_staging(Layer & layer);
    // Whether the staging area holds all experts of this layer at once; makes `layer.whole` on first use.
    bool prepare_whole(Layer & layer);
    size_t staging_bytes() const;

    // Working memory for the largest parts that layers are computed in; false when the device refuses.
    bool reserve_working(const Layers & layers);
    // Bytes of that memory now.
    size_t working_bytes() const { return clones.bytes(); }
    // Pairs that are sent to the device at once.
    size_t pairs_at_once() const { return pairs_at_once_; }

    void copy_in(Layer & layer, const std::vector<Insert> & inserts);
    // Slots whose copy has ended become ready; returns the jobs.
    std::vector<CopyJob> take_done(const Layers & layers);

  private:
    Pool(std::string device, ggml_backend_dev_t dev, BackendPtr backend);
    ggml_backend_buffer_type_t type() const;
    template <typename Allocate> bool give_memory(BufferPtr & to, Allocate allocate, const std::string & refusal);
    void place_in_staging(Slab & slab, size_t offset);
    Slab make_tensors(const Layer & layer, int32_t n) const;
    uint64_t slab_bytes(const Layer & layer, int32_t n) const;
    const char * unsupported_op(const Layer & layer, const Slab & slab) const;

    std::string name_;
    ggml_backend_dev_t dev_;
    BackendPtr backend_;
    int32_t result_ = EXPERT_DEVICE_OK;
    std::string reason_;
    BufferPtr staging_;
    size_t pairs_at_once_ = most_pairs_at_once;

  public:
    uint64_t requested = 0;
    bool out_of_memory = false;  // a clone got no working memory for this split
    Rates rates;
    CloneCache clones;
    HostArena arena;         // of the compute thread
    HostArena stream_arena;  // of the streaming task
    HostLocks locks;
    CopyAhead ahead;
    AheadTrial trial;                     // of copying ahead
    WayTrial ways;                        // of computing prompts whole on the device
    std::atomic<uint64_t> used_ahead{0};  // experts
    Copier copier;                        // last: it ends before what it copies to
};

// A tensor over one expert of a slab, to copy it within the device.
ggml_tensor * one_expert(ggml_context * context, ggml_tensor * slab, bool bias, int32_t place, uint64_t bytes);

}  // namespace expert_device
