// Experts that main memory need not hold: they are read from the file when a layer's routing is known, all at once, and
// given up again within a budget. Only for experts that lie in a mapping of the file.
#pragma once

#include "expert_device.h"
#include "hot_locks.h"
#include "layer.h"
#include "pages.h"
#include "pool.h"
#include "reader.h"
#include "resident.h"
#include "routing.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace expert_device {

// What one layer's visit to the disk came to.
struct DiskFacts {
    int32_t experts = 0;  // that were not in memory
    int32_t reads = 0;    // ranges that were asked for
    uint64_t bytes = 0;
    uint64_t stall_ns = 0;  // the compute thread waited, with nothing else to compute
};

// Used with the context's lock held.
class DiskLane {
  public:
    // At most so many bytes of experts are kept in memory; 0 leaves them to the system, as in the beginning: then the
    // lane knows no expert, and reads, gives up and locks none of its own accord.
    void set_budget(const Layers & layers, uint64_t bytes);
    // So much of the hottest that is in memory is locked there, as far as the system allows.
    void set_most_locked(uint64_t bytes);
    // Reads the hottest in, in the background; they take the place of colder ones.
    void warm_up(const Layers & layers);
    // Gives all of them up.
    void release(const Layers & layers);

    // Before the first layer of a batch: whether the system took experts that all were in memory.
    void begin_batch(const Layers & layers);
    // Whether a layer's routing must be shown to `begin`. Not so while all experts are in memory: then nothing is done.
    bool on() const { return on_; }
    // Whether memory may hold only some of the experts.
    bool holds_some() const { return budget_ > 0 && table_.total() > budget_; }
    uint64_t budget() const { return budget_; }
    uint64_t total() const { return table_.total(); }

    // A layer is computed: asks for the experts of `pairs` that memory lacks. None of those pairs' experts leaves
    // before `end`, but for those that were handed out by `next` and by a later `next` again.
    void begin(Layer & layer, const std::vector<Pair> & pairs, bool decoding);
    // Experts that are in memory from the start, and whether these are all; by expert, 1 for those.
    const std::vector<uint8_t> & here() const { return here_; }
    bool all_here() const { return missing_.empty(); }
    // Waits for the next of the others, few at a time, and marks them in `came`. Leaves it empty when there are none
    // any more. False where one cannot be read.
    bool next(std::vector<uint8_t> & came);
    // All of the others, and the end.
    bool bring_all();
    // What the visit came to is added to `facts`.
    void end(DiskFacts & facts);

    void read(expert_device_memory & out) const;
    // Of `out`, what could not be read. From any thread, without the lock: who is told of a failure is to see it here.
    void read_failures(expert_device_memory & out) const;
    // 1 where an expert is in memory, by layer and expert; 1 for all that this lane does not care for.
    void residents(const Layers & layers, uint8_t * out, int32_t n_layers, int32_t n_experts) const;

  private:
    struct Wanted {
        int32_t expert = -1;
        TicketPtr ticket;
    };

    // What of all experts is in memory; returns those that are in part, which counts as not at all.
    std::vector<ExpertPlace> look(const Layers & layers);
    void know(const Layer & layer);
    void forget_loading();  // what is not begun is not read, and counts as not in memory
    void update();          // `on_`
    bool in_memory(const Layer & layer, int32_t expert);
    void set_reading_singly(const Layers & layers, bool singly);
    void trim();
    void ask_more();
    void read_in(const Layer & layer, std::vector<Wanted> & wanted, size_t begin, size_t end, bool urgent);
    void give_up(const std::vector<ExpertPlace> & places);
    void found_stale(const Layer & layer);
    void lock_hottest(const Layers & layers);
    void lock_more(const std::vector<ExpertPlace> & wanted);
    void forget_refusals();
    Reader & reader();

    ResidentTable table_;
    std::map<int32_t, const Layer *> known_;
    std::map<std::pair<int32_t, int32_t>, TicketPtr> loading_;  // not waited for, by layer and expert
    std::unique_ptr<Reader> reader_;
    HotLocks locks_;
    uint64_t most_locked_ = 0, lockable_ = UINT64_MAX;  // as was asked; as far as the system refused no more
    std::string lock_refused_;                          // why, in words
    int32_t batches_since_lock_ = 0;
    uint64_t budget_ = 0;  // as was asked; the table's is less where the system takes more than we gave up
    bool on_ = false;
    bool singly_ = false;
    uint64_t faults_ = 0;
    int32_t batches_since_look_ = 0, batches_since_stale_ = 0;
    uint32_t sampled_ = 0;
    uint64_t stale_ = 0, evicted_ = 0;
    std::atomic<uint64_t> unreadable_{0}, refused_{0};  // experts that could not be read, by why

    // The visit.
    const Layer * layer_ = nullptr;
    bool decoding_ = false;
    std::vector<uint8_t> here_;
    std::vector<Wanted> missing_;
    size_t asked_ = 0, handed_ = 0, released_ = 0;
    uint64_t outstanding_ = 0;
    DiskFacts facts_;
};

}  // namespace expert_device
