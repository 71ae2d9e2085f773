"""The benchmark's scenarios: what a model reads and decodes in each, and in which order variants are measured."""

from collections.abc import Iterable, Sequence

import msgspec

from app.placement.plan import Plan
from app.placement.scenarios import texts as scenario_texts

SCENARIOS = {
    "chat": "a steady conversation on one subject",
    "long-context": "decoding after a context of 8k tokens",
    "batch8": "eight different prompts decoded together",
    "conflict": "one text that jumps between unrelated subjects, so that the experts in use change",
    "sweep": "threads by micro-batch size",
}
OURS, STOCK = "ours", "stock"

_TOGETHER = 8
_LAST_SPARE = 16
"""Tokens of the context that a long prompt leaves free beside what is decoded."""
# What one visit costs in the time of a decoded token, before anything is known: prompts are computed in batches.
_PROMPT_TOKEN_COST = 0.1
_LOAD_COST = 30.0
_CHARACTERS_PER_TOKEN = 4.0


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts, and what is decoded after them; the next turn goes on in the same context.

    Attributes:
        prompts: One for each sequence; with `report_tokens` there are none.
        report_tokens: Instead of a prompt, a report of about so many tokens.
        decode_tokens: Tokens decoded, of every sequence.
        new_subject: The experts in use until then are of little use from here on.
    """

    prompts: tuple[str, ...] = ()
    report_tokens: int = 0
    decode_tokens: int = 0
    new_subject: bool = False


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is measured: a scenario, or one setting of the sweep.

    Attributes:
        scenario: One of SCENARIOS.
        name: Tells it from all other cases.
        turns: In order.
        sequences: Decoded together.
        threads, n_ubatch: What the plan is changed to; None leaves it.
    """

    scenario: str
    name: str
    turns: tuple[Turn, ...]
    sequences: int = 1
    threads: int | None = None
    n_ubatch: int | None = None

    @property
    def steps(self) -> int:
        """Decoding steps over all turns."""
        return sum(turn.decode_tokens for turn in self.turns)


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured; all but `turns` and `subjects` in tokens.

    Attributes:
        turns, steps: Of the conversation, and decoded in each; as many are decoded after a long context and together.
        subjects, subject_steps: Between which the text jumps, and decoded of each.
        context: Of the long context, what is decoded included.
        sweep_prompt, sweep_steps: Of every setting of the sweep. sweep_ubatches: its micro-batches.
        sweep_cores: Whether the sweep tries all cores and half of them beside the plan's threads.
    """

    turns: int = 4
    steps: int = 64
    subjects: int = 6
    subject_steps: int = 32
    context: int = 8192
    sweep_prompt: int = 1024
    sweep_steps: int = 32
    sweep_ubatches: tuple[int, ...] = (128, 512, 1024)
    sweep_cores: bool = True


QUICK = Amounts(
    turns=2,
    steps=6,
    subjects=3,
    subject_steps=4,
    context=512,
    sweep_prompt=64,
    sweep_steps=3,
    sweep_ubatches=(32, 64),
    sweep_cores=False,
)
"""Enough to see that everything works; too little for figures that mean something."""


def make_cases(names: Iterable[str], amounts: Amounts, plan: Plan, cores: int) -> tuple[Case, ...]:
    """The cases of these scenarios for a plan, in the order of SCENARIOS.

    Args:
        names: Of SCENARIOS.
        amounts: How much is measured.
        plan: Its context bounds what is read.
        cores: Physical cores, for the sweep.
    """
    wanted = set(names)
    cases: list[Case] = []
    if "chat" in wanted:
        texts = scenario_texts.CONVERSATION[: amounts.turns]
        turns = tuple(Turn(prompts=(text,), decode_tokens=amounts.steps) for text in texts)
        cases.append(Case(scenario="chat", name="chat", turns=turns))
    if "long-context" in wanted:
        turn = _report(min(amounts.context, plan.n_ctx), amounts.steps)
        cases.append(Case(scenario="long-context", name="long-context", turns=(turn,)))
    if "batch8" in wanted:
        turn = Turn(prompts=tuple(scenario_texts.SUBJECTS.values())[:_TOGETHER], decode_tokens=amounts.steps)
        cases.append(Case(scenario="batch8", name="batch8", turns=(turn,), sequences=_TOGETHER))
    if "conflict" in wanted:
        cases.append(Case(scenario="conflict", name="conflict", turns=_jumps(amounts)))
    if "sweep" in wanted:
        cases += _sweep(amounts, plan, cores)
    return tuple(cases)


def _report(tokens: int, steps: int) -> Turn:
    """A report that leaves room for `steps` in a context of `tokens`."""
    return Turn(report_tokens=max(tokens - steps - _LAST_SPARE, 1), decode_tokens=steps)


def _jumps(amounts: Amounts) -> tuple[Turn, ...]:
    texts = list(scenario_texts.SUBJECTS.values())[: amounts.subjects]
    return tuple(
        Turn(prompts=(f"\n\n{text}" if place else text,), decode_tokens=amounts.subject_steps, new_subject=True)
        for place, text in enumerate(texts)
    )


def _sweep(amounts: Amounts, plan: Plan, cores: int) -> list[Case]:
    counts = {plan.threads, max(cores, 1), -(-max(cores, 1) // 2)} if amounts.sweep_cores else {plan.threads}
    turn = _report(min(amounts.sweep_prompt + amounts.sweep_steps + _LAST_SPARE, plan.n_ctx), amounts.sweep_steps)
    return [
        Case(
            scenario="sweep",
            name=f"{threads} thread{'s' if threads > 1 else ''}, ubatch {n_ubatch}",
            turns=(turn,),
            threads=threads,
            n_ubatch=n_ubatch,
        )
        for threads in sorted(counts)
        for n_ubatch in amounts.sweep_ubatches
        if n_ubatch <= plan.n_ctx
    ]


# ---- in which order --------------------------------------------------------------------------


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of one variant; `round` counts from 0."""

    case: Case
    variant: str
    round: int


def schedule(cases: Sequence[Case], variants: Sequence[str], rounds: int) -> tuple[Visit, ...]:
    """All measurements in order.

    Rounds follow one another, so that an end before time leaves whole rounds; in a round the variants of a case are
    neighbours, and every other round has them in reverse order: what slows a machine down meets all alike.
    """
    return tuple(
        Visit(case=case, variant=variant, round=number)
        for number in range(rounds)
        for case in cases
        for variant in (variants if number % 2 == 0 else variants[::-1])
    )


def remaining_seconds(visits: Sequence[Visit], taken: Sequence[float]) -> float | None:
    """How long the rest will take, predicted from the first visits, which took `taken` seconds; None without one.

    A case that was measured before takes as long as then; others are told by how much they compute.
    """
    if not taken:
        return None
    done = visits[: len(taken)]
    known: dict[str, list[float]] = {}
    for visit, seconds in zip(done, taken, strict=True):
        known.setdefault(visit.case.name, []).append(seconds)
    rate = sum(taken) / sum(_cost(visit.case) for visit in done)
    return sum(
        sum(times) / len(times) if (times := known.get(visit.case.name)) else _cost(visit.case) * rate
        for visit in visits[len(taken) :]
    )


def _cost(case: Case) -> float:
    """How much a visit computes, in decoding steps."""
    characters = sum(len(prompt) for turn in case.turns for prompt in turn.prompts)
    prompt = characters / _CHARACTERS_PER_TOKEN + sum(turn.report_tokens for turn in case.turns)
    return _LOAD_COST + prompt * _PROMPT_TOKEN_COST + case.steps
