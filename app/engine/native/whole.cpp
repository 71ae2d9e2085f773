// A batch whose every pair the device computes, the sum over experts included: one row a token comes back. Experts that
// it lacks are brought together with those it has in the staging area, all of a layer in their order.
#include "compute.h"
#include "expert_device.h"
#include "weights.h"

#include <algorithm>
#include <cstring>

namespace expert_device {

namespace {

// Kernels read so much past an expert's last row at most, and multiply it by zero.
constexpr size_t most_read_past = 512;
constexpr char zeros[most_read_past] = {};

// The rows of `n` tokens from `first` on, as they lie in the batch.
void upload_input(Pool & pool, const ggml_tensor * input, ggml_tensor * to, int64_t first, int64_t n) {
    const size_t bytes = ggml_nbytes(to);
    const char * from = static_cast<const char *>(input->data) + static_cast<size_t>(first) * input->nb[2];
    if (!ggml_is_contiguous(input)) {
        const size_t row = ggml_row_size(input->type, input->ne[0]);
        char * packed = pool.arena.take(bytes);
        for (int64_t token = 0; token < n; ++token) {
            for (int64_t rank = 0; rank < input->ne[1]; ++rank) {
                std::memcpy(packed + static_cast<size_t>(token * input->ne[1] + rank) * row,
                            from + static_cast<size_t>(token) * input->nb[2] + static_cast<size_t>(rank) * input->nb[1],
                            row);
            }
        }
        from = packed;
    }
    ggml_backend_tensor_set_async(pool.backend(), to, from, 0, bytes);
}

// Fills places of a slab from main memory and from slots, in the order of the device's queue.
class Gatherer {
  public:
    Gatherer(Pool & pool, Layer & layer, const Slab & slab) : pool_(pool), layer_(layer), slab_(slab) {
        const size_t tensors = 2 * static_cast<size_t>(layer.experts()) * layer.tensors.size() + 1;
        views_.reset(ggml_init({tensors * ggml_tensor_overhead(), nullptr, true}));
    }

    // From main memory, experts first … end − 1: they lie side by side there and here.
    void copy(int32_t first, int32_t end) {
        for (const ExpertTensor & tensor : layer_.tensors) {
            map_pages(tensor.expert(first), static_cast<size_t>(end - first) * tensor.bytes);
        }
        for (const Piece & piece : layer_.pieces(slab_, first, first, end - first)) {
            ggml_backend_tensor_set_async(pool_.backend(), piece.to, piece.from, piece.offset, piece.bytes);
        }
    }

    // From the expert's slot.
    void move(int32_t expert, int32_t slot) {
        for (size_t i = 0; i < layer_.tensors.size(); ++i) {
            const ExpertTensor & tensor = layer_.tensors[i];
            ggml_backend_tensor_copy_async(
                pool_.backend(), pool_.backend(),
                one_expert(views_.get(), layer_.slots.tensors[i], tensor.bias, slot, tensor.bytes),
                one_expert(views_.get(), slab_.tensors[i], tensor.bias, expert, tensor.bytes));
        }
    }

    // What follows the last of a row of experts: bytes of another layer could be a NaN there.
    void clear(int32_t place) {
        for (size_t i = 0; i < layer_.tensors.size(); ++i) {
            const ExpertTensor & tensor = layer_.tensors[i];
            if (ggml_is_quantized(tensor.type)) {
                ggml_backend_tensor_set_async(pool_.backend(), slab_.tensors[i], zeros,
                                              static_cast<size_t>(place) * tensor.bytes,
                                              std::min<size_t>(tensor.bytes, most_read_past));
            }
        }
    }

  private:
    Pool & pool_;
    Layer & layer_;
    const Slab & slab_;
    ContextPtr views_;
};

}  // namespace

bool gather_layer(Pool & pool, Layer & layer, const std::vector<Pair> & pairs, uint64_t & bytes) {
    const Slab & slab = layer.whole;
    try {
        pool.copier.stop_ahead();  // it writes to the same area
        pool.ahead.forget();
        std::vector<uint8_t> routed(static_cast<size_t>(layer.experts()) + 1);
        for (const Pair & pair : pairs) {
            routed[static_cast<size_t>(pair.expert)] = 1;
        }
        Gatherer gatherer(pool, layer, slab);
        int32_t begin = -1;  // of experts that are copied from main memory at once
        for (int32_t expert = 0; expert <= layer.experts(); ++expert) {
            const bool wanted = routed[static_cast<size_t>(expert)] != 0;
            const int32_t slot = wanted ? layer.policy.ready_slot(expert) : -1;
            const bool missing = wanted && slot < 0;
            if (begin >= 0 && !missing) {
                gatherer.copy(begin, expert);
                bytes += static_cast<uint64_t>(expert - begin) * layer.expert_bytes();
                begin = -1;
            }
            if (missing && begin < 0) {
                begin = expert;
            }
            if (slot >= 0) {
                gatherer.move(expert, slot);
            } else if (!wanted && expert > 0 && routed[static_cast<size_t>(expert) - 1] != 0) {
                gatherer.clear(expert);
            }
        }
        return true;
    } catch (...) {  // backends throw types of their own when a device is lost
        return false;
    }
}

bool compute_whole(Pool & pool, const Split & split, const std::vector<ggml_tensor *> & weights,
                   const std::vector<int32_t> & places, SplitFacts & facts) {
    const uint64_t begin = now_ns();
    const int64_t top_k = split.top_k(), tokens = split.tokens();
    const int64_t at_once = std::max<int64_t>(static_cast<int64_t>(pool.pairs_at_once()) / top_k, 1);
    DeviceWork work(pool.backend());
    if (weights.empty()) {
        return false;
    }
    try {
        const size_t row = ggml_nbytes(split.tail_end) / static_cast<size_t>(tokens);
        char * result = pool.arena.take(row * static_cast<size_t>(tokens));
        uint64_t launched = begin;
        for (int64_t first = 0; first < tokens; first += at_once) {
            const int64_t n = std::min(at_once, tokens - first);
            // Working memory is the same for all parts: one part must be read before the next is written.
            if (first > 0 && !DeviceWork(pool.backend()).wait()) {
                return false;
            }
            Clone * clone = pool.clones.get(split.chain, weights, {top_k, n, false, true, true});
            if (clone == nullptr) {
                pool.out_of_memory = true;
                return false;
            }
            for (size_t i = 0; i < split.inputs.size(); ++i) {
                upload_input(pool, split.inputs[i], clone->inputs[i], first, n);
            }
            const size_t ids_bytes = static_cast<size_t>(n * top_k) * sizeof(int32_t);
            char * ids = pool.arena.take(ids_bytes);
            std::memcpy(ids, places.data() + first * top_k, ids_bytes);
            ggml_backend_tensor_set_async(pool.backend(), clone->ids, ids, 0, ids_bytes);
            if (first == 0) {
                launched = now_ns();
                facts.gather_ns += launched - begin;
            }
            if (ggml_backend_graph_compute_async(pool.backend(), clone->graph) != GGML_STATUS_SUCCESS) {
                return false;
            }
            ggml_backend_tensor_get_async(pool.backend(), clone->tail_end(), result + static_cast<size_t>(first) * row,
                                          0, static_cast<size_t>(n) * row);
        }
        if (!work.wait()) {
            return false;
        }
        // Not before all went well: the result may lie over an input that the processor would need.
        std::memcpy(split.tail_end->data, result, row * static_cast<size_t>(tokens));
        facts.gpu_ns += now_ns() - launched;
        facts.wait_ns += now_ns() - launched;
        return true;
    } catch (...) {  // as in `gather_layer`
        return false;
    }
}

}  // namespace expert_device
