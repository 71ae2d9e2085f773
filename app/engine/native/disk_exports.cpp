// The C interface to what main memory holds of mapped experts.
#include "expert_device.h"
#include "exports.h"
#include "internal.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace ed = expert_device;
using ed::for_readers;
using ed::with_context;

namespace {

// Asks for a change of what main memory holds.
template <typename Ask> int32_t ask_of_disk(int64_t context, Ask ask) {
    return with_context(context, [&](ed::Context & found) {
        std::lock_guard<std::mutex> lock(found.pending_mutex);
        ask(found.pending);
        found.has_pending.store(true);
        return EXPERT_DEVICE_OK;
    });
}

}  // namespace

int32_t expert_device_set_resident(int64_t context, uint64_t bytes) {
    return ask_of_disk(context, [&](ed::Pending & pending) { pending.resident_bytes = bytes; });
}

int32_t expert_device_set_memory_lock(int64_t context, uint64_t most_bytes) {
    return ask_of_disk(context, [&](ed::Pending & pending) { pending.most_locked = most_bytes; });
}

int32_t expert_device_warm_up(int64_t context) {
    return ask_of_disk(context, [](ed::Pending & pending) { pending.warm_up = true; });
}

int32_t expert_device_release(int64_t context) {
    return ask_of_disk(context, [](ed::Pending & pending) {
        pending.release = true;
        pending.warm_up = false;  // the later order holds
    });
}

int32_t expert_device_read_memory(int64_t context, expert_device_memory * out) {
    if (out == nullptr) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    *out = {};
    return with_context(context, [&](ed::Context & found) {
        for_readers(found, found.shown_memory, *out, [&] { found.disk.read(*out); });
        found.disk.read_failures(*out);
        return EXPERT_DEVICE_OK;
    });
}

int32_t expert_device_read_residents(int64_t context, uint8_t * out, int32_t layers, int32_t experts) {
    if (out == nullptr || layers < 0 || experts < 0) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    return with_context(context, [&](ed::Context & found) {
        const size_t cells = static_cast<size_t>(layers) * static_cast<size_t>(experts);
        std::vector<uint8_t> in(cells, 1);
        for_readers(found, found.shown_residents, in,
                    [&] { found.disk.residents(found.layers, in.data(), layers, experts); });
        std::fill_n(out, cells, uint8_t{1});
        std::copy_n(in.begin(), std::min(cells, in.size()), out);  // of another shape, where asked for so before
        return EXPERT_DEVICE_OK;
    });
}
