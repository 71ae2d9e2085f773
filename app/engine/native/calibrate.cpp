// The C interface of the measurements: benches by number, argument checks, and no exception past here.
#include "calibrate.h"

#include "calibrate_bench.h"

#include <map>
#include <memory>
#include <mutex>
#include <new>

namespace ed = expert_device;

namespace {

constexpr int32_t most_threads = 512;  // ggml's own bound
constexpr int32_t most_tokens = 4096;

std::mutex benches_mutex;
std::map<int64_t, std::shared_ptr<ed::Bench>> benches;
int64_t next_bench = 1;

std::shared_ptr<ed::Bench> find_bench(int64_t id) {
    std::lock_guard<std::mutex> lock(benches_mutex);
    const auto found = benches.find(id);
    return found == benches.end() ? nullptr : found->second;
}

template <typename Body> int32_t guarded(Body body) {
    try {
        return body();
    } catch (const std::bad_alloc &) {
        return EXPERT_DEVICE_NO_MEMORY;
    } catch (...) {  // backends throw types of their own
        return EXPERT_DEVICE_DEVICE_FAILED;
    }
}

template <typename Body> int32_t with_bench(int64_t id, Body body) {
    const std::shared_ptr<ed::Bench> bench = find_bench(id);
    return bench ? guarded([&] { return body(*bench); }) : int32_t{EXPERT_DEVICE_BAD_ARGUMENT};
}

bool valid_tokens(int32_t tokens) {
    return tokens >= 1 && tokens <= most_tokens;
}

bool valid_threads(int32_t threads) {
    return threads >= 1 && threads <= most_threads;
}

}  // namespace

int32_t expert_calibrate_open(const char * device, int64_t * bench) {
    if (device == nullptr || bench == nullptr) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    return guarded([&]() -> int32_t {
        std::shared_ptr<ed::Bench> made = ed::Bench::open(device);
        if (!made) {
            return EXPERT_DEVICE_NO_DEVICE;
        }
        std::lock_guard<std::mutex> lock(benches_mutex);
        benches.emplace(next_bench, std::move(made));
        *bench = next_bench++;
        return EXPERT_DEVICE_OK;
    });
}

int32_t expert_calibrate_weights(int64_t bench, const char * type, int32_t repacked, uint64_t most_bytes) {
    if (type == nullptr) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    return with_bench(bench, [&](ed::Bench & b) { return b.set_weights(type, repacked != 0, most_bytes); });
}

int32_t expert_calibrate_run(int64_t bench, int32_t threads, int32_t tokens, expert_calibrate_pass * out) {
    if (!valid_threads(threads) || !valid_tokens(tokens) || out == nullptr) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    return with_bench(bench, [&](ed::Bench & b) { return b.run(threads, tokens, *out); });
}

int32_t expert_calibrate_layer(int64_t bench, int32_t threads, double * seconds) {
    if (!valid_threads(threads) || seconds == nullptr) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    return with_bench(bench, [&](ed::Bench & b) { return b.layer(threads, *seconds); });
}

int32_t expert_calibrate_copy(int64_t bench, int32_t to_device, int32_t pinned, expert_calibrate_pass * out) {
    if (out == nullptr) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    return with_bench(bench, [&](ed::Bench & b) { return b.copy(to_device != 0, pinned != 0, *out); });
}

int32_t expert_calibrate_together(int64_t cpu, int64_t device, int32_t threads, int32_t tokens,
                                  expert_calibrate_shares * out) {
    const std::shared_ptr<ed::Bench> other = find_bench(device);
    if (!valid_threads(threads) || !valid_tokens(tokens) || !other || cpu == device || out == nullptr) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    return with_bench(cpu, [&](ed::Bench & b) { return b.together(*other, threads, tokens, *out); });
}

void expert_calibrate_close(int64_t bench) {
    guarded([&]() -> int32_t {
        std::shared_ptr<ed::Bench> freed;
        std::lock_guard<std::mutex> lock(benches_mutex);
        if (const auto found = benches.find(bench); found != benches.end()) {
            freed = std::move(found->second);
            benches.erase(found);
        }
        return EXPERT_DEVICE_OK;
    });
}
