// Misses that are copied over and computed on the GPU: which, by measured costs, and how, half an area at a time.
#include "compute.h"
#include "expert_device.h"

#include <algorithm>
#include <optional>

namespace expert_device {

namespace {

// Tokens from which a batch is divided anew as a whole: residents may be computed by the CPU too then.
constexpr int64_t least_tokens_divided = 16;
// Copying a miss over must promise this share of the layer's time: predictions err, and copies disturb.
constexpr double least_gain = 0.1;
constexpr int32_t experts_measured = 4;
constexpr int32_t rows_measured = 32;

// An expert of the batch that either side may compute.
struct Item {
    int32_t expert = 0;
    int32_t rows = 0;
    bool resident = false;
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
    for (const bool resident : {true, false}) {
        for (Item & item : items) {
            if (item.resident == resident && std::max(cpu - item.cpu_ns, gpu + item.gpu_ns) < std::max(cpu, gpu)) {
                cpu -= item.cpu_ns;
                gpu += item.gpu_ns;
                item.on_gpu = true;
            }
        }
        if (resident) {
            without_copies = std::max(cpu, gpu);
        }
    }
    if (std::max(cpu, gpu) > without_copies * (1 - least_gain)) {
        for (Item & item : items) {
            item.on_gpu = item.on_gpu && item.resident;
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

// Every expert's bytes must be readable in the file's layout to be copied at all.
bool readable(const Layer & layer) {
    return std::all_of(layer.tensors.begin(), layer.tensors.end(),
                       [](const ExpertTensor & tensor) { return tensor.data != nullptr; });
}

}  // namespace

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
        double begin_ns = 0;
        std::vector<Item> free_items;
        for (Item & item : items) {
            item.cpu_ns = scale * rates.cpu_ns(item.rows);
            item.gpu_ns = scale * (rates.gpu_ns(item.rows) + (item.resident ? 0 : rates.copy_ns));
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

bool stream(Pool & pool, Layer & layer, const Split & split, const std::vector<Pair> & pairs, std::vector<Rows> & rows,
            uint64_t & bytes) {
    const auto room = static_cast<size_t>(pool.prepare_staging(layer));
    size_t side = 0;
    std::vector<Pair> part;
    std::vector<int32_t> places;
    try {
        for (size_t begin = 0; begin < pairs.size(); side = 1 - side) {
            const Slab & half = layer.staging[side];
            // The other half may still be computed from; this one no longer is: a launch waits for the one before.
            part.clear();
            places.clear();
            int32_t place = -1;
            size_t end = begin;
            for (; end < pairs.size() && part.size() < pool.pairs_at_once(); ++end) {
                if (end == begin || pairs[end].expert != pairs[end - 1].expert) {
                    if (static_cast<size_t>(place + 1) == room) {
                        break;
                    }
                    ++place;
                    if (!copy_pieces(layer.pieces(half, pairs[end].expert, place))) {
                        return false;
                    }
                    bytes += layer.expert_bytes();
                }
                part.push_back(pairs[end]);
                places.push_back(place);
            }
            begin = end;
            clear_next(layer, half, place + 1, room);
            ggml_backend_synchronize(pool.backend());
            rows.emplace_back();
            if (!launch(pool, pool.stream_arena, split, layer.in_order(half, split.weights), part, places,
                        rows.back())) {
                return false;
            }
        }
        return true;
    } catch (...) {  // as in `launch`
        return false;
    }
}

void measure_rates(Context & context, Layer & layer, Pool & pool) {
    Rates & rates = pool.rates;
    const Split & split = *context.split;
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
