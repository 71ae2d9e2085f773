// What the files of the C interface share: how a context is found, and how its state is read while it computes.
#pragma once

#include "expert_device.h"
#include "internal.h"

#include <mutex>
#include <new>

namespace expert_device {

// Runs `body` with the context; nothing of C++ leaves through the C interface.
template <typename Body> int32_t with_context(int64_t id, Body body) {
    const auto found = find_context(id);
    if (!found) {
        return EXPERT_DEVICE_NO_CONTEXT;
    }
    try {
        const int32_t result = body(*found);
        change_soon(*found);  // `body` may have held the lock while something was asked for
        return result;
    } catch (const std::bad_alloc &) {
        return EXPERT_DEVICE_NO_MEMORY;
    } catch (...) {  // backends throw types of their own
        return EXPERT_DEVICE_DEVICE_FAILED;
    }
}

// Reads the state where no split is computed, else what was read last: a prompt's split takes long on a CPU, and
// who reads has others to answer.
template <typename Value, typename Read>
void for_readers(Context & context, Value & shown, Value & out, Read read) {
    std::unique_lock<std::mutex> lock(context.mutex, std::try_to_lock);
    std::lock_guard<std::mutex> shown_lock(context.shown_mutex);
    if (lock.owns_lock()) {
        read();
        shown = out;
    } else {
        out = shown;
    }
}

}  // namespace expert_device
