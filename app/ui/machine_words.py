"""What a probe did not find, in words that lanes, graphs and wizard share."""

from PySide6.QtCore import QCoreApplication

from app.hardware.facts import Machine

translate = QCoreApplication.translate


def why_no_gpu(machine: Machine | None) -> str:
    """Why there is no GPU lane to use, from what the probe and the engine said."""
    if machine is None:
        return translate("Lanes", "The machine was not probed yet.")
    sentences = [translate("Lanes", "No GPU was found.")]
    if machine.engine is None:
        sentences.append(translate("Lanes", "The engine could not be asked for its devices."))
        return " ".join(sentences)
    sentences.append(translate("Lanes", "The engine was built for {build}.").format(build=machine.engine.build))
    sentences.extend(machine.engine.notes)
    silent = [name for name in machine.engine.backends if name not in ("CPU", "BLAS")]
    if silent and not machine.engine.notes:
        sentences.append(
            translate("Lanes", "{backends} loaded and reports no device.").format(backends=", ".join(silent))
        )
    return " ".join(sentences)
