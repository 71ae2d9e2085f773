// Copying ahead by itself: what is told to be there is there, it ends when it is in the way, and the trial of its use.
#include "ahead.h"
#include "host_device.h"
#include "ways.h"

#include <thread>
#include <utility>

namespace expert_device {

namespace {

// A plan for the first `n` experts of `source` into `to`.
void plan(CopyAhead & ahead, TestLayer & source, Slots & to, int32_t n) {
    std::vector<int32_t> experts;
    std::vector<std::vector<Piece>> pieces;
    for (int32_t expert = 0; expert < n; ++expert) {
        experts.push_back(expert);
        CopyJob job = source.job(expert, expert);
        for (Piece & piece : job.pieces) {
            piece.to = &to.tensor;
        }
        pieces.push_back(std::move(job.pieces));
    }
    ahead.plan(source.index, 1, std::move(experts), std::move(pieces));
}

bool all_there(const CopyAhead::Half & half, Slots & to) {
    for (size_t place = 0; place < half.experts.size(); ++place) {
        if (!holds(to.at(static_cast<int32_t>(place)), pattern(half.layer, half.experts[place]))) {
            return false;
        }
    }
    return true;
}

void what_was_copied_is_taken_once() {
    TestLayer source(1);
    Slots to(n_experts);
    CopyAhead ahead;
    plan(ahead, source, to, 5);
    check(ahead.there(1) == 0, "nothing is there before it is copied");
    ahead.copy(std::atomic<bool>{false});
    check(ahead.there(1) == 5 && ahead.there(0) == 0, "what was copied is there for its layer alone");
    const CopyAhead::Half half = ahead.take();
    check(half.ok && half.layer == 1 && half.side == 1 && half.experts.size() == 5 && all_there(half, to), "it is whole");
    check(ahead.take().layer == -1 && ahead.there(1) == 0, "it is taken once");
}

void a_failed_copy_is_told() {
    TestLayer source(1);
    Slots to(n_experts);
    CopyAhead ahead;
    plan(ahead, source, to, 5);
    copies_for_a_failure = 1;
    ahead.copy(std::atomic<bool>{false});
    copies_for_a_failure = 0;
    const CopyAhead::Half half = ahead.take();
    check(!half.ok && half.experts.empty(), "the device failed at the first expert");
    plan(ahead, source, to, 5);
    check(ahead.take().ok, "the next plan knows nothing of it");
}

// Tasks, as streaming is, begin while something is copied ahead: it ends early, and what it had copied is whole.
void tasks_end_what_is_copied_ahead() {
    TestLayer source(2);
    Slots to(n_experts);
    CopyAhead ahead;
    Copier copier;
    std::vector<CopyAhead::Half> taken;
    for (int round = 0; round < 3000; ++round) {
        copier.start_task([&] {
            taken.push_back(ahead.take());
            check(all_there(taken.back(), to), "what a task finds is whole");
            std::fill(to.bytes.begin(), to.bytes.end(), never_written);
            plan(ahead, source, to, n_experts);
            copier.start_ahead([&](const std::atomic<bool> & stop) { ahead.copy(stop); });
        });
        copier.finish_task();
        for (int wait = 0; wait < round % 7; ++wait) {
            check(ahead.there(2) <= static_cast<size_t>(n_experts), "no more is there than was planned");
            std::this_thread::yield();
        }
        if (round % 5 == 0) {
            copier.stop_ahead();
            ahead.forget();
        }
    }
    copier.stop_ahead();
    check(std::any_of(taken.begin(), taken.end(), [](const auto & half) { return !half.experts.empty(); }), "some came in time");
}

void a_copier_ends_with_work_ahead() {
    TestLayer source(0);
    Slots to(n_experts);
    CopyAhead ahead;
    plan(ahead, source, to, n_experts);
    Copier copier;
    copier.start_ahead([&](const std::atomic<bool> & stop) { ahead.copy(stop); });
}

// Batches of three layers: how many of `n` were computed with copying ahead where that takes other times.
int with_ahead(AheadTrial & trial, int n, int64_t tokens, uint64_t with_ns, uint64_t without_ns) {
    static uint64_t now = 1;
    int with = 0;
    for (int batch = 0; batch < n; ++batch) {
        for (int32_t layer = 0; layer < 3; ++layer) {
            trial.begin_split(layer, tokens, now);
            now += trial.copies_ahead() ? with_ns : without_ns;
            trial.end_split(now);
        }
        with += trial.copies_ahead() ? 1 : 0;
        now += 1000;  // between two batches: nobody's
    }
    return with;
}

void the_faster_way_is_found_and_looked_for_again() {
    AheadTrial helps, hurts;
    check(with_ahead(helps, 100, 512, 80, 100) >= 90, "where it helps it is done");
    check(with_ahead(hurts, 100, 512, 100, 80) <= 10, "where it hurts it is not");
    check(with_ahead(hurts, 100, 512, 80, 100) >= 70, "and done again where that has changed");
    check(with_ahead(helps, 2, 64, 80, 100) == 1, "another size of batch is tried anew");
}

// How many of `n` layers are computed whole where that takes `whole_ns` a layer, and `divided_ns` otherwise.
int whole_of(WayTrial & ways, int n, int64_t tokens, uint64_t whole_ns, uint64_t divided_ns, bool spoilt = false) {
    int found = 0;
    for (int layer = 0; layer < n; ++layer) {
        const bool whole = ways.whole_next(tokens);
        ways.took(tokens, whole, whole ? whole_ns : divided_ns, spoilt);
        found += whole ? 1 : 0;
    }
    return found;
}

void the_faster_of_two_ways_is_taken() {
    WayTrial ways;
    check(whole_of(ways, 5, 512, 1000, 900, true) == 5, "what something else made slow does not count");
    check(whole_of(ways, 100, 512, 80, 100) >= 93, "the faster way is taken");
    check(whole_of(ways, 100, 512, 120, 100) <= 12, "until it no longer is");
    check(whole_of(ways, 300, 512, 80, 100) >= 200, "and looked for again");
    check(whole_of(ways, 100, 32, 120, 100) <= 6, "for each size of batch by itself");
    ways.forget();
    check(whole_of(ways, 3, 32, 120, 100) == 3, "it is tried anew");
}

void an_aborted_batch_says_nothing() {
    AheadTrial trial;
    check(with_ahead(trial, 4, 512, 80, 100) == 3, "it helps");
    trial.begin_split(0, 512, 1u << 30);
    trial.end_split((1u << 30) + 1);  // the other layers were not computed
    check(with_ahead(trial, 10, 512, 80, 100) == 10, "still");
}

}  // namespace

void ahead_tests() {
    what_was_copied_is_taken_once();
    a_failed_copy_is_told();
    tasks_end_what_is_copied_ahead();
    a_copier_ends_with_work_ahead();
    the_faster_way_is_found_and_looked_for_again();
    an_aborted_batch_says_nothing();
    the_faster_of_two_ways_is_taken();
}

}  // namespace expert_device
