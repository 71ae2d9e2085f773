// The background copy thread.
#include "copier.h"

#include "ggml-backend.h"

#include <exception>
#include <utility>

namespace expert_device {

uint64_t CopyJob::bytes() const {
    uint64_t sum = 0;
    for (const Piece & piece : pieces) {
        sum += piece.bytes;
    }
    return sum;
}

bool copy_pieces(const std::vector<Piece> & pieces) {
    try {
        for (const Piece & piece : pieces) {
            ggml_backend_tensor_set(piece.to, piece.from, piece.offset, piece.bytes);
        }
        return true;
    } catch (...) {  // backends throw types of their own when a device is lost
        return false;
    }
}

namespace {

// Moves a layer's jobs out of `jobs`, in their order.
template <typename Jobs> void take_of(int32_t layer, Jobs & jobs, std::vector<CopyJob> & out) {
    for (auto job = jobs.begin(); job != jobs.end();) {
        if (job->layer == layer) {
            out.push_back(std::move(*job));
            job = jobs.erase(job);
        } else {
            ++job;
        }
    }
}

}  // namespace

Copier::Copier() : thread_([this] { run(); }) {}

Copier::~Copier() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        ending_ = true;
        ahead_ = nullptr;
        stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
}

void Copier::enqueue(CopyJob job) {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        waiting_bytes_ += job.bytes();
        waiting_.push_back(std::move(job));
    }
    wake_.notify_one();
}

void Copier::take_done(std::vector<CopyJob> & out) {
    std::lock_guard<std::mutex> lock(mutex_);
    out.swap(done_);
    done_.clear();
}

void Copier::withdraw(int32_t layer, std::vector<CopyJob> & dropped, std::vector<CopyJob> & ended) {
    std::unique_lock<std::mutex> lock(mutex_);
    const size_t before = dropped.size();
    take_of(layer, waiting_, dropped);
    for (size_t i = before; i < dropped.size(); ++i) {
        waiting_bytes_ -= dropped[i].bytes();
    }
    progress_.notify_all();  // who waits for this layer's copies need not any more
    progress_.wait(lock, [&] { return running_layer_ != layer; });
    take_of(layer, done_, ended);
}

bool Copier::has(int32_t layer) const {
    if (running_layer_ == layer) {
        return true;
    }
    for (const CopyJob & job : waiting_) {
        if (job.layer == layer) {
            return true;
        }
    }
    return false;
}

void Copier::wait_for(int32_t layer) {
    std::unique_lock<std::mutex> lock(mutex_);
    progress_.wait(lock, [&] { return !has(layer); });
}

uint64_t Copier::waiting_bytes() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return waiting_bytes_;
}

void Copier::start_task(std::function<void()> task) {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        task_ = std::move(task);
        task_running_ = true;
        ahead_ = nullptr;
        stop_ = true;
    }
    wake_.notify_one();
}

void Copier::finish_task() {
    std::unique_lock<std::mutex> lock(mutex_);
    progress_.wait(lock, [&] { return !task_running_; });
}

void Copier::start_ahead(std::function<void(const std::atomic<bool> & stop)> copy) {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        ahead_ = std::move(copy);
    }
    wake_.notify_one();
}

void Copier::stop_ahead() {
    std::unique_lock<std::mutex> lock(mutex_);
    ahead_ = nullptr;
    stop_ = true;
    progress_.notify_all();
    progress_.wait(lock, [&] { return !ahead_running_; });
}

void Copier::wait_for_ahead() {
    std::unique_lock<std::mutex> lock(mutex_);
    progress_.wait(lock, [&] { return !ahead_ && !ahead_running_; });
}

void Copier::run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
        wake_.wait(lock, [&] { return ending_ || task_ || ahead_ || !waiting_.empty(); });
        if (task_) {
            std::function<void()> task;
            task.swap(task_);
            lock.unlock();
            task();
            lock.lock();
            task_running_ = false;
            progress_.notify_all();
            continue;
        }
        if (ending_) {
            return;
        }
        if (ahead_) {
            std::function<void(const std::atomic<bool> &)> ahead;
            ahead.swap(ahead_);
            ahead_running_ = true;
            stop_ = false;
            lock.unlock();
            ahead(stop_);
            lock.lock();
            ahead_running_ = false;
            progress_.notify_all();
            continue;
        }
        CopyJob job = std::move(waiting_.front());
        waiting_.pop_front();
        running_layer_ = job.layer;
        lock.unlock();
        job.ok = copy_pieces(job.pieces);
        lock.lock();
        running_layer_ = -1;
        waiting_bytes_ -= job.bytes();
        done_.push_back(std::move(job));
        progress_.notify_all();
    }
}

}  // namespace expert_device
