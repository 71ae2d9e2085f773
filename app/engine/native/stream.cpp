// Misses that are copied over and computed on the GPU: which, by measured costs, and how, half an area at a time.
#include "compute.h"
#include "expert_device.h"

#include <algorithm>
#include <optional>

namespace expert_device {

namespace {

// Copying a miss over must promise this share of the layer's time: predictions err, and copies disturb.
constexpr double least_gain = 0.1;
constexpr int32_t experts_measured = 4;
constexpr int32_t rows_measured = 32;

// An expert of the batch that either side may compute.
struct Item {
    int32_t expert = 0;
    int32_t rows = 0;
    bool resident = false;
    bool there = false;  // resident, or copied ahead: nothing is to be copied
    bool on_gpu = false;
    double cpu_ns = 0, gpu_ns = 0;
};

// Moves items to the GPU as long as the later of the two sides gets earlier, best ratios first.
void balance(std::vector<Item> & items, double gpu_begin_ns) {
    double cpu = 0, gpu = gpu_begin_ns;
    for (const Item & item : items) {
        cpu += item.cpu_ns;
    }
    const double before = std::max(cpu, gpu);
    std::sort(items.begin(), items.end(), [](const Item & a, const Item & b) {
        const double left = a.gpu_ns * b.cpu_ns, right = b.gpu_ns * a.cpu_ns;
        return left != right ? left < right : a.expert < b.expert;
    });
    double without_copies = before;
    for (const bool there : {true, false}) {
        for (Item & item : items) {
            if (item.there == there && std::max(cpu - item.cpu_ns, gpu + item.gpu_ns) < std::max(cpu, gpu)) {
                cpu -= item.cpu_ns;
                gpu += item.gpu_ns;
                item.on_gpu = true;
            }
        }
        if (there) {
            without_copies = std::max(cpu, gpu);
        }
    }
    if (std::max(cpu, gpu) > without_copies * (1 - least_gain)) {
        for (Item & item : items) {
            item.on_gpu = item.on_gpu && item.there;
        }
    }
}

// How many rows each expert of the batch has; experts of no rows are left out.
void list_items(const Context & context, const Layer & layer, std::vector<Item> & items) {
    static thread_local std::vector<int32_t> rows;
    rows.assign(static_cast<size_t>(layer.experts()), 0);
    for (const Pair & pair : context.pairs) {
        ++rows[static_cast<size_t>(pair.expert)];
    }
    items.clear();
    for (int32_t expert = 0; expert < layer.experts(); ++expert) {
        if (rows[static_cast<size_t>(expert)] > 0) {
            Item item;
            item.expert = expert;
            item.rows = rows[static_cast<size_t>(expert)];
            item.resident = layer.policy.ready_slot(expert) >= 0;
            items.push_back(item);
        }
    }
}

// What follows the last expert may be read and multiplied by zero: bytes of another layer could be a NaN there.
void clear_next(const Layer & layer, const Slab & half, int32_t place, size_t room) {
    constexpr size_t most_read_past = 512;
    for (size_t i = 0; static_cast<size_t>(place) < room && i < layer.tensors.size(); ++i) {
        const ExpertTensor & tensor = layer.tensors[i];
        if (ggml_is_quantized(tensor.type)) {
            const size_t at = static_cast<size_t>(place) * tensor.bytes;
            ggml_backend_tensor_memset(half.tensors[i], 0, at, std::min<size_t>(tensor.bytes, most_read_past));
        }
    }
}

}  // namespace

bool readable(const Layer & layer) {
    return std::all_of(layer.tensors.begin(), layer.tensors.end(),
                       [](const ExpertTensor & tensor) { return tensor.data != nullptr; });
}

void divide(Context & context, Layer & layer, Pool & pool, int32_t phase, Division & out) {
    static thread_local std::vector<Item> items;
    static thread_local std::vector<uint8_t> side;  // by expert
    enum : uint8_t { cpu, slot, streamed };
    list_items(context, layer, items);
    const Rates & rates = pool.rates;
    const bool can_stream = context.settings.stream != EXPERT_DEVICE_STREAM_OFF && pool.staging_bytes() > 0 &&
                            readable(layer) && pool.prepare_staging(layer) > 0;
    side.assign(static_cast<size_t>(layer.experts()), cpu);
    if (can_stream && context.settings.stream == EXPERT_DEVICE_STREAM_AUTO && rates.known) {
        const bool anew = phase != EXPERT_DEVICE_DECODE && context.split->tokens() >= least_tokens_divided;
        const double scale = static_cast<double>(layer.expert_bytes()) / rates.copy_bytes;
        const auto ahead = pool.ahead.experts().begin();
        const auto ahead_end = ahead + static_cast<std::ptrdiff_t>(pool.ahead.there(layer.index));
        double begin_ns = 0;
        std::vector<Item> free_items;
        for (Item & item : items) {
            item.cpu_ns = scale * rates.cpu_ns(item.rows);
            item.there = item.resident || std::find(ahead, ahead_end, item.expert) != ahead_end;
            item.gpu_ns = scale * (rates.gpu_ns(item.rows) + (item.there ? 0 : rates.copy_ns));
            if (item.resident && !anew) {
                begin_ns += item.gpu_ns;
                side[static_cast<size_t>(item.expert)] = slot;
            } else {
                free_items.push_back(item);
            }
        }
        balance(free_items, begin_ns);
        for (const Item & item : free_items) {
            if (item.on_gpu) {
                side[static_cast<size_t>(item.expert)] = item.resident ? slot : streamed;
            }
        }
    } else {
        for (const Item & item : items) {
            const bool all = can_stream && context.settings.stream == EXPERT_DEVICE_STREAM_ALWAYS;
            side[static_cast<size_t>(item.expert)] = item.resident ? slot : all ? streamed : cpu;
        }
    }
    out.resident.clear();
    out.streamed.clear();
    out.on_cpu.clear();
    for (const Pair & pair : context.pairs) {
        const uint8_t where = side[static_cast<size_t>(pair.expert)];
        (where == slot ? out.resident : where == streamed ? out.streamed : out.on_cpu).push_back(pair);
    }
    std::stable_sort(out.streamed.begin(), out.streamed.end(),
                     [](const Pair & a, const Pair & b) { return a.expert < b.expert; });
}

namespace {

// Sends parts of a layer's pairs to the device, each from one half of the staging area.
class Streamer {
  public:
    Streamer(Pool & pool, Layer & layer, const Split & split, std::vector<Rows> & rows, uint64_t & bytes)
        : pool_(pool), layer_(layer), split_(split), rows_(rows), bytes_(bytes),
          room_(static_cast<size_t>(pool.prepare_staging(layer))) {}

    // Computes what was copied ahead; `pairs` keeps the others. False when the device failed.
    bool from_ahead(std::vector<Pair> & pairs) {
        const CopyAhead::Half half = pool_.ahead.take();
        if (!half.ok) {
            return false;
        }
        if (half.layer != layer_.index || half.experts.empty()) {
            return true;
        }
        bytes_ += half.experts.size() * layer_.expert_bytes();
        side_ = half.side;
        std::vector<Pair> others;
        std::vector<bool> used(half.experts.size());
        for (const Pair & pair : pairs) {
            const auto found = std::find(half.experts.begin(), half.experts.end(), pair.expert);
            if (found == half.experts.end()) {
                others.push_back(pair);
                continue;
            }
            if (part_.size() == pool_.pairs_at_once() && !send(half.experts.size())) {
                return false;
            }
            const auto place = found - half.experts.begin();
            used[static_cast<size_t>(place)] = true;
            part_.push_back(pair);
            places_.push_back(static_cast<int32_t>(place));
        }
        pairs = std::move(others);
        if (part_.empty()) {
            return true;
        }
        pool_.used_ahead += static_cast<uint64_t>(std::count(used.begin(), used.end(), true));
        const bool sent = send(half.experts.size());
        side_ = 1 - side_;
        return sent;
    }

    // Copies the experts of `pairs`, which are grouped by expert, and computes them, one half after the other.
    bool copying(const std::vector<Pair> & pairs) {
        for (size_t begin = 0; begin < pairs.size(); side_ = 1 - side_) {
            // The other half may still be computed from; this one no longer is: sending waits for what was sent before.
            int32_t place = -1;
            size_t end = begin;
            for (; end < pairs.size() && part_.size() < pool_.pairs_at_once(); ++end) {
                if (end == begin || pairs[end].expert != pairs[end - 1].expert) {
                    if (static_cast<size_t>(place + 1) == room_) {
                        break;
                    }
                    ++place;
                    if (!copy_pieces(layer_.pieces(layer_.staging[side_], pairs[end].expert, place))) {
                        return false;
                    }
                    bytes_ += layer_.expert_bytes();
                }
                part_.push_back(pairs[end]);
                places_.push_back(place);
            }
            begin = end;
            if (!send(static_cast<size_t>(place + 1))) {
                return false;
            }
        }
        return true;
    }

    // The half that nothing which was sent may still be computed from.
    size_t free_side() const { return side_; }

  private:
    Pool & pool_;
    Layer & layer_;
    const Split & split_;
    std::vector<Rows> & rows_;
    uint64_t & bytes_;
    const size_t room_;
    size_t side_ = 0;
    std::vector<Pair> part_;
    std::vector<int32_t> places_;

    // `part_` over the half `side_`, which holds so many experts.
    bool send(size_t held) {
        const Slab & half = layer_.staging[side_];
        clear_next(layer_, half, static_cast<int32_t>(held), room_);
        ggml_backend_synchronize(pool_.backend());
        rows_.emplace_back();
        const bool sent = launch(pool_, pool_.stream_arena, split_, layer_.in_order(half, split_.weights), part_,
                                 places_, rows_.back());
        part_.clear();
        places_.clear();
        return sent;
    }
};

// Distinct experts of pairs that are grouped by expert.
size_t count_experts(const std::vector<Pair> & pairs) {
    size_t n = 0;
    for (size_t i = 0; i < pairs.size(); ++i) {
        n += i == 0 || pairs[i].expert != pairs[i - 1].expert ? 1 : 0;
    }
    return n;
}

}  // namespace

Layer * layer_to_copy_ahead(Context & context, const Layer & layer, Pool & pool, const Division & division,
                            int32_t phase) {
    // A second CPU backend would take the cores that llama.cpp computes with meanwhile.
    if (pool.on_cpu() || phase != EXPERT_DEVICE_PROMPT || context.split->tokens() < least_tokens_divided ||
        division.streamed.empty() || !pool.trial.copies_ahead()) {
        return nullptr;
    }
    const auto next = context.layers.upper_bound(layer.index);
    const bool streams = next != context.layers.end() && next->second->device == pool.name() &&
                         !next->second->tensors.empty() && readable(*next->second);
    return streams && pool.prepare_staging(*next->second) > 0 ? next->second.get() : nullptr;
}

bool stream(Pool & pool, Layer & layer, const Split & split, const std::vector<Pair> & pairs, Layer * next,
            std::vector<Rows> & rows, uint64_t & bytes) {
    try {
        Streamer streamer(pool, layer, split, rows, bytes);
        std::vector<Pair> left = pairs;
        if (!streamer.from_ahead(left) || !streamer.copying(left)) {
            return false;
        }
        if (next == nullptr) {
            return true;
        }
        // As many as were streamed here, in the order in which they would be.
        const auto most = std::min(static_cast<size_t>(pool.prepare_staging(*next)), count_experts(pairs));
        const size_t side = streamer.free_side();
        std::vector<int32_t> experts;
        std::vector<std::vector<Piece>> pieces;
        for (int32_t expert = 0; expert < next->experts() && experts.size() < most; ++expert) {
            if (next->policy.ready_slot(expert) < 0) {
                pieces.push_back(next->pieces(next->staging[side], expert, static_cast<int32_t>(experts.size())));
                experts.push_back(expert);
            }
        }
        pool.ahead.plan(next->index, side, std::move(experts), std::move(pieces));
        pool.copier.start_ahead([&ahead = pool.ahead](const std::atomic<bool> & stop) { ahead.copy(stop); });
        return true;
    } catch (...) {  // as in `launch`
        return false;
    }
}

void measure_rates(Context & context, Layer & layer, Pool & pool) {
    Rates & rates = pool.rates;
    const Split & split = *context.split;
    pool.copier.stop_ahead();  // what follows writes to both halves
    pool.ahead.forget();
    const int32_t n =
        readable(layer) ? std::min({experts_measured, layer.experts() / 2, pool.prepare_staging(layer)}) : 0;
    if (n == 0 || layer.in_order(layer.staging[0], split.weights).empty()) {
        return;  // this layer cannot be streamed; another may be
    }
    rates.tried = true;
    // Each is run twice, with other experts: the first touches buffers and compiles shaders, and what it read is
    // in the processor's cache afterwards.
    std::vector<Pair> one_each[2], many(rows_measured, Pair{0, 0, 0});
    std::vector<int32_t> places, first_place(rows_measured, 0);
    for (int32_t i = 0; i < n; ++i) {
        one_each[0].push_back({0, 0, i});
        one_each[1].push_back({0, 0, n + i});
        places.push_back(i);
    }
    uint64_t copying = 0;
    bool copied = true, ok = true;
    const auto copy_all = [&] {
        for (const Slab & half : layer.staging) {
            const uint64_t begin = now_ns();
            for (const int32_t expert : places) {
                copied = copied && copy_pieces(layer.pieces(half, expert, expert));
            }
            copying = now_ns() - begin;
        }
    };
    const auto on_cpu = [&](const std::vector<Pair> & pairs) {
        const uint64_t begin = now_ns();
        Rows rows;
        ok = compute_on_cpu(context, split, pairs, rows) == GGML_STATUS_SUCCESS && ok;
        return static_cast<double>(now_ns() - begin);
    };
    const auto on_device = [&](const std::vector<Pair> & pairs, const std::vector<int32_t> & at) {
        uint64_t took = 0;
        for (int run = 0; run < 2 && ok; ++run) {
            const uint64_t begin = now_ns();
            Rows rows;
            try {
                pool.arena.reset();
                ok = launch(pool, pool.arena, split, layer.in_order(layer.staging[0], split.weights), pairs, at, rows);
                ggml_backend_synchronize(pool.backend());
            } catch (...) {  // as in `launch`
                ok = false;
            }
            took = now_ns() - begin;
        }
        return static_cast<double>(took);
    };
    double cpu_each = 0;
    {
        std::optional<TaskEnd> end;
        if (pool.on_cpu()) {
            copy_all();
        } else {
            pool.copier.start_task(copy_all);
            end.emplace(pool.copier);
        }
        on_cpu(one_each[0]);
        cpu_each = on_cpu(one_each[1]);
    }
    on_cpu(many);
    const double cpu_many = on_cpu(many);
    const double gpu_many = on_device(many, first_place);  // the larger first: the backend's own memory need not grow
    const double gpu_each = on_device(one_each[0], places);
    if (!ok || !copied) {
        pool.remark("What copying experts costs could not be measured: the processor computes those that are missing.");
        return;
    }
    rates.copy_bytes = static_cast<double>(layer.expert_bytes());
    rates.copy_ns = static_cast<double>(copying) / n;
    rates.cpu_first_ns = cpu_each / n;
    rates.cpu_next_ns = std::max(0.0, cpu_many - rates.cpu_first_ns) / (rows_measured - 1);
    rates.gpu_first_ns = gpu_each / n;
    rates.gpu_next_ns = std::max(0.0, gpu_many - rates.gpu_first_ns) / (rows_measured - 1);
    rates.known = true;
}

}  // namespace expert_device
