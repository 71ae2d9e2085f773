// Expert weights: whose buffers they are in, and where the bytes of one expert lie in the file's layout.
#pragma once

#include "ggml-backend-impl.h"
#include "ggml.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace expert_device {

// True for a tensor in this device's buffers or in one of the CPU's own faster layouts.
bool is_expert_weight(const ggml_tensor * weights);
bool is_repacked(const ggml_tensor * weights);
// True for one that lies in memory which is not ours but a mapping of the model file.
bool is_mapped(const ggml_tensor * weights);
bool is_repack_type(ggml_backend_buffer_type_t type);

// The CPU's faster layout for the weights of this MUL_MAT_ID, or nullptr when it has none.
ggml_backend_buffer_type_t faster_type(const ggml_tensor * op);
bool cpu_would_repack(const ggml_tensor * op);

void set_residency(int32_t residency);
int32_t residency();

// A file mapped read-only.
class MappedFile {
  public:
    explicit MappedFile(const char * utf8_path);  // ok() tells
    ~MappedFile();
    MappedFile(const MappedFile &) = delete;
    MappedFile & operator=(const MappedFile &) = delete;

    bool ok() const { return data_ != nullptr; }
    const char * data() const { return static_cast<const char *>(data_); }
    uint64_t size() const { return size_; }

  private:
    void * data_ = nullptr;
    uint64_t size_ = 0;
#if defined(_WIN32)
    void * file_ = nullptr;
    void * mapping_ = nullptr;
#endif
};

// Where tensors lie in the model's files, by name. Used under the context's mutex.
class Sources {
  public:
    // False when the file cannot be mapped or is shorter than the tensor's end.
    bool add(const char * utf8_path, const char * tensor, uint64_t offset, uint64_t bytes);
    // The first byte of the tensor, or nullptr when it is not known with this size.
    const char * find(const char * tensor, uint64_t bytes) const;

  private:
    struct Place {
        const char * data;
        uint64_t bytes;
    };
    std::map<std::string, std::unique_ptr<MappedFile>> files_;
    std::map<std::string, Place> tensors_;
};

// Bytes of a file mapping that are read next: the system maps their pages at once, and not one at each fault.
void map_pages(const char * from, size_t bytes);

// One tensor of a layer's experts: gate, up, down, fused, or a bias.
struct ExpertTensor {
    const ggml_tensor * tensor = nullptr;
    ggml_type type = GGML_TYPE_F32;
    int64_t ne0 = 0, ne1 = 0;             // of one expert; ne1 is 1 for a bias
    bool bias = false;                    // [ne0, experts] instead of [ne0, ne1, experts]
    uint64_t bytes = 0;                   // of one expert
    const char * data = nullptr;          // expert 0 in the file's layout; null until found
    const char * locked_begin = nullptr;  // what of it is page-locked
    const char * locked_end = nullptr;

    const char * expert(int32_t index) const { return data + static_cast<uint64_t>(index) * bytes; }
};

ExpertTensor expert_tensor(const ggml_tensor * weights, bool bias);

}  // namespace expert_device
