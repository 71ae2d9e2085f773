// The device's buffer type: ordinary host memory, so that expert weights stay mapped from the file.
#include "internal.h"
#include "weights.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>

namespace expert_device {

namespace {

constexpr size_t alignment = 64;  // a cache line; tensors mapped from a file have the file's alignment instead

struct Memory {
    void * data = nullptr;
    bool owned = false;
};

void free_buffer(ggml_backend_buffer_t buffer) {
    auto * memory = static_cast<Memory *>(buffer->context);
    if (memory->owned) {
        ::operator delete(memory->data, std::align_val_t(alignment));
    }
    delete memory;
}

void * get_base(ggml_backend_buffer_t buffer) {
    return static_cast<Memory *>(buffer->context)->data;
}

void memset_tensor(ggml_backend_buffer_t, ggml_tensor * tensor, uint8_t value, size_t offset, size_t size) {
    std::memset(static_cast<char *>(tensor->data) + offset, value, size);
}

void set_tensor(ggml_backend_buffer_t, ggml_tensor * tensor, const void * data, size_t offset, size_t size) {
    std::memcpy(static_cast<char *>(tensor->data) + offset, data, size);
}

void get_tensor(ggml_backend_buffer_t, const ggml_tensor * tensor, void * data, size_t offset, size_t size) {
    std::memcpy(data, static_cast<const char *>(tensor->data) + offset, size);
}

bool copy_tensor(ggml_backend_buffer_t, const ggml_tensor * source, ggml_tensor * target) {
    if (!ggml_backend_buffer_is_host(source->buffer)) {
        return false;
    }
    std::memcpy(target->data, source->data, ggml_nbytes(source));
    return true;
}

void clear(ggml_backend_buffer_t buffer, uint8_t value) {
    std::memset(get_base(buffer), value, buffer->size);
}

ggml_backend_buffer_i buffer_interface() {
    ggml_backend_buffer_i face = {};
    face.free_buffer = free_buffer;
    face.get_base = get_base;
    face.memset_tensor = memset_tensor;
    face.set_tensor = set_tensor;
    face.get_tensor = get_tensor;
    face.cpy_tensor = copy_tensor;
    face.clear = clear;
    return face;
}

// nullptr when there is no memory even for the bookkeeping; `data` stays the caller's then.
ggml_backend_buffer_t new_buffer(void * data, size_t size, bool owned) {
    try {
        auto memory = std::make_unique<Memory>(Memory{data, owned});
        ggml_backend_buffer_t buffer = ggml_backend_buffer_init(buffer_type(), buffer_interface(), memory.get(), size);
        memory.release();  // freed by free_buffer
        return buffer;
    } catch (const std::exception &) {
        return nullptr;
    }
}

const char * type_name(ggml_backend_buffer_type_t) {
    return "EXPERTS";
}

ggml_backend_buffer_t type_alloc(ggml_backend_buffer_type_t, size_t size) {
    void * data = ::operator new(size == 0 ? alignment : size, std::align_val_t(alignment), std::nothrow);
    if (data == nullptr) {
        return nullptr;
    }
    ggml_backend_buffer_t buffer = new_buffer(data, size, true);
    if (buffer == nullptr) {
        ::operator delete(data, std::align_val_t(alignment));
    }
    return buffer;
}

size_t type_alignment(ggml_backend_buffer_type_t) {
    return alignment;
}

bool type_is_host(ggml_backend_buffer_type_t) {
    return true;
}

}  // namespace

ggml_backend_buffer_type_t buffer_type() {
    static ggml_backend_buffer_type type = [] {
        ggml_backend_buffer_type made = {};
        made.iface.get_name = type_name;
        made.iface.alloc_buffer = type_alloc;
        made.iface.get_alignment = type_alignment;
        made.iface.is_host = type_is_host;
        made.device = device();
        return made;
    }();
    return &type;
}

ggml_backend_buffer_t buffer_from_host(void * data, size_t size) {
    return new_buffer(data, size, false);
}

bool is_ours(const ggml_tensor * weights) {
    return weights != nullptr && weights->buffer != nullptr && weights->buffer->buft == buffer_type();
}

bool is_mapped(const ggml_tensor * weights) {
    return is_ours(weights) && !static_cast<const Memory *>(weights->buffer->context)->owned;
}

int32_t layer_of(const char * name) {
    int layer = -1;
    return std::sscanf(name, "blk.%d.", &layer) == 1 && layer >= 0 ? layer : -1;
}

}  // namespace expert_device
