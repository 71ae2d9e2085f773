"""Profiles of orders on disk: by name and model, replaced only on purpose, and never lost to a damaged file."""

import msgspec
import pytest

from app.errors import AppError, ErrorCode
from app.library.order_profiles import LONGEST_NAME, MOST_PROFILES, OrderProfiles, profile_of
from app.placement.plan import CachePolicy, ExpertPin, Plan

PLAN = Plan(
    model_files=("m.gguf",),
    gpu="Vulkan0",
    expert_lanes={0: "CPU"},
    n_ctx=512,
    pool_bytes=64 * 1024**2,
    policy=CachePolicy(kind="decay"),
    pins=(ExpertPin(layer=0, expert=1, pin="gpu"), ExpertPin(layer=0, expert=2, pin="auto")),
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A private folder for data."""
    monkeypatch.setenv("EXPERT_LANES_HOME", str(tmp_path))


@pytest.fixture
def profiles():
    return OrderProfiles("5c21")


def refused(make, *arguments, **keywords):
    with pytest.raises(AppError) as caught:
        make(*arguments, **keywords)
    return caught.value


def test_a_saved_profile_is_read_again_with_pins_policy_pool_and_date(profiles):
    assert profiles.all() == ()
    profile = profile_of(PLAN, "  short   answers ")
    profiles.save(profile)
    (read,) = OrderProfiles("5c21").all()
    assert read == profile
    assert (read.name, read.pool_bytes, read.policy) == ("short answers", PLAN.pool_bytes, PLAN.policy)
    assert read.pins == (ExpertPin(layer=0, expert=1, pin="gpu"),)
    assert read.saved_at.endswith("+00:00")


@pytest.mark.parametrize("budget", [None, 0, 14 * 1024**3])
def test_the_budget_of_main_memory_is_kept_where_experts_lie_in_the_file(profiles, budget):
    mapped = msgspec.structs.replace(PLAN, residency="mapped", resident_bytes=budget)
    profiles.save(profile_of(mapped, "mapped"))
    profiles.save(profile_of(msgspec.structs.replace(PLAN, residency="repacked"), "copied"))
    copied, read = profiles.all()
    assert read.resident_bytes == budget
    assert copied.resident_bytes is msgspec.UNSET


def test_a_file_of_a_version_that_kept_no_budget_is_read_and_orders_none(profiles):
    profiles.path.parent.mkdir(parents=True)
    before = {"name": "a", "saved_at": "2026-11-01T10:00:00+00:00", "pins": [], "policy": {}, "pool_bytes": 7}
    profiles.path.write_bytes(msgspec.json.encode({"version": 1, "model": "5c21", "profiles": [before]}))
    (read,) = profiles.all()
    assert (read.pool_bytes, read.resident_bytes) == (7, msgspec.UNSET)
    profiles.save(read, replace=True)
    assert b"resident_bytes" not in profiles.path.read_bytes()


def test_profiles_are_told_by_name_and_each_model_has_its_own(profiles):
    for name in ("b", "A", "c"):
        profiles.save(profile_of(PLAN, name))
    assert [profile.name for profile in profiles.all()] == ["A", "b", "c"]
    assert OrderProfiles("77").all() == ()


def test_a_name_that_is_taken_is_replaced_only_on_purpose(profiles):
    profiles.save(profile_of(PLAN, "a"))
    other = profile_of(msgspec.structs.replace(PLAN, pool_bytes=0), "a")
    error = refused(profiles.save, other)
    assert error.code is ErrorCode.BAD_USAGE
    assert "“a” already" in error.message
    assert profiles.all()[0].pool_bytes == PLAN.pool_bytes
    profiles.save(other, replace=True)
    assert [profile.pool_bytes for profile in profiles.all()] == [0]


def test_a_deleted_profile_is_gone_and_the_others_are_not(profiles):
    for name in ("a", "b"):
        profiles.save(profile_of(PLAN, name))
    profiles.delete("a")
    profiles.delete("a")
    assert [profile.name for profile in profiles.all()] == ["b"]


@pytest.mark.parametrize("name", ["", "  \n ", "x" * (LONGEST_NAME + 1)])
def test_a_profile_needs_a_name_of_some_and_not_too_many_characters(name):
    assert refused(profile_of, PLAN, name).code is ErrorCode.BAD_USAGE


def test_there_are_not_more_than_a_menu_can_show(profiles):
    for count in range(MOST_PROFILES):
        profiles.save(profile_of(PLAN, f"profile {count}"))
    assert "delete one first" in refused(profiles.save, profile_of(PLAN, "one more")).message
    profiles.save(profile_of(PLAN, "profile 3"), replace=True)


@pytest.mark.parametrize("damage", [b"", b"{", b'{"version": 1}', b'{"version": 7, "model": "5c21", "profiles": []}'])
def test_a_damaged_file_is_told_and_stays_as_it_is(profiles, damage):
    profiles.path.parent.mkdir(parents=True)
    profiles.path.write_bytes(damage)
    for attempt in (profiles.all, lambda: profiles.save(profile_of(PLAN, "a")), lambda: profiles.delete("a")):
        error = refused(attempt)
        assert error.code is ErrorCode.FILE_UNREADABLE
        assert str(profiles.path) in error.message
    assert profiles.path.read_bytes() == damage


def test_a_file_of_another_model_is_not_taken_for_this_ones(profiles):
    OrderProfiles("77").save(profile_of(PLAN, "theirs"))
    profiles.path.write_bytes(OrderProfiles("77").path.read_bytes())
    assert "another model" in refused(profiles.all).message


@pytest.mark.parametrize(
    "changes",
    [
        {"pool_bytes": -1},
        {"resident_bytes": -1},
        {"policy": CachePolicy(decay=7.0)},
        {"pins": (ExpertPin(layer=0, expert=1, pin="moon"),)},
        {"name": ""},
        {"name": "two\nlines"},
        {"name": "x" * (LONGEST_NAME + 1)},
    ],
)
def test_orders_that_no_cache_can_follow_are_damage(profiles, changes):
    profiles.save(msgspec.structs.replace(profile_of(PLAN, "a"), **changes))
    before = profiles.path.read_bytes()
    assert "is damaged" in refused(profiles.all).message
    assert profiles.path.read_bytes() == before


@pytest.mark.parametrize(
    "names", [("a", "a"), [f"profile {count}" for count in range(MOST_PROFILES + 1)]], ids=["twice", "too many"]
)
def test_a_list_that_no_menu_can_show_is_damage(profiles, names):
    profiles.save(profile_of(PLAN, "a"))
    written = msgspec.json.decode(profiles.path.read_bytes())
    written["profiles"] = [written["profiles"][0] | {"name": name} for name in names]
    profiles.path.write_bytes(msgspec.json.encode(written))
    assert "is damaged" in refused(profiles.all).message
