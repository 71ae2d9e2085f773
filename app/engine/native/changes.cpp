// What other threads change about a context's pools: sizes, pins, policy, heat. Taken over between two splits.
#include "expert_device.h"
#include "internal.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace expert_device {

namespace {

bool between(float value, float least, float most) {
    return std::isfinite(value) && value >= least && value <= most;
}

// Where the layer's tensors lie in the file, for those that are not in a mapping of ours.
bool find_sources(Context & context, Layer & layer, std::string & missing) {
    for (ExpertTensor & tensor : layer.tensors) {
        if (tensor.data == nullptr) {
            tensor.data = context.sources.find(tensor.tensor->name, ggml_nbytes(tensor.tensor));
        }
        if (tensor.data == nullptr) {
            missing = tensor.tensor->name;
            return false;
        }
    }
    return true;
}

// A pool that is given and can hold nothing says so, and one whose copies are not as fast as was asked for.
void remark_what_lacks(const Context & context, Pool & pool) {
    int32_t slots = 0;
    uint64_t least = 0;
    bool any = false;
    for (const auto & [index, layer] : context.layers) {
        if (layer->device == pool.name() && !layer->tensors.empty()) {
            slots += layer->policy.slots();
            least = any ? std::min(least, layer->expert_bytes()) : layer->expert_bytes();
            any = true;
        }
    }
    if (!any && pool.requested > 0) {
        pool.remark("No expert layer belongs to " + pool.name() + ".");
    } else if (slots == 0 && pool.requested > 0) {
        pool.remark("The pool is smaller than one expert, which takes " + std::to_string(least) + " bytes.");
    } else if (const std::string words = pool.locks.shortfall(pool.name()); !words.empty()) {
        pool.remark(words);
    }
}

// Why experts of the mapped file are not page-locked: whole tensors would be, in memory and for good, beside a budget
// for some. Empty where they may be.
std::string why_not_locked(const DiskLane & disk) {
    return disk.holds_some() ? "main memory may keep " + std::to_string(disk.budget()) + " of their " +
                                   std::to_string(disk.total()) + " bytes."
                             : "";
}

// After a change of what main memory may hold. What may be locked now is so by the next set_pool.
void let_locks_go(Context & context) {
    const std::string because = why_not_locked(context.disk);
    for (const auto & [name, pool] : context.pools) {
        if (because.empty() && !pool->locks.spares_mapped()) {
            continue;
        }
        pool->locks.spare_mapped(because.empty() ? "its pool was set while not all of them could stay in main memory."
                                                 : because);
        for (const auto & [index, layer] : context.layers) {
            if (layer->device == name) {
                pool->copier.wait_for(index);
                pool->lock_host(*layer);
            }
        }
        if (pool->result() == EXPERT_DEVICE_OK) {
            pool->forget_failure();
            remark_what_lacks(context, *pool);
        }
    }
}

int32_t resize_layers(Context & context, Pool & pool, uint64_t bytes) {
    std::map<int32_t, int32_t> slots;
    {
        std::lock_guard<std::mutex> lock(context.mutex);
        slots = pool.allot(context.layers, bytes);
    }
    // First what shrinks: beside the larger of the two sizes there is one layer's slab more at most.
    for (const bool shrinking : {true, false}) {
        for (const auto & [index, wanted] : slots) {
            std::lock_guard<std::mutex> lock(context.mutex);
            Layer & layer = *context.layers.at(index);
            if ((wanted < layer.policy.slots()) != shrinking) {
                continue;
            }
            std::string missing;
            if (!find_sources(context, layer, missing) && wanted > 0) {
                pool.fail(EXPERT_DEVICE_NO_SOURCE, "The bytes of " + missing + " are in no file that was given.");
                return pool.result();
            }
            take_copies(context, pool);
            if (!pool.resize(layer, wanted, context.settings)) {
                return pool.result();
            }
            pool.lock_host(layer);
            fill_slots(context, layer);
        }
    }
    return EXPERT_DEVICE_OK;
}

}  // namespace

void publish_all(Context & context) {
    for (const auto & [index, layer] : context.layers) {
        context.facts.publish(index, layer->policy);
    }
}

bool valid(const expert_device_policy & settings) {
    return settings.kind >= EXPERT_DEVICE_LRU && settings.kind <= EXPERT_DEVICE_MANUAL && settings.insert_cap >= 1 &&
           settings.window >= 0 && settings.decay > 0.0F && between(settings.decay, 0.0F, 1.0F) &&
           between(settings.margin, 1.0F, 1e9F) && between(settings.threshold, 0.0F, 1e9F) &&
           settings.stream >= EXPERT_DEVICE_STREAM_OFF && settings.stream <= EXPERT_DEVICE_STREAM_ALWAYS;
}

void take_copies(Context & context, Pool & pool) {
    for (const CopyJob & job : pool.take_done(context.layers)) {
        const auto layer = context.layers.find(job.layer);
        if (layer != context.layers.end()) {
            context.facts.publish(job.layer, layer->second->policy);
        }
    }
}

void fill_slots(Context & context, Layer & layer) {
    const auto pool = context.pools.find(layer.device);
    if (pool != context.pools.end() && pool->second->usable() && layer.policy.slots() > 0) {
        std::vector<Insert> inserts;
        layer.policy.fill(context.settings, layer.experts(), inserts);
        for (const Insert & insert : inserts) {
            context.facts.add_insert(context.phase.load(), layer.expert_bytes(), insert.evicted >= 0);
        }
        pool->second->copy_in(layer, inserts);
        if (context.settings.wait_for_copies != 0) {
            pool->second->copier.wait_for(layer.index);
            take_copies(context, *pool->second);
        }
    }
    context.facts.publish(layer.index, layer.policy);
}

void apply_pending(Context & context) {
    if (!context.has_pending.load()) {
        return;
    }
    Pending changes;
    {
        std::lock_guard<std::mutex> lock(context.pending_mutex);
        std::swap(changes, context.pending);
        context.has_pending.store(false);
    }
    if (changes.settings) {
        context.settings = *changes.settings;
    }
    if (changes.most_locked) {
        context.disk.set_most_locked(*changes.most_locked);
    }
    if (changes.resident_bytes) {
        context.disk.set_budget(context.layers, *changes.resident_bytes);
        let_locks_go(context);
    }
    if (changes.release) {
        context.disk.release(context.layers);
    }
    if (changes.warm_up) {
        context.disk.warm_up(context.layers);
    }
    std::vector<int32_t> touched;
    for (const expert_device_pin_entry & entry : changes.pins) {
        const auto layer = context.layers.find(entry.layer);
        if (layer == context.layers.end() || entry.expert >= layer->second->experts()) {
            continue;
        }
        layer->second->policy.set_pin(entry.expert, entry.pin);
        if (touched.empty() || touched.back() != entry.layer) {
            touched.push_back(entry.layer);
        }
    }
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (const int32_t index : touched) {
        fill_slots(context, *context.layers.at(index));
    }
}

void change_soon(Context & context) {
    // Whoever holds the lock now comes here when it has let go.
    while (context.has_pending.load()) {
        std::unique_lock<std::mutex> lock(context.mutex, std::try_to_lock);
        if (!lock.owns_lock()) {
            return;
        }
        apply_pending(context);
    }
}

int32_t set_pins(Context & context, const expert_device_pin_entry * entries, int32_t n) {
    // `routing` knows the layers without the lock that a long split holds.
    for (int32_t i = 0; i < n; ++i) {
        const int32_t experts = context.routing.experts_of(entries[i].layer);
        if (entries[i].expert < 0 || entries[i].expert >= experts || entries[i].pin < EXPERT_DEVICE_AUTO ||
            entries[i].pin > EXPERT_DEVICE_PIN_CPU) {
            return EXPERT_DEVICE_BAD_ARGUMENT;
        }
    }
    {
        std::lock_guard<std::mutex> lock(context.pending_mutex);
        context.pending.pins.insert(context.pending.pins.end(), entries, entries + n);
        context.has_pending.store(true);
    }
    change_soon(context);
    return EXPERT_DEVICE_OK;
}

int32_t set_heat(Context & context, int32_t index, const float * heat, int32_t experts) {
    std::lock_guard<std::mutex> lock(context.mutex);
    const auto layer = context.layers.find(index);
    if (layer == context.layers.end() || layer->second->experts() != experts) {
        return EXPERT_DEVICE_BAD_ARGUMENT;
    }
    for (int32_t i = 0; i < experts; ++i) {
        if (!std::isfinite(heat[i]) || heat[i] < 0.0F) {
            return EXPERT_DEVICE_BAD_ARGUMENT;
        }
    }
    layer->second->policy.set_heat(heat);
    fill_slots(context, *layer->second);
    return EXPERT_DEVICE_OK;
}

void set_layer_device(Context & context, int32_t index, const std::string & device) {
    std::lock_guard<std::mutex> lock(context.mutex);
    if (index < 0) {
        context.default_device = device;
        context.layer_devices.clear();
    } else {
        context.layer_devices[index] = device;
    }
    for (const auto & [at, layer] : context.layers) {
        if ((index >= 0 && at != index) || layer->device == device) {
            continue;
        }
        const auto pool = context.pools.find(layer->device);
        if (pool != context.pools.end()) {  // its slots there are given up
            take_copies(context, *pool->second);
            pool->second->resize(*layer, 0, context.settings);
            pool->second->give_up_staging(*layer);
            pool->second->locks.unlock(*layer);
        }
        layer->unstreamable = false;  // that was the other device's lack
        layer->device = device;
    }
    publish_all(context);
}

int32_t set_pool(Context & context, const std::string & device, uint64_t pool_bytes, uint64_t staging_bytes) {
    std::lock_guard<std::mutex> one_at_a_time(context.control);
    Pool * pool = nullptr;
    {
        std::lock_guard<std::mutex> lock(context.mutex);
        if (context.layers.empty()) {
            return EXPERT_DEVICE_NOT_READY;
        }
        auto & found = context.pools[device];
        if (!found && pool_bytes == 0 && staging_bytes == 0) {
            context.pools.erase(device);
            return ggml_backend_dev_by_name(device.c_str()) != nullptr ? EXPERT_DEVICE_OK : EXPERT_DEVICE_NO_DEVICE;
        }
        if (!found) {
            try {
                found = Pool::open(device, context.n_threads);
            } catch (...) {  // a backend's own exceptions while it starts
                found.reset();
            }
            if (!found) {
                context.pools.erase(device);
                return EXPERT_DEVICE_NO_DEVICE;
            }
        }
        pool = found.get();
        pool->requested = pool_bytes;
        pool->locks.set_most(pool_bytes == 0 && staging_bytes == 0 ? 0 : context.lock_bytes);
        pool->locks.spare_mapped(why_not_locked(context.disk));
        if (pool->usable()) {
            pool->forget_failure();
        } else if (pool_bytes > 0 || staging_bytes > 0) {
            return pool->result();  // a device that failed is not trusted again in this context
        }
    }
    int32_t result = resize_layers(context, *pool, pool_bytes);
    std::lock_guard<std::mutex> lock(context.mutex);
    for (const auto & [index, layer] : context.layers) {
        std::string missing;
        if (layer->device == device) {
            find_sources(context, *layer, missing);  // streaming does without layers whose bytes are not known
        }
    }
    const bool given_up = pool_bytes == 0 && staging_bytes == 0;
    const bool staged = pool->usable() && pool->resize_staging(staging_bytes, context.layers);
    const bool reserved = pool->usable() && (given_up || pool->reserve_working(context.layers));
    if (result == EXPERT_DEVICE_OK && !(staged && reserved) && !given_up) {
        result = pool->result();
    }
    pool->rates = {};
    pool->trial = {};
    pool->used_ahead = 0;
    if (given_up || !pool->usable()) {
        pool->release(context.layers, context.settings);
        publish_all(context);
    }
    if (given_up) {
        context.pools.erase(device);  // the device's own memory for us goes with it
    } else if (result == EXPERT_DEVICE_OK) {
        remark_what_lacks(context, *pool);
    }
    return result;
}

}  // namespace expert_device
