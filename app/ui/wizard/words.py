"""The wizard's sentences: a model, a machine, memory and what is missing, in plain words."""

from PySide6.QtCore import QCoreApplication

from app.hardware.facts import Gpu, GpuKind, Machine
from app.model.facts import ModelFacts
from app.placement.plan import CPU_LANE
from app.ui.wizard.flow import Lack, View
from app.ui.words import in_bytes, in_tokens, number

Row = tuple[str, str]
"""A label and what it says."""


def tr(text: str) -> str:
    """`text` in the user's language."""
    return QCoreApplication.translate("Wizard", text)


def view_title(view: View) -> str:
    """A view's name in the step indicator."""
    return {
        View.MODEL: tr("Model"),
        View.MACHINE: tr("Machine"),
        View.PLAN: tr("Plan"),
        View.LOAD: tr("Load"),
    }[view]


def lack_text(lack: Lack | None) -> str:
    """What must happen before the user can go on."""
    if lack is None:
        return ""
    return {
        Lack.MODEL: tr("Choose a model to go on."),
        Lack.READING: tr("Reading the model…"),
        Lack.MACHINE: tr("Looking at this machine…"),
        Lack.PLAN: tr("There is no plan for these choices."),
        Lack.LOADED: "",
    }[lack]


# ---- model -----------------------------------------------------------------------------------


def model_rows(facts: ModelFacts) -> tuple[Row, ...]:
    """What the file says about itself."""
    rows = [
        (tr("Architecture"), f"{facts.architecture} · {facts.quantization}"),
        (tr("Layers"), _layers(facts)),
        (tr("Experts"), _experts(facts)),
        (tr("Size"), _size(facts)),
    ]
    if facts.moe_layers:
        rows.append((tr("One token reads"), tr("{size} of experts").format(size=in_bytes(facts.token_cycle_bytes))))
    rows.append((tr("Context"), tr("up to {tokens}").format(tokens=in_tokens(facts.context_length))))
    if not facts.chat_template:
        rows.append((tr("Chat template"), tr("none in the file; the general ChatML form is used")))
    return tuple(rows)


def model_meaning(facts: ModelFacts) -> str:
    """What the figures mean for placing the model."""
    if not facts.moe_layers:
        return tr(
            "This is a dense model: it has no experts to place. It can be loaded and chatted with, but the lanes "
            "have nothing to show."
        )
    share = facts.token_cycle_bytes / facts.bytes.experts
    return tr(
        "Each token uses only {share} % of the expert bytes. That is why experts can wait in main memory, or on "
        "disk, and the model still answers."
    ).format(share=number(100 * share, 0 if share >= 0.1 else 1))


def _layers(facts: ModelFacts) -> str:
    moe = len(facts.moe_layers)
    if not moe:
        return number(facts.layers)
    if moe == facts.layers:
        return tr("{count}, all with experts").format(count=number(moe))
    return tr("{count}, {moe} of them with experts").format(count=number(facts.layers), moe=number(moe))


def _experts(facts: ModelFacts) -> str:
    if not facts.moe_layers:
        return tr("none")
    text = tr("{count} per layer, {used} used for each token").format(
        count=number(facts.expert_count), used=number(facts.experts_used)
    )
    if facts.experts_shared:
        text += tr(", {count} more used always").format(count=number(facts.experts_shared))
    return text


def _size(facts: ModelFacts) -> str:
    size = in_bytes(facts.file_bytes)
    return size if len(facts.files) == 1 else tr("{size} in {count} files").format(size=size, count=len(facts.files))


# ---- machine ---------------------------------------------------------------------------------


def machine_meaning(machine: Machine) -> str:
    """What this machine means for a model, in one sentence."""
    free = in_bytes(machine.ram.available_bytes)
    real = [gpu for gpu in machine.gpus if gpu.kind is not GpuKind.SOFTWARE]
    if not real:
        return tr("Everything will be computed on the processor, with the model in {free} of free main memory.").format(
            free=free
        )
    best = max(real, key=lambda gpu: (gpu.kind is GpuKind.DISCRETE, gpu.free_bytes))
    if best.kind is GpuKind.INTEGRATED:
        return tr(
            "{gpu} can compute, but shares main memory with everything else: a plan has {free} for both together."
        ).format(gpu=best.name, free=free)
    return tr(
        "{gpu} takes what every token needs first, then as many experts as fit into its {gpu_free}; "
        "the processor computes the others from {free} of free main memory."
    ).format(gpu=best.name, gpu_free=in_bytes(best.free_bytes), free=free)


def gpu_heading(gpu: Gpu) -> str:
    """What sort of GPU it is, with the engine's word for it."""
    kind = {
        GpuKind.DISCRETE: tr("Graphics card"),
        GpuKind.INTEGRATED: tr("Graphics built into the processor"),
        GpuKind.SOFTWARE: tr("No graphics card"),
    }[gpu.kind]
    return f"{kind} · {gpu.device}"


# ---- plan ------------------------------------------------------------------------------------


def device_word(device: str) -> str:
    """A device in the head of a column: the engine's word for a GPU."""
    return tr("main memory") if device == CPU_LANE else device


def device_title(device: str, machine: Machine) -> str:
    """A device with its name."""
    if device == CPU_LANE:
        return tr("Main memory")
    return next((f"{device} · {gpu.name}" for gpu in machine.gpus if gpu.device == device), device)


def free_bytes(device: str, machine: Machine) -> int:
    """What was free on a device when the machine was probed; 0 for one that is not there."""
    if device == CPU_LANE:
        return machine.ram.available_bytes
    return next((gpu.free_bytes for gpu in machine.gpus if gpu.device == device), 0)
