// The reading threads, the pages' calls, own memory in a mapping's place, and the table of what is in memory. Built
// with sanitizers.
#include "own_pages.h"
#include "pages.h"
#include "reader.h"
#include "resident.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <random>
#include <set>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace {

using namespace expert_device;

void check(bool condition, const char * what) {
    if (!condition) {
        std::fprintf(stderr, "failed: %s\n", what);
        std::_Exit(1);  // other threads are still at work
    }
}

// ---- the table -----------------------------------------------------------------------------------

using Known = std::pair<int32_t, int32_t>;

void the_table_is_a_queue_of_the_least_recently_used() {
    std::mt19937 random(5);
    ResidentTable table;
    std::deque<Known> order;  // the first goes first
    const uint64_t sizes[] = {10, 10, 30};
    for (int32_t layer = 0; layer < 3; ++layer) {
        table.set_layer(layer, 6, sizes[layer]);
    }
    check(table.total() == 6 * 50, "all experts are counted");
    std::set<Known> kept;
    for (int step = 0; step < 20000; ++step) {
        const Known known{static_cast<int32_t>(random() % 3), static_cast<int32_t>(random() % 6)};
        const ExpertPlace place{known.first, known.second};
        const auto at = std::find(order.begin(), order.end(), known);
        const bool in = at != order.end();
        check(table.holds(place) == in, "the table knows what it holds");
        const bool last = random() % 2 == 0;
        switch (random() % 6) {
            case 0:
                if (!in && last) {
                    order.push_back(known);
                } else if (!in) {
                    order.push_front(known);
                }
                table.add(place, last);
                break;
            case 1:
                if (in) {
                    order.erase(at);
                    order.push_back(known);
                }
                table.use(place);
                break;
            case 2:
                if (in) {
                    order.erase(at);
                }
                table.remove(place);
                break;
            case 3:
                table.keep(place, last);
                last ? static_cast<void>(kept.insert(known)) : static_cast<void>(kept.erase(known));
                break;
            case 4: table.set_budget(random() % 320); break;
            default: break;
        }
        uint64_t bytes = 0;
        for (const Known & each : order) {
            bytes += sizes[each.first];
        }
        std::vector<ExpertPlace> gone;
        table.trim(gone);
        size_t n = 0;
        for (auto next = order.begin(); next != order.end() && bytes > table.budget();) {
            if (kept.count(*next) != 0) {
                ++next;
                continue;
            }
            check(n < gone.size() && gone[n].layer == next->first && gone[n].expert == next->second,
                  "the least recently used that is not kept goes first");
            ++n;
            bytes -= sizes[next->first];
            next = order.erase(next);
        }
        check(n == gone.size(), "no more goes than must");
        check(table.bytes() == bytes, "bytes are those of what is in");
    }
    std::vector<ExpertPlace> all;
    table.clear(all);
    check(all.size() == order.size() && table.bytes() == 0, "clearing takes all out");
}

void a_layer_of_another_size_is_known_anew() {
    ResidentTable table;
    table.set_budget(1000);
    table.set_layer(4, 3, 10);
    table.add({4, 1}, true);
    check(table.knows(4, 10) && !table.knows(4, 20) && !table.knows(3, 10), "layers are known by size");
    table.set_layer(4, 3, 20);
    check(!table.holds({4, 1}) && table.bytes() == 0 && table.total() == 60, "nothing of before is left");
}

// ---- the threads ---------------------------------------------------------------------------------

std::atomic<int> asked{0}, brought{0}, let_go{0};
char memory[1 << 16];

ReadJob job_at(size_t page, const std::vector<TicketPtr> & tickets) {
    return {{memory + page * 16, 16}, tickets};
}

void reads_end_their_tickets_from_any_thread() {
    Reader::Calls calls;
    calls.ask = [](ByteRange) { ++asked; };
    calls.bring = [](ByteRange range) {
        ++brought;
        return (range.begin - memory) / 16 % 7 != 3;  // some cannot be read
    };
    calls.let_go = [](ByteRange) { ++let_go; };
    int wanted = 0;
    {
        Reader reader(4, calls);
        std::vector<std::thread> users;
        std::atomic<int> failures{0};
        for (int user = 0; user < 3; ++user) {
            users.emplace_back([&, user] {
                std::mt19937 random(static_cast<unsigned>(user));
                for (int round = 0; round < 400; ++round) {
                    std::vector<TicketPtr> tickets{std::make_shared<Ticket>(), std::make_shared<Ticket>()};
                    std::vector<ReadJob> jobs;
                    bool first_fails = false, second_fails = false;
                    for (int i = 0; i < 5; ++i) {
                        const size_t page = random() % 4096;
                        const bool fails = page % 7 == 3;
                        first_fails |= fails && i != 4;
                        second_fails |= fails && i >= 2;
                        jobs.push_back(job_at(page, i < 2    ? std::vector<TicketPtr>{tickets[0]}
                                                    : i == 4 ? std::vector<TicketPtr>{tickets[1]}
                                                             : tickets));
                    }
                    reader.read(std::move(jobs), round % 3 != 0);
                    reader.let_go({{memory, 16}});
                    check(reader.wait(*tickets[0]) == !first_fails, "a ticket fails with one of its reads");
                    check(reader.wait(*tickets[1]) == !second_fails, "and only then");
                    failures += first_fails + second_fails;
                }
            });
        }
        for (std::thread & user : users) {
            user.join();
        }
        reader.wait_for_all();
        wanted = 3 * 400 * 5;
        check(brought == wanted && asked == wanted && let_go == 3 * 400, "everything is done once");
        check(failures > 0, "some failed");
    }
}

std::mutex gate;
std::atomic<int> at_gate{0};

void what_is_urgent_comes_first_and_what_waits_can_be_dropped() {
    static std::vector<const char *> order;
    Reader::Calls calls;
    calls.ask = [](ByteRange) {};
    calls.bring = [](ByteRange range) {
        ++at_gate;
        std::lock_guard<std::mutex> lock(gate);
        order.push_back(range.begin);
        return true;
    };
    calls.let_go = [](ByteRange) {};
    Reader reader(1, calls);
    const auto first = std::make_shared<Ticket>(), later = std::make_shared<Ticket>(),
               urgent = std::make_shared<Ticket>(), dropped = std::make_shared<Ticket>(),
               unwanted = std::make_shared<Ticket>(), half = std::make_shared<Ticket>();
    {
        std::lock_guard<std::mutex> lock(gate);
        reader.read({job_at(0, {first})}, true);
        while (at_gate == 0) {
            std::this_thread::yield();
        }
        reader.read({job_at(1, {dropped})}, false);
        reader.drop_waiting();
        check(dropped->over() && dropped->failed, "what is dropped is over, and not read");
        reader.read({job_at(2, {later})}, false);
        reader.read({job_at(3, {urgent})}, true);
        reader.read({job_at(4, {unwanted}), job_at(5, {unwanted, half})}, false);
        unwanted->unwanted = true;
    }
    check(!reader.wait(*unwanted) && reader.wait(*half), "what nobody wants any more is not read");
    check(reader.wait(*later) && reader.wait(*urgent) && reader.wait(*first), "all are read");
    check(order.size() == 4 && order[1] == memory + 48 && order[2] == memory + 32, "the urgent one first");
}

void ending_drops_what_waits() {
    Reader::Calls calls;
    calls.ask = [](ByteRange) {};
    calls.bring = [](ByteRange) { return true; };
    calls.let_go = [](ByteRange) {};
    std::vector<TicketPtr> tickets;
    {
        Reader reader(2, calls);
        for (size_t i = 0; i < 300; ++i) {
            tickets.push_back(std::make_shared<Ticket>());
            reader.read({job_at(i, {tickets.back()})}, i % 2 == 0);
        }
    }
    for (const TicketPtr & ticket : tickets) {
        check(ticket->over(), "no ticket is left open");
    }
}

// ---- a file --------------------------------------------------------------------------------------

void pages_of_a_file_come_and_go(const std::string & path) {
    const size_t page = pages::page_size(), size = 64 * page;
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    const std::vector<char> bytes(size, 'x');
    check(file >= 0 && write(file, bytes.data(), size) == static_cast<ssize_t>(size) && fsync(file) == 0, "a file");
    void * mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
    check(mapped != MAP_FAILED, "mapped");
    const char * begin = static_cast<const char *>(mapped);
    const ByteRange odd{begin + 100, 40 * page};  // begins and ends within pages
    pages::read_singly({begin, size}, true);
    check(pages::bring(odd) && pages::in_memory(begin + 20 * page), "brought is in memory");
    check(pages::bytes_in_memory(odd) == odd.bytes, "all of it");
    check(begin[100] == 'x' && begin[40 * page] == 'x', "and right");
    pages::let_go(odd);
    check(begin[0] == 'x' && begin[20 * page] == 'x', "what was given up is read again");
    check(ftruncate(file, static_cast<off_t>(8 * page)) == 0, "cut");
    check(!pages::bring(odd), "beyond the file's end nothing can be brought, and nobody dies");
    Reader reader(2);
    const auto within = std::make_shared<Ticket>(), beyond = std::make_shared<Ticket>();
    reader.read({{{begin, 8 * page}, {within}}, {{begin + 8 * page, page}, {beyond}}}, true);
    check(reader.wait(*within) && !reader.wait(*beyond), "the reader tells which");
    munmap(mapped, size);
    close(file);
    unlink(path.c_str());
}

// Byte `at` of the file that is mapped.
char byte_of(size_t at) {
    return static_cast<char>(at * 131 + at / 4099);
}

struct Mapped {
    Mapped(const std::string & path_, size_t size_) : path(path_), size(size_) {
        std::vector<char> bytes(size);
        for (size_t i = 0; i < size; ++i) {
            bytes[i] = byte_of(i);
        }
        file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
        check(file >= 0 && write(file, bytes.data(), size) == static_cast<ssize_t>(size) && fsync(file) == 0, "a file");
        void * at = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
        check(at != MAP_FAILED, "mapped");
        begin = static_cast<const char *>(at);
    }
    ~Mapped() {
        munmap(const_cast<char *>(begin), size);
        close(file);
        unlink(path.c_str());
    }
    // Pages are put in place of others with the same bytes meanwhile: to ThreadSanitizer that is a race.
    __attribute__((no_sanitize("thread"))) bool right(size_t from, size_t bytes) const {
        for (size_t i = from; i < from + bytes; ++i) {
            if (*const_cast<const volatile char *>(begin + i) != byte_of(i)) {
                return false;
            }
        }
        return true;
    }

    std::string path;
    size_t size;
    int file = -1;
    const char * begin = nullptr;
};

// False where this file system cannot read past the cache: then only that it says so is seen.
bool own_memory_takes_the_place_of_pages(const std::string & path) {
    const size_t page = pages::page_size();
    const Mapped mapped(path, 64 * page);
    OwnPages own;
    const ByteRange odd{mapped.begin + 100, 40 * page};  // begins and ends within pages
    own.ask(odd);
    check(own.bring(odd) && mapped.right(0, mapped.size), "brought are the file's bytes, and those beside them");
    if (!own.reason().empty()) {
        check(own.bytes() == 0, "what is read through the cache is not called own");
        return false;
    }
    check(own.bytes() == 39 * page, "whole pages are in own memory");
    check(pages::bytes_in_memory(odd) == odd.bytes, "and count as in memory");
    check(own.bring(odd) && own.bytes() == 39 * page && mapped.right(100, odd.bytes),
          "to bring them again adds nothing");
    const ByteRange within{mapped.begin + 10 * page + 3, 5};
    check(own.bring(within) && own.bytes() == 39 * page, "less than a page stays the cache's");
    own.let_go(odd);
    check(own.bytes() == 0 && mapped.right(0, mapped.size), "given up is the mapping's again");
    check(own.bring(odd), "once more");
    check(ftruncate(mapped.file, static_cast<off_t>(8 * page)) == 0, "cut");
    const ByteRange beyond{mapped.begin + 48 * page, 8 * page};
    check(!own.bring(beyond), "beyond the file's end nothing can be brought");
    check(mapped.right(page, 39 * page), "what was brought before is there");
    return true;
}

void a_file_of_another_name_is_read_through_the_cache(const std::string & path) {
    const Mapped mapped(path, 64 * pages::page_size());
    check(std::rename(path.c_str(), (path + ".old").c_str()) == 0, "renamed");
    const Mapped other(path, 64 * pages::page_size());
    OwnPages own;
    check(own.bring({other.begin, other.size}), "the file of that name is brought");
    check(std::rename((path + ".old").c_str(), path.c_str()) == 0, "renamed back: the other one is gone");
    OwnPages later;
    check(later.bring({other.begin, other.size}) && later.bytes() == 0, "a mapping of a file that is gone is brought");
    check(later.reason().find("through the system's cache") != std::string::npos, "and it is told how");
    check(other.right(0, other.size) && mapped.right(0, mapped.size), "the bytes are each file's own");
}

void readers_see_the_right_bytes_at_every_moment(const std::string & path) {
    const size_t page = pages::page_size(), slice = 5 * page + 36, n = 40;
    const Mapped mapped(path, n * slice + 7 * page);
    const auto own = std::make_shared<OwnPages>();
    Reader::Calls calls;
    calls.ask = [own](ByteRange range) { own->ask(range); };
    calls.bring = [own](ByteRange range) { return own->bring(range); };
    calls.let_go = [own](ByteRange range) { own->let_go(range); };
    std::atomic<bool> ended{false};
    std::vector<std::thread> readers;
    for (unsigned reader = 0; reader < 2; ++reader) {
        readers.emplace_back([&, reader] {
            std::mt19937 random(reader);
            while (!ended) {
                check(mapped.right(random() % (n * slice), 512), "right at every moment");
            }
        });
    }
    {
        Reader reader(3, calls);
        std::mt19937 random(9);
        for (int round = 0; round < 150; ++round) {
            std::vector<ReadJob> jobs;
            std::vector<ByteRange> gone;
            const auto ticket = std::make_shared<Ticket>();
            for (size_t i = 0; i < n; ++i) {
                const ByteRange range{mapped.begin + 50 + i * slice, slice};
                if (random() % 4 == 0) {
                    gone.push_back(range);
                }
                for (auto reads = random() % 8; reads > 5; --reads) {  // given up and read at once, twice at once
                    jobs.push_back({range, {ticket}});
                }
            }
            reader.let_go(gone);
            reader.read(std::move(jobs), true);
            check(reader.wait(*ticket), "read");
        }
        reader.let_go({{mapped.begin, mapped.size}});
        reader.wait_for_all();
        check(own->bytes() == 0, "all that was taken is given back");
    }
    ended = true;
    for (std::thread & reader : readers) {
        reader.join();
    }
    check(mapped.right(0, mapped.size), "right in the end");
}

}  // namespace

int main(int, char ** arguments) {
    the_table_is_a_queue_of_the_least_recently_used();
    a_layer_of_another_size_is_known_anew();
    reads_end_their_tickets_from_any_thread();
    what_is_urgent_comes_first_and_what_waits_can_be_dropped();
    ending_drops_what_waits();
    pages_of_a_file_come_and_go(arguments[1]);
    check(pages::available_memory() > 0, "some memory is free");
    if (own_memory_takes_the_place_of_pages(arguments[1])) {
        a_file_of_another_name_is_read_through_the_cache(arguments[1]);
        readers_see_the_right_bytes_at_every_moment(arguments[1]);
    }
    std::puts("ok");
    return 0;
}
