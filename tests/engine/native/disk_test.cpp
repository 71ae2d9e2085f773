// The reading threads, the pages' calls, and the table of what is in memory. Built with sanitizers.
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
        case 4:
            table.set_budget(random() % 320);
            break;
        default:
            break;
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
               urgent = std::make_shared<Ticket>(), dropped = std::make_shared<Ticket>();
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
    }
    check(reader.wait(*later) && reader.wait(*urgent) && reader.wait(*first), "all are read");
    check(order.size() == 3 && order[1] == memory + 48 && order[2] == memory + 32, "the urgent one first");
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

}  // namespace

int main(int, char ** arguments) {
    the_table_is_a_queue_of_the_least_recently_used();
    a_layer_of_another_size_is_known_anew();
    reads_end_their_tickets_from_any_thread();
    what_is_urgent_comes_first_and_what_waits_can_be_dropped();
    ending_drops_what_waits();
    pages_of_a_file_come_and_go(arguments[1]);
    std::puts("ok");
    return 0;
}
