// The trial of the two ways.
#include "ways.h"

#include <algorithm>

namespace expert_device {

WayTrial::Size & WayTrial::size_of(int64_t tokens) {
    size_t bits = 0;
    while (tokens > 1 && bits + 1 < sizes_.size()) {
        tokens >>= 1;
        ++bits;
    }
    return sizes_[bits];
}

bool WayTrial::whole_next(int64_t tokens) {
    Size & size = size_of(tokens);
    Way & divided = size.ways[0];
    Way & whole = size.ways[1];
    if (whole.tries < least_tries || divided.tries < least_tries) {
        return whole.tries < least_tries;
    }
    const bool better = whole.ns_per_token <= divided.ns_per_token;
    if (++size.repeats > most_repeats) {
        size.repeats = 0;
        return !better;
    }
    return better;
}

void WayTrial::took(int64_t tokens, bool whole, uint64_t ns, bool spoilt) {
    if (spoilt || tokens <= 0) {
        return;
    }
    Way & way = size_of(tokens).ways[whole ? 1 : 0];
    const double now = static_cast<double>(ns) / static_cast<double>(tokens);
    if (way.tries == 0) {
        way.ns_per_token = now;
    } else if (way.tries < least_tries) {
        way.ns_per_token = std::min(way.ns_per_token, now);
    } else {
        way.ns_per_token += newest_share * (now - way.ns_per_token);
    }
    way.tries = std::min(way.tries + 1, least_tries);
}

}  // namespace expert_device
