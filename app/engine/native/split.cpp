// Reading a split's routing: ids are a strided view of the router's argsort, so strides are used.
#include "split.h"

#include "internal.h"

#include <cstring>

namespace expert_device {

std::vector<Chain> chains_of(ggml_cgraph * graph) {
    std::vector<Chain> chains;
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        const ggml_tensor * node = ggml_graph_node(graph, i);
        if (node->op != GGML_OP_MUL_MAT_ID || !is_ours(node->src[0])) {
            continue;
        }
        if (std::strstr(node->src[0]->name, "chexps") != nullptr) {
            continue;  // Grove's chunk experts: other ids over fewer experts, not the layer's routing
        }
        const ggml_tensor * ids = node->src[2];
        const int32_t layer = layer_of(node->src[0]->name);
        // The gate, up and down products of a layer are one chain: counted once.
        if (!chains.empty() && chains.back().ids == ids && chains.back().layer == layer) {
            continue;
        }
        chains.push_back({layer, static_cast<int32_t>(node->src[0]->ne[2]), ids});
    }
    return chains;
}

void pairs_of(const Chain & chain, std::vector<Pair> & pairs) {
    const ggml_tensor * ids = chain.ids;
    const char * base = static_cast<const char *>(ids->data);
    for (int64_t token = 0; token < ids->ne[1]; ++token) {
        for (int64_t rank = 0; rank < ids->ne[0]; ++rank) {
            int32_t expert = 0;
            std::memcpy(&expert, base + token * static_cast<int64_t>(ids->nb[1]) + rank * static_cast<int64_t>(ids->nb[0]),
                        sizeof expert);
            if (expert >= 0 && expert < chain.experts) {
                pairs.push_back({static_cast<int32_t>(token), static_cast<int32_t>(rank), expert});
            }
        }
    }
}

}  // namespace expert_device
