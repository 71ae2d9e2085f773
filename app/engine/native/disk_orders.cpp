// What users ask of the experts in main memory: to read the hottest in, to give all up, to tell which are there.
#include "disk_lane.h"
#include "internal.h"

#include <algorithm>

namespace expert_device {

namespace {

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
    look(layers);
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
        std::sort(experts.begin(), experts.end(), [](const Wanted & a, const Wanted & b) { return a.expert < b.expert; });
        read_in(*known_.at(index), experts, 0, experts.size(), false);
        for (const Wanted & each : experts) {
            loading_[{index, each.expert}] = each.ticket;
        }
    }
    on_ = on_ || !loading_.empty();
}

void DiskLane::release(const Layers & layers) {
    if (reader_) {
        reader_->drop_waiting();
    }
    for (const auto & [index, layer] : layers) {
        know(*layer);
    }
    std::vector<ExpertPlace> all;
    table_.clear(all);
    all.clear();
    for (const auto & [index, layer] : known_) {
        for (int32_t expert = 0; expert < table_.experts_of(index); ++expert) {
            all.push_back({index, expert});
        }
    }
    loading_.clear();
    give_up(all);
    update();
}

void DiskLane::read(expert_device_memory & out) const {
    out.budget = budget_;
    out.trusted = table_.budget();
    out.resident = table_.bytes();
    out.total = table_.total();
    out.evictions = evicted_;
    out.stale = stale_;
    out.failures = failures_;
    out.on = on_ ? 1 : 0;
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
