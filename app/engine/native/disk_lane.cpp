// The visits of layers to the disk.
#include "disk_lane.h"

#include "compute.h"
#include "internal.h"
#include "slices.h"

#include <algorithm>

namespace expert_device {

namespace {

constexpr size_t most_read_at_once = size_t{2} << 20;
// Asked for and not yet computed: enough to keep a disk busy, little beside a budget.
constexpr uint64_t most_ahead = uint64_t{256} << 20;
constexpr uint64_t prompt_wave = uint64_t{64} << 20;  // bytes of experts that a prompt computes at a time

}  // namespace

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
            in = in && load->second->over() && !load->second->failed();
            load->second->unwanted.store(!in);
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
            const char * end = from + tensor.bytes;
            for (const char * at = from; at < end;) {
                const bool last_part = static_cast<size_t>(end - at) <= most_read_at_once;
                const char * to = last_part ? end : pages::page_of(at + most_read_at_once);
                parts.push_back({wanted[i].expert, {{at, static_cast<size_t>(to - at)}, {wanted[i].ticket}}});
                at = to;
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
    const uint64_t wave = decoding_ ? bytes : std::max(bytes, std::min(prompt_wave, table_.budget() / 4));
    const uint64_t begin = now_ns();
    for (uint64_t got = 0; handed_ < asked_; got += bytes) {
        const Wanted & wanted = missing_[handed_];
        if (got >= wave && !(decoding_ && wanted.ticket->over())) {
            break;
        }
        if (const Brought how = reader().wait(*wanted.ticket); how != Brought::all) {
            (how == Brought::unreadable ? unreadable_ : refused_).fetch_add(1);
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
        if (table_.holds(place) && missing_[i].ticket) {
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
