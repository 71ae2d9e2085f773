// Builds clones of a chain from its template: the same ops with the same parameters over fewer rows.
#include "clone.h"

#include "ggml-impl.h"

#include <cstring>

namespace expert_device {

namespace {

// Pairs up to which a clone is kept for the next token: decoding and drafts, not prompts.
constexpr int64_t most_kept_pairs = 128;
// Layers × numbers of hits that are met in turn while decoding.
constexpr size_t most_kept = 2048;

class Builder {
  public:
    Builder(const ChainTemplate & chain, const std::vector<ggml_tensor *> & weights, const CloneShape & shape)
        : chain_(chain), weights_(weights), shape_(shape) {}

    std::unique_ptr<Clone> build() {
        auto clone = std::make_unique<Clone>();
        const size_t tensors = chain_.nodes.size() + chain_.inputs.size() + 3 * chain_.tail.size() + 4;
        ggml_init_params size = {tensors * ggml_tensor_overhead() + ggml_graph_overhead_custom(tensors, false), nullptr,
                                 true};
        clone->context.reset(ggml_init(size));
        if (!clone->context) {
            return nullptr;
        }
        context_ = clone->context.get();
        clone->shape = shape_;
        clone->weights = weights_;
        clone->ids = ids_ = ggml_new_tensor_2d(context_, GGML_TYPE_I32, shape_.ranks, shape_.tokens);
        ggml_set_input(ids_);
        for (const ChainInput & input : chain_.inputs) {
            inputs_.push_back(new_input(input));
        }
        for (const ChainNode & node : chain_.nodes) {
            nodes_.push_back(node.op == GGML_OP_VIEW || node.op == GGML_OP_RESHAPE ? view(node) : compute(node));
        }
        clone->graph = ggml_new_graph_custom(context_, tensors, false);
        if (shape_.with_tail) {
            add_output(*clone, tail());
        } else {
            for (size_t i = 0; i < nodes_.size(); ++i) {
                if (chain_.nodes[i].output) {
                    add_output(*clone, nodes_[i]);
                }
            }
        }
        clone->inputs = inputs_;
        return clone;
    }

  private:
    const ChainTemplate & chain_;
    const std::vector<ggml_tensor *> & weights_;
    const CloneShape & shape_;
    ggml_context * context_ = nullptr;
    ggml_tensor * ids_ = nullptr;
    std::vector<ggml_tensor *> inputs_, nodes_;

    static void add_output(Clone & clone, ggml_tensor * t) {
        ggml_set_output(t);
        ggml_build_forward_expand(clone.graph, t);
        clone.outputs.push_back(t);
    }

    ggml_tensor * new_input(const ChainInput & input) {
        const bool one_row = !input.per_pair && (shape_.one_token || shape_.per_token_inputs);
        ggml_tensor * t =
            ggml_new_tensor_3d(context_, input.type, input.ne0, one_row ? 1 : shape_.ranks, shape_.tokens);
        ggml_set_input(t);
        return t;
    }

    ggml_tensor * operand(const Operand & from) {
        switch (from.kind) {
            case Operand::node: return nodes_[static_cast<size_t>(from.index)];
            case Operand::external: return inputs_[static_cast<size_t>(from.index)];
            case Operand::weight: return weights_[static_cast<size_t>(from.index)];
            case Operand::ids: return ids_;
            default: return nullptr;
        }
    }

    ggml_tensor * compute(const ChainNode & node) {
        ggml_tensor * t = ggml_new_tensor_3d(context_, node.type, node.ne0, shape_.ranks, shape_.tokens);
        t->op = node.op;
        std::memcpy(t->op_params, node.params.data(), sizeof t->op_params);
        for (size_t s = 0; s < node.src.size(); ++s) {
            t->src[s] = operand(node.src[s]);
        }
        return t;
    }

    ggml_tensor * view(const ChainNode & node) {
        ggml_tensor * of = operand(node.src[0]);
        return ggml_view_3d(context_, of, node.ne0, shape_.ranks, shape_.tokens, of->nb[1], of->nb[2],
                            node.view_offset);
    }

    ggml_tensor * rank(int32_t index) {
        ggml_tensor * of = nodes_[static_cast<size_t>(chain_.tail_node)];
        return ggml_view_2d(context_, of, of->ne[0], shape_.tokens, of->nb[2], static_cast<size_t>(index) * of->nb[1]);
    }

    ggml_tensor * tail() {
        std::vector<ggml_tensor *> steps;
        for (const TailStep & step : chain_.tail) {
            ggml_tensor * left =
                step.left_step >= 0 ? steps[static_cast<size_t>(step.left_step)] : rank(step.left_rank);
            if (step.right_rank < 0 && step.right_step < 0) {
                steps.push_back(ggml_cont(context_, left));
                continue;
            }
            ggml_tensor * right =
                step.right_step >= 0 ? steps[static_cast<size_t>(step.right_step)] : rank(step.right_rank);
            steps.push_back(ggml_add(context_, left, right));
        }
        return steps.back();
    }
};

}  // namespace

std::unique_ptr<Clone> build_clone(const ChainTemplate & chain, const std::vector<ggml_tensor *> & weights,
                                   const CloneShape & shape) {
    return Builder(chain, weights, shape).build();
}

CloneCache::CloneCache(ggml_backend_buffer_type_t type) : allocator_(ggml_gallocr_new(type)) {}

CloneCache::~CloneCache() {
    clear();
    ggml_gallocr_free(allocator_);
}

void CloneCache::clear() {
    kept_.clear();
    n_kept_ = 0;
    large_.reset();
}

size_t CloneCache::bytes() const {
    return ggml_gallocr_get_buffer_size(allocator_, 0);
}

bool CloneCache::reserve(const ChainTemplate & chain, const std::vector<ggml_tensor *> & weights,
                         const CloneShape & shape) {
    clear();  // the memory may move
    try {
        const std::unique_ptr<Clone> made = build_clone(chain, weights, shape);
        return made && ggml_gallocr_reserve(allocator_, made->graph);
    } catch (...) {  // backends throw types of their own when they refuse
        return false;
    }
}

Clone * CloneCache::get(const ChainTemplate & chain, const std::vector<ggml_tensor *> & weights,
                        const CloneShape & shape) {
    const uint64_t key = reinterpret_cast<uintptr_t>(weights.front()) * 31 + static_cast<uint64_t>(shape.ranks) * 1021 +
                         static_cast<uint64_t>(shape.tokens);
    if (const auto found = kept_.find(key); found != kept_.end()) {
        for (const Kept & kept : found->second) {
            if (kept.clone->shape == shape && kept.clone->weights == weights && kept.chain == chain) {
                return kept.clone.get();
            }
        }
    }
    std::unique_ptr<Clone> made = build_clone(chain, weights, shape);
    if (!made) {
        return nullptr;
    }
    const size_t before = bytes();
    // Reserved anew for every graph: places given to another graph with as many nodes may overlap in this one.
    const bool placed =
        ggml_gallocr_reserve(allocator_, made->graph) && ggml_gallocr_alloc_graph(allocator_, made->graph);
    if (!placed || bytes() != before) {
        clear();  // the memory moved: the others point into what was freed
    }
    if (!placed) {
        return nullptr;
    }
    if (shape.pairs() > most_kept_pairs) {
        large_ = std::move(made);
        return large_.get();
    }
    if (n_kept_ >= most_kept) {
        clear();
    }
    std::vector<Kept> & bucket = kept_[key];
    bucket.push_back({chain, std::move(made)});
    ++n_kept_;
    return bucket.back().clone.get();
}

}  // namespace expert_device
