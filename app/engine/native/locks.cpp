// Page-locking by the function that a backend's registry may offer; ranges that several pools hold are locked once.
#include "locks.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

namespace expert_device {

namespace {

// The largest page of the systems this runs on: whole such pages are whole pages everywhere.
constexpr uintptr_t page = uintptr_t{64} << 10;

// Ranges locked in this process, by who locked them (the backend's function) and where they begin.
std::mutex ranges_mutex;
std::map<std::pair<const void *, const char *>, int> ranges;

}  // namespace

HostLocks::HostLocks(ggml_backend_dev_t device) {
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(device);
    register_ = reinterpret_cast<Register>(ggml_backend_reg_get_proc_address(reg, "ggml_backend_register_host_buffer"));
    unregister_ =
        reinterpret_cast<Unregister>(ggml_backend_reg_get_proc_address(reg, "ggml_backend_unregister_host_buffer"));
}

HostLocks::~HostLocks() {
    while (!held_.empty()) {
        unlock_range(held_.back().first);
    }
}

void HostLocks::set_most(uint64_t bytes) {
    most_ = bytes;
    refused_ = false;
}

void HostLocks::lock(Layer & layer) {
    if (register_ == nullptr || unregister_ == nullptr) {
        return;
    }
    for (ExpertTensor & tensor : layer.tensors) {
        if (tensor.data == nullptr) {
            continue;
        }
        // Whole pages within the tensor: what shares a page with it belongs to others, who copy it as they like.
        const auto from = reinterpret_cast<uintptr_t>(tensor.data);
        const uintptr_t end = (from + tensor.bytes * static_cast<uint64_t>(layer.experts())) / page * page;
        const uintptr_t begin = (from + page - 1) / page * page;
        const uint64_t bytes = end > begin ? end - begin : 0;
        const bool spared = spares_mapped() && is_mapped(tensor.tensor);
        if (tensor.locked_begin != nullptr) {
            if (bytes_ > most_ || spared) {
                unlock_range(std::exchange(tensor.locked_begin, nullptr));
                tensor.locked_end = nullptr;
            }
        } else if (!spared && bytes > 0 && bytes_ + bytes <= most_ && !refused_) {
            refused_ = !lock_range(reinterpret_cast<const char *>(begin), bytes);
            if (!refused_) {
                tensor.locked_begin = reinterpret_cast<const char *>(begin);
                tensor.locked_end = tensor.locked_begin + bytes;
            }
        }
    }
}

void HostLocks::unlock(Layer & layer) {
    for (ExpertTensor & tensor : layer.tensors) {
        if (tensor.locked_begin != nullptr) {
            unlock_range(std::exchange(tensor.locked_begin, nullptr));
            tensor.locked_end = nullptr;
        }
    }
}

std::string HostLocks::shortfall(const std::string & device) const {
    if (most_ == 0 || (register_ != nullptr && !refused_ && !spares_mapped())) {
        return {};
    }
    if (register_ != nullptr && spares_mapped()) {
        return std::to_string(bytes_) + " bytes of main memory are page-locked for copies to " + device +
               ", none of experts in the model file: " + spared_because_;
    }
    return register_ == nullptr ? device + " cannot lock main memory: copies to it are made without."
                                : device + " refused to lock more than " + std::to_string(bytes_) +
                                      " bytes of main memory: other copies to it are made without.";
}

bool HostLocks::lock_range(const char * begin, uint64_t bytes) {
    std::lock_guard<std::mutex> lock(ranges_mutex);
    held_.reserve(held_.size() + 1);
    int & holders = ranges[{reinterpret_cast<const void *>(register_), begin}];
    bool locked = holders > 0;
    try {
        locked = locked || register_(const_cast<char *>(begin), bytes);
    } catch (...) {  // backends throw types of their own
    }
    if (!locked) {
        ranges.erase({reinterpret_cast<const void *>(register_), begin});
        return false;
    }
    ++holders;
    held_.emplace_back(begin, bytes);
    bytes_ += bytes;
    return true;
}

void HostLocks::unlock_range(const char * begin) {
    std::lock_guard<std::mutex> lock(ranges_mutex);
    const auto held =
        std::find_if(held_.begin(), held_.end(), [begin](const auto & range) { return range.first == begin; });
    if (held == held_.end()) {
        return;
    }
    bytes_ -= held->second;
    held_.erase(held);
    const auto found = ranges.find({reinterpret_cast<const void *>(register_), begin});
    if (--found->second == 0) {
        ranges.erase(found);
        try {
            unregister_(const_cast<char *>(begin));
        } catch (...) {  // it is locked no longer, or the device is gone
        }
    }
}

}  // namespace expert_device
