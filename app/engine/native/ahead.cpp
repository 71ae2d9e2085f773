// Copies ahead of their layer, and the trial of whether they pay.
#include "ahead.h"

#include <algorithm>
#include <utility>

namespace expert_device {

void CopyAhead::plan(int32_t layer, size_t side, std::vector<int32_t> experts, std::vector<std::vector<Piece>> pieces) {
    half_ = {layer, side, std::move(experts), true};
    pieces_ = std::move(pieces);
    done_ = 0;
}

void CopyAhead::copy(const std::atomic<bool> & stop) {
    for (const std::vector<Piece> & expert : pieces_) {
        if (stop.load()) {
            return;
        }
        half_.ok = copy_pieces(expert);
        if (!half_.ok) {
            return;
        }
        ++done_;
    }
}

CopyAhead::Half CopyAhead::take() {
    half_.experts.resize(done_.exchange(0));
    pieces_.clear();
    return std::exchange(half_, {});
}

void AheadTrial::begin_split(int32_t layer, int64_t tokens, uint64_t now_ns) {
    if (layer <= last_layer_ || last_layer_ < 0) {
        end_batch();
        if (tokens != tokens_) {
            tokens_ = tokens;
            trying_other_ = false;
            repeats_ = most_repeats;
            most_splits_ = 0;
        }
        begin_ns_ = now_ns;
        splits_ = 0;
        spoilt_ = false;
    }
    last_layer_ = layer;
}

void AheadTrial::end_split(uint64_t now_ns) {
    ++splits_;
    end_ns_ = now_ns;
}

void AheadTrial::end_batch() {
    most_splits_ = std::max(most_splits_, splits_);
    const bool counts = splits_ == most_splits_ && splits_ > 0 && !spoilt_;  // fewer: it was aborted
    const uint64_t took_ns = end_ns_ - begin_ns_;
    if (trying_other_) {
        choice_ = counts && took_ns < before_ns_ ? !choice_ : choice_;
        trying_other_ = false;
        repeats_ = counts ? 0 : most_repeats;
    } else if (counts) {
        trying_other_ = ++repeats_ > most_repeats;
        before_ns_ = took_ns;
    }
}

}  // namespace expert_device
