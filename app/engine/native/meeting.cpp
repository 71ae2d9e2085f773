// The layers of a context as they are met in graphs: their tensors and chains, noted once.
#include "compute.h"
#include "weights.h"

#include <algorithm>

namespace expert_device {

namespace {

// Slots made before all of the layer's tensors were met lack some.
void give_up_slots(Context & context, Layer & layer) {
    const auto pool = context.pools.find(layer.device);
    if (pool == context.pools.end() || (layer.policy.slots() == 0 && layer.staging[0].tensors.empty())) {
        return;
    }
    pool->second->resize(layer, 0, context.settings);
    pool->second->give_up_staging(layer);
    pool->second->remark("The pool was made before layer " + std::to_string(layer.index) +
                         " was known in full: set it again.");
}

bool is_bias(const Split & split, size_t weight) {
    for (const ChainNode & node : split.chain.nodes) {
        if (node.op == GGML_OP_ADD_ID && node.src[1].kind == Operand::weight &&
            node.src[1].index == static_cast<int>(weight)) {
            return true;
        }
    }
    return false;
}

void note_chain(Context & context, Layer & layer, const Split & split) {
    for (const LayerChain & known : layer.chains) {
        if (known.tensors.size() == split.weights.size() &&
            layer.tensors[known.tensors.front()].tensor == split.weights.front() && known.chain == split.chain) {
            return;
        }
    }
    LayerChain part{split.chain, {}};
    for (size_t w = 0; w < split.weights.size(); ++w) {
        const ggml_tensor * weight = split.weights[w];
        size_t index = 0;
        while (index < layer.tensors.size() && layer.tensors[index].tensor != weight) {
            ++index;
        }
        if (index == layer.tensors.size()) {
            give_up_slots(context, layer);
            layer.tensors.push_back(expert_tensor(weight, is_bias(split, w)));
        }
        part.tensors.push_back(index);
    }
    if (layer.chains.empty()) {  // more than top-k in a warm-up with all experts: the next batch corrects it
        layer.used = static_cast<int32_t>(split.top_k());
    }
    layer.used = std::min(layer.used, static_cast<int32_t>(split.top_k()));
    layer.chains.push_back(std::move(part));
}

}  // namespace

Layer * meet_layer(Context & context, Split & split) {
    auto & found = context.layers[split.layer];
    if (found && found->experts() != split.experts) {
        return nullptr;
    }
    if (!found) {
        found = std::make_unique<Layer>(split.layer, split.experts);
        const auto own = context.layer_devices.find(split.layer);
        found->device = own != context.layer_devices.end() ? own->second : context.default_device;
        found->first_weight = split.first_weight;
    }
    if (split.complete && split.noted_in != found.get()) {
        note_chain(context, *found, split);
        split.noted_in = found.get();
    }
    context.routing.meet(split.layer, split.experts);
    return found.get();
}

}  // namespace expert_device
