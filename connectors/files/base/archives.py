"""Exports of many files: a zip, a tar, or the unpacked folder.

Members are read as streams. A tar can only be read from start to end, so its wanted members are first
copied, uncompressed, to an anonymous temporary file that disappears with the process.
"""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import SEEK_END, BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Protocol, cast

from backscroll.connectors.files.base.format import FormatError, StrPath, file_name
from backscroll.operators.messages import MessageError

__all__ = ["Archive", "is_tar", "is_zip", "member_names", "open_archive", "open_member"]

_MOST_NAMES = 2000  # read to recognise a format
_COPIED_BYTES = 1 << 20
_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
)


class Archive(Protocol):
    """An open archive. Names separate folders with `/`; `damage` says why members may be missing."""

    names: list[str]
    damage: str

    def open(self, name: str) -> IO[bytes]:
        """Open a member for reading. Errors depend on the kind of archive; see `open_member`."""
        ...


def is_zip(start: bytes) -> bool:
    """Whether a file with these first bytes is a zip."""
    return start.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def is_tar(start: bytes) -> bool:
    """Whether a file with these first bytes is a tar, or a compressed file that may be one."""
    return start[257:262] == b"ustar" or start.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00"))


def member_names(path: StrPath) -> tuple[str, ...]:
    """Names of the members, for recognising the format; only the first 2,000 of a tar or folder."""
    try:
        if Path(path).is_dir():
            return tuple(_folder_names(Path(path), _MOST_NAMES))
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as file:
                return tuple(file.namelist())
        with tarfile.open(path, "r|*") as tar:
            return tuple(member.name for member, _ in zip(tar, range(_MOST_NAMES), strict=False))
    except _DAMAGE as err:
        raise FormatError(f"{file_name(path)}: cannot be read: {_reason(err)}") from err


@contextmanager
def open_archive(path: StrPath, wanted: Callable[[str], bool]) -> Iterator[Archive]:
    """Open an archive or folder; it shows only the members whose name is `wanted`.

    Raises:
        FormatError: the archive cannot be opened.
    """
    with ExitStack() as stack:
        archive: Archive
        try:
            if Path(path).is_dir():
                archive = _Folder(Path(path), wanted)
            elif zipfile.is_zipfile(path):
                archive = _Zip(stack.enter_context(zipfile.ZipFile(path)), wanted)
            else:
                archive = _Tar(path, stack.enter_context(TemporaryFile()), wanted)
        except _DAMAGE as err:
            raise FormatError(f"{file_name(path)}: cannot be read: {_reason(err)}") from err
        yield archive


@contextmanager
def open_member(archive: Archive, name: str) -> Iterator[IO[bytes]]:
    """Open a member for reading.

    Raises:
        MessageError: the member is damaged. Its `read` and `readline` raise this, too.
    """
    try:
        with archive.open(name) as file:
            yield cast(IO[bytes], _Member(file))
    except _DAMAGE as err:
        raise MessageError(f"cannot read {name}: {_reason(err)}") from err


class _Member:
    """A member's stream; turns errors in it into a `MessageError`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        return self._guarded(self._file.read, size)

    def readline(self, size: int = -1) -> bytes:
        return self._guarded(self._file.readline, size)

    def _guarded(self, read: Callable[[int], bytes], size: int) -> bytes:
        try:
            return read(size)
        except _DAMAGE as err:
            raise MessageError(f"the archive is damaged: {_reason(err)}") from err


class _Folder:
    damage = ""

    def __init__(self, folder: Path, wanted: Callable[[str], bool]) -> None:
        self._folder = folder
        self.names = [name for name in _folder_names(folder) if wanted(name)]

    def open(self, name: str) -> IO[bytes]:
        return (self._folder / name).open("rb")


class _Zip:
    damage = ""

    def __init__(self, file: zipfile.ZipFile, wanted: Callable[[str], bool]) -> None:
        self._file = file
        self.names = [name for name in file.namelist() if wanted(name)]

    def open(self, name: str) -> IO[bytes]:
        return self._file.open(name)


class _Tar:
    def __init__(self, path: StrPath, aside: IO[bytes], wanted: Callable[[str], bool]) -> None:
        self._aside = aside
        self._places: dict[str, tuple[int, int]] = {}
        self.damage = ""
        try:
            self._put_aside(path, wanted)
        except _DAMAGE as err:
            if not self._places:
                raise
            self.damage = f"the archive is damaged: {_reason(err)}"
        self.names = list(self._places)

    def open(self, name: str) -> IO[bytes]:
        offset, size = self._places[name]
        self._aside.seek(offset)
        return BytesIO(self._aside.read(size))

    def _put_aside(self, path: StrPath, wanted: Callable[[str], bool]) -> None:
        with tarfile.open(path, "r|*") as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isfile() and wanted(member.name) else None
                if file is not None:
                    offset = self._aside.seek(0, SEEK_END)
                    while block := file.read(_COPIED_BYTES):
                        self._aside.write(block)
                    self._places[member.name] = offset, self._aside.tell() - offset


def _folder_names(folder: Path, most: int | None = None) -> Iterator[str]:
    """Names of the files in the folder, up to two folders deep, sorted."""
    found = sorted(path for depth in ("*", "*/*", "*/*/*") for path in folder.glob(depth) if path.is_file())
    yield from (path.relative_to(folder).as_posix() for path in found[:most])


def _reason(err: Any) -> str:
    return getattr(err, "strerror", None) or str(err) or type(err).__name__
