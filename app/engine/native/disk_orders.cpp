// What users ask of the experts in main memory: to read the hottest in, to give all up, to tell which are there.
#include "disk_lane.h"
#include "internal.h"
#include "slices.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

namespace expert_device {

namespace {

constexpr int32_t batches_between_locks = 8;
constexpr int32_t most_locked_at_once = 8;

struct Candidate {
    float heat;
    ExpertPlace place;
};

// Experts that the CPU computes, the hottest first; equals as they lie in the file.
std::vector<Candidate> by_heat(const Layers & layers) {
    std::vector<Candidate> found;
    for (const auto & [index, layer] : layers) {
        for (int32_t expert = 0; expert < layer->experts(); ++expert) {
            if (layer->policy.ready_slot(expert) < 0) {
                found.push_back({layer->policy.heat(expert), {index, expert}});
            }
        }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate & a, const Candidate & b) { return a.heat > b.heat; });
    return found;
}

std::vector<HotLocks::Slice> slices_of(const Layer & layer, int32_t expert) {
    std::vector<HotLocks::Slice> slices;
    for (const ExpertTensor & tensor : layer.tensors) {
        if (is_mapped(tensor.tensor)) {
            slices.push_back({tensor.data, static_cast<size_t>(tensor.bytes), expert});
        }
    }
    return slices;
}

}  // namespace

void DiskLane::warm_up(const Layers & layers) {
    if (budget_ == 0) {
        return;
    }
    forget_loading();
    const std::vector<ExpertPlace> in_part = look(layers);
    if (table_.total() > budget_) {
        give_up(in_part);
    }
    std::vector<Candidate> hottest;
    uint64_t bytes = 0;
    for (const Candidate & each : by_heat(layers)) {
        const int32_t layer = each.place.layer;
        if (table_.experts_of(layer) > 0 && bytes + table_.expert_bytes(layer) <= table_.budget()) {
            bytes += table_.expert_bytes(layer);
            hottest.push_back(each);
        }
    }
    std::map<int32_t, std::vector<Wanted>> wanted;
    for (auto each = hottest.rbegin(); each != hottest.rend(); ++each) {  // the hottest go last
        if (table_.holds(each->place)) {
            table_.use(each->place);
        } else {
            table_.add(each->place, true);
            wanted[each->place.layer].push_back({each->place.expert, nullptr});
        }
    }
    trim();
    decoding_ = false;
    for (auto & [index, experts] : wanted) {
        std::sort(experts.begin(), experts.end(),
                  [](const Wanted & a, const Wanted & b) { return a.expert < b.expert; });
        read_in(*known_.at(index), experts, 0, experts.size(), false);
        for (const Wanted & each : experts) {
            loading_[{index, each.expert}] = each.ticket;
        }
    }
    on_ = on_ || !loading_.empty();
}

void DiskLane::release(const Layers & layers) {
    forget_loading();
    for (const auto & [index, layer] : layers) {
        know(*layer);
    }
    locks_.unlock_all_but({});
    std::vector<ExpertPlace> all;
    table_.clear(all);
    all.clear();
    for (const auto & [index, layer] : known_) {
        for (int32_t expert = 0; expert < table_.experts_of(index); ++expert) {
            all.push_back({index, expert});
        }
    }
    give_up(all);
    if (budget_ == 0) {  // from here on the system decides again, and the lane knows none
        known_.clear();
        table_ = ResidentTable();
    }
    update();
}

// ---- locks ---------------------------------------------------------------------------------------

void DiskLane::set_most_locked(uint64_t bytes) {
    most_locked_ = bytes;
    forget_refusals();
    locks_.unlock_all_but({});
}

void DiskLane::forget_refusals() {
    lockable_ = UINT64_MAX;
    lock_refused_.clear();
}

void DiskLane::lock_hottest(const Layers & layers) {
    if (most_locked_ == 0 || lockable_ == 0 || ++batches_since_lock_ <= batches_between_locks) {
        return;
    }
    batches_since_lock_ = 0;
    const uint64_t most = std::min({most_locked_, budget_, lockable_});
    std::vector<ExpertPlace> wanted;
    std::set<HotLocks::Name> names;
    uint64_t bytes = 0;
    for (const Candidate & each : by_heat(layers)) {
        const auto [layer, expert] = each.place;
        if (each.heat <= 0.0F) {
            break;
        }
        if (table_.experts_of(layer) == 0 || bytes + table_.expert_bytes(layer) > most) {
            continue;
        }
        if (table_.holds(each.place) && loading_.count({layer, expert}) == 0) {
            wanted.push_back(each.place);
            names.insert({layer, expert});
            bytes += table_.expert_bytes(layer);
        }
    }
    locks_.unlock_all_but(names);
    lock_more(wanted);
}

void DiskLane::lock_more(const std::vector<ExpertPlace> & wanted) {
    bool no_range = false;
    int32_t n = 0;
    for (const ExpertPlace place : wanted) {
        const HotLocks::Name name{place.layer, place.expert};
        if (n == most_locked_at_once) {
            break;
        }
        if (locks_.holds(name)) {
            continue;
        }
        pages::LockAnswer answer;
        const HotLocks::Result result = locks_.lock(name, slices_of(*known_.at(place.layer), place.expert), answer);
        if (result == HotLocks::Result::no_range) {
            no_range = true;  // a colder one may lie beside one that is locked
            continue;
        }
        ++n;
        if (result == HotLocks::Result::refused) {
            lock_refused_ = answer.why;
            if (!answer.later) {
                lockable_ = 0;
                for (const HotLocks::Name & held : locks_.names()) {
                    lockable_ += table_.expert_bytes(held.first);
                }
            }
            return;
        }
    }
    if (no_range) {
        lock_refused_ = "they lie in " + std::to_string(locks_.ranges()) +
                        " ranges apart from each other, and each takes two of the mappings that a process may have.";
    } else if (lockable_ == UINT64_MAX) {
        lock_refused_.clear();
    }
}

// ---- facts ---------------------------------------------------------------------------------------

void DiskLane::read(expert_device_memory & out) const {
    out.budget = budget_;
    out.trusted = table_.budget();
    out.resident = table_.bytes();
    out.total = table_.total();
    out.evictions = evicted_;
    out.stale = stale_;
    out.locked = locks_.bytes();
    out.on = on_ ? 1 : 0;
    std::string words;
    if (!lock_refused_.empty()) {
        words =
            "Of experts' memory " + std::to_string(locks_.bytes()) + " bytes are locked and no more: " + lock_refused_;
    }
    std::snprintf(out.reason, sizeof out.reason, "%s", words.c_str());
}

void DiskLane::read_failures(expert_device_memory & out) const {
    out.failures = unreadable_.load();
    out.refused = refused_.load();
}

void DiskLane::residents(const Layers & layers, uint8_t * out, int32_t n_layers, int32_t n_experts) const {
    std::fill_n(out, static_cast<size_t>(n_layers) * static_cast<size_t>(n_experts), uint8_t{1});
    for (const auto & [index, layer] : layers) {
        for (int32_t expert = 0; index < n_layers && expert < std::min(n_experts, table_.experts_of(index)); ++expert) {
            out[static_cast<size_t>(index) * static_cast<size_t>(n_experts) + static_cast<size_t>(expert)] =
                table_.holds({index, expert}) ? 1 : 0;
        }
    }
}

}  // namespace expert_device
