"""Typed access to a model's key-values: the keys of its architecture, with errors that name the key."""

from app.errors import AppError
from app.model.failures import damaged, unsupported
from app.model.gguf_table import Table, Unread, Value

_ARCHITECTURE_KEY = "general.architecture"
# llama.cpp keeps every figure of a model in 32 bits.
_LARGEST_NUMBER = (1 << 32) - 1


class Metadata:
    """The key-values of one table.

    The methods that take a `suffix` look up `{architecture}.{suffix}`.

    Attributes:
        architecture: `general.architecture`.

    Raises:
        AppError: MODEL_UNSUPPORTED when the table does not name its architecture.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._values = table.metadata
        self.architecture = self.text(_ARCHITECTURE_KEY)
        if not self.architecture:
            raise self._missing(_ARCHITECTURE_KEY)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def text(self, key: str) -> str:
        """The text stored under the full key `key`, stripped; empty where there is none."""
        value = self._values.get(key, "")
        if not isinstance(value, str):
            raise self._wrong(key, "a short text")
        return value.strip()

    def length(self, key: str) -> int:
        """The number of elements of the array under the full key `key`; 0 where there is none."""
        value = self._values.get(key, ())
        if isinstance(value, Unread):
            return value.count
        if isinstance(value, tuple):
            return len(value)
        raise self._wrong(key, "an array")

    def number(self, suffix: str, default: int = 0) -> int:
        """The whole number under `suffix`, or `default` where the key is absent."""
        key = self._key(suffix)
        return self._whole(key, self._values.get(key, default))

    def real(self, suffix: str) -> float | None:
        """The number under `suffix`, or None where there is none."""
        value = self._values.get(self._key(suffix))
        return float(value) if isinstance(value, (int, float)) else None

    def required(self, suffix: str) -> int:
        """The whole number above zero under `suffix`.

        Raises:
            AppError: MODEL_UNSUPPORTED, naming the key, where it is absent or zero.
        """
        number = self.number(suffix)
        if not number:
            raise self._missing(self._key(suffix))
        return number

    def is_array(self, suffix: str) -> bool:
        """Whether an array is stored under `suffix`."""
        return isinstance(self._values.get(self._key(suffix)), tuple | Unread)

    def per_layer(self, suffix: str, layers: int, default: int | tuple[int, ...] = 0) -> tuple[int, ...]:
        """One whole number for each of `layers` blocks; the file may store one for all of them.

        Raises:
            AppError: MODEL_DAMAGED where an array is shorter than the model is deep.
        """
        key = self._key(suffix)
        value = self._values.get(key, default)
        if not isinstance(value, tuple):
            return (self._whole(key, value),) * layers
        if len(value) < layers:
            raise self._wrong(key, f"an array of {layers} numbers")
        return tuple(self._whole(key, element) for element in value[:layers])

    def missing(self, suffix: str) -> AppError:
        """The error that says the model cannot be used without the key under `suffix`."""
        return self._missing(self._key(suffix))

    def damaged(self, what: str) -> AppError:
        """The error that says `what` is wrong with the model's file."""
        return damaged(self._table.path, what)

    def unsupported(self, why: str) -> AppError:
        """The error that says why the file cannot be used, although it is whole."""
        return unsupported(self._table.path, why)

    def _key(self, suffix: str) -> str:
        return f"{self.architecture}.{suffix}"

    def _whole(self, key: str, value: Value) -> int:
        if isinstance(value, int) and 0 <= value <= _LARGEST_NUMBER:
            return int(value)
        raise self._wrong(key, "a whole number")

    def _missing(self, key: str) -> AppError:
        return self.unsupported(f"its metadata lack '{key}'")

    def _wrong(self, key: str, expected: str) -> AppError:
        return self.damaged(f"the value of '{key}' is not {expected}")
