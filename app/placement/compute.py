"""An estimate of llama.cpp's compute buffers: the working memory of one micro-batch on each device.

They have no closed form, for llama.cpp lets tensors share memory whose lifetimes do not overlap. The terms
here name what is alive at once where most is: at the logits, in a layer's attention, at its experts. Beside
what the pinned engine reserves for nine models, at 4,096 and 32,768 tokens of context, they are 1 % too
little to 9 % too much where the logits decide, which they do with most vocabularies; with a small one
(Mixtral) up to 94 %, then 73 MiB, too much. Flash attention is assumed: the engine asks for it.
"""

from app.model.facts import ModelFacts
from app.placement.kv_cache import full_cells, window_cells
from app.placement.plan import CPU_LANE, Plan

_VALUE_BYTES = 4
_MASK_VALUE_BYTES = 2
# Rows of the embedding's width that are alive ...
_ROWS_AT_LOGITS = 6  # beside the logits
_ROWS_AT_ATTENTION = {"full": 14, "recurrent": 16, "window": 18, "latent": 20}  # in a layer of that kind
_ROWS_AT_EXPERTS = 4  # beside the experts' own: the residual and the normalised input
_ROWS_OF_INPUT = 2  # on the CPU while a GPU computes: the tokens' embeddings and their copy


def compute_bytes(facts: ModelFacts, plan: Plan, *, copies_weights: bool) -> dict[str, int]:
    """Estimated bytes of the compute buffers, by device.

    Args:
        facts: The model.
        plan: Its placement and batch sizes.
        copies_weights: The engine runs without the expert device. llama.cpp then computes large
            batches of CPU-lane experts on the attention's GPU and copies their weights there.
    """
    gpus = plan.gpus
    cpu_layers = [layer for layer, lane in plan.expert_lanes.items() if lane not in gpus]
    sizes = {CPU_LANE: _expert_chain(facts, plan) if cpu_layers else 0}
    for gpu in gpus:
        sizes[gpu] = _expert_phase(facts, plan) if gpu in plan.expert_lanes.values() else 0
    everywhere = [_logits_phase(facts, plan), _attention_phase(facts, plan)]
    if plan.gpu is None:
        sizes[CPU_LANE] += max(everywhere)
    else:
        copied = _largest_copy(facts, cpu_layers) if copies_weights else 0
        experts = sizes[plan.gpu] or (_expert_phase(facts, plan) if copied else 0)
        sizes[plan.gpu] = max(*everywhere, _mask(facts, plan) + experts + copied)
        inputs = _ROWS_OF_INPUT + (1 if cpu_layers else 0)
        sizes[CPU_LANE] += _mask(facts, plan) + _rows(plan, facts.embedding_length * inputs)
    # The logits that are handed out: those of one token of each sequence.
    sizes[CPU_LANE] += facts.vocab_size * plan.n_seq_max * _VALUE_BYTES
    return sizes


def _rows(plan: Plan, width: int) -> int:
    return plan.n_ubatch * width * _VALUE_BYTES


def _mask(facts: ModelFacts, plan: Plan) -> int:
    """Which token sees which cell; models with windows keep a mask for each sort, and a copy of both."""
    windows = {layer.window for layer in facts.kv_layers if layer.kind == "window"}
    cells = sum(window_cells(window, plan.n_ctx, plan.n_ubatch, plan.n_seq_max) for window in windows)
    if any(layer.kind in ("full", "latent") for layer in facts.kv_layers):
        cells += full_cells(plan.n_ctx)
    return cells * plan.n_ubatch * _MASK_VALUE_BYTES * (2 if windows else 1)


def _logits_phase(facts: ModelFacts, plan: Plan) -> int:
    """At the end: the logits of every token of the micro-batch."""
    return _rows(plan, facts.vocab_size + _ROWS_AT_LOGITS * facts.embedding_length)


def _attention_phase(facts: ModelFacts, plan: Plan) -> int:
    """In a layer: the mask, queries, keys, values; afterwards the experts' outputs, where they are weighted."""
    attention = max((_ROWS_AT_ATTENTION.get(layer.kind, 0) for layer in facts.kv_layers), default=0)
    weighted = facts.experts_used + _ROWS_AT_EXPERTS
    return _mask(facts, plan) + _rows(plan, max(attention, weighted) * facts.embedding_length)


def _expert_phase(facts: ModelFacts, plan: Plan) -> int:
    """In a layer whose experts share a device with what follows: outputs, weighted outputs, inner rows."""
    embedding, inner = facts.embedding_length, facts.expert_feed_forward_length
    return _rows(plan, facts.experts_used * (2 * embedding + inner) + _ROWS_AT_EXPERTS * embedding)


def _expert_chain(facts: ModelFacts, plan: Plan) -> int:
    """The chain of one layer's experts alone: up, gate, their product, and down.

    `down` takes the place of `up` and `gate` where it is not wider than both.
    """
    embedding, inner = facts.embedding_length, facts.expert_feed_forward_length
    width = 3 * inner + (embedding if embedding > 2 * inner else 0)
    return _rows(plan, facts.experts_used * width)


def _largest_copy(facts: ModelFacts, layers: list[int]) -> int:
    """The largest expert tensor that is copied at once: two thirds of its layer, where gate and up are one."""
    return max((facts.expert_bytes[layer] * facts.expert_count * 2 // 3 for layer in layers), default=0)
