// Reads a scheduler split into a chain template and the tensors that fill it.
#include "chain.h"
#include "ggml-impl.h"
#include "internal.h"
#include "weights.h"

#include <algorithm>
#include <cstring>

namespace expert_device {

namespace {

// Works through the nodes of one split; `split` is filled as far as it is understood.
class SplitReader {
  public:
    SplitReader(const ggml_cgraph * graph, Split & split) : graph_(graph), split_(split) {}

    void read() {
        if (!find_layer()) {
            return;
        }
        split_.complete = read_nodes() && find_outputs();
    }

  private:
    const ggml_cgraph * graph_;
    Split & split_;
    std::vector<const ggml_tensor *> node_tensors_;  // by chain node
    std::vector<const ggml_tensor *> step_tensors_;  // by tail step

    bool find_layer() {
        for (int i = 0; i < graph_->n_nodes; ++i) {
            const ggml_tensor * node = graph_->nodes[i];
            if (node->op != GGML_OP_MUL_MAT_ID && node->op != GGML_OP_ADD_ID) {
                continue;
            }
            const ggml_tensor * weights = node->op == GGML_OP_ADD_ID ? node->src[1] : node->src[0];
            if (std::strstr(weights->name, "chexps") != nullptr) {
                continue;  // Grove's chunk experts: other ids over fewer experts, not the layer's routing
            }
            split_.layer = layer_of(weights->name);
            split_.experts = static_cast<int32_t>(weights->ne[node->op == GGML_OP_ADD_ID ? 1 : 2]);
            split_.ids = node->src[2];
            split_.first_weight = weights;
            return split_.layer >= 0 && split_.ids->buffer != nullptr &&
                   ggml_backend_buffer_is_host(split_.ids->buffer);
        }
        return false;
    }

    template <typename T> static int16_t index_in(const std::vector<T> & list, const ggml_tensor * t) {
        const auto found = std::find(list.begin(), list.end(), t);
        return found == list.end() ? int16_t{-1} : static_cast<int16_t>(found - list.begin());
    }

    bool of_pairs(const ggml_tensor * t) const {
        return t->ne[1] == split_.top_k() && t->ne[2] == split_.tokens() && t->ne[3] == 1;
    }

    // Inputs are read from host memory, where the scheduler copied them. It would leave them in the GPU's buffer if that
    // type were claimed, and then wait for nothing on their account: it waits for the backends of inputs that it copies,
    // so that only the ids, by chance from the same GPU, would order our read after its queue. Results pass through host
    // memory in any case: a split's nodes are in its own backend's buffer type.
    bool input(const ggml_tensor * t, Operand & operand) {
        int16_t index = index_in(split_.inputs, t);
        if (index < 0) {
            const bool per_pair = of_pairs(t);
            const bool per_token = t->ne[1] == 1 && t->ne[2] == split_.tokens() && t->ne[3] == 1;
            if ((!per_pair && !per_token) || t->nb[0] != ggml_type_size(t->type) || ggml_is_quantized(t->type) ||
                t->buffer == nullptr || !ggml_backend_buffer_is_host(t->buffer)) {
                return false;
            }
            index = static_cast<int16_t>(split_.inputs.size());
            split_.inputs.push_back(t);
            split_.chain.inputs.push_back({t->ne[0], t->type, per_pair && split_.top_k() > 1});
        }
        operand = {Operand::external, index};
        return true;
    }

    bool weight(const ggml_tensor * t, Operand & operand) {
        int16_t index = index_in(split_.weights, t);
        if (index < 0) {
            if (layer_of(t->name) != split_.layer) {
                return false;
            }
            index = static_cast<int16_t>(split_.weights.size());
            split_.weights.push_back(t);
        }
        operand = {Operand::weight, index};
        return true;
    }

    bool operand(const ggml_tensor * node, int position, Operand & made) {
        const ggml_tensor * t = node->src[position];
        const bool weights =
            (node->op == GGML_OP_MUL_MAT_ID && position == 0) || (node->op == GGML_OP_ADD_ID && position == 1);
        const bool ids = (node->op == GGML_OP_MUL_MAT_ID || node->op == GGML_OP_ADD_ID) && position == 2;
        if (weights) {
            return weight(t, made);
        }
        if (ids) {
            made = {Operand::ids, 0};
            return t == split_.ids;
        }
        const int16_t index = index_in(node_tensors_, t);
        if (index >= 0) {
            made = {Operand::node, index};
            return true;
        }
        return input(t, made);
    }

    // A view within a row of a chain's result, such as the halves of a fused gate_up.
    static bool cuts_rows(const ggml_tensor * view) {
        const ggml_tensor * of = view->src[0];
        return view->op == GGML_OP_VIEW
                   ? view->nb[1] == of->nb[1] && view->nb[2] == of->nb[2] &&
                         view->view_offs - of->view_offs + ggml_row_size(view->type, view->ne[0]) <= of->nb[1]
                   : view->ne[0] == of->ne[0];
    }

    bool read_nodes() {
        for (int i = 0; i < graph_->n_nodes; ++i) {
            const ggml_tensor * node = graph_->nodes[i];
            if (is_view(node)) {
                const int16_t source = index_in(node_tensors_, node->src[0]);
                if (source < 0 || is_rank(node)) {
                    continue;  // of what came before the split, or for the tail
                }
                if (!of_pairs(node) || !cuts_rows(node) || !split_.chain.tail.empty()) {
                    return false;
                }
            } else if (node->op == GGML_OP_ADD || node->op == GGML_OP_CONT) {
                if (!tail_step(node, i)) {
                    return false;
                }
                continue;
            } else if (!of_pairs(node) || !split_.chain.tail.empty() || !ggml_is_contiguous(node)) {
                return false;
            }
            if (!chain_node(node)) {
                return false;
            }
        }
        split_.chain.weights = static_cast<int32_t>(split_.weights.size());
        split_.chain.top_k = split_.top_k();
        if (split_.chain.tail.empty()) {
            split_.tail_begin = graph_->n_nodes;
        }
        return !split_.weights.empty();
    }

    bool chain_node(const ggml_tensor * node) {
        ChainNode made;
        made.op = node->op;
        made.type = node->type;
        made.ne0 = node->ne[0];
        made.view_offset = node->op == GGML_OP_VIEW ? node->view_offs - node->src[0]->view_offs : 0;
        std::memcpy(made.params.data(), node->op_params, sizeof made.params);
        if (node->op == GGML_OP_VIEW) {
            made.params = {};
        }
        for (int s = 0; s < GGML_MAX_SRC; ++s) {
            if (node->src[s] == nullptr) {
                continue;
            }
            if (s >= static_cast<int>(made.src.size()) || !operand(node, s, made.src[static_cast<size_t>(s)])) {
                return false;
            }
        }
        node_tensors_.push_back(node);
        split_.chain.nodes.push_back(made);
        return true;
    }

    // A view of all tokens' rows of one rank. With one token and top-1 it looks like any view: the tail decides.
    bool is_rank(const ggml_tensor * view) const {
        const ggml_tensor * of = view->src[0];
        return view->op == GGML_OP_VIEW && view->ne[0] == of->ne[0] && view->ne[1] == of->ne[2] && view->ne[2] == 1 &&
               view->nb[1] == of->nb[2] && view->view_offs % of->nb[1] == 0;
    }

    bool tail_operand(const ggml_tensor * t, int32_t & rank, int32_t & step) {
        if (t->op == GGML_OP_VIEW && is_rank(t)) {
            const int16_t node = index_in(node_tensors_, t->src[0]);
            if (node < 0 || (split_.chain.tail_node >= 0 && split_.chain.tail_node != node)) {
                return false;
            }
            split_.chain.tail_node = node;
            rank = static_cast<int32_t>(t->view_offs / t->src[0]->nb[1]);
            return true;
        }
        step = index_in(step_tensors_, t);
        return step >= 0;
    }

    bool tail_step(const ggml_tensor * node, int position) {
        TailStep made;
        if (!tail_operand(node->src[0], made.left_rank, made.left_step)) {
            return false;
        }
        if (node->op == GGML_OP_ADD && !tail_operand(node->src[1], made.right_rank, made.right_step)) {
            return false;
        }
        if (split_.chain.tail.empty()) {
            split_.tail_begin = position;
        }
        split_.chain.tail.push_back(made);
        step_tensors_.push_back(node);
        split_.tail_end = const_cast<ggml_tensor *>(node);
        return true;
    }

    // How often `t` is read by nodes of the split.
    int inner_uses(const ggml_tensor * t) const {
        int uses = 0;
        for (int i = 0; i < graph_->n_nodes; ++i) {
            for (const ggml_tensor * source : graph_->nodes[i]->src) {
                uses += source == t;
            }
        }
        return uses;
    }

    bool read_outside(const ggml_tensor * t) const {
        if (t->flags & GGML_TENSOR_FLAG_OUTPUT) {
            return true;
        }
        const size_t slot = ggml_hash_find(&graph_->visited_hash_set, t);
        if (slot == GGML_HASHSET_FULL || !ggml_bitset_get(graph_->visited_hash_set.used, slot)) {
            return true;  // not known: then as if it were
        }
        return graph_->use_counts[slot] > inner_uses(t);
    }

    bool find_outputs() {
        if (graph_->use_counts == nullptr || graph_->visited_hash_set.size == 0) {
            return false;
        }
        bool leaves = false;  // something besides the tail's end
        for (size_t i = 0; i < node_tensors_.size(); ++i) {
            const ggml_tensor * node = node_tensors_[i];
            bool outside = read_outside(node);
            for (int v = 0; v < graph_->n_nodes && !outside; ++v) {  // also through a view that is no chain node
                const ggml_tensor * view = graph_->nodes[v];
                outside =
                    is_view(view) && view->src[0] == node && index_in(node_tensors_, view) < 0 && read_outside(view);
            }
            if (outside && is_view(node)) {
                return false;  // a view's rows would have to be written through what it views
            }
            leaves = leaves || outside;
            split_.chain.nodes[i].output = outside || static_cast<int32_t>(i) == split_.chain.tail_node;
            if (split_.chain.nodes[i].output) {
                split_.outputs.push_back(const_cast<ggml_tensor *>(node));
            }
        }
        for (const ggml_tensor * step : step_tensors_) {
            leaves = leaves || (step != split_.tail_end && read_outside(step));
        }
        split_.chain.only_tail_leaves = split_.tail_end != nullptr && !leaves;
        find_routing_weights();
        return !split_.outputs.empty();
    }

    // The last MUL of the chain by one value a pair, where its result is what the tail sums.
    void find_routing_weights() {
        const int32_t node = split_.chain.tail_node;
        if (node < 0 || split_.chain.nodes[static_cast<size_t>(node)].op != GGML_OP_MUL) {
            return;
        }
        const Operand & factor = split_.chain.nodes[static_cast<size_t>(node)].src[1];
        if (factor.kind == Operand::external) {
            const ggml_tensor * weights = split_.inputs[static_cast<size_t>(factor.index)];
            if (weights->ne[0] == 1 && weights->type == GGML_TYPE_F32) {
                split_.routing_weights = weights;
            }
        }
    }
};

}  // namespace

void Split::clear() {
    chain.nodes.clear();
    chain.inputs.clear();
    chain.tail.clear();
    chain.tail_node = -1;
    chain.only_tail_leaves = false;
    chain.weights = 0;
    chain.top_k = 0;
    layer = -1;
    experts = 0;
    ids = nullptr;
    first_weight = nullptr;
    weights.clear();
    inputs.clear();
    outputs.clear();
    tail_begin = 0;
    tail_end = nullptr;
    routing_weights = nullptr;
    noted_in = nullptr;
    complete = false;
}

void read_split(const ggml_cgraph * graph, Split & split) {
    split.clear();
    SplitReader(graph, split).read();
}

}  // namespace expert_device
