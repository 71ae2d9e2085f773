// Ranges of a model file in memory of our own: read past the system's cache, which costs the processor a third, and put
// where the mapping has them, so that whoever reads there need not know.
#pragma once

#include "pages.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace expert_device {

// Every function may be called from any thread. The mapping holds the file's bytes at every moment, whichever memory
// they are in. Only Linux can replace pages of a mapping that others made; elsewhere, and for files that cannot be read
// past the cache, the functions do what those of `pages` do, and `reason` says why.
//
// The system cannot take such memory back as it takes the cache's; it can only swap it out.
class OwnPages {
  public:
    OwnPages();
    ~OwnPages();  // the mapping has the file's pages again; it must still be there
    OwnPages(const OwnPages &) = delete;
    OwnPages & operator=(const OwnPages &) = delete;

    // As in `pages`. A range that is given up must hold those that were brought whole.
    void ask(ByteRange range);
    bool bring(ByteRange range);
    void let_go(ByteRange range);

    uint64_t bytes() const;      // in own memory
    std::string reason() const;  // in words; empty while all goes well

  private:
    struct File {  // a mapping of it
        ByteRange mapped;
        uint64_t offset = 0;
        uint64_t device = 0, inode = 0;
        std::string path;
        int descriptor = -1;
        bool refused = false;
    };
    struct Piece {  // of a mapping that is in own memory
        size_t bytes = 0;
        uint64_t place = 0;
        const File * file = nullptr;
    };

    void find_mappings();
    void wait_for_reads(std::unique_lock<std::mutex> & lock, ByteRange range);  // of it, by other threads
    bool bring_whole(File & file, ByteRange range, uint64_t place, bool shown, bool & through_cache);
    File * file_of(ByteRange range);  // opened; null where it must be read through the cache
    bool take(size_t bytes, uint64_t & place);
    void put_back(size_t bytes, uint64_t place);
    bool read(const File & file, ByteRange range, uint64_t place, bool & refused);
    bool show(const File & file, ByteRange range, uint64_t place);
    bool hide(const char * begin, const Piece & piece);
    void refuse(File & file, const std::string & words);

    mutable std::mutex mutex_;
    std::vector<File> files_;
    std::map<const char *, Piece> pieces_;  // by where they begin
    std::set<const char *> reading_;        // the same of those that are being read, whether shown yet or not
    std::condition_variable read_;
    // Places that nothing lies in: with memory, and without.
    std::map<size_t, std::vector<uint64_t>> spare_, empty_;
    uint64_t spare_bytes_ = 0, bytes_ = 0;
    uint64_t end_ = 0, most_ = 0;  // of the places given out so far; of the memory's addresses
    int memory_ = -1;
    char * view_ = nullptr;
    std::string reason_;
};

}  // namespace expert_device
