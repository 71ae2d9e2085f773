// A ggml device "FAULTY" for tests: computes with the CPU backend in memory of its own type, and fails when told to.
#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <thread>

namespace {

// Not a std::exception: some drivers throw types of their own.
struct DeviceLost {};

// The tests' Python names them in this order.
enum Fault : int32_t {
    start,           // making a backend
    allocate,        // a buffer
    copy,            // into weights, before anything is written
    upload,          // into other tensors
    download,        // after half of the bytes were delivered, the rest being scribbled over
    compute_status,  // the graph ends with GGML_STATUS_FAILED
    compute_throw,   // after the graph was computed
    wait,            // synchronizing after a graph: where drivers report a lost device
    allocate_throw,  // a buffer, with an exception where drivers should answer that there is none
    clear,           // setting a buffer to one value
    host_throw,      // nothing of the device's: the processor runs out of memory while the device is at work
    lock,            // page-locking main memory is refused
    n_faults,
};

struct Counter {
    std::atomic<int32_t> left{0};  // calls until the one that fails; 0 for none
    std::atomic<int32_t> failed{0};

    bool due() {
        if (left.load() > 0 && left.fetch_sub(1) == 1) {
            failed.fetch_add(1);
            return true;
        }
        return false;
    }
};

std::array<Counter, n_faults> faults;
std::atomic<uint64_t> largest_buffer{UINT64_MAX};
std::atomic<int32_t> buffers_alive{0};
std::atomic<int32_t> refused_op{GGML_OP_COUNT};

std::atomic<int64_t> copy_microseconds{0};

// Backends that computed what was not waited for.
std::atomic<int32_t> unwaited{0};

// Main memory that is page-locked, by where it begins; and copies from memory that is so in part, an error on CUDA.
std::mutex locks_mutex;
std::map<const char *, size_t> locks;
std::atomic<int32_t> copies_locked{0}, copies_torn{0};

constexpr size_t alignment = 128;  // other than the CPU's

bool due(Fault fault) {
    return faults[static_cast<size_t>(fault)].due();
}

void note_copy(const char * begin, size_t size) {
    std::lock_guard<std::mutex> lock(locks_mutex);
    for (const auto & [from, bytes] : locks) {
        const bool apart = begin + size <= from || from + bytes <= begin;
        const bool within = from <= begin && begin + size <= from + bytes;
        copies_locked += within ? 1 : 0;
        copies_torn += apart || within ? 0 : 1;
    }
}

ggml_backend_dev_t device();
ggml_backend_buffer_type_t buffer_type();

// ---- memory ------------------------------------------------------------------------------------------

void buffer_free(ggml_backend_buffer_t buffer) {
    ::operator delete(buffer->context, std::align_val_t{alignment});
    buffers_alive.fetch_sub(1);
}

void * buffer_base(ggml_backend_buffer_t buffer) {
    return buffer->context;
}

void buffer_memset(ggml_backend_buffer_t, ggml_tensor * tensor, uint8_t value, size_t offset, size_t size) {
    std::memset(static_cast<char *>(tensor->data) + offset, value, size);
}

void buffer_set(ggml_backend_buffer_t buffer, ggml_tensor * tensor, const void * data, size_t offset, size_t size) {
    const bool into_weights = buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
    if (into_weights) {
        std::this_thread::sleep_for(std::chrono::microseconds(copy_microseconds.load()));
    }
    if (into_weights) {
        note_copy(static_cast<const char *>(data), size);
    }
    if (due(into_weights ? copy : upload)) {
        throw DeviceLost();
    }
    std::memcpy(static_cast<char *>(tensor->data) + offset, data, size);
}

void buffer_get(ggml_backend_buffer_t, const ggml_tensor * tensor, void * data, size_t offset, size_t size) {
    if (due(download)) {
        std::memcpy(data, static_cast<const char *>(tensor->data) + offset, size / 2);
        std::memset(static_cast<char *>(data) + size / 2, 0xff, size - size / 2);
        throw DeviceLost();
    }
    std::memcpy(data, static_cast<const char *>(tensor->data) + offset, size);
}

void buffer_clear(ggml_backend_buffer_t buffer, uint8_t value) {
    if (due(clear)) {
        throw DeviceLost();
    }
    std::memset(buffer->context, value, buffer->size);
}

ggml_backend_buffer_i buffer_interface() {
    ggml_backend_buffer_i face = {};
    face.free_buffer = buffer_free;
    face.get_base = buffer_base;
    face.memset_tensor = buffer_memset;
    face.set_tensor = buffer_set;
    face.get_tensor = buffer_get;
    face.clear = buffer_clear;
    return face;
}

const char * type_name(ggml_backend_buffer_type_t) {
    return "FAULTY";
}

ggml_backend_buffer_t type_alloc(ggml_backend_buffer_type_t type, size_t size) {
    if (due(allocate_throw)) {
        throw DeviceLost();
    }
    if (due(allocate) || size > largest_buffer.load()) {
        return nullptr;
    }
    void * memory = ::operator new(size, std::align_val_t{alignment}, std::nothrow);
    if (memory == nullptr) {
        return nullptr;
    }
    std::memset(memory, 0xff, size);  // NaNs: what is read before it is written shows
    buffers_alive.fetch_add(1);
    return ggml_backend_buffer_init(type, buffer_interface(), memory, size);
}

size_t type_alignment(ggml_backend_buffer_type_t) {
    return alignment;
}

ggml_backend_buffer_type_t buffer_type() {
    static ggml_backend_buffer_type type = [] {
        ggml_backend_buffer_type made = {};
        made.iface.get_name = type_name;
        made.iface.alloc_buffer = type_alloc;
        made.iface.get_alignment = type_alignment;
        made.device = device();
        return made;
    }();
    return &type;
}

// ---- computing ---------------------------------------------------------------------------------------

struct Stream {
    ggml_backend_t cpu;
    std::atomic<bool> computed{false};  // and not waited for
};

Stream & stream_of(ggml_backend_t backend) {
    return *static_cast<Stream *>(backend->context);
}

const char * backend_name(ggml_backend_t) {
    return "FAULTY";
}

void backend_free(ggml_backend_t backend) {
    unwaited -= stream_of(backend).computed ? 1 : 0;
    ggml_backend_free(stream_of(backend).cpu);
    delete &stream_of(backend);
    delete backend;
}

ggml_status backend_compute(ggml_backend_t backend, ggml_cgraph * graph) {
    if (due(compute_status)) {
        return GGML_STATUS_FAILED;
    }
    const ggml_status status = ggml_backend_graph_compute(stream_of(backend).cpu, graph);
    if (due(compute_throw)) {
        throw DeviceLost();
    }
    unwaited += stream_of(backend).computed.exchange(true) ? 0 : 1;
    return status;
}

// Delivers at once; that all went well is known after the wait only, as with drivers that work asynchronously.
void backend_get(ggml_backend_t, const ggml_tensor * tensor, void * data, size_t offset, size_t size) {
    buffer_get(tensor->buffer, tensor, data, offset, size);
}

void backend_synchronize(ggml_backend_t backend) {
    if (stream_of(backend).computed.exchange(false)) {
        --unwaited;
        if (due(wait)) {
            throw DeviceLost();
        }
    }
}

ggml_backend_t device_init(ggml_backend_dev_t, const char *) {
    if (due(start)) {
        throw DeviceLost();
    }
    static ggml_guid guid = {0x66, 0x61, 0x75, 0x6c, 0x74, 0x79, 0x20, 0x64, 0x65, 0x76, 0x69, 0x63, 0x65, 0x2e, 0x2e, 0x2e};
    ggml_backend_t cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr);
    if (cpu == nullptr) {
        return nullptr;
    }
    auto set_threads = reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(ggml_backend_get_device(cpu)), "ggml_backend_set_n_threads"));
    if (set_threads != nullptr) {
        set_threads(cpu, 1);
    }
    ggml_backend_i face = {};
    face.get_name = backend_name;
    face.free = backend_free;
    face.graph_compute = backend_compute;
    face.synchronize = backend_synchronize;
    face.get_tensor_async = backend_get;
    return new ggml_backend{&guid, face, device(), new Stream{cpu}};
}

// ---- device and registry -----------------------------------------------------------------------------

const char * device_name(ggml_backend_dev_t) {
    return "FAULTY";
}

void device_memory(ggml_backend_dev_t, size_t * free, size_t * total) {
    *free = *total = size_t{1} << 30;
}

// A GPU: llama.cpp uses it only where it is in the list of devices that a model is given.
enum ggml_backend_dev_type device_type(ggml_backend_dev_t) {
    return GGML_BACKEND_DEVICE_TYPE_GPU;
}

void device_props(ggml_backend_dev_t dev, ggml_backend_dev_props * props) {
    *props = {};
    props->name = device_name(dev);
    props->description = device_name(dev);
    props->type = device_type(dev);
    device_memory(dev, &props->memory_free, &props->memory_total);
}

ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t) {
    return buffer_type();
}

bool device_supports_op(ggml_backend_dev_t, const ggml_tensor * op) {
    return op->op != refused_op.load();
}

bool device_supports_type(ggml_backend_dev_t, ggml_backend_buffer_type_t type) {
    return type == buffer_type();
}

size_t registry_count(ggml_backend_reg_t) {
    return 1;
}

const char * registry_name(ggml_backend_reg_t) {
    return "FAULTY";
}

ggml_backend_dev_t registry_device(ggml_backend_reg_t, size_t) {
    return device();
}

bool register_host_buffer(void * begin, size_t size) {
    if (due(lock)) {
        return false;
    }
    std::lock_guard<std::mutex> guard(locks_mutex);
    return locks.emplace(static_cast<const char *>(begin), size).second;
}

void unregister_host_buffer(void * begin) {
    std::lock_guard<std::mutex> guard(locks_mutex);
    locks.erase(static_cast<const char *>(begin));
}

void * registry_function(ggml_backend_reg_t, const char * name) {
    if (std::strcmp(name, "ggml_backend_register_host_buffer") == 0) {
        return reinterpret_cast<void *>(register_host_buffer);
    }
    if (std::strcmp(name, "ggml_backend_unregister_host_buffer") == 0) {
        return reinterpret_cast<void *>(unregister_host_buffer);
    }
    return nullptr;
}

ggml_backend_reg_t registry() {
    static ggml_backend_reg reg = [] {
        ggml_backend_reg made = {};
        made.api_version = GGML_BACKEND_API_VERSION;
        made.iface.get_name = registry_name;
        made.iface.get_device_count = registry_count;
        made.iface.get_device = registry_device;
        made.iface.get_proc_address = registry_function;
        return made;
    }();
    return &reg;
}

ggml_backend_dev_t device() {
    static ggml_backend_device dev = [] {
        ggml_backend_device made = {};
        made.iface.get_name = device_name;
        made.iface.get_description = device_name;
        made.iface.get_memory = device_memory;
        made.iface.get_type = device_type;
        made.iface.get_props = device_props;
        made.iface.init_backend = device_init;
        made.iface.get_buffer_type = device_buffer_type;
        made.iface.supports_op = device_supports_op;
        made.iface.supports_buft = device_supports_type;
        made.reg = registry();
        return made;
    }();
    return &dev;
}

}  // namespace

extern "C" {

// Makes the device known to ggml; once a process.
void faulty_register(void) {
    ggml_backend_register(registry());
}

// The `nth` call from now fails, 1 being the next; 0 for none.
void faulty_fail(int32_t fault, int32_t nth) {
    faults[static_cast<size_t>(fault)].left = nth;
}

// How often it failed so far.
int32_t faulty_failed(int32_t fault) {
    return faults[static_cast<size_t>(fault)].failed.load();
}

// Buffers of more bytes are refused.
void faulty_refuse_above(uint64_t bytes) {
    largest_buffer = bytes;
}

// A slow bus: each copy into weights takes so long.
void faulty_slow_copies(int64_t microseconds) {
    copy_microseconds = microseconds;
}

// Buffers that were given and not taken back.
int32_t faulty_buffers(void) {
    return buffers_alive.load();
}

// Backends with work that nobody waited for.
int32_t faulty_unwaited(void) {
    return unwaited.load();
}

// Bytes that are page-locked now.
uint64_t faulty_locked(void) {
    std::lock_guard<std::mutex> guard(locks_mutex);
    uint64_t sum = 0;
    for (const auto & range : locks) {
        sum += range.second;
    }
    return sum;
}

// Copies into weights from page-locked memory, and those from memory that is so in part; since the start.
int32_t faulty_copies_locked(void) {
    return copies_locked.load();
}

int32_t faulty_copies_torn(void) {
    return copies_torn.load();
}

// An abort callback for the processor's computing: it never aborts, but it may fail while the device is at work.
bool faulty_host_callback(void *) {
    if (unwaited.load() > 0 && due(host_throw)) {
        throw std::bad_alloc();
    }
    return false;
}

// The op of that name is not supported from now on; all are where it names none.
void faulty_refuse_op(const char * name) {
    int32_t op = 0;
    while (op < GGML_OP_COUNT && std::string(ggml_op_name(static_cast<ggml_op>(op))) != name) {
        ++op;
    }
    refused_op = op;
}

}  // extern "C"
