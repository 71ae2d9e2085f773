// What main memory keeps of the experts: the budget, what of it can be trusted, and which of them are locked.
#include "compute.h"
#include "disk_lane.h"
#include "internal.h"
#include "slices.h"

#include <algorithm>
#include <iterator>

namespace expert_device {

namespace {

constexpr int32_t batches_between_looks = 16;
constexpr int32_t batches_until_trust = 32;
constexpr uint64_t faults_to_look = 8;
constexpr double least_share = 0.97;  // of an expert's bytes: the pages at its edges are its neighbours', too

}  // namespace

Reader & DiskLane::reader() {
    if (!reader_) {
        reader_ = std::make_unique<Reader>();
    }
    return *reader_;
}

void DiskLane::know(const Layer & layer) {
    const uint64_t bytes = mapped_bytes(layer);
    if (bytes > 0 && !table_.knows(layer.index, bytes)) {
        table_.set_layer(layer.index, layer.experts(), bytes);
    }
    if (bytes > 0) {
        known_[layer.index] = &layer;
    }
}

std::vector<ExpertPlace> DiskLane::look(const Layers & layers) {
    std::vector<ExpertPlace> in_part;
    batches_since_look_ = 0;
    faults_ = pages::faults_with_reads();
    for (const auto & [index, layer] : layers) {
        know(*layer);
        for (int32_t expert = 0; expert < table_.experts_of(index); ++expert) {
            uint64_t in = 0;
            for_slices(*layer, expert, [&](ByteRange slice) { in += pages::bytes_in_memory(slice); });
            const ExpertPlace place{index, expert};
            if (static_cast<double>(in) < least_share * static_cast<double>(table_.expert_bytes(index))) {
                table_.remove(place);
                if (in > 0 && loading_.count({index, expert}) == 0) {
                    in_part.push_back(place);
                }
            } else if (!table_.holds(place)) {
                table_.add(place, false);
            }
        }
    }
    return in_part;
}

void DiskLane::forget_loading() {
    if (reader_) {
        reader_->drop_waiting();
        reader_->drop_letting_go();  // who forgets looks again, and gives up again what is too much
    }
    for (const auto & [place, ticket] : loading_) {
        ticket->unwanted.store(true);
    }
    loading_.clear();
}

void DiskLane::update() {
    on_ = budget_ > 0 && (table_.bytes() < table_.total() || !loading_.empty());
}

void DiskLane::set_reading_singly(const Layers & layers, bool singly) {
    if (singly == singly_) {
        return;
    }
    singly_ = singly;
    for (const auto & [index, layer] : layers) {
        for (const ExpertTensor & tensor : layer->tensors) {
            if (is_mapped(tensor.tensor)) {
                pages::read_singly({tensor.data, static_cast<size_t>(tensor.bytes) * layer->experts()}, singly);
            }
        }
    }
}

void DiskLane::set_budget(const Layers & layers, uint64_t bytes) {
    budget_ = bytes;
    table_.set_budget(bytes);
    forget_refusals();
    batches_since_lock_ = 0;
    if (bytes == 0) {
        locks_.unlock_all_but({});
        set_reading_singly(layers, false);
        loading_.clear();
        known_.clear();
        table_ = ResidentTable();
        reader_.reset();
        on_ = false;
        return;
    }
    const bool warming = !loading_.empty();
    forget_loading();
    const std::vector<ExpertPlace> in_part = look(layers);
    if (table_.total() > bytes) {
        give_up(in_part);
    }
    // Where a page is missing that we took for there, a fault reads it alone: what lies around it was not asked for.
    set_reading_singly(layers, table_.total() > bytes);
    trim();
    update();
    if (on_ && (warming || table_.total() <= bytes)) {
        warm_up(layers);  // where all fit, the rest is few; then nothing is left to do
    }
}

void DiskLane::give_up(const std::vector<ExpertPlace> & places) {
    std::vector<ByteRange> ranges;
    for (const ExpertPlace place : places) {
        const auto load = loading_.find({place.layer, place.expert});
        if (load != loading_.end()) {
            load->second->unwanted.store(true);
            loading_.erase(load);
        }
        locks_.unlock({place.layer, place.expert});
        for_slices(*known_.at(place.layer), place.expert, [&](ByteRange slice) { ranges.push_back(slice); });
    }
    if (!ranges.empty()) {
        reader().let_go(ranges);
    }
}

void DiskLane::trim() {
    std::vector<ExpertPlace> gone;
    table_.trim(gone);
    evicted_ += gone.size();
    give_up(gone);
}

void DiskLane::found_stale(const Layer & layer) {
    ++stale_;
    batches_since_stale_ = 0;
    const uint64_t bytes = table_.expert_bytes(layer.index), now = table_.budget();
    table_.set_budget(std::max(budget_ / 4, now > bytes ? now - bytes : 0));
}

void DiskLane::begin_batch(const Layers & layers) {
    if (budget_ == 0) {
        return;
    }
    ++batches_since_look_;
    lock_hottest(layers);
    if (on_) {
        for (auto load = loading_.begin(); batches_since_look_ > batches_between_looks && load != loading_.end();) {
            if (load->second->over() && load->second->failed()) {
                table_.remove({load->first.first, load->first.second});
            }
            load = load->second->over() ? loading_.erase(load) : std::next(load);
        }
        if (table_.budget() < budget_ && ++batches_since_stale_ > batches_until_trust) {
            batches_since_stale_ = 0;
            table_.set_budget(std::min(budget_, table_.budget() + table_.expert_bytes(known_.begin()->first)));
        }
    } else if (batches_since_look_ > batches_between_looks) {
        batches_since_look_ = 0;
        if (pages::faults_with_reads() >= faults_ + faults_to_look) {
            look(layers);
            update();
        }
    }
}

}  // namespace expert_device
