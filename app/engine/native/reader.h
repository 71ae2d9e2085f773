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
    std::atomic<Brought> came{Brought::all};  // set before the last one is over
    std::atomic<bool> unwanted{false};        // what is not begun need not be read

    bool over() const { return left.load(std::memory_order_acquire) <= 0; }
    bool failed() const { return came.load(std::memory_order_relaxed) != Brought::all; }
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
        std::function<Brought(ByteRange)> bring = pages::bring;
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
    // What came of its reads; why one failed, where one did.
    Brought wait(const Ticket & ticket);
    // Drops reads that are not urgent and not begun; their tickets fail.
    void drop_waiting();
    // Drops what was to be given up and is not begun, and waits for what is: whoever looks then what is in memory sees
    // what stays there.
    void drop_letting_go();
    // Waits until nothing is left to do.
    void wait_for_all();

  private:
    void run();
    static void end(const ReadJob & job, Brought came);  // with the lock held: who waits looks under it
    bool idle() const { return letting_go_.empty() && urgent_.empty() && later_.empty() && running_ == 0; }

    const Calls calls_;
    std::mutex mutex_;
    std::condition_variable wake_, progress_;
    std::deque<ByteRange> letting_go_;
    std::deque<ReadJob> urgent_, later_;
    int running_ = 0, letting_go_now_ = 0;
    bool ending_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace expert_device
