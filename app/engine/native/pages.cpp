// The calls of each operating system: Linux and other Unix-like ones, and Windows.
#include "pages.h"

#include <algorithm>
#include <vector>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#if !defined(NOMINMAX)
#define NOMINMAX
#endif
#define PSAPI_VERSION 2
#include <windows.h>
// After it:
#include <psapi.h>
#else
#include <cerrno>
#include <chrono>
#include <sys/mman.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#endif

namespace expert_device {

namespace pages {

namespace {

uintptr_t address(const char * byte) {
    return reinterpret_cast<uintptr_t>(byte);
}

ByteRange between(uintptr_t begin, uintptr_t end) {
    return {reinterpret_cast<const char *>(begin), end > begin ? end - begin : 0};
}

// All pages that the range touches.
ByteRange outer(ByteRange range) {
    const uintptr_t page = page_size();
    return between(address(range.begin) / page * page, (address(range.end()) + page - 1) / page * page);
}

void * pointer(ByteRange range) {
    return const_cast<char *>(range.begin);
}

#if !defined(_WIN32)
// Where nothing else maps pages: one byte of each is read.
void touch(ByteRange range) {
    for (const char * byte = range.begin; byte < range.end(); byte += page_size()) {
        static_cast<void>(*const_cast<const volatile char *>(byte));
    }
}
#endif

}  // namespace

const char * page_of(const char * byte) {
    return byte - address(byte) % page_size();
}

ByteRange whole_pages(ByteRange range) {
    const uintptr_t page = page_size();
    return between((address(range.begin) + page - 1) / page * page, address(range.end()) / page * page);
}

#if defined(_WIN32)

size_t page_size() {
    static const size_t size = [] {
        SYSTEM_INFO info;
        GetSystemInfo(&info);
        return static_cast<size_t>(info.dwPageSize);
    }();
    return size;
}

void read_singly(ByteRange, bool) {}  // a mapping has no such setting

void ask(ByteRange range) {
    WIN32_MEMORY_RANGE_ENTRY entry = {pointer(range), range.bytes};
    PrefetchVirtualMemory(GetCurrentProcess(), 1, &entry, 0);
}

// The system reads on after PrefetchVirtualMemory in large pieces; a page that cannot be read raises an exception where
// it is used, which ends the engine's process as it would without us.
Brought bring(ByteRange range) {
    const ByteRange all = outer(range);
    for (const char * byte = all.begin; byte < all.end(); byte += page_size()) {
        static_cast<void>(*const_cast<const volatile char *>(byte < range.begin ? range.begin : byte));
    }
    return Brought::all;
}

void let_go(ByteRange range) {
    const ByteRange all = whole_pages(range);
    if (all.bytes > 0) {
        VirtualUnlock(pointer(all), all.bytes);  // of pages that are not locked: out of the working set
    }
}

size_t bytes_in_memory(ByteRange range) {
    const ByteRange all = outer(range);
    std::vector<PSAPI_WORKING_SET_EX_INFORMATION> asked(all.bytes / page_size());
    for (size_t i = 0; i < asked.size(); ++i) {
        asked[i].VirtualAddress = static_cast<char *>(pointer(all)) + i * page_size();
    }
    if (!K32QueryWorkingSetEx(GetCurrentProcess(), asked.data(),
                              static_cast<DWORD>(asked.size() * sizeof asked.front()))) {
        return range.bytes;
    }
    const auto in = static_cast<size_t>(
        std::count_if(asked.begin(), asked.end(), [](const auto & page) { return page.VirtualAttributes.Valid; }));
    return std::min(range.bytes, in * page_size());
}

bool in_memory(const char * byte) {
    return bytes_in_memory({byte, 1}) > 0;
}

uint64_t faults_with_reads() {
    return 0;  // the system's count holds soft faults, too
}

#else

namespace {

// Linux reads no more for one call than the device's read-ahead or its largest request.
constexpr size_t most_at_once = size_t{128} << 10;

}  // namespace

size_t page_size() {
    static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

void read_singly(ByteRange range, bool singly) {
    const ByteRange all = whole_pages(range);  // what shares a page with others is read as they are
    if (all.bytes > 0) {
        madvise(pointer(all), all.bytes, singly ? MADV_RANDOM : MADV_NORMAL);
    }
}

void ask(ByteRange range) {
    const ByteRange all = outer(range);
    for (size_t at = 0; at < all.bytes; at += most_at_once) {
        madvise(static_cast<char *>(pointer(all)) + at, std::min(most_at_once, all.bytes - at), MADV_WILLNEED);
    }
}

#if defined(MADV_POPULATE_READ)
namespace {

// Where the system refuses memory, or its answer is to come again: after 1 ms, 2 ms, 4 ms, … a second in all.
constexpr int most_tries = 10;

Brought populate(ByteRange piece) {
    for (int tries = 0;;) {
        if (madvise(pointer(piece), piece.bytes, MADV_POPULATE_READ) == 0) {
            return Brought::all;
        }
        if (errno == EFAULT || errno == EHWPOISON) {
            return Brought::unreadable;
        }
        if (errno == EAGAIN || errno == ENOMEM) {
            if (tries == most_tries) {
                return Brought::refused;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1 << tries++));
        } else if (errno != EINTR) {
            touch(piece);  // an older kernel
            return Brought::all;
        }
    }
}

}  // namespace
#endif

Brought bring(ByteRange range) {
    const ByteRange all = outer(range);
#if defined(MADV_POPULATE_READ)
    for (size_t at = 0; at < all.bytes; at += most_at_once) {
        const ByteRange piece{all.begin + at, std::min(most_at_once, all.bytes - at)};
        ask(piece);  // what is not there by now was refused when memory was short for a moment; else it costs little
        if (const Brought came = populate(piece); came != Brought::all) {
            return came;
        }
    }
#else
    touch(all);
#endif
    return Brought::all;
}

void let_go(ByteRange range) {
    const ByteRange all = whole_pages(range);
    if (all.bytes == 0) {
        return;
    }
#if defined(MADV_PAGEOUT) && defined(MADV_POPULATE_READ)
    if (madvise(pointer(all), all.bytes, MADV_PAGEOUT) == 0) {
        // Pages that were read in large units are only unmapped the first time, where the unit goes beyond the range.
        std::vector<unsigned char> in(all.bytes / page_size() + 1);
        if (mincore(pointer(all), all.bytes, in.data()) != 0) {
            return;
        }
        for (size_t begin = 0, end; begin + 1 < in.size(); begin = end + 1) {
            for (end = begin; (in[end] & 1) != 0; ++end) {  // the last is 0
            }
            if (end > begin) {
                char * rest = static_cast<char *>(pointer(all)) + begin * page_size();
                madvise(rest, (end - begin) * page_size(), MADV_POPULATE_READ);
                madvise(rest, (end - begin) * page_size(), MADV_PAGEOUT);
            }
        }
        return;
    }
#endif
    madvise(pointer(all), all.bytes, MADV_DONTNEED);  // of a file mapping: the file's bytes are read again
}

size_t bytes_in_memory(ByteRange range) {
    const ByteRange all = outer(range);
    std::vector<unsigned char> in(all.bytes / page_size() + 1);  // never empty
#if defined(__linux__)
    const int failed = mincore(pointer(all), all.bytes, in.data());
#else
    const int failed = mincore(pointer(all), all.bytes, reinterpret_cast<char *>(in.data()));
#endif
    if (failed != 0) {
        return range.bytes;
    }
    const auto found = static_cast<size_t>(std::count_if(in.begin(), in.end(), [](auto one) { return one & 1; }));
    return std::min(range.bytes, found * page_size());
}

bool in_memory(const char * byte) {
    const ByteRange page = outer({byte, 1});
#if defined(__linux__)
    unsigned char in = 1;
#else
    char in = 1;
#endif
    return mincore(pointer(page), page.bytes, &in) != 0 || (in & 1) != 0;
}

uint64_t faults_with_reads() {
    rusage usage{};
    return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<uint64_t>(usage.ru_majflt) : 0;
}

#endif

}  // namespace pages

}  // namespace expert_device
