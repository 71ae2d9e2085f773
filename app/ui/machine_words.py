"""What a probe did not find, and whose memory is main memory, in words that lanes, graphs and wizard share."""

from PySide6.QtCore import QCoreApplication

from app.hardware.facts import Machine
from app.placement.memory import predicted_use, uses_main_memory
from app.placement.plan import Plan
from app.ui.words import in_bytes

translate = QCoreApplication.translate


def borrowed_bytes(plan: Plan, machine: Machine) -> dict[str, int]:
    """What GPUs of the plan that have no memory of their own are predicted to take of main memory, by device."""
    taken = {gpu.device: predicted_use(plan, gpu.device) for gpu in machine.gpus if uses_main_memory(gpu)}
    return {device: size for device, size in taken.items() if size}


def borrowed_text(borrowed: dict[str, int]) -> str:
    """The same behind a figure of main memory: ", 1.2 GiB of it for Vulkan0"; empty for nothing."""
    if not borrowed:
        return ""
    return translate("Lanes", ", {size} of it for {devices}").format(
        size=in_bytes(sum(borrowed.values())), devices=", ".join(borrowed)
    )


def why_no_gpu(machine: Machine | None) -> str:
    """Why there is no GPU lane to use, from what the probe and the engine said."""
    if machine is None:
        return translate("Lanes", "The machine was not probed yet.")
    sentences = [translate("Lanes", "No GPU was found.")]
    if machine.engine is None:
        sentences.append(translate("Lanes", "The engine could not be asked for its devices."))
        return " ".join(sentences)
    sentences.append(translate("Lanes", "The engine computes with {build}.").format(build=machine.engine.build))
    sentences.extend(machine.engine.notes)
    silent = [name for name in machine.engine.backends if name not in ("CPU", "BLAS")]
    if silent and not machine.engine.notes:
        sentences.append(
            translate("Lanes", "{backends} loaded and reports no device.").format(backends=", ".join(silent))
        )
    return " ".join(sentences)
