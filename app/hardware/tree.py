"""The kernel's folder tree as sources read it: live, written down while it is read, or played back from a record."""

import errno
import itertools
import os
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

_MOST_LINKS = 40
"""As many as Linux follows in one path."""
_PART_BYTES = 16 * 1024
_MOST_PARTS = 1024
"""Kernel files are small; the processor list of a large server takes about 1 MiB."""
# It is a link to this program's number, which is another one in every run.
_NO_LINK = "proc/self"


class KernelPath(Protocol):
    """The part of `pathlib.Path` that sources use; a `Path` is the live one."""

    @property
    def name(self) -> str:
        """The last part."""
        ...

    @property
    def parent(self) -> Self:
        """The folder it is in, by its name alone."""
        ...

    @property
    def parts(self) -> tuple[str, ...]:
        """All parts."""
        ...

    def __truediv__(self, key: str, /) -> Self: ...

    def exists(self) -> bool:
        """Whether there is anything."""
        ...

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        ...

    def iterdir(self) -> Iterator[Self]:
        """What is in the folder; raises OSError."""
        ...

    def resolve(self) -> Self:
        """The path without symbolic links."""
        ...

    def read_bytes(self) -> bytes:
        """The file's contents; raises OSError."""
        ...


class Tree(Protocol):
    """What a `TreePath` asks; paths are relative to the root, with "/" between parts, and without links."""

    def link(self, path: str) -> str | None:
        """Where a symbolic link leads, relative to the root; None for anything else."""
        ...

    def kind(self, path: str) -> str:
        """Either "file" or "folder", or empty for nothing."""
        ...

    def names(self, path: str) -> list[str]:
        """Names in a folder; raises OSError."""
        ...

    def read(self, path: str) -> bytes:
        """A file's contents; raises OSError."""
        ...


@dataclass(frozen=True)
class TreePath:
    """A path in a `Tree`; a `KernelPath`."""

    tree: Tree
    path: str = ""

    @property
    def name(self) -> str:
        """The last part."""
        return posixpath.basename(self.path)

    @property
    def parent(self) -> "TreePath":
        """The folder above; the root is above itself."""
        return TreePath(self.tree, posixpath.dirname(self.path))

    @property
    def parts(self) -> tuple[str, ...]:
        """All parts, the root's first."""
        return ("/", *filter(None, self.path.split("/")))

    def __truediv__(self, key: str, /) -> "TreePath":
        return TreePath(self.tree, posixpath.join(self.path, key.strip("/")) if key.strip("/") else self.path)

    def __str__(self) -> str:
        return f"/{self.path}"

    def exists(self) -> bool:
        """Whether there is a file or folder."""
        return bool(self.tree.kind(self.resolve().path))

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        return self.tree.kind(self.resolve().path) == "folder"

    def iterdir(self) -> "Iterator[TreePath]":
        """What is in the folder."""
        return iter([self / name for name in self.tree.names(self.resolve().path)])

    def resolve(self) -> "TreePath":
        """The path without links."""
        return TreePath(self.tree, _walk(self.path, self.tree.link))

    def read_bytes(self) -> bytes:
        """The file's contents."""
        return self.tree.read(self.resolve().path)


def _walk(path: str, link: Callable[[str], str | None]) -> str:
    """`path` with every link followed; a circle of links ends where it was found."""
    done: list[str] = []
    todo = path.split("/")
    followed = 0
    while todo:
        part = todo.pop(0)
        if part == "..":
            del done[-1:]
        elif part not in ("", "."):
            done.append(part)
            target = link("/".join(done)) if followed < _MOST_LINKS else None
            if target is not None:
                followed += 1
                done, todo = [], [*target.split("/"), *todo]
    return "/".join(done)


@dataclass
class TreeRecord:
    """What was read of a tree.

    Attributes:
        files: Path to contents; None for a file that is there and was not read.
        refusals: Path of a file or folder that may not be read, to the system's words.
        folders: Path to the names in it, also those of which nothing was read.
        links: Path to where it leads.
    """

    files: dict[str, bytes | None] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    folders: dict[str, list[str]] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)


class RecordingTree:
    """A live tree that writes down what is read of it; may be used by several threads."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._not_links: set[str] = set()
        self.record = TreeRecord()

    def link(self, path: str) -> str | None:
        """As `Tree` says."""
        if path == _NO_LINK or path in self._not_links:
            return None
        try:
            target = (self._root / path).readlink().as_posix()
        except OSError:
            self._not_links.add(path)
            return None
        root = self._root.as_posix().rstrip("/")
        if target.startswith("/"):
            found = target.removeprefix(root)
        else:
            found = posixpath.normpath(posixpath.join(posixpath.dirname(f"/{path}"), target))
        self.record.links[path] = found.strip("/")
        return self.record.links[path]

    def kind(self, path: str) -> str:
        """As `Tree` says."""
        live = self._root / path
        if live.is_dir():
            self.record.folders.setdefault(path, [])
            return "folder"
        if live.exists():
            self.record.files.setdefault(path, None)
            return "file"
        return ""

    def names(self, path: str) -> list[str]:
        """As `Tree` says."""
        try:
            names = sorted(os.listdir(self._root / path))  # noqa: PTH208 - names, as they are written down
        except OSError as error:
            self._refuse(path, error)
            raise
        self.record.folders[path] = names
        return names

    def read(self, path: str) -> bytes:
        """As `Tree` says."""
        try:
            with (self._root / path).open("rb", buffering=0) as file:
                # In small parts: some kernel files refuse a large buffer, and end after each part.
                parts = iter(lambda: file.read(_PART_BYTES), b"")
                data = b"".join(itertools.islice(parts, _MOST_PARTS))
        except OSError as error:
            self._refuse(path, error)
            raise
        self.record.files[path] = data
        return data

    def _refuse(self, path: str, error: OSError) -> None:
        if error.errno not in {errno.ENOENT, errno.ENOTDIR}:
            self.record.refusals[path] = error.strerror or "refused"


class PlayedTree:
    """A tree from a record. Folders above a recorded file or link are there without being named."""

    def __init__(self, record: TreeRecord) -> None:
        self._record = record
        self._folders: dict[str, set[str]] = {"": set()}
        for folder, names in record.folders.items():
            self._folders.setdefault(folder, set()).update(names)
        for path in (*record.files, *record.refusals, *record.links, *record.folders):
            below = path
            while below:
                folder, _, name = below.rpartition("/")
                self._folders.setdefault(folder, set()).add(name)
                below = folder

    def link(self, path: str) -> str | None:
        """As `Tree` says."""
        return self._record.links.get(path)

    def kind(self, path: str) -> str:
        """As `Tree` says."""
        if path in self._folders:
            return "folder"
        return "file" if path in self._record.files or path in self._record.refusals else ""

    def names(self, path: str) -> list[str]:
        """As `Tree` says."""
        self._check(path)
        if path not in self._folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return sorted(self._folders[path])

    def read(self, path: str) -> bytes:
        """As `Tree` says."""
        self._check(path)
        data = self._record.files.get(path)
        if data is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return data

    def _check(self, path: str) -> None:
        if path in self._record.refusals:
            raise PermissionError(errno.EACCES, self._record.refusals[path], path)


def children(folder: KernelPath) -> list[KernelPath]:
    """What is in a folder, by name; nothing where it cannot be listed."""
    try:
        return sorted(folder.iterdir(), key=lambda path: path.name)
    except OSError:
        return []
