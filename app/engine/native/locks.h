// Main memory that experts are copied from, page-locked: some devices copy from such memory several times as fast.
#pragma once

#include "ggml-backend.h"
#include "layer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace expert_device {

// What one pool has locked. Optional: whatever is not locked is copied as it is.
class HostLocks {
  public:
    explicit HostLocks(ggml_backend_dev_t device);
    ~HostLocks();
    HostLocks(const HostLocks &) = delete;
    HostLocks & operator=(const HostLocks &) = delete;

    // How many bytes may be locked from now on; a device that refused before is asked again.
    void set_most(uint64_t bytes);
    // Tensors in the mapped model file are not locked, for a reason in words; with none they may be again.
    void spare_mapped(const std::string & because) { spared_because_ = because; }
    bool spares_mapped() const { return !spared_because_.empty(); }
    // Locks what may be of the layer's tensors, or unlocks what may no longer be. No copy of the layer may be under way
    // or waiting: a copy of memory that is locked in part is an error on some devices, so `Layer::pieces` cuts there.
    void lock(Layer & layer);
    void unlock(Layer & layer);
    uint64_t bytes() const { return bytes_; }
    // Why less is locked than may be, in words; empty when that is not so.
    std::string shortfall(const std::string & device) const;

  private:
    using Register = bool (*)(void * begin, size_t bytes);
    using Unregister = void (*)(void * begin);

    bool lock_range(const char * begin, uint64_t bytes);
    void unlock_range(const char * begin);

    Register register_ = nullptr;
    Unregister unregister_ = nullptr;
    std::vector<std::pair<const char *, uint64_t>> held_;
    uint64_t bytes_ = 0, most_ = 0;
    bool refused_ = false;
    std::string spared_because_;
};

}  // namespace expert_device
