// Pages of a file mapping that stay in main memory, and why the system refuses to keep more of them.
#pragma once

#include "pages.h"

#include <cstdint>
#include <string>

namespace expert_device {

namespace pages {

struct LockAnswer {
    bool locked = true;
    bool later = false;  // to ask again may help, though nothing else is changed
    std::string why;     // in words that go on a sentence, with what helps
};

// Whole pages within the range stay in memory until they are unlocked; where one cannot, none does.
LockAnswer lock(ByteRange range);
// Of pages that `lock` answered for. For others it is an order to take them out of memory on Windows.
void unlock(ByteRange range);

// What the system says of this process. The largest number stands for no limit, and for what it does not tell.
struct LockLimits {
    uint64_t most = UINT64_MAX, locked = 0;  // bytes
    bool unlimited = false;                  // it has the right to lock more than that
    uint64_t mappings = 0, most_mappings = UINT64_MAX;
};
LockLimits lock_limits();

// Why `bytes` more were refused: `error` is what the system answered, its errno or on Windows its last error.
LockAnswer refusal(int error, uint64_t bytes, const LockLimits & limits);

}  // namespace pages

}  // namespace expert_device
