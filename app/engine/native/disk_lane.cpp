// The visits of layers to the disk, and what memory keeps afterwards.
#include "disk_lane.h"

#include "compute.h"
#include "internal.h"

#include <algorithm>
#include <iterator>

namespace expert_device {

namespace {

constexpr size_t most_read_at_once = size_t{2} << 20;
// Asked for and not yet computed: enough to keep a disk busy, little beside a budget.
constexpr uint64_t most_ahead = uint64_t{256} << 20;
constexpr uint64_t prompt_wave = uint64_t{64} << 20;  // bytes of experts that a prompt computes at a time
constexpr int32_t batches_between_looks = 16;
constexpr int32_t batches_until_trust = 32;
constexpr uint64_t faults_to_look = 8;
constexpr double least_share = 0.97;  // of an expert's bytes: the pages at its edges are its neighbours', too

template <typename Visit> void for_slices(const Layer & layer, int32_t expert, Visit visit) {
    for (const ExpertTensor & tensor : layer.tensors) {
        if (is_mapped(tensor.tensor)) {
            visit(ByteRange{tensor.expert(expert), static_cast<size_t>(tensor.bytes)});
        }
    }
}

uint64_t mapped_bytes(const Layer & layer) {
    uint64_t sum = 0;
    for (const ExpertTensor & tensor : layer.tensors) {
        sum += is_mapped(tensor.tensor) ? tensor.bytes : 0;
    }
    return sum;
}

}  // namespace

Reader & DiskLane::reader() {
    if (!reader_) {
        reader_ = std::make_unique<Reader>();
    }
    return *reader_;
}

// ---- budget --------------------------------------------------------------------------------------

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
    if (bytes == 0) {
        set_reading_singly(layers, false);
        loading_.clear();
        known_.clear();
        table_ = ResidentTable();
        reader_.reset();
        on_ = false;
        return;
    }
    const std::vector<ExpertPlace> in_part = look(layers);
    if (table_.total() > bytes) {
        give_up(in_part);
    }
    // Where a page is missing that we took for there, a fault reads it alone: what lies around it was not asked for.
    set_reading_singly(layers, table_.total() > bytes);
    trim();
    update();
    if (on_ && table_.total() <= bytes) {
        warm_up(layers);  // the rest is few; then nothing is left to do
    }
}

void DiskLane::give_up(const std::vector<ExpertPlace> & places) {
    std::vector<ByteRange> ranges;
    for (const ExpertPlace place : places) {
        loading_.erase({place.layer, place.expert});
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
    if (on_) {
        for (auto load = loading_.begin(); batches_since_look_ > batches_between_looks && load != loading_.end();) {
            load = load->second->over() && !load->second->failed.load() ? loading_.erase(load) : std::next(load);
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

// ---- a layer's visit -----------------------------------------------------------------------------

bool DiskLane::in_memory(const Layer & layer, int32_t expert) {
    bool in = true;
    for_slices(layer, expert, [&](ByteRange slice) {
        // Another page every time; the first may be a neighbour's, too.
        const size_t n = slice.bytes / pages::page_size();
        const size_t page = n > 2 ? 1 + (sampled_ = sampled_ * 1664525U + 1013904223U) % (n - 2) : 0;
        in = in && pages::in_memory(slice.begin + page * pages::page_size());
    });
    return in;
}

void DiskLane::begin(Layer & layer, const std::vector<Pair> & pairs, bool decoding) {
    know(layer);
    layer_ = &layer;
    decoding_ = decoding;
    here_.assign(static_cast<size_t>(layer.experts()), 0);
    missing_.clear();
    asked_ = handed_ = released_ = 0;
    outstanding_ = 0;
    facts_ = {};
    for (const Pair & pair : pairs) {
        here_[static_cast<size_t>(pair.expert)] = 1;
    }
    if (mapped_bytes(layer) == 0) {
        return;
    }
    for (int32_t expert = 0; expert < layer.experts(); ++expert) {
        if (here_[static_cast<size_t>(expert)] == 0) {
            continue;
        }
        const ExpertPlace place{layer.index, expert};
        const auto load = loading_.find({layer.index, expert});
        bool in = table_.holds(place);
        if (load != loading_.end()) {
            in = in && load->second->over() && !load->second->failed.load();
            loading_.erase(load);
        } else if (in && !in_memory(layer, expert)) {
            found_stale(layer);
            in = false;
        }
        if (in) {
            table_.keep(place, true);
            if (decoding) {
                table_.use(place);
            }
        } else {
            table_.remove(place);
            here_[static_cast<size_t>(expert)] = 0;
            missing_.push_back({expert, nullptr});
        }
    }
    ask_more();
}

void DiskLane::read_in(const Layer & layer, std::vector<Wanted> & wanted, size_t begin, size_t end, bool urgent) {
    struct Part {
        int32_t first;
        ReadJob job;
    };
    std::vector<Part> parts;
    for (size_t i = begin; i < end; ++i) {
        wanted[i].ticket = std::make_shared<Ticket>();
    }
    for (const ExpertTensor & tensor : layer.tensors) {
        if (!is_mapped(tensor.tensor)) {
            continue;
        }
        Part * last = nullptr;  // the next expert's bytes may follow it
        for (size_t i = begin; i < end; ++i) {
            const char * from = tensor.expert(wanted[i].expert);
            if (last != nullptr && last->job.range.end() == from &&
                last->job.range.bytes + tensor.bytes <= most_read_at_once) {
                last->job.range.bytes += tensor.bytes;
                last->job.tickets.push_back(wanted[i].ticket);
                continue;
            }
            for (size_t at = 0; at < tensor.bytes; at += most_read_at_once) {
                const size_t bytes = std::min<size_t>(most_read_at_once, tensor.bytes - at);
                parts.push_back({wanted[i].expert, {{from + at, bytes}, {wanted[i].ticket}}});
            }
            last = &parts.back();
        }
    }
    // One token: expert by expert, so that the first can be computed soon. Many: as they lie in the file.
    std::stable_sort(parts.begin(), parts.end(), [&](const Part & a, const Part & b) {
        return decoding_ ? a.first < b.first : a.job.range.begin < b.job.range.begin;
    });
    std::vector<ReadJob> jobs;
    for (Part & part : parts) {
        facts_.bytes += part.job.range.bytes;
        jobs.push_back(std::move(part.job));
    }
    facts_.reads += static_cast<int32_t>(jobs.size());
    reader().read(std::move(jobs), urgent);
}

void DiskLane::ask_more() {
    if (asked_ == missing_.size()) {
        return;
    }
    const uint64_t bytes = table_.expert_bytes(layer_->index);
    const uint64_t limit = std::max(bytes, std::min(most_ahead, table_.budget() / 2));
    const size_t begin = asked_;
    while (asked_ < missing_.size() && (outstanding_ == 0 || outstanding_ + bytes <= limit)) {
        const ExpertPlace place{layer_->index, missing_[asked_].expert};
        table_.add(place, decoding_);
        table_.keep(place, true);
        outstanding_ += bytes;
        ++asked_;
    }
    facts_.experts += static_cast<int32_t>(asked_ - begin);
    trim();
    read_in(*layer_, missing_, begin, asked_, true);
}

bool DiskLane::next(std::vector<uint8_t> & came) {
    came.clear();
    for (; released_ < handed_; ++released_) {  // those of before are computed
        table_.keep({layer_->index, missing_[released_].expert}, false);
        outstanding_ -= table_.expert_bytes(layer_->index);
    }
    ask_more();
    if (handed_ == missing_.size()) {
        return true;
    }
    came.assign(here_.size(), 0);
    const uint64_t bytes = table_.expert_bytes(layer_->index);
    const uint64_t wave = decoding_ ? bytes : std::min(prompt_wave, table_.budget() / 4);
    const uint64_t begin = now_ns();
    for (uint64_t got = 0; handed_ < asked_; got += bytes) {
        const Wanted & wanted = missing_[handed_];
        if (got >= wave && !(decoding_ && wanted.ticket->over())) {
            break;
        }
        if (!reader().wait(*wanted.ticket)) {
            ++failures_;
            table_.keep({layer_->index, wanted.expert}, false);
            table_.remove({layer_->index, wanted.expert});
            return false;
        }
        came[static_cast<size_t>(wanted.expert)] = 1;
        ++handed_;
    }
    facts_.stall_ns += now_ns() - begin;
    return true;
}

bool DiskLane::bring_all() {
    std::vector<uint8_t> came;
    do {
        if (!next(came)) {
            return false;
        }
    } while (!came.empty());
    return true;
}

void DiskLane::end(DiskFacts & facts) {
    if (layer_ == nullptr) {
        return;
    }
    for (size_t expert = 0; expert < here_.size() && table_.experts_of(layer_->index) > 0; ++expert) {
        table_.keep({layer_->index, static_cast<int32_t>(expert)}, false);
    }
    for (size_t i = handed_; i < asked_; ++i) {  // the computing ended early
        const ExpertPlace place{layer_->index, missing_[i].expert};
        if (table_.holds(place)) {
            loading_[{place.layer, place.expert}] = missing_[i].ticket;
        }
    }
    missing_.clear();
    asked_ = handed_ = released_ = 0;
    layer_ = nullptr;
    facts.experts += facts_.experts;
    facts.reads += facts_.reads;
    facts.bytes += facts_.bytes;
    facts.stall_ns += facts_.stall_ns;
    facts_ = {};
    trim();
    update();
}

}  // namespace expert_device
