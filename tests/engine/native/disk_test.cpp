// The reading threads, the pages' calls, and the table of what is in memory. Built with sanitizers.
#include "pages.h"
#include "reader.h"
#include "resident.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <random>
#include <set>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
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

bool all_read(Reader & reader, const TicketPtr & ticket) {
    return reader.wait(*ticket) == Brought::all;
}

void reads_end_their_tickets_from_any_thread() {
    Reader::Calls calls;
    calls.ask = [](ByteRange) { ++asked; };
    calls.bring = [](ByteRange range) {
        ++brought;
        return (range.begin - memory) / 16 % 7 != 3 ? Brought::all : Brought::unreadable;
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
                    check(all_read(reader, tickets[0]) == !first_fails, "a ticket fails with one of its reads");
                    check(all_read(reader, tickets[1]) == !second_fails, "and only then");
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
        return Brought::all;
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
        check(dropped->over() && dropped->failed(), "what is dropped is over, and not read");
        reader.read({job_at(2, {later})}, false);
        reader.read({job_at(3, {urgent})}, true);
        reader.read({job_at(4, {unwanted}), job_at(5, {unwanted, half})}, false);
        unwanted->unwanted = true;
    }
    check(reader.wait(*unwanted) == Brought::refused && all_read(reader, half),
          "what nobody wants any more is not read");
    check(all_read(reader, later) && all_read(reader, urgent) && all_read(reader, first), "all are read");
    check(order.size() == 4 && order[1] == memory + 48 && order[2] == memory + 32, "the urgent one first");
}

void what_is_to_be_given_up_can_be_dropped_and_what_is_begun_is_waited_for() {
    static std::atomic<int> begun{0}, ended{0}, last{0};
    Reader::Calls calls;
    calls.let_go = [](ByteRange) {
        ++begun;
        std::lock_guard<std::mutex> lock(gate);
        ++ended;
    };
    Reader reader(1, calls);
    std::thread opens;
    {
        std::lock_guard<std::mutex> lock(gate);
        reader.let_go({{memory, 16}, {memory + 16, 16}, {memory + 32, 16}});
        while (begun == 0) {
            std::this_thread::yield();
        }
        opens = std::thread([&reader] {
            reader.drop_letting_go();
            last = begun.load();
            check(last > 0 && ended == last, "what had begun is over");
        });
    }
    opens.join();
    reader.wait_for_all();
    check(begun == last, "what had not begun is not done");
}

void ending_drops_what_waits() {
    Reader::Calls calls;
    calls.ask = [](ByteRange) {};
    calls.bring = [](ByteRange) { return Brought::all; };
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
    check(pages::bring(odd) == Brought::all && pages::in_memory(begin + 20 * page), "brought is in memory");
    check(pages::bytes_in_memory(odd) == odd.bytes, "all of it");
    check(begin[100] == 'x' && begin[40 * page] == 'x', "and right");
    pages::let_go(odd);
    check(begin[0] == 'x' && begin[20 * page] == 'x', "what was given up is read again");
    check(ftruncate(file, static_cast<off_t>(8 * page)) == 0, "cut");
    check(pages::bring(odd) == Brought::unreadable, "beyond the file's end nothing can be brought, and nobody dies");
    Reader reader(2);
    const auto within = std::make_shared<Ticket>(), beyond = std::make_shared<Ticket>();
    reader.read({{{begin, 8 * page}, {within}}, {{begin + 8 * page, page}, {beyond}}}, true);
    check(all_read(reader, within) && reader.wait(*beyond) == Brought::unreadable, "the reader tells which");
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
    bool right(size_t from, size_t bytes) const {
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

// ---- a system short of memory --------------------------------------------------------------------

// How often the system still answers "later" to an order to read in; and how often it was asked.
std::atomic<int> refusals{0}, orders{0};

void memory_that_is_short_for_a_moment_is_waited_for_and_not_for_ever(const std::string & path) {
    const Mapped mapped(path, 4 * pages::page_size());
    const ByteRange range{mapped.begin, mapped.size};
    refusals = 3;
    check(pages::bring(range) == Brought::all && refusals == 0, "after some refusals it is read");
    check(mapped.right(0, mapped.size), "and right");
    refusals = 1 << 30;
    orders = 0;
    check(pages::bring(range) == Brought::refused && orders < 50, "after many it is given up");
    Reader reader(1);
    const auto ticket = std::make_shared<Ticket>();
    reader.read({{range, {ticket}}}, true);
    check(reader.wait(*ticket) == Brought::refused, "and who waits is told why");
    refusals = 0;
    check(pages::bring(range) == Brought::all, "read when there is memory again");
}

void readers_see_the_right_bytes_at_every_moment(const std::string & path) {
    const size_t page = pages::page_size(), slice = 5 * page + 36, n = 40;
    const Mapped mapped(path, n * slice + 7 * page);
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
        Reader reader(3);
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
            check(all_read(reader, ticket), "read");
        }
        reader.let_go({{mapped.begin, mapped.size}});
        reader.wait_for_all();
    }
    ended = true;
    for (std::thread & reader : readers) {
        reader.join();
    }
    check(mapped.right(0, mapped.size), "right in the end");
}

}  // namespace

// In place of the C library's: the system is asked, but for what is refused in its name.
extern "C" int madvise(void * begin, size_t bytes, int advice) noexcept {
    if (advice == MADV_POPULATE_READ) {
        ++orders;
        if (refusals > 0) {
            --refusals;
            errno = EAGAIN;
            return -1;
        }
    }
    return static_cast<int>(syscall(SYS_madvise, begin, bytes, advice));
}

int main(int, char ** arguments) {
    the_table_is_a_queue_of_the_least_recently_used();
    a_layer_of_another_size_is_known_anew();
    reads_end_their_tickets_from_any_thread();
    what_is_urgent_comes_first_and_what_waits_can_be_dropped();
    what_is_to_be_given_up_can_be_dropped_and_what_is_begun_is_waited_for();
    ending_drops_what_waits();
    pages_of_a_file_come_and_go(arguments[1]);
    memory_that_is_short_for_a_moment_is_waited_for_and_not_for_ever(arguments[1]);
    readers_see_the_right_bytes_at_every_moment(arguments[1]);
    std::puts("ok");
    return 0;
}
