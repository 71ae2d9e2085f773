"""What the engine reports of its memory, as plain data the plan is compared with."""

import msgspec


class BufferReport(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one part on one device, as reported after the load.

    All are llama.cpp's own figures but those of the expert device: "experts" on the CPU, counted over the
    layers that it was seen to compute, and "pool" and "staging", which a device gave it.

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
