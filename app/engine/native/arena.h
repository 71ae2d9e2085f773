// Host memory for what travels to and from a device; page-locked where the device offers that.
#pragma once

#include "ggml-backend.h"
#include "layer.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace expert_device {

class HostArena {
  public:
    explicit HostArena(ggml_backend_dev_t device);
    // Valid until `reset`, which must not come before the device is done with it.
    char * take(size_t bytes);
    void reset();

  private:
    struct Block {
        BufferPtr locked;
        std::unique_ptr<char[]> plain;
        char * data = nullptr;
        size_t size = 0;
    };
    void add_block(size_t bytes);

    ggml_backend_buffer_type_t type_;
    std::vector<Block> blocks_;
    size_t current_ = 0;
    size_t used_ = 0;  // of the current block
};

}  // namespace expert_device
