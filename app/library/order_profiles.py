"""Named profiles of what the user ordered for a model's experts: pins, policy, pool and main memory."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from app.errors import AppError, ErrorCode
from app.library import folders
from app.library.record_file import RecordFile
from app.placement.cache.orders import check_policy, check_pool, check_resident
from app.placement.plan import PINS, CachePolicy, ExpertPin, Plan

VERSION = 1
LONGEST_NAME = 60
MOST_PROFILES = 50
"""Of one model; a list longer than that is no menu any more."""


class OrderProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What was ordered when it was saved.

    Attributes:
        name: The user's name for it, unique for its model.
        saved_at: When, in ISO format with its time zone.
        pins: Experts that were kept somewhere; all others were automatic.
        policy: How the pool was filled.
        pool_bytes: Requested bytes of the pool, 0 for none.
        resident_bytes: Budget of main memory for experts in the file, as `Plan.resident_bytes`; unset where it was not
            saved: by an earlier version, or because the experts were copied.
    """

    name: str
    saved_at: str
    pins: tuple[ExpertPin, ...] = ()
    policy: CachePolicy = CachePolicy()
    pool_bytes: int = 0
    resident_bytes: int | msgspec.UnsetType | None = msgspec.UNSET


def profile_of(plan: Plan, name: str) -> OrderProfile:
    """The orders in `plan`, under a name.

    Raises:
        AppError: bad_usage, no name or one that is too long.
    """
    name = " ".join(name.split())
    _check_name(name)
    return OrderProfile(
        name=name,
        saved_at=datetime.now(UTC).isoformat(timespec="seconds"),
        pins=tuple(pin for pin in plan.pins if pin.pin != "auto"),
        policy=plan.policy,
        pool_bytes=plan.pool_bytes,
        resident_bytes=plan.resident_bytes if plan.residency == "mapped" else msgspec.UNSET,
    )


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """All profiles of one model; `model` is the fingerprint of its weights."""

    version: int
    model: str
    profiles: tuple[OrderProfile, ...] = ()


class OrderProfiles:
    """The profiles of one model, in a file of its own.

    Args:
        model: Fingerprint of the weights, so that a file of other weights never gets them.
    """

    def __init__(self, model: str) -> None:
        self._model = model

    @property
    def path(self) -> Path:
        """The file, which need not be there."""
        name = hashlib.sha256(self._model.encode()).hexdigest()[:32]
        return folders.data_folder() / "machine" / "orders" / f"{name}.json"

    def all(self) -> tuple[OrderProfile, ...]:
        """The profiles by name.

        Raises:
            AppError: file_unreadable, also for a damaged file; it stays as it is.
        """
        return self._checked(self._file().read())

    def save(self, profile: OrderProfile, *, replace: bool = False) -> None:
        """Keep a profile; `replace` the one that has its name.

        Raises:
            AppError: bad_usage, the name is taken, or there are too many; as `all`; folder_not_writable or disk_full.
        """

        def add(record: _Record | None) -> _Record:
            before = self._checked(record)
            others = tuple(its for its in before if its.name != profile.name)
            if len(others) < len(before) and not replace:
                raise AppError(ErrorCode.BAD_USAGE, f"There is a profile “{profile.name}” already.")
            if len(others) >= MOST_PROFILES:
                raise AppError(
                    ErrorCode.BAD_USAGE, f"There are {len(others)} profiles of this model already; delete one first."
                )
            return self._record((*others, profile))

        self._file().change(add)

    def delete(self, name: str) -> None:
        """Forget a profile; one that is not there is gone already.

        Raises:
            AppError: as `all`; folder_not_writable or disk_full.
        """
        self._file().change(
            lambda record: self._record(tuple(its for its in self._checked(record) if its.name != name))
        )

    def _file(self) -> RecordFile[_Record]:
        return RecordFile(self.path, _Record, VERSION)

    def _record(self, profiles: tuple[OrderProfile, ...]) -> _Record:
        ordered = sorted(profiles, key=lambda profile: profile.name.casefold())
        return _Record(version=VERSION, model=self._model, profiles=tuple(ordered))

    def _checked(self, record: _Record | None) -> tuple[OrderProfile, ...]:
        """The profiles of a record of this model.

        Raises:
            AppError: file_unreadable, it is another's or says what cannot be.
        """
        if record is None:
            return ()
        if record.model != self._model:
            message = f"{self.path} is of another model; once it is moved away, a new one is made."
            raise AppError(ErrorCode.FILE_UNREADABLE, message)
        try:
            _check_list(record.profiles)
        except AppError as error:
            message = f"{self.path} is damaged; once it is moved away, a new one is made."
            raise AppError(ErrorCode.FILE_UNREADABLE, message, error.message) from error
        return record.profiles


def _check_name(name: str) -> None:
    if not name:
        raise AppError(ErrorCode.BAD_USAGE, "A profile needs a name.")
    if len(name) > LONGEST_NAME:
        raise AppError(ErrorCode.BAD_USAGE, f"A profile's name has {LONGEST_NAME} characters at most.")


def _check_list(profiles: tuple[OrderProfile, ...]) -> None:
    """Refuse a list that no save has made.

    Raises:
        AppError: bad_usage, naming what is impossible.
    """
    if len(profiles) > MOST_PROFILES:
        raise AppError(ErrorCode.BAD_USAGE, f"A model has {MOST_PROFILES} profiles at most, not {len(profiles)}.")
    if len({profile.name for profile in profiles}) < len(profiles):
        raise AppError(ErrorCode.BAD_USAGE, "Two profiles have the same name.")
    for profile in profiles:
        _check(profile)


def _check(profile: OrderProfile) -> None:
    """Refuse orders that no cache can follow; whether the model has these experts is found out when it is loaded.

    Raises:
        AppError: bad_usage, naming what is impossible.
    """
    _check_name(profile.name)
    if profile.name != " ".join(profile.name.split()):
        raise AppError(ErrorCode.BAD_USAGE, "A profile's name is one line, with single spaces.")
    check_policy(profile.policy)
    check_pool(profile.pool_bytes, 0)
    check_resident(profile.resident_bytes or 0)
    for pin in profile.pins:
        if pin.pin not in PINS:
            raise AppError(ErrorCode.BAD_USAGE, f"There is no pin '{pin.pin}'.")
