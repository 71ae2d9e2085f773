// Locks of the hottest experts: which pages, in how few ranges, and what is said where the system refuses.
#include "hot_locks.h"
#include "page_locks.h"
#include "pages.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace {

using namespace expert_device;
using Name = HotLocks::Name;
using Result = HotLocks::Result;
using Slices = std::vector<HotLocks::Slice>;

void check(bool condition, const char * what) {
    if (!condition) {
        std::fprintf(stderr, "failed: %s\n", what);
        std::_Exit(1);
    }
}

// ---- which pages ---------------------------------------------------------------------------------

// A system that knows which pages are locked, and refuses now and then.
struct System {
    HotLocks::Calls calls() {
        HotLocks::Calls made;
        made.lock = [this](ByteRange range) {
            ++asked;
            if (refuses > 0 && random() % refuses == 0) {
                return pages::LockAnswer{false, false, "refused"};
            }
            each_page(range, [this](uintptr_t page) { check(locked.insert(page).second, "no page is locked twice"); });
            return pages::LockAnswer();
        };
        made.unlock = [this](ByteRange range) {
            each_page(range,
                      [this](uintptr_t page) { check(locked.erase(page) == 1, "only locked pages are unlocked"); });
        };
        return made;
    }

    template <typename Use> static void each_page(ByteRange range, Use use) {
        const size_t page = pages::page_size();
        check(reinterpret_cast<uintptr_t>(range.begin) % page == 0 && range.bytes % page == 0, "whole pages");
        for (size_t at = 0; at < range.bytes; at += page) {
            use(reinterpret_cast<uintptr_t>(range.begin) + at);
        }
    }

    size_t runs() const {
        size_t n = 0;
        for (const uintptr_t page : locked) {
            n += locked.count(page - pages::page_size()) == 0 ? 1 : 0;
        }
        return n;
    }

    std::mt19937 random{3};
    unsigned refuses = 0;  // one of so many
    int asked = 0;
    std::set<uintptr_t> locked;
};

constexpr int32_t experts = 9;

struct Tensor {
    const char * begin;
    size_t bytes;  // of an expert
};

// Tensors of two layers, far apart from each other; nobody reads there.
std::vector<Tensor> tensors(const std::vector<size_t> & sizes) {
    std::vector<Tensor> made;
    for (const size_t bytes : sizes) {
        const uintptr_t at = (uintptr_t{1} << 40) + (made.size() << 30) + made.size() % 3 * 1234;
        made.push_back({reinterpret_cast<const char *>(at), bytes});
    }
    return made;
}

Slices slices_of(const std::vector<Tensor> & of, Name name) {
    Slices slices;
    for (size_t i = static_cast<size_t>(name.first); i < of.size(); i += 2) {
        slices.push_back({of[i].begin, of[i].bytes, name.second});
    }
    return slices;
}

// The whole pages of each locked expert, and those that two locked neighbours share.
std::set<uintptr_t> wanted(const std::vector<Tensor> & of, const std::set<Name> & names) {
    const size_t page = pages::page_size();
    std::set<uintptr_t> found;
    for (const Name & name : names) {
        for (const HotLocks::Slice & its : slices_of(of, name)) {
            const uintptr_t begin =
                reinterpret_cast<uintptr_t>(its.tensor) + static_cast<size_t>(its.expert) * its.bytes;
            for (uintptr_t at = (begin + page - 1) / page * page; at + page <= begin + its.bytes; at += page) {
                found.insert(at);
            }
            if (its.bytes >= 2 * page && begin % page != 0 && names.count({name.first, name.second - 1}) != 0) {
                found.insert(begin / page * page);
            }
        }
    }
    return found;
}

void pages_are_those_of_the_locked_experts_whatever_the_order(const std::vector<size_t> & sizes, bool large) {
    System system;
    HotLocks locks(HotLocks::usual_ranges, system.calls());
    const std::vector<Tensor> of = tensors(sizes);
    std::set<Name> names;
    int refused = 0;
    for (int step = 0; step < 4000; ++step) {
        system.refuses = step % 2 == 0 ? 5 : 0;
        const Name name{static_cast<int32_t>(system.random() % 2), static_cast<int32_t>(system.random() % experts)};
        if (step % 500 == 499) {
            std::set<Name> kept;
            std::copy_if(names.begin(), names.end(), std::inserter(kept, kept.end()),
                         [](const Name & each) { return each.second % 2 == 0; });
            locks.unlock_all_but(kept);
            names = kept;
        } else if (system.random() % 2 == 0) {
            locks.unlock(name);  // also where it is not locked: then nothing is asked for
            names.erase(name);
        } else if (!locks.holds(name)) {
            pages::LockAnswer answer;
            const Result result = locks.lock(name, slices_of(of, name), answer);
            check(result != Result::no_range, "there are ranges enough");
            check((result == Result::refused) == !answer.locked, "a refusal is answered");
            result == Result::locked ? static_cast<void>(names.insert(name)) : static_cast<void>(++refused);
        }
        check(system.locked == wanted(of, names), "all pages of an expert or none");
        check(locks.bytes() == system.locked.size() * pages::page_size(), "bytes are those of the pages");
        check(large ? locks.ranges() == system.runs() : locks.ranges() >= system.runs(), "neighbours are one range");
        check(locks.names() == std::vector<Name>(names.begin(), names.end()), "by name");
    }
    check(refused > 20, "some were refused");
    locks.unlock_all_but({});
    check(system.locked.empty() && locks.ranges() == 0 && locks.bytes() == 0, "nothing is left");
}

void there_are_only_so_many_ranges() {
    System system;
    HotLocks locks(4, system.calls());
    const std::vector<Tensor> of = tensors({5 * pages::page_size() + 36, 5 * pages::page_size()});
    pages::LockAnswer answer;
    for (const int32_t expert : {0, 2, 4, 6}) {
        check(locks.lock({0, expert}, slices_of(of, {0, expert}), answer) == Result::locked, "within the number");
    }
    const int asked = system.asked;
    check(locks.lock({0, 8}, slices_of(of, {0, 8}), answer) == Result::no_range, "one more is too many");
    check(system.asked == asked && !locks.holds({0, 8}) && locks.ranges() == 4, "and the system is not asked");
    check(locks.lock({0, 7}, slices_of(of, {0, 7}), answer) == Result::locked, "beside a locked one it takes none");
    check(locks.lock({0, 1}, slices_of(of, {0, 1}), answer) == Result::locked && locks.ranges() == 3, "between, fewer");
    check(locks.lock({1, 3}, slices_of(of, {1, 3}), answer) == Result::locked && locks.ranges() == 4, "room again");
}

// ---- the system's own answers --------------------------------------------------------------------

bool says(const pages::LockAnswer & answer, const char * words) {
    return !answer.locked && answer.why.find(words) != std::string::npos && answer.why.size() < 180;
}

void each_refusal_has_its_reason() {
    const uint64_t bytes = 1 << 20;
    pages::LockLimits limits;
    limits.most = 8 << 20;
    limits.locked = 3 << 20;
    limits.mappings = 100;
    limits.most_mappings = 65530;
    check(says(pages::refusal(EPERM, bytes, limits), "RLIMIT_MEMLOCK is 0"), "nothing at all");
    const pages::LockAnswer later = pages::refusal(EAGAIN, bytes, limits);
    check(says(later, "too little free memory") && later.later, "no memory now");
    check(says(pages::refusal(EINVAL, bytes, limits), "Invalid argument"), "others as the system says");
    check(says(pages::refusal(ENOMEM, bytes, limits), "can no longer be read"), "within all limits: the file");
    limits.mappings = limits.most_mappings - 2;
    const pages::LockAnswer mappings = pages::refusal(ENOMEM, bytes, limits);
    check(says(mappings, "vm.max_map_count") && says(mappings, "65530") && !mappings.later, "too many mappings");
    limits.locked = limits.most - bytes + 1;
    check(says(pages::refusal(ENOMEM, bytes, limits), "8388608 bytes (RLIMIT_MEMLOCK)"), "the limit comes first");
    limits.unlimited = true;
    check(says(pages::refusal(ENOMEM, bytes, limits), "vm.max_map_count"), "but not for an administrator");
}

struct Mapped {
    Mapped(const std::string & path_, size_t size_) : path(path_), size(size_) {
        const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
        const std::vector<char> bytes(size, 'x');
        check(file >= 0 && write(file, bytes.data(), size) == static_cast<ssize_t>(size), "a file");
        void * at = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
        check(at != MAP_FAILED, "mapped");
        begin = static_cast<const char *>(at);
        close(file);
    }
    ~Mapped() {
        munmap(const_cast<char *>(begin), size);
        unlink(path.c_str());
    }
    // Mappings of this process that its addresses are in.
    int mappings() const {
        FILE * maps = std::fopen("/proc/self/maps", "re");
        check(maps != nullptr, "mappings are told");
        int n = 0;
        char line[4096];
        while (std::fgets(line, sizeof line, maps) != nullptr) {
            uintptr_t from = 0, to = 0;
            check(std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &from, &to) == 2, "a mapping's line");
            n += from < reinterpret_cast<uintptr_t>(begin) + size && to > reinterpret_cast<uintptr_t>(begin) ? 1 : 0;
        }
        std::fclose(maps);
        return n;
    }

    std::string path;
    size_t size;
    const char * begin = nullptr;
};

void neighbours_are_one_mapping(const std::string & path) {
    const size_t page = pages::page_size(), slice = 3 * page + 100;
    const Mapped mapped(path, 40 * page);
    HotLocks locks;
    pages::LockAnswer answer;
    check(mapped.mappings() == 1, "one to begin with");
    for (const int32_t expert : {5, 3, 4}) {
        const Slices slices{{mapped.begin + 50, slice, expert}};
        check(locks.lock({0, expert}, slices, answer) == Result::locked, "locked");
    }
    check(mapped.mappings() == 3, "what is before, locked, and after");
    check(pages::lock_limits().locked == locks.bytes() && locks.bytes() == 8 * page, "the system counts the same");
    locks.unlock({0, 4});
    check(mapped.mappings() == 5 && pages::lock_limits().locked == locks.bytes(), "cut where one left");
    locks.unlock_all_but({});
    check(mapped.mappings() == 1 && pages::lock_limits().locked == 0, "as it was");
}

constexpr uint64_t many_mappings = 2'000'000;  // more than that are not made here

// This process has no other thread: one that first allocates or throws here would end it.
bool the_last_mapping_is_told(const std::string & path) {
    const size_t page = pages::page_size();
    const uint64_t most = pages::lock_limits().most_mappings;
    if (most > many_mappings) {
        return false;
    }
    const Mapped mapped(path, 80 * page);
    HotLocks locks;
    pages::LockAnswer answer;
    const size_t size = 2 * most * page;
    void * at = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(at != MAP_FAILED, "addresses");
    std::free(std::malloc(100 << 10));  // the heap cannot grow below
    const uint64_t few = most - pages::lock_limits().mappings - 12;
    for (uint64_t i = 0; i < few / 2; ++i) {  // each adds two
        check(mprotect(static_cast<char *>(at) + (2 * i + 1) * page, page, PROT_READ) == 0, "a mapping more");
    }
    Result result = Result::locked;
    int32_t expert = 0;
    for (; result == Result::locked && expert < 40; expert += 2) {
        result = locks.lock({0, expert}, {{mapped.begin, 2 * page, expert}}, answer);
    }
    check(munmap(at, size) == 0, "addresses given back");
    check(result == Result::refused && says(answer, "vm.max_map_count"), "that is the reason");
    check(says(answer, std::to_string(most).c_str()), "with the system's number");
    check(locks.bytes() > 0 && pages::lock_limits().locked == locks.bytes(), "what was locked is");
    check(locks.lock({0, expert}, {{mapped.begin, 2 * page, expert}}, answer) == Result::locked, "with room again");
    return true;
}

constexpr unsigned capability = 14;  // to lock more than the limit

void give_up_the_right_to_lock_more() {
    uint32_t header[2] = {0x20080522, 0};
    uint32_t rights[6] = {};
    if (syscall(SYS_capget, header, rights) == 0) {
        rights[0] &= ~(1U << capability);
        rights[1] &= ~(1U << capability);
        check(syscall(SYS_capset, header, rights) == 0, "a right can be given up");
    }
}

void a_limit_is_told_and_nothing_of_a_refused_range_stays_locked(const std::string & path) {
    const size_t page = pages::page_size();
    const Mapped mapped(path, 40 * page);
    give_up_the_right_to_lock_more();
    rlimit limit{8 * page, 8 * page};
    check(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "a limit");
    check(pages::lock({mapped.begin, 6 * page}).locked, "within the limit");
    check(says(pages::lock({mapped.begin + 10 * page, 3 * page}), "(RLIMIT_MEMLOCK)"), "beyond it");
    check(pages::lock_limits().locked == 6 * page && mapped.mappings() == 2, "only what was locked is");
    pages::unlock({mapped.begin, 6 * page});
    check(pages::lock({mapped.begin + 10 * page, 3 * page}).locked, "with room again");
    pages::unlock({mapped.begin + 10 * page, 3 * page});
    limit = {0, 0};
    check(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "no right at all");
    check(says(pages::lock({mapped.begin, page}), "RLIMIT_MEMLOCK is 0"), "and that is told apart");
}

}  // namespace

// With a path for a file the system is asked; under the sanitizers its locking calls do nothing. With a word more, all
// mappings are used up.
int main(int count, char ** arguments) {
    if (count > 2) {
        std::puts(the_last_mapping_is_told(arguments[1]) ? "ok" : "too many");
        return 0;
    }
    const size_t page = pages::page_size();
    pages_are_those_of_the_locked_experts_whatever_the_order({2 * page, 5 * page + 36, 2 * page + 1, 7 * page}, true);
    pages_are_those_of_the_locked_experts_whatever_the_order({100, page, 2 * page - 1, page + 7}, false);
    there_are_only_so_many_ranges();
    each_refusal_has_its_reason();
    if (count > 1) {
        neighbours_are_one_mapping(arguments[1]);
        a_limit_is_told_and_nothing_of_a_refused_range_stays_locked(arguments[1]);
    }
    std::puts("ok");
    return 0;
}
