// What users ask of the experts in main memory: to read the hottest in, to give all up, to tell which are there.
#include "disk_lane.h"
#include "internal.h"
#include "slices.h"

#include <algorithm>
#include <cstdio>
#include <string>

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
    unlock_all();
    std::vector<ExpertPlace> all;
    table_.clear(all);
    all.clear();
    for (const auto & [index, layer] : known_) {
        for (int32_t expert = 0; expert < table_.experts_of(index); ++expert) {
            all.push_back({index, expert});
        }
    }
    give_up(all);
    update();
}

// ---- locks ---------------------------------------------------------------------------------------

void DiskLane::set_most_locked(uint64_t bytes) {
    most_locked_ = bytes;
    lock_refused_.clear();
    unlock_all();
}

void DiskLane::lock_hottest(const Layers & layers) {
    if (most_locked_ == 0 || ++batches_since_lock_ <= batches_between_locks || !lock_refused_.empty()) {
        return;
    }
    batches_since_lock_ = 0;
    const uint64_t most = std::min(most_locked_, budget_);
    std::map<std::pair<int32_t, int32_t>, uint64_t> wanted;
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
            wanted[{layer, expert}] = table_.expert_bytes(layer);
            bytes += table_.expert_bytes(layer);
        }
    }
    std::vector<ExpertPlace> cooled;
    for (const auto & [known, its] : locked_) {
        if (wanted.count(known) == 0) {
            cooled.push_back({known.first, known.second});
        }
    }
    for (const ExpertPlace place : cooled) {
        unlock(place);
    }
    int32_t n = 0;
    for (const auto & [known, its] : wanted) {
        if (locked_.count(known) != 0 || n == most_locked_at_once) {
            continue;
        }
        ++n;
        bool locked = true;
        const Layer & layer = *known_.at(known.first);
        for_slices(layer, known.second, [&](ByteRange slice) { locked = locked && pages::lock(slice); });
        if (!locked) {
            for_slices(layer, known.second, pages::unlock);
            lock_refused_ = "Of experts' memory " + std::to_string(locked_bytes_) +
                            " bytes are locked and no more: the system lets this process lock " + pages::lock_limit() +
                            ".";
            return;
        }
        locked_[known] = its;
        locked_bytes_ += its;
    }
}

void DiskLane::unlock(ExpertPlace place) {
    const auto found = locked_.find({place.layer, place.expert});
    if (found != locked_.end()) {
        for_slices(*known_.at(place.layer), place.expert, pages::unlock);
        locked_bytes_ -= found->second;
        locked_.erase(found);
    }
}

void DiskLane::unlock_all() {
    while (!locked_.empty()) {
        unlock({locked_.begin()->first.first, locked_.begin()->first.second});
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
    out.failures = failures_;
    out.locked = locked_bytes_;
    out.own = own_ ? own_->bytes() : 0;
    out.on = on_ ? 1 : 0;
    const std::string own = own_ ? own_->reason() : "";
    std::snprintf(out.reason, sizeof out.reason, "%s", (own.empty() ? lock_refused_ : own).c_str());
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
