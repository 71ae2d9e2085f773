"""Measurements of a real model in the engine child: several sequences, going on, cancelling, errors, sums."""

import pytest
from engine_driver import answer, plan_for

from app.engine import protocol
from app.engine.client import EngineClient, engine_command
from app.errors import AppError, ErrorCode
from app.model import read_facts

STORIES = ("Once upon a time a fox", "The recipe for bread begins with", "int main() { return")
LAYERS, USED = 30, 2


def measure(client, *prompts, decode_tokens=6, go_on=False):
    return client.request(
        protocol.Measure, protocol.Measured, prompts=prompts, decode_tokens=decode_tokens, go_on=go_on
    )


@pytest.fixture(scope="module")
def together(demo_model):
    """A child that decodes up to three sequences together."""
    with EngineClient() as client:
        plan = plan_for(demo_model, n_seq_max=3, n_batch=64, n_ubatch=32, n_ctx=768)
        client.request(protocol.Load, protocol.Loaded, plan=plan)
        yield client


def test_a_measurement_times_the_prompt_and_every_step(loaded):
    measured = measure(loaded, STORIES[0], decode_tokens=5)
    assert measured.prompt_tokens > 4
    assert measured.prompt_seconds > 0
    assert len(measured.step_seconds) == 5
    assert min(measured.step_seconds) > 0
    assert measured.sequences == 1
    assert measured.context_tokens == measured.prompt_tokens + 5
    assert measured.text


def test_the_likeliest_tokens_are_those_of_a_greedy_answer(loaded, demo_model):
    """`Session` computes and chooses them in its own way; the prompt is what the template makes of the question."""
    finished = answer(loaded, max_tokens=12)
    question = "Name three colours of the rainbow."
    system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    prompt = f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    measured = measure(loaded, prompt, decode_tokens=12)
    assert measured.prompt_tokens == finished.prompt_tokens
    assert measured.text == finished.text


def test_sequences_decoded_together_say_what_each_says_alone(together):
    for first in range(3):
        turned = STORIES[first:] + STORIES[:first]
        alone = measure(together, turned[0], decode_tokens=10)
        joined = measure(together, *turned, decode_tokens=10)
        assert joined.text == alone.text
        assert joined.sequences == 3
        assert joined.context_tokens == joined.prompt_tokens + 3 * 10


def test_going_on_continues_where_the_measurement_before_ended(loaded):
    whole = measure(loaded, STORIES[0], decode_tokens=12)
    first = measure(loaded, STORIES[0], decode_tokens=5)
    rest = measure(loaded, "", decode_tokens=7, go_on=True)
    assert first.text + rest.text == whole.text
    assert (rest.prompt_tokens, rest.prompt_seconds) == (0, 0)
    assert rest.context_tokens == whole.context_tokens


def test_a_prompt_given_in_two_pieces_is_the_whole_prompt(loaded):
    whole = measure(loaded, "The capital of France is Paris.\nThe capital of Italy is")
    measure(loaded, "The capital of France is Paris.\n", decode_tokens=0)
    rest = measure(loaded, "The capital of Italy is", go_on=True)
    assert rest.text == whole.text
    assert rest.context_tokens == whole.context_tokens


def test_sequences_go_on_each_after_its_own(together):
    whole = measure(together, *STORIES, decode_tokens=8)
    first = measure(together, *STORIES, decode_tokens=3)
    rest = measure(together, "", "", "", decode_tokens=5, go_on=True)
    assert first.text + rest.text == whole.text


def test_batches_larger_than_what_is_computed_at_once_change_nothing(together, loaded):
    """Micro-batches without a single token whose successor is asked for compute no last layer."""
    story = "A long walk along the river brought the two friends to an old mill. " * 12
    assert measure(together, story, decode_tokens=8).text == measure(loaded, story, decode_tokens=8).text


def test_an_answer_after_a_measurement_is_the_answer_before_it(together):
    before = answer(together)
    measure(together, *STORIES)
    after = answer(together)
    assert (after.text, after.reused_tokens) == (before.text, 0)


def test_nothing_is_left_to_go_on_after_when_an_answer_came_between(together):
    measure(together, *STORIES)
    answer(together, max_tokens=2)
    with pytest.raises(AppError, match="no measurement in the context") as caught:
        measure(together, "", "", "", go_on=True)
    assert caught.value.code is ErrorCode.BAD_USAGE


def test_what_cannot_fit_is_refused_before_anything_is_computed(loaded):
    with pytest.raises(AppError) as caught:
        measure(loaded, STORIES[0], decode_tokens=1024)
    assert caught.value.code is ErrorCode.CONTEXT_FULL
    assert "1024" in caught.value.message


def test_a_refused_continuation_leaves_what_was_measured(loaded):
    whole = measure(loaded, STORIES[0], decode_tokens=8)
    first = measure(loaded, STORIES[0], decode_tokens=3)
    with pytest.raises(AppError) as caught:
        measure(loaded, "", decode_tokens=1024, go_on=True)
    assert caught.value.code is ErrorCode.CONTEXT_FULL
    assert first.text + measure(loaded, "", decode_tokens=5, go_on=True).text == whole.text


@pytest.mark.parametrize(
    ("prompts", "decode_tokens", "words"),
    [
        ((), 1, "0 prompts"),
        (("a", "b"), 1, "the plan takes 1 to 1"),
        (("a",), -1, "-1 tokens"),
    ],
)
def test_impossible_counts_are_refused(loaded, prompts, decode_tokens, words):
    with pytest.raises(AppError, match=words) as caught:
        measure(loaded, *prompts, decode_tokens=decode_tokens)
    assert caught.value.code is ErrorCode.BAD_USAGE


def test_measuring_without_a_model_is_refused():
    with EngineClient() as client, pytest.raises(AppError, match="No model is loaded"):
        measure(client, STORIES[0])


def test_a_cancelled_measurement_ends_and_the_next_is_right(loaded):
    expected = measure(loaded, STORIES[0], decode_tokens=6).text
    request = loaded.send(protocol.Measure, prompts=(STORIES[1],), decode_tokens=900)
    progress = []
    with pytest.raises(AppError) as caught:
        for event in loaded.events(request, protocol.Measured):
            progress.append((event.done, event.total))
            if len(progress) == 4:
                loaded.send(protocol.Cancel, target=request)
    assert caught.value.code is ErrorCode.CANCELLED
    assert progress == sorted(progress)
    assert len(progress) < 900
    with pytest.raises(AppError, match="no measurement in the context"):
        measure(loaded, "", go_on=True)
    assert measure(loaded, STORIES[0], decode_tokens=6).text == expected


def test_progress_ends_with_everything_done(together):
    request = together.send(protocol.Measure, prompts=STORIES, decode_tokens=4)
    told = [e for e in together.events(request, protocol.Measured) if isinstance(e, protocol.MeasureProgress)]
    assert told[-1].done == told[-1].total
    assert len(told) == 1 + 4  # the prompts fit into one batch


def test_the_cache_is_counted_for_prompt_and_steps_apart(together):
    for prompts in (STORIES, STORIES[:1]):
        measured = measure(together, *prompts, decode_tokens=4)
        decode, prompt = measured.decode_cache, measured.prompt_cache
        assert decode.hits + decode.misses == len(prompts) * 4 * LAYERS * USED
        assert decode.tokens == len(prompts) * 4
        # The last layer computes only what the next token is wanted of.
        asked = measured.prompt_tokens * (LAYERS - 1) + len(prompts)
        assert prompt.hits + prompt.misses == asked * USED


def test_stock_measures_the_same_text_and_has_no_cache_to_count(loaded, demo_model):
    ours = measure(loaded, STORIES[0], decode_tokens=16)
    with EngineClient([*engine_command(), "--stock"]) as client:
        client.request(protocol.Load, protocol.Loaded, plan=plan_for(demo_model))
        stock = measure(client, STORIES[0], decode_tokens=16)
    assert stock.text == ours.text
    assert (stock.prompt_cache, stock.decode_cache) == (None, None)


def test_the_peak_covers_at_least_what_the_child_holds(loaded, demo_model):
    measured = measure(loaded, STORIES[0])
    assert measured.peak_bytes > read_facts(demo_model).bytes.total // 4
