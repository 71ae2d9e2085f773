// The C interface of the expert device. Every function may be called from any thread and never throws.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define EXPERT_DEVICE_API __declspec(dllexport)
#else
#define EXPERT_DEVICE_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

// Changes whenever a signature or the meaning of a value here does.
#define EXPERT_DEVICE_ABI 7

enum expert_device_result {
    EXPERT_DEVICE_OK = 0,
    EXPERT_DEVICE_WRONG_GGML = 1,  // running ggml is not the one this library was built for
    EXPERT_DEVICE_NO_CPU = 2,      // no CPU backend is registered: load ggml's backends first
    EXPERT_DEVICE_NO_CONTEXT = 3,  // no such context (never made, or freed)
    EXPERT_DEVICE_BAD_ARGUMENT = 4,
    EXPERT_DEVICE_NO_DEVICE = 5,       // no ggml device of that name, or it cannot be started
    EXPERT_DEVICE_NOT_READY = 6,       // the context has computed no expert layer yet: decode a token first
    EXPERT_DEVICE_NO_MEMORY = 7,       // the device refused the allocation
    EXPERT_DEVICE_UNSUPPORTED = 8,     // the device cannot compute these experts
    EXPERT_DEVICE_NO_SOURCE = 9,       // a repacked tensor's bytes are in no file that was given
    EXPERT_DEVICE_DEVICE_FAILED = 10,  // the device failed while computing or copying: its pool is off
};

enum expert_device_phase {
    EXPERT_DEVICE_PROMPT = 0,  // routings count as prompt's
    EXPERT_DEVICE_DECODE = 1,  // routings count as the answer's: these make the heat
    EXPERT_DEVICE_IGNORE = 2,  // routings are not counted (warm-up)
};

enum expert_device_residency {
    EXPERT_DEVICE_MAPPED = 0,    // experts stay in the file mapping
    EXPERT_DEVICE_REPACKED = 1,  // tensors that the CPU has a faster layout for are copied into it, as stock does
};

enum expert_device_policy_kind {
    EXPERT_DEVICE_LRU = 0,     // least recently used goes
    EXPERT_DEVICE_DECAY = 1,   // least heat goes; heat decays with every token
    EXPERT_DEVICE_FROZEN = 2,  // filled once by heat, then only pins move
    EXPERT_DEVICE_MANUAL = 3,  // only pinned experts
};

enum expert_device_pin { EXPERT_DEVICE_AUTO = 0, EXPERT_DEVICE_PIN_GPU = 1, EXPERT_DEVICE_PIN_CPU = 2 };

enum expert_device_lane { EXPERT_DEVICE_LANE_CPU = 0, EXPERT_DEVICE_LANE_GPU = 1, EXPERT_DEVICE_LANE_COPYING = 2 };

enum expert_device_stream {
    EXPERT_DEVICE_STREAM_OFF = 0,     // the CPU computes every miss
    EXPERT_DEVICE_STREAM_AUTO = 1,    // misses are divided by what copies and CPU work were measured to cost
    EXPERT_DEVICE_STREAM_ALWAYS = 2,  // every miss is copied over and computed there
};

struct expert_device_policy {
    int32_t kind;
    int32_t insert_cap;  // most experts copied in for one layer and token, from 1
    int32_t window;      // LRU: admit an expert that was routed to before within so many tokens; 0 admits at once
    float decay;         // factor on every heat for each token, 0 < decay <= 1
    float margin;        // DECAY: a candidate's heat must exceed the coldest's by this factor, from 1
    float threshold;     // least routing weight of an admitted expert; 0 admits all
    int32_t stream;
    int32_t wait_for_copies;  // not 0: a layer waits for the copies it began before it goes on (replays and tests)
};

struct expert_device_layer {
    int32_t layer;
    int32_t experts;
    int32_t used;           // top-k
    int32_t residency;      // REPACKED when any of its tensors is
    uint64_t expert_bytes;  // of one expert, over all tensors of the chain
    int32_t slots;          // in the pool, 0 for none
    int32_t resident;       // slots that hold an expert now
};

struct expert_device_pool {
    uint64_t requested;
    uint64_t allocated;  // bytes the device gave for slots
    uint64_t staging;    // bytes the device gave for the staging area
    uint64_t working;    // bytes the device gave to compute experts in
    uint64_t locked;     // bytes of main memory that are page-locked for copies to it
    uint64_t ahead;      // streamed experts that were copied before their layer began, since the pool was set
    int32_t slots;       // over all layers
    int32_t resident;
    int32_t unplaced_pins;  // experts pinned to the GPU that the pool has no slot for
    int32_t result;         // enum expert_device_result: why it is not (or not fully) in use
    char reason[256];       // in words, empty when all is well
};

struct expert_device_totals {
    uint64_t tokens;     // batches' tokens computed in that phase
    uint64_t hits;       // routed pairs whose expert was in the pool
    uint64_t misses;     // routed pairs that were not in the pool
    uint64_t streamed;   // those of them that were copied over and computed on the GPU
    uint64_t inserts;    // experts that were given a slot, to be copied into it
    uint64_t evictions;  // experts that lost their slot to another
    uint64_t inserted_bytes;
    uint64_t streamed_bytes;
    uint64_t layers;        // expert layers computed
    uint64_t total_ns;      // in all of them, begin to end
    uint64_t cpu_ns;        // the CPU's products in them
    uint64_t gpu_ns;        // from launch to the GPU's end, as seen from the CPU
    uint64_t wait_ns;       // of it, waiting with the CPU idle
    uint64_t gather_ns;     // reading ids, building inputs, uploads, launching
    uint64_t scatter_ns;    // reading back and writing rows
    uint64_t cold_experts;  // that main memory lacked, once for each layer and batch
    uint64_t cold_reads;    // ranges of the file that were asked for
    uint64_t cold_bytes;
    uint64_t stall_ns;  // of total_ns, waiting for them with nothing else to compute
};

struct expert_device_token {
    uint64_t index;  // of the batch, from 0
    int32_t tokens;  // in the batch
    int32_t phase;
    int32_t hits;
    int32_t misses;
    int32_t streamed;
    uint64_t copied_bytes;  // inserts and streams
    uint64_t cpu_ns, gpu_ns, wait_ns, total_ns;
    int32_t cold_experts, cold_reads;
    uint64_t cold_bytes, stall_ns;
};

struct expert_device_routing_entry {
    uint32_t token;  // position in the sequence of the context's decoded tokens
    int16_t layer;
    int16_t expert;
    float weight;  // routing weight, NaN where llama.cpp computes the weighting elsewhere
};

struct expert_device_pin_entry {
    int32_t layer;
    int32_t expert;
    int32_t pin;
};

struct expert_device_memory {
    uint64_t budget;     // bytes of experts that may stay in main memory; 0: the system decides
    uint64_t trusted;    // what of it is used: less where the system takes pages before the budget is reached
    uint64_t resident;   // bytes of experts that are in memory or asked for
    uint64_t total;      // of all experts that lie in the mapped file
    uint64_t evictions;  // experts that were given up
    uint64_t stale;      // experts that were found missing though they were not given up
    uint64_t failures;   // experts that could not be read: the file is shorter now, or its drive failed
    uint64_t refused;    // experts that the system had no memory to read in for
    uint64_t locked;     // bytes of the hottest experts that the system may not take
    int32_t on;          // 0 while nothing needs to be read
    char reason[256];    // in words, why no more is locked; empty when all is well
};

struct expert_device_rates {
    double copy_bytes_per_second;  // host to device, while the CPU computes
    double cpu_first_row_ns;       // one expert, one token
    double cpu_next_row_ns;        // each further token of the batch
    double gpu_first_row_ns;
    double gpu_next_row_ns;
    double break_even_rows;  // tokens an expert must have for streaming to win; 0 when it never does
};

// The value of EXPERT_DEVICE_ABI this library was built with.
EXPERT_DEVICE_API int32_t expert_device_abi(void);

// The ggml version this library was built for, and the one it runs with ("0.25.3").
EXPERT_DEVICE_API const char * expert_device_built_for(void);
EXPERT_DEVICE_API const char * expert_device_running_with(void);

// Registers the device with ggml; once per process, further calls return the first one's result.
// Call after ggml's backends are loaded and before a model is.
EXPERT_DEVICE_API int32_t expert_device_register(void);

// What CPU backends of this process that are told to compute with `count` threads use from then on: a ggml_threadpool
// of so many; with a null pointer they go on as ggml does without one. Nothing may compute with it any more when it is
// taken away, and it must be before it is freed.
EXPERT_DEVICE_API int32_t expert_device_keep_threads(int32_t count, void * threadpool);

// Where the experts of models loaded from now on are kept on the CPU side.
EXPERT_DEVICE_API int32_t expert_device_set_residency(int32_t residency);

// The id of the context that llama.cpp made last on the calling thread; 0 for none.
EXPERT_DEVICE_API int64_t expert_device_last_context(void);

// Which of `phase` the next graphs of `context` count as.
EXPERT_DEVICE_API int32_t expert_device_set_phase(int64_t context, int32_t phase);

// Asks the graphs of every context whose flag this is to end early: llama.cpp's abort callback, with
// a pointer to an int32_t as its data; not zero means end. Compiled, so the hot loop takes no lock.
EXPERT_DEVICE_API bool expert_device_abort_when_set(void * flag);

// Where the bytes of a tensor lie, for filling slots of repacked tensors; maps the file once per context.
EXPERT_DEVICE_API int32_t expert_device_add_source(int64_t context, const char * utf8_path, const char * tensor,
                                                   uint64_t offset, uint64_t bytes);

// The expert layers `context` has computed so far, in order. Returns how many there are.
EXPERT_DEVICE_API int32_t expert_device_read_layers(int64_t context, struct expert_device_layer * out, int32_t limit);

// Layers of `context` get their pool on the ggml device `device`, from the next set_pool on; layer -1 names all.
EXPERT_DEVICE_API int32_t expert_device_set_layer_device(int64_t context, int32_t layer, const char * device);

// Gives the layers that belong to `device` a pool of at most `pool_bytes` and a staging area of at most
// `staging_bytes` for streamed experts; 0 frees them. Experts that still have a slot afterwards stay.
// While a token is computed this takes effect layer by layer. On failure the run goes on without.
EXPERT_DEVICE_API int32_t expert_device_set_pool(int64_t context, const char * device, uint64_t pool_bytes,
                                                 uint64_t staging_bytes);
EXPERT_DEVICE_API int32_t expert_device_read_pool(int64_t context, const char * device,
                                                  struct expert_device_pool * out);

// At most so many bytes of main memory that hold experts are page-locked from the next set_pool on, for each device
// that copies faster from such memory; 0, as in the beginning, for none. Where it cannot be had, copies go on without.
// Experts of the mapped file only while all of them may stay in main memory: none is locked, and what was is let go,
// once set_resident allows fewer. Whole tensors are locked, and most of each would not stay.
EXPERT_DEVICE_API int32_t expert_device_set_host_lock(int64_t context, uint64_t most_bytes);

EXPERT_DEVICE_API int32_t expert_device_set_policy(int64_t context, const struct expert_device_policy * policy);

// Sets pins; entries of layers or experts that do not exist are refused as a whole.
EXPERT_DEVICE_API int32_t expert_device_set_pins(int64_t context, const struct expert_device_pin_entry * entries,
                                                 int32_t n);

// Sets the heat of one layer's experts, as saved from an earlier run, and fills free slots by it.
EXPERT_DEVICE_API int32_t expert_device_set_heat(int64_t context, int32_t layer, const float * heat, int32_t experts);

// One past the highest layer seen in a graph of `context`, and the experts of its widest layer.
EXPERT_DEVICE_API int32_t expert_device_shape(int64_t context, int32_t * layers, int32_t * experts);

// Copies routing counts since the context was made: out[layer * experts + expert], for the first
// `layers` layers and `experts` experts. Consistent per counter, not across counters; cheap enough
// for 20 Hz while computing.
EXPERT_DEVICE_API int32_t expert_device_read_routing(int64_t context, int32_t phase, uint64_t * out, int32_t layers,
                                                     int32_t experts);

// The same for heat (decayed count of decoding), lane and pin of every expert. Any of the three may be null.
EXPERT_DEVICE_API int32_t expert_device_read_experts(int64_t context, float * heat, uint8_t * lane, uint8_t * pin,
                                                     int32_t layers, int32_t experts);

EXPERT_DEVICE_API int32_t expert_device_read_totals(int64_t context, int32_t phase, struct expert_device_totals * out);

// Batches whose index is `since` or more, oldest first; the last 1024 are kept, and the one that is computed now is not
// among them: figures that were read do not change. Returns how many were written.
EXPERT_DEVICE_API int32_t expert_device_read_tokens(int64_t context, uint64_t since, struct expert_device_token * out,
                                                    int32_t limit);

// Begins (capacity > 0 entries) or ends (0) recording decoded routings.
EXPERT_DEVICE_API int32_t expert_device_set_trace(int64_t context, int32_t capacity);

// Takes the recorded entries out, oldest first. Returns how many; `dropped` gets those lost
// for want of room since recording began.
EXPERT_DEVICE_API int32_t expert_device_read_trace(int64_t context, struct expert_device_routing_entry * out,
                                                   int32_t limit, uint64_t * dropped);

// At most `bytes` of the experts that lie in the mapped file stay in main memory from now on: those that are missing are
// read when a layer's routing is known, all at once, and the least recently used are given up. 0, as in the
// beginning, leaves them to the system, as without this device: then all count as in memory, and none is locked.
EXPERT_DEVICE_API int32_t expert_device_set_resident(int64_t context, uint64_t bytes);

// At most so many bytes of the hottest experts that lie in the mapped file and are in memory are locked there, while
// there is a budget; 0, as in the beginning, for none. What the system refuses stays as it is: see `reason`.
EXPERT_DEVICE_API int32_t expert_device_set_memory_lock(int64_t context, uint64_t most_bytes);

// Reads the hottest experts in, in the background, as many as the budget allows; without a budget nothing happens.
EXPERT_DEVICE_API int32_t expert_device_warm_up(int64_t context);

// Gives up the main memory that mapped experts take; also where the system decides what stays.
EXPERT_DEVICE_API int32_t expert_device_release(int64_t context);

EXPERT_DEVICE_API int32_t expert_device_read_memory(int64_t context, struct expert_device_memory * out);

// out[layer * experts + expert]: 0 for experts that main memory was found to lack, for the first `layers` layers and
// `experts` experts; as of the last moment when no split was computed.
EXPERT_DEVICE_API int32_t expert_device_read_residents(int64_t context, uint8_t * out, int32_t layers, int32_t experts);

// What copies and products were measured to cost on `device`; NOT_READY without a staging area.
EXPERT_DEVICE_API int32_t expert_device_read_rates(int64_t context, const char * device,
                                                   struct expert_device_rates * out);

// Graphs and nodes this context has computed, to see that it works.
EXPERT_DEVICE_API int32_t expert_device_read_work(int64_t context, uint64_t * graphs, uint64_t * nodes);

#ifdef __cplusplus
}
#endif
