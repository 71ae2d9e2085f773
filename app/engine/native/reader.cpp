// The reading threads.
#include "reader.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace expert_device {

Reader::Reader(int threads, Calls calls) : calls_(std::move(calls)) {
    threads_.reserve(static_cast<size_t>(threads));
    for (int i = 0; i < threads; ++i) {
        try {
            threads_.emplace_back([this] { run(); });
        } catch (const std::system_error &) {  // fewer read more slowly
            if (threads_.empty()) {
                throw;
            }
            return;
        }
    }
}

Reader::~Reader() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        ending_ = true;
        letting_go_.clear();
        for (std::deque<ReadJob> * jobs : {&urgent_, &later_}) {
            for (const ReadJob & job : *jobs) {
                end(job, Brought::refused);
            }
            jobs->clear();
        }
    }
    wake_.notify_all();
    for (std::thread & thread : threads_) {
        thread.join();
    }
}

void Reader::end(const ReadJob & job, Brought came) {
    for (const TicketPtr & ticket : job.tickets) {
        if (came != Brought::all) {
            ticket->came.store(came, std::memory_order_relaxed);
        }
        ticket->left.fetch_sub(1, std::memory_order_release);
    }
}

void Reader::read(std::vector<ReadJob> jobs, bool urgent) {
    const size_t n = jobs.size();
    {
        std::lock_guard<std::mutex> lock(mutex_);
        for (ReadJob & job : jobs) {
            for (const TicketPtr & ticket : job.tickets) {
                ticket->left.fetch_add(1, std::memory_order_relaxed);
            }
            (urgent ? urgent_ : later_).push_back(std::move(job));
        }
    }
    if (n == 1) {
        wake_.notify_one();
    } else if (n > 1) {
        wake_.notify_all();
    }
}

void Reader::let_go(const std::vector<ByteRange> & ranges) {
    if (ranges.empty()) {
        return;
    }
    {
        std::lock_guard<std::mutex> lock(mutex_);
        letting_go_.insert(letting_go_.end(), ranges.begin(), ranges.end());
    }
    wake_.notify_one();
}

Brought Reader::wait(const Ticket & ticket) {
    if (!ticket.over()) {
        std::unique_lock<std::mutex> lock(mutex_);
        progress_.wait(lock, [&] { return ticket.over(); });
    }
    return ticket.came.load(std::memory_order_relaxed);
}

void Reader::drop_waiting() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        for (const ReadJob & job : later_) {
            end(job, Brought::refused);
        }
        later_.clear();
    }
    progress_.notify_all();
}

void Reader::drop_letting_go() {
    std::unique_lock<std::mutex> lock(mutex_);
    letting_go_.clear();
    progress_.wait(lock, [&] { return letting_go_now_ == 0; });
}

void Reader::wait_for_all() {
    std::unique_lock<std::mutex> lock(mutex_);
    progress_.wait(lock, [&] { return idle(); });
}

void Reader::run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
        wake_.wait(lock, [&] { return ending_ || !letting_go_.empty() || !urgent_.empty() || !later_.empty(); });
        if (ending_) {
            return;
        }
        ++running_;
        if (!letting_go_.empty()) {
            const ByteRange range = letting_go_.front();
            letting_go_.pop_front();
            ++letting_go_now_;
            lock.unlock();
            try {
                calls_.let_go(range);
            } catch (...) {  // no memory: the range stays, which the next look finds
            }
            lock.lock();
            --letting_go_now_;
        } else {
            std::deque<ReadJob> & from = urgent_.empty() ? later_ : urgent_;
            const ReadJob job = std::move(from.front());
            from.pop_front();
            const bool wanted = std::any_of(job.tickets.begin(), job.tickets.end(),
                                            [](const TicketPtr & ticket) { return !ticket->unwanted.load(); });
            lock.unlock();
            Brought came = Brought::refused;
            try {
                if (wanted || job.tickets.empty()) {
                    calls_.ask(job.range);
                    came = calls_.bring(job.range);
                }
            } catch (...) {  // no memory: not read
                came = Brought::refused;
            }
            lock.lock();
            end(job, came);
        }
        --running_;
        progress_.notify_all();
    }
}

}  // namespace expert_device
