// A thread that copies experts to a device in the background, and does one urgent task in between.
#pragma once

#include "ggml.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace expert_device {

// One slice to copy: `bytes` from `from` to `offset` within `to`.
struct Piece {
    ggml_tensor * to;
    size_t offset;
    const char * from;
    size_t bytes;
};

struct CopyJob {
    int32_t layer = -1;
    int32_t expert = -1;
    int32_t slot = -1;
    std::vector<Piece> pieces;
    bool ok = false;  // set when done

    uint64_t bytes() const;
};

// Copies all pieces; false when the device threw.
bool copy_pieces(const std::vector<Piece> & pieces);

class Copier {
  public:
    Copier();
    ~Copier();  // drops what waits, finishes what runs
    Copier(const Copier &) = delete;
    Copier & operator=(const Copier &) = delete;

    void enqueue(CopyJob job);
    // Jobs that ended since the last call.
    void take_done(std::vector<CopyJob> & out);
    // Takes the waiting jobs of a layer back, waits for its running one, and hands out those that ended: none is
    // left afterwards, so that no later one is taken for them.
    void withdraw(int32_t layer, std::vector<CopyJob> & dropped, std::vector<CopyJob> & ended);
    void wait_for(int32_t layer);
    uint64_t waiting_bytes() const;

    // Runs `task` on the thread before any waiting copy; one at a time. `finish` waits for its end.
    void start_task(std::function<void()> task);
    void finish_task();

    // Runs `copy` on the thread after the task and before any waiting copy, until it ends or the flag it gets is set:
    // by the next task, or by `stop_ahead`, which waits for its end.
    void start_ahead(std::function<void(const std::atomic<bool> & stop)> copy);
    void stop_ahead();
    void wait_for_ahead();

  private:
    void run();
    bool has(int32_t layer) const;  // with the lock held

    mutable std::mutex mutex_;
    std::condition_variable wake_, progress_;
    std::deque<CopyJob> waiting_;
    std::vector<CopyJob> done_;
    std::function<void()> task_;
    bool task_running_ = false;
    std::function<void(const std::atomic<bool> &)> ahead_;
    bool ahead_running_ = false;
    std::atomic<bool> stop_{false};  // set while what is copied ahead must end
    int32_t running_layer_ = -1;
    uint64_t waiting_bytes_ = 0;
    bool ending_ = false;
    std::thread thread_;
};

// Waits for the copier's task before the frame goes that the task refers to.
class TaskEnd {
  public:
    explicit TaskEnd(Copier & copier) : copier_(copier) {}
    ~TaskEnd() { copier_.finish_task(); }
    TaskEnd(const TaskEnd &) = delete;
    TaskEnd & operator=(const TaskEnd &) = delete;

  private:
    Copier & copier_;
};

}  // namespace expert_device
