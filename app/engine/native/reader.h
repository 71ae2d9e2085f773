// A few threads that bring ranges of the model file into memory, many at once: a disk is fast only when asked for much.
#pragma once

#include "pages.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace expert_device {

// One expert's reads: over when none is left.
struct Ticket {
    std::atomic<int32_t> left{0};
    std::atomic<bool> failed{false};    // set before the last one is over
    std::atomic<bool> unwanted{false};  // what is not begun need not be read

    bool over() const { return left.load(std::memory_order_acquire) <= 0; }
};
using TicketPtr = std::shared_ptr<Ticket>;

// A range that is read at once, and the experts whose bytes it holds.
struct ReadJob {
    ByteRange range;
    std::vector<TicketPtr> tickets;
};

class Reader {
  public:
    static constexpr int usual_threads = 6;

    // The calls that threads make.
    struct Calls {
        std::function<void(ByteRange)> ask = pages::ask;
        std::function<bool(ByteRange)> bring = pages::bring;
        std::function<void(ByteRange)> let_go = pages::let_go;
    };

    explicit Reader(int threads = usual_threads) : Reader(threads, Calls()) {}
    Reader(int threads, Calls calls);
    ~Reader();  // what waits is dropped and its tickets fail; what runs is finished
    Reader(const Reader &) = delete;
    Reader & operator=(const Reader &) = delete;

    // Reads, in this order; `urgent` ones before all that are not. Counts up the tickets' reads. What all of its
    // tickets do not want any more when its turn comes is not read, and fails.
    void read(std::vector<ReadJob> jobs, bool urgent);
    // Gives ranges up, before anything that waits to be read.
    void let_go(const std::vector<ByteRange> & ranges);
    // False where a read of it failed.
    bool wait(const Ticket & ticket);
    // Drops reads that are not urgent and not begun; their tickets fail.
    void drop_waiting();
    // Waits until nothing is left to do.
    void wait_for_all();

  private:
    void run();
    static void end(const ReadJob & job, bool ok);  // with the lock held: who waits looks under it
    bool idle() const { return letting_go_.empty() && urgent_.empty() && later_.empty() && running_ == 0; }

    const Calls calls_;
    std::mutex mutex_;
    std::condition_variable wake_, progress_;
    std::deque<ByteRange> letting_go_;
    std::deque<ReadJob> urgent_, later_;
    int running_ = 0;
    bool ending_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace expert_device
