// Which pages are locked for an expert: those it shares with a neighbour only while both are locked.
#include "hot_locks.h"

namespace expert_device {

namespace {

bool any_page(const HotLocks::Slice & slice) {
    return pages::whole_pages({slice.tensor + static_cast<size_t>(slice.expert) * slice.bytes, slice.bytes}).bytes > 0;
}

}  // namespace

// Only for slices of two pages and more: then no page is shared by three.
bool HotLocks::is_locked(const Slice & slice, int32_t expert) const {
    const auto tensor = locked_.find(slice.tensor);
    return slice.bytes >= 2 * pages::page_size() && tensor != locked_.end() && tensor->second.count(expert) != 0;
}

size_t HotLocks::neighbours(const Slice & slice) const {
    return (is_locked(slice, slice.expert - 1) ? 1U : 0U) + (is_locked(slice, slice.expert + 1) ? 1U : 0U);
}

ByteRange HotLocks::pages_of(const Slice & slice) const {
    const char * begin = slice.tensor + static_cast<size_t>(slice.expert) * slice.bytes;
    const char * end = begin + slice.bytes;
    ByteRange its = pages::whole_pages({begin, slice.bytes});
    if (is_locked(slice, slice.expert - 1)) {
        const char * from = pages::page_of(begin);
        its = {from, static_cast<size_t>(its.end() - from)};
    }
    if (is_locked(slice, slice.expert + 1) && its.end() < end) {
        its.bytes += pages::page_size();
    }
    return its;
}

HotLocks::Result HotLocks::lock(Name name, const std::vector<Slice> & slices, pages::LockAnswer & answer) {
    size_t more = 0, fewer = 0;
    for (const Slice & slice : slices) {
        if (any_page(slice)) {
            more += 1;
            fewer += neighbours(slice);
        }
    }
    if (more > fewer && ranges_ + more - fewer > most_ranges_) {
        return Result::no_range;
    }
    for (size_t i = 0; i < slices.size(); ++i) {
        const ByteRange range = pages_of(slices[i]);
        answer = range.bytes > 0 ? calls_.lock(range) : pages::LockAnswer();
        if (!answer.locked) {
            while (i > 0) {
                unlock_slice(slices[--i]);
            }
            return Result::refused;
        }
        ranges_ += any_page(slices[i]) ? 1 : 0;
        ranges_ -= any_page(slices[i]) ? neighbours(slices[i]) : 0;
        bytes_ += range.bytes;
        locked_[slices[i].tensor].insert(slices[i].expert);
    }
    held_[name] = slices;
    return Result::locked;
}

void HotLocks::unlock_slice(const Slice & slice) {
    locked_[slice.tensor].erase(slice.expert);
    const ByteRange range = pages_of(slice);
    if (range.bytes > 0) {
        calls_.unlock(range);
        ranges_ += neighbours(slice);
        ranges_ -= 1;
        bytes_ -= range.bytes;
    }
}

void HotLocks::unlock(Name name) {
    const auto held = held_.find(name);
    if (held != held_.end()) {
        for (const Slice & slice : held->second) {
            unlock_slice(slice);
        }
        held_.erase(held);
    }
}

void HotLocks::unlock_all_but(const std::set<Name> & names) {
    for (const Name & name : this->names()) {
        if (names.count(name) == 0) {
            unlock(name);
        }
    }
}

std::vector<HotLocks::Name> HotLocks::names() const {
    std::vector<Name> found;
    for (const auto & [name, slices] : held_) {
        found.push_back(name);
    }
    return found;
}

}  // namespace expert_device
