"""What the engine reports of its memory, as plain data the plan is compared with."""

import msgspec


class ObservedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What system or driver show of the engine on one device, measured after a load.

    Attributes:
        device: A GPU's engine name, or "CPU" for main memory.
        bytes: What the engine's process holds there; in main memory all of its resident pages, those of the
            mapped model file included.
        own_bytes: Of these what is no part of a mapped file; None for a GPU.
        idle_bytes: `own_bytes` before anything was loaded; None for a GPU and where nobody looked then.
        source: Who was asked, and what, in words.
    """

    device: str
    bytes: int
    own_bytes: int | None = None
    idle_bytes: int | None = None
    source: str


class BufferReport(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one part on one device, as reported after the load.

    All are llama.cpp's own figures but those of the expert device: "experts" on the CPU, counted over the
    layers that it was seen to compute, and "pool" and "staging", which a device gave it: the latter with
    what it computes experts in.

    Attributes:
        device: A GPU's engine name, or "CPU".
        part: weights | experts | kv | compute | output | mapped | repacked | pool | staging. "mapped" is the
            stretch of the model file that is mapped into the address space; it may cover other parts and is
            no memory of its own. "repacked" is those of the CPU's weights that are no experts and were copied
            into the CPU's faster layout: a part of what a plan calls weights, the rest of which is mapped.
        bytes: The reported bytes.
    """

    device: str
    part: str
    bytes: int
