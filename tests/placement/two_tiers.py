"""Pool and main memory together, step by step as the engine does: what neither holds has to be read from the disk.

The pool goes by the cache's own policy, with every copy done before the layer's next token. Main memory keeps what was
used there last, of whatever layer (`app/engine/native/resident.h`): what the processor computes, and what is copied
into the pool. What the pool computes is not used there.
"""

from collections import OrderedDict

from app.placement.cache.policy import LayerPolicy
from app.placement.plan import CachePolicy


def missed(trace, experts, slots, room, policy=None, skip=0.5):
    """Share of the routed experts that pool and memory lacked, after the first part of the trace.

    Args:
        trace: A `Trace`.
        experts: Of each layer.
        slots: Of the pool, in each layer.
        room: Experts that main memory has room for, over all layers.
        policy: Of the pool; the usual one unless told.
        skip: Share of the tokens that is not counted, for memory and pool fill up meanwhile.
    """
    policy = policy or CachePolicy()
    layers = {layer: LayerPolicy(experts) for layer in trace.header.experts}
    for layer in layers.values():
        layer.resize(policy, slots)
    steps = {}
    for token, layer, expert, _weight in trace.entries.tolist():
        steps.setdefault((token, layer), []).append(expert)
    counted_from = skip * (1 + max(token for token, _layer in steps))
    memory = OrderedDict()
    read = routed = 0
    for (token, layer), of_step in steps.items():
        pool = layers[layer]
        off_pool = [expert for expert in of_step if pool.ready_slot(expert) is None]
        if token >= counted_from:
            routed += len(of_step)
            read += sum((layer, expert) not in memory for expert in off_pool)
        off_pool.sort(key=lambda expert: ((layer, expert) not in memory, expert))  # those that are there first
        inserts = pool.step(policy, of_step)
        for expert in (*off_pool, *(insert.expert for insert in inserts)):
            memory[layer, expert] = True
            memory.move_to_end((layer, expert))
        while len(memory) > room:
            memory.popitem(last=False)
        for insert in inserts:
            pool.complete(insert.slot, insert.expert)
    return read / routed
