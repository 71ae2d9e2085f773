// Blocks of host memory that are handed out in order and taken back all at once.
#include "arena.h"

#include "ggml-impl.h"

#include <algorithm>
#include <utility>

namespace expert_device {

namespace {

constexpr size_t arena_alignment = 256;
constexpr size_t first_block = 1 << 20;

}  // namespace

HostArena::HostArena(ggml_backend_dev_t device) : type_(ggml_backend_dev_host_buffer_type(device)) {}

void HostArena::add_block(size_t bytes) {
    Block block;
    block.size = bytes;
    if (type_ != nullptr) {
        block.locked.reset(ggml_backend_buft_alloc_buffer(type_, bytes));
    }
    if (block.locked) {
        block.data = static_cast<char *>(ggml_backend_buffer_get_base(block.locked.get()));
    } else {
        block.plain = std::make_unique<char[]>(bytes);
        block.data = block.plain.get();
    }
    blocks_.push_back(std::move(block));
}

char * HostArena::take(size_t bytes) {
    bytes = GGML_PAD(bytes, arena_alignment);
    while (current_ < blocks_.size() && used_ + bytes > blocks_[current_].size) {
        ++current_;
        used_ = 0;
    }
    if (current_ == blocks_.size()) {
        add_block(std::max(bytes, blocks_.empty() ? first_block : 2 * blocks_.back().size));
    }
    char * at = blocks_[current_].data + used_;
    used_ += bytes;
    return at;
}

void HostArena::reset() {
    current_ = 0;
    used_ = 0;
}

}  // namespace expert_device
