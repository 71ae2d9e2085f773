"""Rules about machines against snapshots: each fires on one of them, with its figures, and is silent on another."""

import pytest
from doctor_factories import (
    GIB,
    SNAPSHOTS,
    calibration,
    hint,
    hints,
    is_fine,
    machine,
    planned,
    rate,
    replaced,
    seen_of,
    why,
)

from app.doctor.diagnosis import RULES, examine
from app.doctor.hints import SEVERITIES
from app.hardware.facts import CoreClass, GpuProgram
from app.placement.speed.calibration import CopyRate

FIRES = [
    ("power-saver", "laptop_intel_igpu_power_saver", ("low-power", "34 %")),
    ("single-channel", "laptop_nvidia_hybrid_single_channel", ("15.3 GiB", "1 slot is free", "4800 MT/s", "38.4 GB/s")),
    ("single-channel", "desktop_models_on_usb_hard_disk", ("7.7 GiB", "2666 MT/s", "21.3 GB/s")),
    ("ram-speed", "desktop_nvidia_pcie_x4", ("2133 of 3200 MT/s",)),
    ("narrow-link", "desktop_nvidia_pcie_x4", ("PCIe 4.0 ×4", "7.9 GB/s")),
    ("gpu-unseen", "desktop_nvidia_no_driver", ("no driver runs it", "0000:01:00.0")),
    ("gpu-unseen", "desktop_nvidia_driver_mismatch", ("driver nvidia 550.120", "unsupported display driver")),
    ("other-programs", "workstation_two_gpus", ("8.7 GiB", "24.0 GiB", "python3")),
    ("other-programs", "laptop_windows_nvidia_battery", ("3.1 GiB", "8.0 GiB", "game.exe (3.0 GiB)")),
    ("network-disk", "desktop_models_on_network", ("/mnt/nas/models", "nfs4")),
    ("slow-disk", "desktop_models_on_usb_hard_disk", ("hard disk",)),
]
SILENT = [
    ("power-saver", "desktop_nvidia_x16_dual_channel"),
    ("single-channel", "desktop_nvidia_x16_dual_channel"),
    ("ram-speed", "desktop_nvidia_x16_dual_channel"),
    ("narrow-link", "desktop_nvidia_x16_dual_channel"),
    ("gpu-unseen", "desktop_nvidia_x16_dual_channel"),
    ("old-driver", "desktop_nvidia_x16_dual_channel"),
    ("other-programs", "desktop_nvidia_x16_dual_channel"),
    ("network-disk", "desktop_nvidia_x16_dual_channel"),
    ("slow-disk", "desktop_nvidia_x16_dual_channel"),
    ("narrow-link", "laptop_ryzen_uma"),
    ("other-programs", "laptop_intel_igpu_power_saver"),
    ("gpu-unseen", "server_no_gpu_two_sockets"),
]


@pytest.mark.parametrize(("rule", "name", "figures"), FIRES)
def test_a_rule_fires_on_the_machine_that_has_the_fault_and_its_words_hold_the_figures(rule, name, figures):
    found = hint(seen_of(name), rule)
    assert all(figure in found.evidence for figure in figures), found.evidence
    assert found.title
    assert found.severity in SEVERITIES
    assert found.action.endswith(".")
    assert found.action.count(". ") == 0


@pytest.mark.parametrize(("rule", "name"), SILENT)
def test_a_rule_was_judged_and_says_nothing_of_a_machine_without_the_fault(rule, name):
    assert is_fine(seen_of(name), rule)


@pytest.mark.parametrize("name", sorted(path.stem for path in SNAPSHOTS.glob("*.json")))
def test_every_rule_is_judged_or_says_why_not_on_every_machine(name):
    diagnosis = examine(seen_of(name))
    told = {hint.rule for hint in diagnosis.hints} | set(diagnosis.fine) | {its.rule for its in diagnosis.not_judged}
    assert told == {rule.name for rule in RULES}
    assert all(its.why.endswith(".") for its in diagnosis.not_judged)
    assert [SEVERITIES.index(hint.severity) for hint in diagnosis.hints] == sorted(
        SEVERITIES.index(hint.severity) for hint in diagnosis.hints
    )


def test_modules_of_a_virtual_machine_are_not_judged():
    assert "virtual" in why(seen_of("vm_software_vulkan_recorded"), "single-channel")


def test_a_driver_that_hangs_is_named_as_the_reason_why_its_programs_are_not_judged():
    assert "did not answer in time" in why(seen_of("desktop_nvidia_nvml_hangs"), "other-programs")


def test_a_card_that_two_backends_offer_is_told_of_once():
    assert len(hints(seen_of("laptop_windows_nvidia_battery"), "other-programs")) == 1


def holding(name, *programs):
    """A machine whose first card is used by these programs: name and bytes of each."""
    its = machine(name)
    used = tuple(GpuProgram(pid=900 + n, name=word, used_bytes=size) for n, (word, size) in enumerate(programs))
    return seen_of(replaced(its, gpus=(replaced(its.gpus[0], programs=used), *its.gpus[1:])))


@pytest.mark.parametrize("desktop", ["gnome-shell", "Xorg", "dwm.exe", "kwin_wayland"])
def test_the_desktop_itself_is_counted_and_not_to_be_closed(desktop):
    found = hint(holding("desktop_nvidia_x16_dual_channel", (desktop, 2 * GIB), ("game", GIB)), "other-programs")
    assert "3.0 GiB" in found.evidence
    assert f"{desktop} (2.0 GiB)" in found.evidence
    assert found.action == "Close game and plan the model again."
    alone = hint(holding("desktop_nvidia_x16_dual_channel", (desktop, 2 * GIB)), "other-programs")
    assert alone.action == "Close programs that use the graphics card and plan the model again."


def test_windows_own_saver_is_ended_by_itself_and_not_by_another_profile():
    found = hint(seen_of("laptop_windows_nvidia_battery"), "power-saver")
    assert found.evidence.startswith("The battery saver is on (profile balanced)")
    assert found.action == "Switch the battery saver off in the system's settings."
    by_profile = hint(seen_of("laptop_intel_igpu_power_saver"), "power-saver")
    assert by_profile.evidence.startswith("A power saver is on (profile low-power")
    assert by_profile.action == "Choose a balanced or fast power mode in the system's settings."


def test_two_modules_on_one_channel_need_no_third():
    its = machine("laptop_nvidia_hybrid_single_channel")
    module = next(each for each in its.ram.modules if each.size_bytes)
    both = (module, replaced(module, slot="Controller0-ChannelA-DIMM1"))
    found = hint(seen_of(replaced(its, ram=replaced(its.ram, modules=both, free_slots=2))), "single-channel")
    assert found.action == "Move a module into the other channel's slot."


def test_driver_and_libraries_of_two_versions_are_mended_by_a_restart():
    assert "Restart" in hint(seen_of("desktop_nvidia_driver_mismatch"), "gpu-unseen").action


def test_a_driver_before_cuda_12_is_too_old():
    its = machine("desktop_nvidia_x16_dual_channel")
    old = replaced(its.gpus[0], driver_version="470.256.02", cuda="11.4")
    found = hint(seen_of(replaced(its, gpus=(old,))), "old-driver")
    assert "470.256.02" in found.evidence
    assert "11.4" in found.evidence
    assert found.severity == "problem"
    vulkan = replaced(its.engine, backends=("CPU", "Vulkan"))
    assert hint(seen_of(replaced(its, gpus=(old,), engine=vulkan)), "old-driver").severity == "note"


def test_the_engine_itself_is_no_other_program():
    its = machine("workstation_two_gpus")
    pid = its.gpus[1].programs[0].pid
    assert hints(seen_of(its), "other-programs")
    assert not hints(seen_of(its, engine_pid=pid), "other-programs")


def test_copies_that_were_measured_are_told_beside_a_narrow_link():
    copies = (CopyRate(device="CUDA0", direction="to_device", pinned=True, bytes_per_second=6.4e9),)
    seen = seen_of("desktop_nvidia_pcie_x4", calibration=calibration(copies=copies))
    assert "measured 6.4 GB/s" in hint(seen, "narrow-link").evidence


def test_a_card_in_fewer_lanes_than_slot_and_card_have_is_slower_than_it_could_be():
    its = machine("desktop_nvidia_x16_dual_channel")
    gpu = its.gpus[0]
    badly_seated = replaced(gpu, pcie=replaced(gpu.pcie, lanes=4))
    found = hint(seen_of(replaced(its, gpus=(badly_seated,))), "narrow-link")
    assert found.severity == "slower"
    assert "though ×16 is possible" in found.evidence


# ---- threads ------------------------------------------------------------------------------------

HYBRID = "laptop_nvidia_hybrid_single_channel"


def test_more_threads_than_cores_are_told_with_both_numbers_and_brought_down():
    cpu = machine("desktop_nvidia_x16_dual_channel").cpu
    many = cpu.physical_cores * 2
    found = hint(planned("desktop_nvidia_x16_dual_channel", change={"threads": many}), "threads")
    assert f"{many} threads" in found.evidence
    assert f"{cpu.physical_cores} cores" in found.evidence
    assert [(its.key, its.value) for its in found.fix] == [("threads", cpu.performance_cores)]


def test_threads_hardly_matter_where_everything_is_on_the_gpu():
    seen = planned("workstation_two_gpus", change={"threads": 99})
    whole = dict.fromkeys(seen.plan.expert_lanes, "CUDA0")
    assert is_fine(replaced(seen, plan=replaced(seen.plan, gpu="CUDA0", expert_lanes=whole)), "threads")


def test_the_planners_own_threads_are_fine():
    seen = planned("desktop_nvidia_x16_dual_channel")
    assert is_fine(seen, "threads")
    assert is_fine(seen, "efficiency-cores")


def test_threads_that_were_measured_to_be_faster_are_left_alone():
    cpu = machine("desktop_nvidia_x16_dual_channel").cpu
    many, most = cpu.logical_cores, cpu.physical_cores
    seen = planned("desktop_nvidia_x16_dual_channel", change={"threads": many})
    slower = calibration(rate(threads=most, gigabytes=20.0), rate(threads=many, gigabytes=14.0))
    faster = calibration(rate(threads=most, gigabytes=14.0), rate(threads=many, gigabytes=20.0))
    told = hint(replaced(seen, calibration=slower), "threads").evidence
    assert "14.0 GB/s" in told
    assert "20.0" in told
    assert is_fine(replaced(seen, calibration=faster), "threads")


def test_a_tuned_plan_keeps_the_threads_that_it_was_measured_with():
    many = machine(HYBRID).cpu.physical_cores
    assert is_fine(planned(HYBRID, change={"threads": many, "tuned": "8 % faster"}), "efficiency-cores")


def test_threads_on_efficiency_cores_are_told_with_the_cores_and_kept_off_them():
    cpu = machine(HYBRID).cpu
    assert cpu.performance_cores < cpu.physical_cores
    found = hint(planned(HYBRID, change={"threads": cpu.physical_cores}), "efficiency-cores")
    assert f"{cpu.physical_cores} threads" in found.evidence
    assert f"{cpu.core_classes[0].cores} {cpu.core_classes[0].name}" in found.evidence
    assert found.fix[0].value == cpu.performance_cores


def test_a_plan_kept_to_slower_processors_is_sent_to_the_fast_ones():
    its = machine(HYBRID)
    slow = next(kind for kind in its.cpu.core_classes[1:] if isinstance(kind, CoreClass))
    cores = (*its.cpu.performance_cpus[:2], slow.cpus[0])
    found = hint(planned(its, change={"threads": 2, "cpu_cores": cores}), "efficiency-cores")
    assert str(slow.cpus[0]) in found.evidence
    assert found.fix[-1].key == "cpu_cores"
    assert found.fix[-1].value == its.cpu.performance_cpus


# ---- the engine's code ----------------------------------------------------------------------------


def test_an_engine_that_does_without_the_processors_instructions_is_told():
    its = machine("desktop_nvidia_x16_dual_channel")
    plain = replaced(its, engine=replaced(its.engine, cpu_variant="x64", cpu_features=("SSE3",)))
    whole = replaced(its, engine=replaced(its.engine, cpu_features=("SSE3", "AVX2", "FMA", "F16C")))
    found = hint(seen_of(plain), "cpu-build")
    assert "AVX2" in found.evidence
    assert "x64" in found.evidence
    assert is_fine(seen_of(whole), "cpu-build")
    assert why(seen_of(replaced(its, engine=replaced(its.engine, cpu_features=()))), "cpu-build")


# ---- GPUs in main memory ---------------------------------------------------------------------------


def test_a_gpu_in_main_memory_is_judged_by_measured_rates_only():
    seen = planned("laptop_ryzen_uma", gpu="Vulkan0")
    assert "not measured" in why(seen, "slow-gpu")
    slow = calibration(rate(threads=8, gigabytes=31.0), rate("Vulkan0", gigabytes=22.0))
    fast = calibration(rate(threads=8, gigabytes=31.0), rate("Vulkan0", gigabytes=40.0))
    found = hint(replaced(seen, calibration=slow), "slow-gpu")
    assert "22.0 GB/s" in found.evidence
    assert "31.0" in found.evidence
    assert is_fine(replaced(seen, calibration=fast), "slow-gpu")


def test_a_card_with_memory_of_its_own_is_not_compared_with_the_processor():
    assert is_fine(planned("desktop_nvidia_x16_dual_channel"), "slow-gpu")
