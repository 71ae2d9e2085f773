"""What the engine reports of its memory, as plain data the plan is compared with."""

import msgspec


class BufferReport(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one part on one device, as reported after the load.

    All are llama.cpp's own figures but "experts" on the CPU: those the expert device counts, tensor by tensor.

    Attributes:
        device: A GPU's engine name, or "CPU".
        part: weights | experts | kv | compute | output | mapped. "mapped" is the stretch of the model
            file that is mapped into the address space; it may cover other parts and is no memory of its own.
        bytes: The reported bytes.
    """

    device: str
    part: str
    bytes: int
