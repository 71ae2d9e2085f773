// Which tensors are expert weights, the CPU's faster layouts, and the model files as mapped memory.
#include "weights.h"

#include "expert_device.h"
#include "internal.h"

#include <atomic>
#include <vector>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#if !defined(NOMINMAX)
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace expert_device {

namespace {

std::atomic<int32_t> current_residency{EXPERT_DEVICE_MAPPED};

// The CPU device's layouts besides the plain one; its registry may be a library loaded at run time.
const std::vector<ggml_backend_buffer_type_t> & repack_types() {
    static const std::vector<ggml_backend_buffer_type_t> types = [] {
        std::vector<ggml_backend_buffer_type_t> found;
        ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
        if (cpu == nullptr) {
            return found;
        }
        auto get = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
            ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), "ggml_backend_dev_get_extra_bufts"));
        for (ggml_backend_buffer_type_t * type = get ? get(cpu) : nullptr; type != nullptr && *type != nullptr;
             ++type) {
            found.push_back(*type);
        }
        return found;
    }();
    return types;
}

}  // namespace

bool is_repack_type(ggml_backend_buffer_type_t type) {
    for (const ggml_backend_buffer_type_t known : repack_types()) {
        if (known == type) {
            return true;
        }
    }
    return false;
}

bool is_repacked(const ggml_tensor * weights) {
    return weights != nullptr && weights->buffer != nullptr && is_repack_type(weights->buffer->buft);
}

bool is_expert_weight(const ggml_tensor * weights) {
    return is_ours(weights) || is_repacked(weights);
}

ggml_backend_buffer_type_t faster_type(const ggml_tensor * op) {
    ggml_tensor * weights = op->src[0];
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    ggml_backend_buffer_t const before = weights->buffer;
    for (const ggml_backend_buffer_type_t type : repack_types()) {
        ggml_backend_buffer_t empty = ggml_backend_buft_alloc_buffer(type, 0);
        weights->buffer = empty;
        const bool would = ggml_backend_dev_supports_op(cpu, op);
        weights->buffer = before;
        ggml_backend_buffer_free(empty);
        if (would) {
            return type;
        }
    }
    return nullptr;
}

bool cpu_would_repack(const ggml_tensor * op) {
    return faster_type(op) != nullptr;
}

void set_residency(int32_t wanted) {
    current_residency.store(wanted);
}

int32_t residency() {
    return current_residency.load();
}

#if defined(_WIN32)

MappedFile::MappedFile(const char * utf8_path) {
    const int length = MultiByteToWideChar(CP_UTF8, 0, utf8_path, -1, nullptr, 0);
    std::vector<wchar_t> path(static_cast<size_t>(length > 0 ? length : 1));
    MultiByteToWideChar(CP_UTF8, 0, utf8_path, -1, path.data(), length);
    HANDLE file = CreateFileW(path.data(), GENERIC_READ, FILE_SHARE_READ, nullptr, OPEN_EXISTING, 0, nullptr);
    if (file == INVALID_HANDLE_VALUE) {
        return;
    }
    file_ = file;
    LARGE_INTEGER size;
    if (!GetFileSizeEx(file, &size)) {
        return;
    }
    mapping_ = CreateFileMappingW(file, nullptr, PAGE_READONLY, 0, 0, nullptr);
    if (mapping_ != nullptr) {
        data_ = MapViewOfFile(mapping_, FILE_MAP_READ, 0, 0, 0);
        size_ = static_cast<uint64_t>(size.QuadPart);
    }
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) {
        UnmapViewOfFile(data_);
    }
    if (mapping_ != nullptr) {
        CloseHandle(mapping_);
    }
    if (file_ != nullptr) {
        CloseHandle(file_);
    }
}

void map_pages(const char * from, size_t bytes) {
    WIN32_MEMORY_RANGE_ENTRY range = {const_cast<char *>(from), bytes};
    PrefetchVirtualMemory(GetCurrentProcess(), 1, &range, 0);  // only a hint
}

#else

MappedFile::MappedFile(const char * utf8_path) {
    const int file = open(utf8_path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return;
    }
    struct stat facts;
    if (fstat(file, &facts) == 0 && facts.st_size > 0) {
        void * mapped = mmap(nullptr, static_cast<size_t>(facts.st_size), PROT_READ, MAP_SHARED, file, 0);
        if (mapped != MAP_FAILED) {
            data_ = mapped;
            size_ = static_cast<uint64_t>(facts.st_size);
        }
    }
    close(file);
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) {
        munmap(data_, size_);
    }
}

void map_pages(const char * from, size_t bytes) {
#if defined(MADV_POPULATE_READ)
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const uintptr_t begin = reinterpret_cast<uintptr_t>(from) / page * page;
    const uintptr_t end = reinterpret_cast<uintptr_t>(from) + bytes;
    madvise(reinterpret_cast<void *>(begin), end - begin, MADV_POPULATE_READ);  // refused: faults will do it
#else
    (void)from;
    (void)bytes;
#endif
}

#endif

bool Sources::add(const char * utf8_path, const char * tensor, uint64_t offset, uint64_t bytes) {
    auto & file = files_[utf8_path];
    if (!file) {
        file = std::make_unique<MappedFile>(utf8_path);
    }
    if (!file->ok() || offset > file->size() || bytes > file->size() - offset) {
        return false;
    }
    tensors_[tensor] = {file->data() + offset, bytes};
    return true;
}

const char * Sources::find(const char * tensor, uint64_t bytes) const {
    const auto found = tensors_.find(tensor);
    return found != tensors_.end() && found->second.bytes == bytes ? found->second.data : nullptr;
}

ExpertTensor expert_tensor(const ggml_tensor * weights, bool bias) {
    ExpertTensor made;
    made.tensor = weights;
    made.type = weights->type;
    made.bias = bias;
    made.ne0 = weights->ne[0];
    made.ne1 = bias ? 1 : weights->ne[1];
    made.bytes = bias ? weights->nb[1] : weights->nb[2];
    if (!is_repacked(weights) && weights->buffer != nullptr && ggml_backend_buffer_is_host(weights->buffer)) {
        made.data = static_cast<const char *>(weights->data);
    }
    return made;
}

}  // namespace expert_device
