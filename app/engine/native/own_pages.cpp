// Own memory in a mapping's place, as Linux can do it.
#include "own_pages.h"

#if defined(__linux__)
#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#endif

namespace expert_device {

#if defined(__linux__)

namespace {

constexpr size_t most_pieces = 24000;                // each may add two mappings; a process may have 65,530
constexpr uint64_t most_spare = uint64_t{32} << 20;  // memory that is kept for the next read
constexpr size_t least_mapping = size_t{64} << 10;   // smaller files are no models

// What of a range lies before and after its whole pages.
ByteRange before(ByteRange range, ByteRange whole) {
    return {range.begin, static_cast<size_t>(whole.begin - range.begin)};
}

ByteRange after(ByteRange range, ByteRange whole) {
    return {whole.end(), static_cast<size_t>(range.end() - whole.end())};
}

}  // namespace

OwnPages::OwnPages() {
    find_mappings();
    for (const File & file : files_) {
        most_ += 2 * file.mapped.bytes;  // places are kept by size: at worst every size has its own for all of them
    }
    memory_ = memfd_create("experts", MFD_CLOEXEC);
    void * view = MAP_FAILED;
    if (memory_ >= 0 && most_ > 0 && ftruncate(memory_, static_cast<off_t>(most_)) == 0) {
        view = mmap(nullptr, most_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory_, 0);
    }
    if (view == MAP_FAILED) {
        reason_ = most_ == 0 ? "No model file is mapped." : std::string("Memory of its own: ") + std::strerror(errno);
        most_ = 0;
    } else {
        view_ = static_cast<char *>(view);
    }
}

OwnPages::~OwnPages() {
    for (const auto & [begin, piece] : pieces_) {
        hide(begin, piece);
    }
    if (view_ != nullptr) {
        munmap(view_, most_);
    }
    for (const File & file : files_) {
        if (file.descriptor >= 0) {
            close(file.descriptor);
        }
    }
    if (memory_ >= 0) {
        close(memory_);
    }
}

void OwnPages::find_mappings() {
    FILE * maps = std::fopen("/proc/self/maps", "re");
    if (maps == nullptr) {
        return;
    }
    std::vector<char> line(8192);
    while (std::fgets(line.data(), static_cast<int>(line.size()), maps) != nullptr) {
        uintptr_t begin = 0, end = 0;
        uint64_t offset = 0, inode = 0;
        unsigned major_number = 0, minor_number = 0;
        char rights[5] = "";
        int path = 0;
        const int read = std::sscanf(line.data(), "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
                                     &begin, &end, rights, &offset, &major_number, &minor_number, &inode, &path);
        // Shared and never written to: how llama.cpp maps a model.
        if (read == 7 && path > 0 && line[static_cast<size_t>(path)] == '/' && std::strcmp(rights, "r--s") == 0 &&
            end - begin >= least_mapping) {
            File file;
            file.mapped = {reinterpret_cast<const char *>(begin), end - begin};
            file.offset = offset;
            file.device = makedev(major_number, minor_number);
            file.inode = inode;
            file.path.assign(line.data() + path);
            while (!file.path.empty() && file.path.back() == '\n') {
                file.path.pop_back();
            }
            files_.push_back(std::move(file));
        }
    }
    std::fclose(maps);
}

void OwnPages::refuse(File & file, const std::string & words) {
    file.refused = true;
    reason_ = file.path + " is read through the system's cache: " + words + ".";
}

OwnPages::File * OwnPages::file_of(ByteRange range) {
    const auto found = std::find_if(files_.begin(), files_.end(), [&](const File & file) {
        return file.mapped.begin <= range.begin && range.end() <= file.mapped.end();
    });
    if (found == files_.end() || found->refused) {
        return nullptr;
    }
    if (found->descriptor < 0) {
        const int descriptor = open(found->path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
        struct stat its{};
        if (descriptor < 0) {
            refuse(*found, std::strerror(errno));
            return nullptr;
        }
        if (fstat(descriptor, &its) != 0 || its.st_ino != found->inode || its.st_dev != found->device) {
            close(descriptor);
            refuse(*found, "it cannot be told to be the file that is mapped");
            return nullptr;
        }
        found->descriptor = descriptor;
    }
    return &*found;
}

bool OwnPages::take(size_t bytes, uint64_t & place) {
    for (auto * places : {&spare_, &empty_}) {
        std::vector<uint64_t> & fitting = (*places)[bytes];
        if (!fitting.empty()) {
            place = fitting.back();
            fitting.pop_back();
            spare_bytes_ -= places == &spare_ ? bytes : 0;
            return true;
        }
    }
    if (bytes > most_ - end_ || pieces_.size() >= most_pieces) {
        return false;
    }
    place = end_;
    end_ += bytes;
    return true;
}

void OwnPages::put_back(size_t bytes, uint64_t place) {
    if (spare_bytes_ + bytes <= most_spare) {
        spare_bytes_ += bytes;
        spare_[bytes].push_back(place);
        return;
    }
    fallocate(memory_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(place),
              static_cast<off_t>(bytes));
    empty_[bytes].push_back(place);
}

bool OwnPages::read(const File & file, ByteRange range, uint64_t place, bool & refused) {
    const uint64_t from = file.offset + static_cast<uint64_t>(range.begin - file.mapped.begin);
    for (size_t got = 0; got < range.bytes;) {
        const ssize_t n =
            pread(file.descriptor, view_ + place + got, range.bytes - got, static_cast<off_t>(from + got));
        if (n > 0 && static_cast<size_t>(n) % pages::page_size() == 0) {
            got += static_cast<size_t>(n);
        } else if (n >= 0 || errno != EINTR) {
            refused = n < 0 && (errno == EINVAL || errno == EOPNOTSUPP);
            return false;  // shorter now, or its drive failed
        }
    }
    return true;
}

bool OwnPages::show(const File & file, ByteRange range, uint64_t place) {
    void * to = const_cast<char *>(range.begin);
    if (mmap(to, range.bytes, PROT_READ, MAP_SHARED | MAP_FIXED, memory_, static_cast<off_t>(place)) == MAP_FAILED) {
        return false;
    }
    pieces_[range.begin] = {range.bytes, place, &file};
    bytes_ += range.bytes;
    return true;
}

bool OwnPages::hide(const char * begin, const Piece & piece) {
    const uint64_t from = piece.file->offset + static_cast<uint64_t>(begin - piece.file->mapped.begin);
    void * at = const_cast<char *>(begin);
    if (mmap(at, piece.bytes, PROT_READ, MAP_SHARED | MAP_FIXED, piece.file->descriptor, static_cast<off_t>(from)) ==
        MAP_FAILED) {
        return false;  // its bytes stay right
    }
    pages::read_singly({begin, piece.bytes}, true);
    return true;
}

void OwnPages::ask(ByteRange range) {
    const ByteRange whole = pages::whole_pages(range);
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (whole.bytes == 0 || file_of(whole) == nullptr) {
            pages::ask(range);
            return;
        }
    }
    pages::ask(before(range, whole));
    pages::ask(after(range, whole));
}

void OwnPages::wait_for_reads(std::unique_lock<std::mutex> & lock, ByteRange range) {
    read_.wait(lock, [&] {
        const auto reading = reading_.lower_bound(range.begin);
        return reading == reading_.end() || *reading >= range.end();
    });
}

bool OwnPages::bring_whole(File & file, ByteRange range, uint64_t place, bool shown, bool & through_cache) {
    bool refused = false;
    const bool right = read(file, range, place, refused);
    std::lock_guard<std::mutex> lock(mutex_);
    reading_.erase(range.begin);
    read_.notify_all();
    if (refused) {
        refuse(file, "its file system cannot do otherwise");
    }
    if (!shown && (!right || !show(file, range, place))) {
        put_back(range.bytes, place);
        through_cache = right || refused;
    }
    return right || refused;
}

bool OwnPages::bring(ByteRange range) {
    const ByteRange whole = pages::whole_pages(range);
    File * file = nullptr;
    uint64_t place = 0;
    bool shown = false;
    if (whole.bytes > 0) {
        std::unique_lock<std::mutex> lock(mutex_);
        wait_for_reads(lock, whole);
        file = file_of(whole);
        const auto piece = pieces_.find(whole.begin);
        if (file != nullptr && piece != pieces_.end() && piece->second.bytes == whole.bytes) {
            shown = true;  // swapped out, it may be: the same bytes are read to where they were
            place = piece->second.place;
        } else if (file != nullptr && !take(whole.bytes, place)) {
            file = nullptr;
        }
        if (file != nullptr) {
            reading_.insert(whole.begin);
        }
    }
    bool through_cache = file == nullptr;
    if (file != nullptr && !bring_whole(*file, whole, place, shown, through_cache)) {
        return false;
    }
    if (through_cache) {
        return pages::bring(range);
    }
    return pages::bring(before(range, whole)) && pages::bring(after(range, whole)) && pages::map(whole);
}

void OwnPages::let_go(ByteRange range) {
    bool any = false;
    {
        std::unique_lock<std::mutex> lock(mutex_);
        wait_for_reads(lock, range);
        for (auto piece = pieces_.lower_bound(range.begin); piece != pieces_.end() && piece->first < range.end();) {
            any = true;
            if (!hide(piece->first, piece->second)) {
                ++piece;
                continue;
            }
            bytes_ -= piece->second.bytes;
            put_back(piece->second.bytes, piece->second.place);
            piece = pieces_.erase(piece);
        }
    }
    if (!any) {
        pages::let_go(range);
    }
}

#else

OwnPages::OwnPages() : reason_("This system cannot put other memory in a mapping's place.") {}
OwnPages::~OwnPages() = default;

void OwnPages::ask(ByteRange range) {
    pages::ask(range);
}

bool OwnPages::bring(ByteRange range) {
    return pages::bring(range);
}

void OwnPages::let_go(ByteRange range) {
    pages::let_go(range);
}

#endif

uint64_t OwnPages::bytes() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return bytes_;
}

std::string OwnPages::reason() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return reason_;
}

}  // namespace expert_device
