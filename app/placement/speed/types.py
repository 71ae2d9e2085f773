"""A prediction of speed as plain data: ranges, what bounds them, and what they rest on."""

import msgspec

BOUNDS = ("RAM bandwidth", "CPU", "PCIe", "GPU", "disk", "overhead")


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted figure: the likeliest value and the bounds it is expected within."""

    low: float
    likely: float
    high: float


class TimePart(msgspec.Struct, frozen=True, kw_only=True):
    """A share of the predicted time of one token (decoding) or of one token of a prompt.

    Attributes:
        name: cpu experts | gpu experts | attention | copies | disk | overhead.
        seconds: Likeliest time. Parts overlap: their sum may exceed the token's time.
    """

    name: str
    seconds: float


class SpeedPrediction(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted speed of a plan.

    Attributes:
        decode, prompt: Tokens a second.
        decode_bound, prompt_bound: What the time depends on most, one of BOUNDS.
        decode_parts, prompt_parts: What a token's time is made of.
        hit_rate: Share of routed expert bytes that are computed on a GPU in decoding, likeliest; 0 without.
        cold_experts: Experts a decoded token that no memory holds, likeliest: they are read from the disk.
        basis: What it rests on: "measured" (real answers of this model on this machine), "calibrated"
            (this machine's measured rates), or "assumed" (typical rates of such hardware).
        sentence: Bound and basis in words.
    """

    decode: Range
    prompt: Range
    decode_bound: str
    prompt_bound: str
    decode_parts: tuple[TimePart, ...]
    prompt_parts: tuple[TimePart, ...]
    hit_rate: float
    basis: str
    sentence: str
    cold_experts: float = 0.0
