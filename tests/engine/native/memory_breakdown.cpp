// llama.cpp's own account of a context's memory, which it offers to C++ only: lines of "buffer type|model|context|compute".

#include <cstdio>

#include "ggml-backend.h"
#include "llama-ext.h"

extern "C" int memory_breakdown(const llama_context * context, char * out, int size) {
    int used = 0;
    for (const auto & [type, bytes] : llama_get_memory_breakdown(context)) {
        const int added = std::snprintf(out + used, size - used, "%s|%zu|%zu|%zu\n", ggml_backend_buft_name(type),
                                        bytes.model, bytes.context, bytes.compute);
        if (added < 0 || added >= size - used) {
            return -1;
        }
        used += added;
    }
    return used;
}
