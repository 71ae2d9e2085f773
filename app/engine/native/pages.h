// What the operating system is asked about pages of a file mapping: to read them, to give them up, whether they are in.
#pragma once

#include <cstddef>
#include <cstdint>

namespace expert_device {

struct ByteRange {
    const char * begin = nullptr;
    size_t bytes = 0;

    const char * end() const { return begin + bytes; }
};

// What came of reading a range.
enum class Brought : uint8_t {
    all,         // it is in memory
    unreadable,  // the file is shorter now, or its drive failed
    refused,     // the system has no memory for it, or nobody wants it any more
};

namespace pages {

size_t page_size();

// Where the byte's page begins.
const char * page_of(const char * byte);

// The pages that lie in the range whole.
ByteRange whole_pages(ByteRange range);

// Whether a fault in the range reads the page it needs and nothing around it. For ranges that are asked for in full.
void read_singly(ByteRange range, bool singly);

// Asks for all of the range, and returns before it is there where the system can do that.
void ask(ByteRange range);

// Returns when all of the range is in memory and mapped, or the system has refused memory for it for about a second.
Brought bring(ByteRange range);

// Gives up whole pages within the range, and those of its edges that lie in it. Their bytes stay in the file.
void let_go(ByteRange range);

// Whether the page of that byte is in memory; true where the system does not tell.
bool in_memory(const char * byte);

// Bytes of the range whose pages are in memory; all where the system does not tell.
size_t bytes_in_memory(ByteRange range);

// Times this process waited for a page to be read since it began; 0 where the system does not tell.
uint64_t faults_with_reads();

}  // namespace pages

}  // namespace expert_device
