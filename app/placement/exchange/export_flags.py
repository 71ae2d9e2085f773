"""A plan as the command line of llama.cpp's programs.

Names and meanings of the flags are those of llama.cpp's `common/arg.cpp` at the engine's version.
"""

from app.model.facts import ModelFacts
from app.placement.active_experts import active_words, experts_used_key
from app.placement.exchange.command_line import join
from app.placement.exchange.formats import Exported, layers_off_gpu, leading_count, lost_experts
from app.placement.overrides import load_arguments
from app.placement.plan import CPU_LANE, Plan

PROGRAMS = ("llama-server", "llama-cli")


def export_flags(plan: Plan, facts: ModelFacts, program: str, shell: str) -> Exported:
    """`plan` as the command line of `program` (one of PROGRAMS), quoted for `shell`.

    Raises:
        AppError: bad_usage, the plan has experts on a GPU and its attention on the CPU.
    """
    lost = lost_experts(plan, program)
    if program == "llama-cli" and plan.n_seq_max > 1:
        lost.append(f"llama-cli holds one conversation; the plan decodes {plan.n_seq_max} together.")
    notes = []
    if plan.gpu and layers_off_gpu(plan, facts):
        notes.append(
            f"For prompts {program} copies the CPU's experts to {plan.gpu}, which takes memory there that this plan "
            "may not count; --no-op-offload prevents it."
        )
    if active := active_words(facts, plan.experts_used):
        notes.append(f"The line has {active}.")
    return Exported(text=join(llama_arguments(plan, facts, program), shell), lost=tuple(lost), notes=tuple(notes))


def llama_arguments(plan: Plan, facts: ModelFacts, program: str) -> tuple[str, ...]:
    """The arguments, program first.

    Raises:
        AppError: as `export_flags`.
    """
    arguments = [program, "-m", plan.model_files[0], *_device_arguments(plan, facts)]
    arguments += ["-c", str(plan.n_ctx), "-b", str(plan.n_batch), "-ub", str(plan.n_ubatch)]
    arguments += ["-t", str(plan.threads), "-tb", str(plan.threads_batch)]
    if plan.cpu_cores:
        mask = f"0x{sum(1 << core for core in set(plan.cpu_cores)):x}"
        # With -tb of its own the batch's threads do not take over the mask of the others.
        arguments += ["-C", mask, "-Cb", mask]
    arguments += ["-ctk", plan.kv_type, "-ctv", plan.kv_type]
    if plan.kv_type != "f16":
        arguments += ["-fa", "on"]  # llama.cpp refuses a quantised V cache without
    if plan.experts_used is not None:
        arguments += ["--override-kv", f"{experts_used_key(facts.architecture)}=int:{plan.experts_used}"]
    if plan.residency == "mapped":
        arguments.append("--no-repack")
    if program == "llama-server":
        arguments += ["-np", str(plan.n_seq_max)]
        if plan.n_seq_max > 1:
            arguments.append("-kvu")  # the conversations share the context's cells
    return tuple(arguments)


def _device_arguments(plan: Plan, facts: ModelFacts) -> list[str]:
    load_arguments(plan)  # refuses what llama.cpp could not be told either
    if plan.gpu is None:
        return ["-dev", "none", "-ngl", "0"]
    arguments = ["-dev", ",".join(plan.gpus), "-ngl", str(facts.layers + 1)]
    if len(plan.gpus) > 1:
        # Every layer's attention to the first device; the others get experts by override.
        arguments += ["-sm", "layer", "-ts", ",".join(["1", *("0" for _ in plan.gpus[1:])])]
    else:
        arguments += ["-sm", "none", "-mg", "0"]
    off_gpu = layers_off_gpu(plan, facts)
    leading = leading_count(off_gpu, facts)
    for pattern, lane in load_arguments(plan).overrides:
        if lane != CPU_LANE or leading is None:
            arguments += ["-ot", f"{pattern}={lane}"]
        elif off_gpu == list(facts.moe_layers):
            arguments.append("--cpu-moe")
        else:
            arguments += ["--n-cpu-moe", str(leading)]
    return arguments
