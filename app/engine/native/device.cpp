// The ggml device and its registry entry: an ACCEL device, so llama.cpp offers it expert tensors first.
#include "internal.h"
#include "weights.h"

#include <cstring>
#include <exception>

namespace expert_device {

namespace {

const char * device_name(ggml_backend_dev_t) {
    return "EXPERTS";
}

const char * device_description(ggml_backend_dev_t) {
    return "Expert Lanes: experts placed one by one";
}

void device_memory(ggml_backend_dev_t, size_t * free, size_t * total) {
    *free = 0;  // weights stay in the file mapping: no memory of its own
    *total = 0;
}

enum ggml_backend_dev_type device_type(ggml_backend_dev_t) {
    return GGML_BACKEND_DEVICE_TYPE_ACCEL;
}

void device_props(ggml_backend_dev_t dev, ggml_backend_dev_props * props) {
    props->name = device_name(dev);
    props->description = device_description(dev);
    props->type = device_type(dev);
    device_memory(dev, &props->memory_free, &props->memory_total);
    props->caps = {};
    props->caps.buffer_from_host_ptr = true;
    props->caps.mmap_support = true;
}

ggml_backend_t device_init(ggml_backend_dev_t, const char *) {
    try {
        return new_backend();
    } catch (const std::exception &) {
        return nullptr;  // llama.cpp reports that the backend could not be made
    }
}

ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t) {
    return buffer_type();
}

ggml_backend_buffer_t device_buffer_from_host(ggml_backend_dev_t, void * data, size_t size, size_t) {
    return buffer_from_host(data, size);
}

bool device_supports_op(ggml_backend_dev_t, const ggml_tensor * op) {
    return claims(op);
}

bool device_supports_buffer_type(ggml_backend_dev_t, ggml_backend_buffer_type_t type) {
    return ggml_backend_buft_is_host(type) || is_repack_type(type);
}

const char * registry_name(ggml_backend_reg_t) {
    return "EXPERTS";
}

size_t registry_count(ggml_backend_reg_t) {
    return 1;
}

ggml_backend_dev_t registry_device(ggml_backend_reg_t, size_t) {
    return device();
}

void * registry_function(ggml_backend_reg_t, const char * name) {
    if (std::strcmp(name, "ggml_backend_set_n_threads") == 0) {
        return reinterpret_cast<void *>(set_n_threads);
    }
    if (std::strcmp(name, "ggml_backend_set_abort_callback") == 0) {
        return reinterpret_cast<void *>(set_abort_callback);
    }
    return nullptr;
}

}  // namespace

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
        made.iface.get_description = device_description;
        made.iface.get_memory = device_memory;
        made.iface.get_type = device_type;
        made.iface.get_props = device_props;
        made.iface.init_backend = device_init;
        made.iface.get_buffer_type = device_buffer_type;
        made.iface.buffer_from_host_ptr = device_buffer_from_host;
        made.iface.supports_op = device_supports_op;
        made.iface.supports_buft = device_supports_buffer_type;
        made.reg = registry();
        return made;
    }();
    return &dev;
}

}  // namespace expert_device
