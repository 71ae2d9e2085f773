// Loaded before the C library: while the file that SHORT_OF_MEMORY names is there, orders to read in are refused.
#include <cerrno>
#include <cstdlib>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" int madvise(void * begin, size_t bytes, int advice) noexcept {
    const char * flag = std::getenv("SHORT_OF_MEMORY");
    if (advice == MADV_POPULATE_READ && flag != nullptr && access(flag, F_OK) == 0) {
        errno = EAGAIN;
        return -1;
    }
    return static_cast<int>(syscall(SYS_madvise, begin, bytes, advice));
}
