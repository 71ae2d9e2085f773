// The hottest experts, locked in main memory: neighbours as one range, for a process may have few mappings.
#pragma once

#include "page_locks.h"
#include "pages.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace expert_device {

class HotLocks {
  public:
    // Every range that is locked for itself adds two mappings; Linux lets a process have 65,530 in the beginning.
    static constexpr size_t usual_ranges = 8000;

    using Name = std::pair<int32_t, int32_t>;  // layer and expert

    // One expert's bytes in one tensor, in which the experts follow each other.
    struct Slice {
        const char * tensor = nullptr;  // where expert 0 begins
        size_t bytes = 0;
        int32_t expert = -1;
    };

    // What the system is asked for. Pages that are not locked are never unlocked, and none is locked twice.
    struct Calls {
        std::function<pages::LockAnswer(ByteRange)> lock = pages::lock;
        std::function<void(ByteRange)> unlock = pages::unlock;
    };

    enum class Result { locked, no_range, refused };

    explicit HotLocks(size_t most_ranges = usual_ranges) : HotLocks(most_ranges, Calls()) {}
    HotLocks(size_t most_ranges, Calls calls) : most_ranges_(most_ranges), calls_(std::move(calls)) {}

    // Locks an expert that is not locked, all of its slices' whole pages or none. Where it is refused, `answer` tells
    // why; `no_range` where the system was not asked, for it would take more ranges than there may be.
    Result lock(Name name, const std::vector<Slice> & slices, pages::LockAnswer & answer);
    // An expert that is not locked is left as it is.
    void unlock(Name name);
    void unlock_all_but(const std::set<Name> & names);

    bool holds(Name name) const { return held_.count(name) != 0; }
    std::vector<Name> names() const;
    uint64_t bytes() const { return bytes_; }
    size_t ranges() const { return ranges_; }
    size_t most_ranges() const { return most_ranges_; }

  private:
    bool is_locked(const Slice & slice, int32_t expert) const;
    size_t neighbours(const Slice & slice) const;
    ByteRange pages_of(const Slice & slice) const;
    void unlock_slice(const Slice & slice);

    const size_t most_ranges_;
    const Calls calls_;
    std::map<Name, std::vector<Slice>> held_;
    std::map<const char *, std::set<int32_t>> locked_;  // experts, by tensor
    size_t ranges_ = 0;
    uint64_t bytes_ = 0;
};

}  // namespace expert_device
