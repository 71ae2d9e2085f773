// The copier by itself: jobs come out once, a withdrawal leaves none behind, it may end with work left.
#include "host_device.h"

#include <thread>
#include <utility>

namespace expert_device {

namespace {

// Jobs that come from several threads while others withdraw, wait and take: each comes out once.
void every_job_comes_out_once() {
    constexpr int32_t producers = 2, jobs = 2000;
    TestLayer source(0);
    source.slots = std::make_unique<Slots>(producers);
    std::atomic<int> out{0};
    std::atomic<bool> over{false};
    Copier copier;
    std::vector<std::thread> threads, takers;
    for (int32_t producer = 0; producer < producers; ++producer) {
        threads.emplace_back([&, producer] {
            for (int i = 0; i < jobs; ++i) {
                CopyJob job = source.job(producer, producer);
                job.layer = producer;
                copier.enqueue(std::move(job));
                if (i % 100 == 0) {
                    copier.wait_for(producer);
                }
            }
        });
    }
    takers.emplace_back([&] {
        while (!over.load()) {
            std::vector<CopyJob> dropped, ended;
            copier.withdraw(0, dropped, ended);
            check(std::all_of(ended.begin(), ended.end(), [](const CopyJob & job) { return job.ok && job.layer == 0; }),
                  "what ended was copied");
            out += static_cast<int>(dropped.size() + ended.size());
            std::this_thread::yield();
        }
    });
    takers.emplace_back([&] {
        while (!over.load()) {
            std::vector<CopyJob> done;
            copier.take_done(done);
            out += static_cast<int>(done.size());
            std::this_thread::yield();
        }
    });
    for (std::thread & thread : threads) {
        thread.join();
    }
    copier.wait_for(0);
    copier.wait_for(1);
    over = true;
    for (std::thread & taker : takers) {
        taker.join();
    }
    std::vector<CopyJob> rest;
    copier.take_done(rest);
    check(out + static_cast<int>(rest.size()) == producers * jobs, "each job comes out once");
    check(copier.waiting_bytes() == 0, "no bytes wait when no job does");
}

void withdrawing_leaves_none_behind() {
    TestLayer source(0);
    source.slots = std::make_unique<Slots>(n_experts);
    Copier copier;
    {
        std::lock_guard<std::mutex> lock(gate.mutex);
        gate.closed = true;
    }
    for (int32_t expert = 0; expert < 3; ++expert) {
        copier.enqueue(source.job(expert, expert));
    }
    {
        std::unique_lock<std::mutex> lock(gate.mutex);
        gate.moved.wait(lock, [] { return gate.reached; });
    }
    std::vector<CopyJob> dropped, ended, done;
    std::thread withdrawing([&] { copier.withdraw(0, dropped, ended); });
    {
        std::lock_guard<std::mutex> lock(gate.mutex);
        gate.closed = false;
    }
    gate.moved.notify_all();
    withdrawing.join();
    copier.take_done(done);
    check(done.empty(), "a copy that ended while its layer was withdrawn is not handed out later");
    check(!ended.empty() && ended.front().expert == 0 && ended.front().ok, "it is handed out with the withdrawal");
    check(dropped.size() + ended.size() == 3, "and so are the others");
}

// A copier may end at any moment: its thread finishes one copy and drops the rest.
void ending_with_work_left() {
    TestLayer source(0);
    source.slots = std::make_unique<Slots>(n_experts);
    for (int round = 0; round < 100; ++round) {
        bool ran = false;
        {
            Copier copier;
            for (int i = 0; i < round; ++i) {
                copier.enqueue(source.job(i % n_experts, i % n_experts));
            }
            copier.start_task([&] { ran = true; });
        }
        check(ran, "a task that was started is run before the end");
    }
}

}  // namespace

void copier_tests() {
    withdrawing_leaves_none_behind();
    every_job_comes_out_once();
    ending_with_work_left();
}

}  // namespace expert_device
