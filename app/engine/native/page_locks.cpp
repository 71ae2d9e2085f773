// The locking calls of each operating system, and their answers in words.
#include "page_locks.h"

#include <algorithm>
#include <mutex>
#include <utility>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#if !defined(NOMINMAX)
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <sys/mman.h>
#include <sys/resource.h>
#endif

namespace expert_device {

namespace pages {

namespace {

LockAnswer refused(std::string why, bool later = false) {
    return {false, later, std::move(why)};
}

}  // namespace

#if defined(_WIN32)

namespace {

std::mutex working_set;

// Beside what is locked a process needs some pages of its own.
constexpr SIZE_T slack = SIZE_T{1} << 20;

}  // namespace

// A process may lock a little less than its least working set: that grows first, and shrinks again where this fails.
// The largest one never shrinks: below what the process has in memory it would be taken for an order to give that up.
LockAnswer lock(ByteRange range) {
    const ByteRange all = whole_pages(range);
    SIZE_T least = 0, most = 0;
    DWORD flags = 0;
    if (all.bytes == 0) {
        return {};
    }
    const HANDLE process = GetCurrentProcess();
    std::lock_guard<std::mutex> one_at_a_time(working_set);
    if (!GetProcessWorkingSetSizeEx(process, &least, &most, &flags) ||
        !SetProcessWorkingSetSizeEx(process, least + all.bytes, std::max(most, least + all.bytes + slack), flags)) {
        return refusal(static_cast<int>(GetLastError()), all.bytes, lock_limits());
    }
    if (!VirtualLock(const_cast<char *>(all.begin), all.bytes)) {
        const DWORD error = GetLastError();
        SetProcessWorkingSetSizeEx(process, least, std::max(most, least + all.bytes + slack), flags);
        return refusal(static_cast<int>(error), all.bytes, lock_limits());
    }
    return {};
}

void unlock(ByteRange range) {
    const ByteRange all = whole_pages(range);
    SIZE_T least = 0, most = 0;
    DWORD flags = 0;
    std::lock_guard<std::mutex> one_at_a_time(working_set);
    if (all.bytes > 0 && VirtualUnlock(const_cast<char *>(all.begin), all.bytes) &&
        GetProcessWorkingSetSizeEx(GetCurrentProcess(), &least, &most, &flags) && least > all.bytes) {
        SetProcessWorkingSetSizeEx(GetCurrentProcess(), least - all.bytes, most, flags);
    }
}

LockLimits lock_limits() {
    return {};
}

LockAnswer refusal(int error, uint64_t, const LockLimits &) {
    switch (static_cast<DWORD>(error)) {
        case ERROR_PRIVILEGE_NOT_HELD:
        case ERROR_ACCESS_DENIED:
            return refused("this account lacks the right to increase a process working set, which its administrator "
                           "can give it.");
        case ERROR_NOT_ENOUGH_MEMORY:
        case ERROR_NO_SYSTEM_RESOURCES:
        case ERROR_WORKING_SET_QUOTA:
            return refused("the system has too little free memory for it now; it is tried again.", true);
        default: return refused("the system answered with error " + std::to_string(error) + ".");
    }
}

#else

namespace {

#if defined(__linux__)
constexpr unsigned may_lock_more = 14;  // the capability's number: CAP_IPC_LOCK

// Calls `use` with each line of a file; nothing where it cannot be read.
template <typename Use> void for_lines(const char * path, Use use) {
    FILE * file = std::fopen(path, "re");
    char line[512];
    bool begins = true;  // longer lines come in parts
    while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) {
        if (begins) {
            use(line);
        }
        begins = std::strchr(line, '\n') != nullptr;
    }
    if (file != nullptr) {
        std::fclose(file);
    }
}
#endif

}  // namespace

LockAnswer lock(ByteRange range) {
    const ByteRange all = whole_pages(range);
    if (all.bytes == 0 || mlock(all.begin, all.bytes) == 0) {
        return {};
    }
    const int error = errno;
    const LockLimits limits = lock_limits();  // before what was locked of it is unlocked
    munlock(all.begin, all.bytes);
    return refusal(error, all.bytes, limits);
}

void unlock(ByteRange range) {
    const ByteRange all = whole_pages(range);
    if (all.bytes > 0) {
        munlock(all.begin, all.bytes);
    }
}

LockLimits lock_limits() {
    LockLimits found;
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        found.most = limit.rlim_cur;
    }
#if defined(__linux__)
    for_lines("/proc/self/status", [&](const char * line) {
        uint64_t kilobytes = 0, rights = 0;
        if (std::sscanf(line, "VmLck: %" SCNu64, &kilobytes) == 1) {
            found.locked = kilobytes << 10;
        } else if (std::sscanf(line, "CapEff: %" SCNx64, &rights) == 1) {
            found.unlimited = (rights >> may_lock_more & 1) != 0;
        }
    });
    for_lines("/proc/sys/vm/max_map_count",
              [&](const char * line) { std::sscanf(line, "%" SCNu64, &found.most_mappings); });
    for_lines("/proc/self/maps", [&](const char *) { ++found.mappings; });
#endif
    return found;
}

LockAnswer refusal(int error, uint64_t bytes, const LockLimits & limits) {
    const std::string raise = "; `ulimit -l`, or memlock in limits.conf, raises that.";
    if (error == EPERM) {
        return refused("the system lets this process lock nothing (RLIMIT_MEMLOCK is 0)" + raise);
    }
    if (error == EAGAIN) {
        return refused("the system has too little free memory for it now; it is tried again.", true);
    }
    if (error != ENOMEM) {
        return refused(std::string("the system answered: ") + std::strerror(error) + ".");
    }
    // One error for three reasons: the system looks at them in this order.
    if (!limits.unlimited && (limits.locked >= limits.most || bytes > limits.most - limits.locked)) {
        return refused("the system lets this process lock " + std::to_string(limits.most) + " bytes (RLIMIT_MEMLOCK)" +
                       raise);
    }
    // A range within a mapping makes three of one.
    if (limits.mappings + 2 >= limits.most_mappings) {
        return refused("the process has all the " + std::to_string(limits.most_mappings) +
                       " mappings that it may have; a larger vm.max_map_count allows more.");
    }
    return refused("a part of the model file can no longer be read.");
}

#endif

}  // namespace pages

}  // namespace expert_device
