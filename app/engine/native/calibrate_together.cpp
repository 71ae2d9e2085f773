// The processor, a device and copies to it at once: what is left of each one's rate.
#include "calibrate_bench.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace expert_device {

namespace {

// The processor computes about so long; the device gets so much more to do, so that it is busy to the end.
constexpr double together_seconds = 0.03, device_longer = 1.5;

// Copies slice after slice to a device on a thread of its own, until it is told to stop.
class CopyLoop {
  public:
    CopyLoop(ggml_tensor * to, const char * from) : thread_([this, to, from] { run(to, from); }) {}
    ~CopyLoop() { stop(); }
    CopyLoop(const CopyLoop &) = delete;
    CopyLoop & operator=(const CopyLoop &) = delete;

    void stop() {
        stopping_ = true;
        if (thread_.joinable()) {
            thread_.join();
        }
    }
    // After `stop`: bytes a second, 0 when a copy failed.
    double rate() const { return failed_ ? 0 : static_cast<double>(bytes_) / std::max(seconds_, 1e-9); }

  private:
    std::atomic<bool> stopping_{false};
    bool failed_ = false;
    uint64_t bytes_ = 0;
    double seconds_ = 0;
    std::thread thread_;  // last: it uses the others

    void run(ggml_tensor * to, const char * from) {
        const uint64_t begin = now_ns();
        try {
            do {
                const size_t at = bytes_ % room_bytes;
                ggml_backend_tensor_set(to, from + at, at, slice_bytes);
                bytes_ += slice_bytes;
            } while (!stopping_);
        } catch (...) {  // backends throw types of their own
            failed_ = true;
        }
        seconds_ = seconds_since(begin);
    }
};

}  // namespace

int32_t Bench::together(Bench & device, int32_t threads, int64_t tokens, expert_calibrate_shares & out) {
    int32_t result = device.prepare_copies(true);
    const bool pinned = result == EXPERT_DEVICE_OK;
    if (result == EXPERT_DEVICE_UNSUPPORTED) {
        result = device.prepare_copies(false);
    }
    expert_calibrate_pass cpu_alone = {}, device_alone = {}, copy_alone = {};
    const auto measured = [&result](int32_t next) {
        result = result == EXPERT_DEVICE_OK ? next : result;
        return result == EXPERT_DEVICE_OK;
    };
    // The first run of each is its warm-up.
    for (int i = 0; i < 2 && result == EXPERT_DEVICE_OK; ++i) {
        if (!measured(run(threads, 1, cpu_alone)) || !measured(device.run(threads, tokens, device_alone)) ||
            !measured(device.copy(true, pinned, copy_alone))) {
            break;
        }
    }
    if (result != EXPERT_DEVICE_OK) {
        return result;
    }
    const int cpu_runs = std::max(1, static_cast<int>(together_seconds / cpu_alone.seconds + 0.5));
    const double wanted = device_longer * cpu_runs * cpu_alone.seconds;
    const int device_runs = std::max(1, static_cast<int>(wanted / device_alone.seconds + 0.999));
    CopyLoop copies(device.room_.device.tensors.front(), device.copy_memory(pinned));
    const uint64_t begin = now_ns();
    for (int i = 0; i < device_runs; ++i) {
        if (ggml_backend_graph_compute_async(device.backend_.get(), device.graph_.graph) != GGML_STATUS_SUCCESS) {
            return EXPERT_DEVICE_DEVICE_FAILED;
        }
    }
    const uint64_t launched = now_ns();
    for (int i = 0; i < cpu_runs; ++i) {
        if (ggml_backend_graph_compute(backend_.get(), graph_.graph) != GGML_STATUS_SUCCESS) {
            return EXPERT_DEVICE_DEVICE_FAILED;
        }
    }
    const double cpu_seconds = seconds_since(launched);
    const double shared_seconds = seconds_since(begin);
    copies.stop();
    ggml_backend_synchronize(device.backend_.get());
    const double all_seconds = seconds_since(begin);
    if (copies.rate() <= 0) {
        return EXPERT_DEVICE_DEVICE_FAILED;
    }
    // What the device still had to do when the processor ended, it did alone, at its full rate.
    const double device_work = device_runs * device_alone.seconds;
    const double done_meanwhile = device_work - (all_seconds - shared_seconds);
    out.cpu = cpu_runs * cpu_alone.seconds / cpu_seconds;
    out.device = std::max(0.0, done_meanwhile / shared_seconds);
    out.copy = copies.rate() / (static_cast<double>(copy_alone.bytes) / copy_alone.seconds);
    return EXPERT_DEVICE_OK;
}

}  // namespace expert_device
