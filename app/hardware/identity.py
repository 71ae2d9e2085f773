"""What the machine is called, and whether it is a virtual one."""

from app.hardware import smbios, windows_calls
from app.hardware.answers import Answers
from app.hardware.files import read_text
from app.hardware.sources import NotSeenError
from app.hardware.tree import KernelPath

_DMI = "sys/class/dmi/id"
# Words of makers and products of virtual machines, to their names.
_HYPERVISORS = (
    (("vmware",), "VMware"),
    (("virtualbox", "innotek"), "VirtualBox"),
    (("kvm", "qemu"), "KVM"),
    (("virtual machine", "hyper-v"), "Hyper-V"),
    (("xen",), "Xen"),
    (("parallels",), "Parallels"),
    (("amazon ec2",), "Amazon EC2"),
    (("google compute engine",), "Google Compute Engine"),
    (("firecracker",), "Firecracker"),
    (("bochs",), "Bochs"),
)
# What boards say whose maker filled nothing in.
_NO_NAMES = {"", "to be filled by o.e.m.", "system manufacturer", "system product name", "default string", "unknown"}


def read_product(root: KernelPath, system: str, answers: Answers) -> str:
    """Maker and product: "LENOVO 21CB".

    Raises:
        NotSeenError: nothing tells them.
    """
    words = [word for word in _names(root, system, answers) if word.lower() not in _NO_NAMES]
    if not words:
        raise NotSeenError("Nothing tells what the machine is called.")
    # Some makers begin their products' names with their own.
    return words[-1] if words[-1].lower().startswith(words[0].lower()) else " ".join(words)


def read_virtual(root: KernelPath, system: str, answers: Answers) -> str:
    """The virtual machine that this is; empty for a real one.

    Raises:
        NotSeenError: nothing tells.
    """
    try:
        names = " ".join(_names(root, system, answers)).strip().lower()
    except NotSeenError:
        names = ""
    known = next((name for words, name in _HYPERVISORS if any(word in names for word in words)), "")
    if system == "win32":
        if not names:
            raise NotSeenError("Windows does not tell what the machine is called, so not whether it is a virtual one.")
        return known
    if "microsoft" in (read_text(root / "proc/sys/kernel/osrelease") or "").lower():
        return "WSL"
    processor = read_text(root / "proc/cpuinfo") or ""
    if "hypervisor" in processor.split():
        return known or (read_text(root / "sys/hypervisor/type") or "a virtual machine")
    if not processor or "flags" not in processor:
        if known:
            return known
        raise NotSeenError("This processor's list does not tell virtual machines from real ones.")
    return known


def _names(root: KernelPath, system: str, answers: Answers) -> tuple[str, str]:
    if system == "win32":
        return smbios.maker_and_product(windows_calls.firmware_tables(answers))
    return read_text(root / f"{_DMI}/sys_vendor") or "", read_text(root / f"{_DMI}/product_name") or ""
