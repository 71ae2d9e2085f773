"""Rules about loaded models: each with the load, the samples or the counts that fire it, and some that must not."""

from doctor_factories import (
    GIB,
    MIB,
    MODEL,
    cache,
    hint,
    hints,
    is_fine,
    layer,
    loaded,
    machine,
    of_card,
    planned,
    pool,
    replaced,
    sample,
    why,
)

from app.hardware.samples import Sample

CARD = "desktop_nvidia_x16_dual_channel"


def test_experts_that_the_load_left_on_the_cpu_are_told_with_their_number_and_size():
    seen = planned(CARD, whole_layers=10)
    layers = dict.fromkeys(seen.plan.expert_lanes, "CPU")
    missing = loaded(seen, report={"expert_layers": layers, "differences": ("10 layers are not where planned.",)})
    found = hint(missing, "missing-experts")
    assert "10 expert layers on CUDA0; 10 of them, 3.4 GiB, are on CPU" in found.evidence
    assert "not where planned" in found.evidence
    assert is_fine(loaded(seen), "missing-experts")


def test_a_pool_that_got_no_memory_is_told_with_the_engines_reason():
    seen = loaded(planned(CARD, pool_bytes=GIB))
    empty = pool(allocated_bytes=0, used=False, reason="The card has no memory for it.")
    found = hint(replaced(seen, cache=cache(empty)), "idle-pool")
    assert "1.0 GiB was asked for" in found.evidence
    assert "no memory for it" in found.evidence


def test_a_pool_without_a_hit_is_told_with_the_counts_and_one_with_hits_is_fine():
    seen = loaded(planned(CARD, pool_bytes=GIB))
    found = hint(replaced(seen, cache=cache(pool(), hits=0, misses=76800, tokens=200)), "idle-pool")
    assert "76,800 routed experts in 200 tokens 0 were computed in it" in found.evidence
    assert is_fine(replaced(seen, cache=cache(pool())), "idle-pool")


def test_a_pool_that_is_idle_by_its_policy_is_offered_another():
    seen = loaded(planned(CARD, pool_bytes=GIB), cache=cache(pool(), kind="manual", hits=0, misses=9000))
    assert [(its.key, its.value) for its in hint(seen, "idle-pool").fix] == [("kind", "lru")]


def test_a_pool_is_not_judged_before_the_first_token():
    seen = loaded(planned(CARD, pool_bytes=GIB), cache=cache(pool(), tokens=0, hits=0, misses=0))
    assert "no" in why(seen, "idle-pool")


def test_a_pool_without_the_expert_device_says_why():
    seen = loaded(planned(CARD, pool_bytes=GIB), report={"expert_device": False, "reason": "It is not registered."})
    assert "not registered" in hint(seen, "idle-pool").evidence


def test_pinned_experts_without_a_slot_are_counted():
    seen = loaded(planned(CARD, pool_bytes=GIB), cache=cache(pool(unplaced_pins=12)))
    assert "12 experts" in hint(seen, "idle-pool").evidence


# ---- spilling ----------------------------------------------------------------------------------


def spilling(shared, used=12 * GIB):
    card = of_card(used=used, total=12 * GIB, shared=shared)
    return loaded(planned(CARD, pool_bytes=2 * GIB), latest=sample(5, gpus=(card,)))


def test_memory_that_the_driver_moved_away_is_told_and_taken_from_the_pool():
    found = hint(spilling(1536 * MIB), "spill")
    assert "1.5 GiB of main memory" in found.evidence
    assert "12.0 GiB of 12.0 GiB" in found.evidence
    assert [(its.key, its.value) for its in found.fix] == [("pool_bytes", 512 * MIB)]


def test_what_drivers_always_keep_in_main_memory_is_no_spill():
    assert is_fine(spilling(200 * MIB), "spill")
    assert is_fine(spilling(2 * GIB, used=8 * GIB), "spill")


def test_page_locked_memory_is_no_spill():
    seen = spilling(1536 * MIB)
    assert is_fine(replaced(seen, cache=cache(pool(locked_bytes=1400 * MIB))), "spill")


def test_where_nobody_counts_spilling_it_is_not_judged():
    assert "Windows" in why(spilling(None), "spill")


def test_a_driver_that_tells_more_in_use_than_there_is_is_not_believed():
    assert "Nothing tells" in why(spilling(1536 * MIB, used=40 * GIB), "spill")


def test_a_pool_that_fills_by_itself_is_given_time():
    seen = loaded(planned(CARD, pool_bytes=GIB), cache=cache(pool(), tokens=20, hits=0, misses=7000))
    assert "64 tokens" in why(seen, "idle-pool")


# ---- thrashing ---------------------------------------------------------------------------------


def reading(*megabytes, shares=None, faults=300):
    """A load whose samples, a second apart, read so many megabytes each."""
    read, count, samples = 0, 0, []
    for second, amount in enumerate((0, *megabytes)):
        read += amount * 1_000_000
        count += faults if amount else 0
        share = shares[second] if shares else None
        samples.append(sample(100 + second, faults=count, read=read, available=GIB // 2, share=share))
    return loaded(planned(CARD, gpu=None), decoding=tuple(samples), latest=samples[-1])


def test_reading_that_does_not_fall_off_is_thrashing():
    found = hint(reading(410, 400, 390, 400, 400, 405), "thrashing")
    assert "1,200 MB and then 1,205 MB" in found.evidence
    assert "402 MB/s" in found.evidence
    assert "300 page" in found.evidence
    assert "512.0 MiB are available" in found.evidence


def test_reading_that_falls_off_is_a_warm_up():
    assert is_fine(reading(900, 700, 500, 200, 100, 60), "thrashing")


def test_reading_that_stays_in_memory_is_a_warm_up_even_where_it_goes_on():
    size = MODEL.file_bytes
    shares = [0.2 + 400e6 * second / size for second in range(7)]
    assert is_fine(reading(400, 400, 400, 400, 400, 400, shares=shares), "thrashing")
    assert hints(reading(400, 400, 400, 400, 400, 400, shares=[0.4] * 7), "thrashing")


def test_a_page_now_and_then_is_no_thrashing():
    assert is_fine(reading(1, 1, 2, 1, 1, 1, faults=3), "thrashing")


def test_a_short_answer_is_not_judged():
    assert "4 seconds" in why(reading(400, 400), "thrashing")


def test_thrashing_is_not_judged_where_faults_are_not_counted():
    unseen = tuple(
        Sample(time_seconds=float(second), reasons={"engine_major_faults": "Faults are not told here."})
        for second in range(8)
    )
    seen = replaced(reading(400, 400), decoding=unseen)
    assert why(seen, "thrashing") == "Faults are not told here."


# ---- hot experts -------------------------------------------------------------------------------


def routed(lanes, pins=None, kind="manual", slots=4):
    counts = (400, 300, 200, 100, 4, 3, 2, 1)
    layers = {0: layer(counts, lanes, pins, slots=slots)}
    return loaded(planned(CARD, pool_bytes=GIB), cache=cache(pool(), kind=kind, layers=layers))


def test_a_pool_full_of_cold_experts_is_told_with_both_shares_and_can_be_filled_by_use():
    found = hint(routed("ccccgggg"), "hot-experts")
    assert "1,010 routed experts" in found.evidence
    assert " 1 % are in the pool" in found.evidence
    assert "99 %" in found.evidence
    assert [(its.key, its.value) for its in found.fix] == [("kind", "decay")]


def test_a_pool_with_the_hot_experts_is_fine():
    assert is_fine(routed("ggggcccc"), "hot-experts")


def test_an_automatic_policy_is_given_time():
    assert is_fine(routed("ccccgggg", kind="lru"), "hot-experts")


def test_hot_experts_pinned_to_the_cpu_are_told():
    found = hint(routed("ccccgggg", pins="ccaaaaaa", kind="lru"), "hot-experts")
    assert "69 % are pinned to the CPU" in found.evidence
    assert "automatic" in found.action


def test_a_small_pool_beside_free_memory_of_the_card_is_told_with_a_prediction_from_the_counts():
    counts = tuple(range(128, 0, -1))
    layers = dict.fromkeys(range(48), layer(counts, "c" * 128))
    free = of_card(used=5 * GIB, total=12 * GIB)
    seen = loaded(
        planned(CARD, pool_bytes=0, whole_layers=0),
        cache=cache(None, layers=layers, hits=0, misses=9000),
        latest=sample(4, gpus=(free,)),
    )
    found = hint(seen, "hot-experts")
    assert "7.0 GiB of CUDA0 are free" in found.evidence
    assert "Predicted" in found.evidence
    assert found.fix[0].key == "pool_bytes"
    assert found.fix[0].value == 7 * GIB - 512 * MIB
    full = of_card(used=12 * GIB - 600 * MIB, total=12 * GIB)
    assert is_fine(replaced(seen, latest=sample(4, gpus=(full,))), "hot-experts")


def test_hot_experts_are_not_judged_by_a_few_tokens():
    seen = loaded(planned(CARD, pool_bytes=GIB), cache=cache(pool(), tokens=12))
    assert "64 tokens" in why(seen, "hot-experts")


# ---- memory that others take, once loaded ------------------------------------------------------


def test_what_other_programs_hold_is_the_samples_figure_once_a_model_is_loaded():
    its = machine(CARD)
    nameless = replaced(its, gpus=(replaced(its.gpus[0], programs=()),))
    much = of_card(used=10 * GIB, total=12 * GIB, process=7 * GIB)
    little = of_card(used=8 * GIB, total=12 * GIB, process=8 * GIB - 100 * MIB)
    seen = loaded(planned(nameless))
    assert "3.0 GiB" in hint(replaced(seen, latest=sample(1, gpus=(much,))), "other-programs").evidence
    assert is_fine(replaced(seen, latest=sample(1, gpus=(little,))), "other-programs")
