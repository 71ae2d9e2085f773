// The order in which experts leave main memory.
#include "resident.h"

namespace expert_device {

void ResidentTable::set_layer(int32_t layer, int32_t experts, uint64_t expert_bytes) {
    LayerEntries & of_layer = layers_[layer];
    for (const Entry & each : of_layer.entries) {
        if (each.in) {
            order_.erase(each.place);
            bytes_ -= of_layer.expert_bytes;
        }
    }
    total_ -= of_layer.entries.size() * of_layer.expert_bytes;
    of_layer.expert_bytes = expert_bytes;
    of_layer.entries.assign(static_cast<size_t>(experts), Entry());
    total_ += of_layer.entries.size() * expert_bytes;
}

bool ResidentTable::knows(int32_t layer, uint64_t expert_bytes) const {
    const auto found = layers_.find(layer);
    return found != layers_.end() && found->second.expert_bytes == expert_bytes;
}

int32_t ResidentTable::experts_of(int32_t layer) const {
    const auto found = layers_.find(layer);
    return found == layers_.end() ? 0 : static_cast<int32_t>(found->second.entries.size());
}

void ResidentTable::add(ExpertPlace place, bool last_to_go) {
    Entry & its = entry(place);
    if (!its.in) {
        its.place = order_.insert(last_to_go ? order_.end() : order_.begin(), place);
        its.in = true;
        bytes_ += expert_bytes(place.layer);
    }
}

void ResidentTable::use(ExpertPlace place) {
    Entry & its = entry(place);
    if (its.in) {
        order_.splice(order_.end(), order_, its.place);
    }
}

void ResidentTable::remove(ExpertPlace place) {
    Entry & its = entry(place);
    if (its.in) {
        order_.erase(its.place);
        its.in = false;
        bytes_ -= expert_bytes(place.layer);
    }
}

void ResidentTable::trim(std::vector<ExpertPlace> & out) {
    for (auto next = order_.begin(); next != order_.end() && bytes_ > budget_;) {
        const ExpertPlace place = *next++;
        if (!entry(place).kept) {
            remove(place);
            out.push_back(place);
        }
    }
}

void ResidentTable::clear(std::vector<ExpertPlace> & out) {
    while (!order_.empty()) {
        out.push_back(order_.front());
        remove(order_.front());
    }
}

}  // namespace expert_device
