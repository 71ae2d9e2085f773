"""A model that was split into several files is one model, whichever of them is given.

The files are named `<model>-00001-of-00003.gguf`, and each says its number (`split.no`, from 0) and
how many there are (`split.count`); only the first holds the model's own key-values.
"""

import re
from pathlib import Path

from app.errors import AppError, ErrorCode
from app.model.failures import damaged
from app.model.gguf_table import Table, read_table

_SHARD_NAME = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")
_LARGEST_COUNT = 99_999  # five digits in the name


def read_shards(path: Path) -> tuple[Table, ...]:
    """Read the tables of all files of the model that `path` belongs to, in order.

    Raises:
        AppError: SHARD_MISSING when a part is not beside `path` under its original name;
            MODEL_DAMAGED when the parts do not belong together; else as `read_table`.
    """
    given = read_table(path)
    count = _split_number(given, "split.count")
    if count <= 1:
        return (given,)
    index = _split_number(given, "split.no")
    prefix = _prefix(given, index, count)
    paths = [path.with_name(f"{prefix}-{part:05d}-of-{count:05d}.gguf") for part in range(1, count + 1)]
    for part, shard in enumerate(paths, start=1):
        if not shard.is_file():
            raise AppError(
                ErrorCode.SHARD_MISSING,
                f"Part {part} of {count} of the model is missing: {shard.name}.",
                f"It should be in the folder {shard.parent}.",
            )
    tables = tuple(given if part == index else read_table(shard) for part, shard in enumerate(paths))
    for part, table in enumerate(tables):
        _check_belongs(table, part, count)
    _check_tensors(tables)
    return tables


def model_name(path: Path) -> str:
    """The file's name without its ending and without the number of the part."""
    shard = _SHARD_NAME.fullmatch(path.name)
    return shard[1] if shard else path.stem


def _split_number(table: Table, key: str) -> int:
    value = table.metadata.get(key, 0)
    if not isinstance(value, int) or not 0 <= value <= _LARGEST_COUNT:
        raise damaged(table.path, f"the value of '{key}' is not a number of parts")
    return value


def _prefix(table: Table, index: int, count: int) -> str:
    name = _SHARD_NAME.fullmatch(table.path.name)
    if name is None or (int(name[2]), int(name[3])) != (index + 1, count):
        raise AppError(
            ErrorCode.SHARD_MISSING,
            f"{table.path.name} is part {index + 1} of {count} of a model, so its name should end in "
            f"-{index + 1:05d}-of-{count:05d}.gguf; the other parts cannot be found.",
        )
    return name[1]


def _check_belongs(table: Table, index: int, count: int) -> None:
    if (_split_number(table, "split.no"), _split_number(table, "split.count")) != (index, count):
        raise damaged(table.path, f"by its name it is part {index + 1} of {count}, by its metadata it is not")


def _check_tensors(tables: tuple[Table, ...]) -> None:
    names = [tensor.name for table in tables for tensor in table.tensors]
    if len(set(names)) != len(names):
        raise damaged(tables[0].path, "two of its parts hold the same tensor")
    expected = tables[0].metadata.get("split.tensors.count", len(names))
    if expected != len(names):
        raise damaged(tables[0].path, f"its parts hold {len(names)} tensors together, not {expected}")
