"""The flags of a llama.cpp command line, read: what bears on a plan, what does not, and what llama.cpp does not know.

Names, arities and meanings are those of llama.cpp's `common/arg.cpp` at the engine's version, and of older
versions where lines with them are still pasted.
"""

import difflib
import re
from collections.abc import Sequence

import msgspec

from app.errors import AppError, ErrorCode
from app.placement.exchange.llama_flag_names import SWITCHES, TWO_VALUES, WITH_VALUE

ALL_EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
"""What `--cpu-moe` overrides, and with a block's number before it `--n-cpu-moe`."""

_ON = ("on", "enabled", "true", "1")
_OFF = ("off", "disabled", "false", "0")
_NUMBERS = {
    "-t": "threads",
    "--threads": "threads",
    "-tb": "threads_batch",
    "--threads-batch": "threads_batch",
    "-c": "n_ctx",
    "--ctx-size": "n_ctx",
    "-b": "n_batch",
    "--batch-size": "n_batch",
    "-ub": "n_ubatch",
    "--ubatch-size": "n_ubatch",
    "-np": "parallel",
    "--parallel": "parallel",
    "-mg": "main_gpu",
    "--main-gpu": "main_gpu",
}
_TEXTS = {
    "-m": "model",
    "--model": "model",
    "-ctk": "kv_key",
    "--cache-type-k": "kv_key",
    "-ctv": "kv_value",
    "--cache-type-v": "kv_value",
    "-dev": "devices",
    "--device": "devices",
    "-sm": "split_mode",
    "--split-mode": "split_mode",
    "-ts": "tensor_split",
    "--tensor-split": "tensor_split",
    "-ngl": "gpu_layers",
    "--gpu-layers": "gpu_layers",
    "--n-gpu-layers": "gpu_layers",
    "-C": "cpu_mask",
    "--cpu-mask": "cpu_mask",
    "-Cr": "cpu_range",
    "--cpu-range": "cpu_range",
    "-Cb": "batch_mask",
    "--cpu-mask-batch": "batch_mask",
    "-fa": "flash_attention",
    "--flash-attn": "flash_attention",
    "-lm": "load_mode",
    "--load-mode": "load_mode",
}
_FACTS = {
    "--repack": ("repack", True),
    "-nr": ("repack", False),
    "--no-repack": ("repack", False),
    "-kvu": ("unified", True),
    "--kv-unified": ("unified", True),
    "-no-kvu": ("unified", False),
    "--no-kv-unified": ("unified", False),
}
# What bears on memory and has no counterpart in a plan: the flag to a sentence.
_NOT_HERE = {
    "-nkvo": "the KV cache lies with the attention here",
    "--no-kv-offload": "the KV cache lies with the attention here",
    "--swa-full": "layers with a sliding window keep no more than the window here",
    "-ncffn": "dense layers lie with the attention here",
    "--n-cpu-ffn": "dense layers lie with the attention here",
    "--no-mmap": "the model file is always mapped here",
    "--mlock": "memory is not locked here",
    "--no-op-offload": "whether missing experts are copied over is the policy's matter here",
    "--rpc": "only this machine's devices are used here",
    "--lora": "no adapters are loaded here",
    "-cmoed": "there is no draft model here",
    "-md": "there is no draft model here",
    "--model-draft": "there is no draft model here",
    "--spec-draft-model": "there is no draft model here",
    "-mm": "there is no vision part here",
    "--mmproj": "there is no vision part here",
}
# Of older versions of llama.cpp, without a value.
_OLD_SWITCHES = {"--mmap", "--no-mmap", "--mlock"}
# What shell variables may stand before the program for.
_VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


class Override(msgspec.Struct, frozen=True):
    """Tensors in whose names `pattern` is found get the buffers of the device `buffer`; the first pattern wins.

    `flag` is how the line said it.
    """

    flag: str
    pattern: str
    buffer: str


class LlamaLine(msgspec.Struct, kw_only=True):
    """What a line says that bears on a plan; None or empty for what it leaves open. Values are as written.

    Attributes:
        remarks: One sentence for each thing that is not taken over.
        counts: `--n-cpu-moe` as given, for a remark where it is more than there is.
        metadata: What `--override-kv` was given, one `KEY=TYPE:VALUE` each.
    """

    model: str | None = None
    overrides: list[Override] = []
    counts: list[int] = []
    gpu_layers: str | None = None
    threads: int | None = None
    threads_batch: int | None = None
    n_ctx: int | None = None
    n_batch: int | None = None
    n_ubatch: int | None = None
    parallel: int | None = None
    unified: bool | None = None
    kv_key: str | None = None
    kv_value: str | None = None
    flash_attention: str | None = None
    devices: str | None = None
    main_gpu: int | None = None
    split_mode: str | None = None
    tensor_split: str | None = None
    repack: bool | None = None
    load_mode: str | None = None
    cpu_mask: str | None = None
    cpu_range: str | None = None
    batch_mask: str | None = None
    metadata: list[str] = []
    remarks: list[str] = []

    @property
    def places(self) -> bool:
        """Whether it says anything of where layers and experts go."""
        said = (self.gpu_layers, self.devices, self.split_mode, self.tensor_split, self.main_gpu)
        return bool(self.overrides) or any(value is not None for value in said)


def read_line(arguments: Sequence[str]) -> LlamaLine:
    """Read the arguments of a line, with or without a program before them.

    Raises:
        AppError: bad_usage, a flag that bears on a plan has no value or an impossible one.
    """
    reader = _Reader(arguments)
    while reader.more:
        reader.take()
    return reader.finish()


def number(flag: str, text: str) -> int:
    """The whole number that `flag` was given.

    Raises:
        AppError: bad_usage, it is none.
    """
    if not re.fullmatch(r"[+-]?\d{1,12}", text, re.ASCII):
        raise AppError(ErrorCode.BAD_USAGE, f"{flag} takes a whole number, not '{text}'.")
    return int(text)


class _Reader:
    """Takes one flag after the other."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._left = list(arguments)
        self._line = LlamaLine()
        self._passed: list[str] = []
        self._seen: set[str] = set()
        self._take_program()

    @property
    def more(self) -> bool:
        """Whether there are arguments left."""
        return bool(self._left)

    def finish(self) -> LlamaLine:
        """What was read."""
        if self._passed:
            self._line.remarks.append(f"No part of a plan, not taken over: {', '.join(self._passed)}.")
        return self._line

    def _take_program(self) -> None:
        while self._left and (variable := _VARIABLE.fullmatch(self._left[0])):
            self._left.pop(0)
            why = " It numbers devices anew: look at the devices." if variable[1].endswith("VISIBLE_DEVICES") else ""
            self._line.remarks.append(f"The variable {variable[0]} is not taken over.{why}")
        if self._left and not self._left[0].startswith("-"):
            self._left.pop(0)

    def take(self) -> None:
        """Take the next flag and its values."""
        written = self._left.pop(0)
        # llama.cpp takes underscores for dashes in long names.
        flag = written.replace("_", "-") if written.startswith("--") else written
        if flag in ("-ot", "--override-tensor"):
            self._line.overrides += _overrides(flag, self._value(flag))
        elif flag in ("-cmoe", "--cpu-moe"):
            self._line.overrides.append(Override(flag, ALL_EXPERTS, "CPU"))
        elif flag in ("-ncmoe", "--n-cpu-moe"):
            self._take_leading(flag)
        elif flag == "--override-kv":
            self._line.metadata += self._value(flag).split(",")
        elif flag in _NUMBERS:
            self._set(_NUMBERS[flag], flag, number(flag, self._value(flag)))
        elif flag in _TEXTS:
            self._set(_TEXTS[flag], flag, self._text(flag))
        elif flag in _FACTS:
            self._set(_FACTS[flag][0], flag, _FACTS[flag][1])
        else:
            self._pass_over(written, flag)

    def _take_leading(self, flag: str) -> None:
        count = number(flag, self._value(flag))
        if count < 0:
            raise AppError(ErrorCode.BAD_USAGE, f"{flag} {count} is impossible: it takes 0 layers or more.")
        self._line.counts.append(count)
        words = f"{flag} {count}"
        # llama.cpp makes a pattern for each layer; one for all of them decides the same.
        layers = "|".join(map(str, range(min(count, 1000))))
        if count:
            self._line.overrides.append(Override(words, rf"blk\.({layers}){ALL_EXPERTS}", "CPU"))
        else:
            self._line.remarks.append(f"{words} does nothing: it keeps no layer's experts on the CPU.")

    def _text(self, flag: str) -> str:
        if flag in ("-fa", "--flash-attn") and (not self._left or self._left[0] not in (*_ON, *_OFF, "auto", "-1")):
            return "on"  # a switch in older versions
        return self._value(flag)

    def _value(self, flag: str) -> str:
        if not self._left:
            raise AppError(ErrorCode.BAD_USAGE, f"{flag} has no value.")
        return self._left.pop(0)

    def _set(self, field: str, flag: str, value: str | int | bool) -> None:
        if field in self._seen:
            self._line.remarks.append(f"{flag} is given more than once: the last, {value}, counts.")
        self._seen.add(field)
        setattr(self._line, field, value)

    def _pass_over(self, written: str, flag: str) -> None:
        if flag in SWITCHES or flag in _OLD_SWITCHES:
            values = 0
        elif flag in WITH_VALUE:
            values = 1
        elif flag in TWO_VALUES:
            values = 2
        else:
            self._line.remarks.append(_unknown(written, flag))
            # Its value, as far as that can be told.
            if flag.startswith("-") and "=" not in flag and self._left and not self._left[0].startswith("-"):
                self._left.pop(0)
            return
        words = " ".join([written, *(self._left.pop(0) for _ in range(min(values, len(self._left))))])
        if flag in _NOT_HERE:
            self._line.remarks.append(f"{words} is not taken over: {_NOT_HERE[flag]}.")
        else:
            self._passed.append(words)


def _overrides(flag: str, value: str) -> list[Override]:
    found = []
    for part in value.split(","):
        pattern, equals, buffer = part.partition("=")
        if not equals:
            raise AppError(
                ErrorCode.BAD_USAGE,
                f"{flag} takes a pattern, '=' and a device; '{part}' has no '='"
                f"{' (a comma ends a pattern)' if ',' in value else ''}.",
            )
        _check_pattern(flag, pattern)
        found.append(Override(f"{flag} {part}", pattern, buffer))
    return found


def _check_pattern(flag: str, pattern: str) -> None:
    # std::regex knows neither look-behind nor named groups nor flags, which Python's does.
    if re.search(r"(?<!\\)\(\?(?![:=!])", pattern):
        raise AppError(ErrorCode.BAD_USAGE, f"{flag}: llama.cpp cannot read '(?' in the pattern '{pattern}'.")
    if "[[:" in pattern:
        raise AppError(ErrorCode.BAD_USAGE, f"{flag}: write the class in '{pattern}' as [0-9] or [a-z].")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise AppError(ErrorCode.BAD_USAGE, f"{flag}: '{pattern}' is no regular expression: {error}.") from error


def _unknown(written: str, flag: str) -> str:
    if not flag.startswith("-"):
        return f"'{written}' belongs to no flag and is not taken over."
    name, equals, _ = flag.partition("=")
    known = {*SWITCHES, *WITH_VALUE, *_NUMBERS, *_TEXTS, *_FACTS, "--n-cpu-moe", "--cpu-moe", "--override-tensor"}
    if equals and name in known:
        return f"llama.cpp does not know '{written}': a blank separates a flag and its value."
    near = difflib.get_close_matches(flag, sorted(known), n=1, cutoff=0.75)
    return f"llama.cpp does not know '{written}'{f'; is {near[0]} meant?' if near else '.'}"
