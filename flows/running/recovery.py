"""The recovery directory: partitions for the dataflow's state, created once, each written by one process.

Either all processes share one directory with every partition, or each of n processes has its own disk
with every n-th one: partition i belongs to process i mod n. Bytewax detects which process has which.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bytewax.recovery import init_db_dir

from backscroll.flows.settings.settings import Settings, SettingsError

__all__ = [
    "Disk",
    "await_recovery",
    "init_recovery",
    "prepare_recovery",
    "recovery_directory",
    "spread_recovery",
]


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk of process `number` of `disks` processes with a disk each; by default one shared disk."""

    number: int = 0
    disks: int = 1

    def __str__(self) -> str:
        return "the directory" if self.disks == 1 else f"process {self.number} of {self.disks}"

    def partitions(self, count: int) -> list[int]:
        """Which of `count` partitions belong on this disk."""
        return list(range(self.number, count, self.disks))


def recovery_directory(settings: Settings) -> Path:
    """The directory that holds the dataflow's state.

    Raises:
        SettingsError: it is not set, and there is no local store directory to put it in.
    """
    if settings.recovery is not None:
        return settings.recovery
    if settings.store is None or "://" in settings.store:
        raise SettingsError("recovery: set a local directory for the dataflow's state (--recovery)")
    return Path(settings.store) / "recovery"


def init_recovery(directory: Path, count: int, disk: Disk | None = None) -> str:
    """Create the partitions that belong on a disk, unless they exist; returns a line that says which.

    Raises:
        SettingsError: other partitions exist or some are missing; nothing is changed.
    """
    disk = disk or Disk()
    if count < disk.disks:
        raise SettingsError(
            f"{disk.disks} processes need at least {disk.disks} partitions: {count} are too few"
        )
    wanted = disk.partitions(count)
    with _usable(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = _present(directory)
        if there and not any(_used(directory, number) for number in there):
            if there == wanted and _count(directory) == count:
                return f"{directory}: {_named(wanted)} of {count} found"
            for number in there:  # for example left by an interrupted init
                _partition(directory, number).unlink()
            there = []
        if not there:
            _make_partitions(directory, count, wanted)
            return f"{directory}: {_named(wanted)} of {count} created"
        made = _count(directory)
    if made != count:
        raise SettingsError(
            f"recovery directory {directory} was created with {made} partitions, not {count}: the number "
            "cannot be changed later"
        )
    if there != wanted:
        raise SettingsError(
            f"recovery directory {directory} has {_named(there)} of {count}, but {disk} needs "
            f"{_named(wanted)}: stop all processes, then move the partitions with `backscroll recovery "
            "spread` or restore all directories from a backup"
        )
    return f"{directory}: {_named(wanted)} of {count} found"


def spread_recovery(directories: Sequence[Path], disks: int) -> str:
    """Move every partition to its place: partition i to the directory with index i mod `disks`.

    No process may be running. If it is interrupted, call it again to continue.

    Args:
        directories: all directories with partitions, the ones to use from now on first, in order.
        disks: the new number of processes; the first `disks` directories are theirs.

    Raises:
        SettingsError: partitions are missing or exist twice; nothing is changed.
    """
    if not 1 <= disks <= len(directories):
        raise SettingsError(f"{disks} processes need at least {disks} directories: {len(directories)} given")
    places = dict[int, Path]()
    for directory in directories:
        with _usable(directory):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for number in _present(directory):
                if number in places and _used(directory, number):
                    if _used(places[number], number):
                        both = f"{places[number]} and {directory}"
                        raise SettingsError(f"partition {number} is in {both}: remove the older one")
                    places[number] = directory
                places.setdefault(number, directory)
    if not places:
        raise SettingsError("none of the directories has a recovery partition: list the ones that do")
    first, directory = next(iter(places.items()))
    count = _count(directory, first)
    gone = sorted(set(range(count)) - places.keys())
    if gone:
        raise SettingsError(f"{_named(gone)} of {count} are in none of the directories: list all directories")
    moved = 0
    for number, source in places.items():
        target = directories[number % disks]
        if source != target:
            with _usable(source), _usable(target):
                _move(source, target, number)
            moved += 1
    for directory in directories:
        for number in _present(directory):  # an unused one, created while the real one was elsewhere
            if directories[number % disks] != directory:
                _partition(directory, number).unlink()
    return f"{count} partitions in {disks} directories, {moved} of them moved"


def prepare_recovery(settings: Settings, processes: int, *, process_id: int | None = None) -> None:
    """Create the recovery partitions if there are none, and erase the remains of old snapshots.

    Only partitions that no other process has open are cleaned.

    Args:
        settings: the engine's settings.
        processes: how many processes will use them.
        process_id: the index of this process, if you start processes one by one.

    Raises:
        SettingsError: there are fewer partitions than processes, or the directory cannot be used.
    """
    directory = recovery_directory(settings)
    with _usable(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        first = process_id or 0
        if first == 0 and not _partition(directory, 0).exists():
            count = settings.recovery_partitions
            _make_partitions(directory, count, list(range(count)))
        there = _present(directory)
        count = _count(directory, first)
        own = processes > 1 and there == Disk(first, processes).partitions(count)
        for number in there if own or process_id is None else ():
            with closing(sqlite3.connect(_partition(directory, number))) as database:
                database.execute("VACUUM")  # erases the message text of old states from the file
    if count < processes:
        raise SettingsError(
            f"recovery directory {directory} has {count} partitions, fewer than the {processes} "
            "processes: the number (recovery_partitions) cannot be changed later"
        )


def await_recovery(settings: Settings, process_id: int, seconds: float = 60.0) -> None:
    """Wait until the first partition of a process exists; process 0 or an init creates it.

    Raises:
        SettingsError: it does not exist in time.
    """
    directory, deadline = recovery_directory(settings), time.monotonic() + seconds
    while not _partition(directory, process_id).exists():
        if time.monotonic() > deadline:
            raise SettingsError(
                f"recovery directory {directory} has no partition {process_id}: start process 0, or, if each "
                "process has its own disk, run `backscroll recovery init` on this one first"
            )
        time.sleep(0.1)


def _make_partitions(directory: Path, count: int, wanted: Sequence[int]) -> None:
    """Create all the wanted ones or none: the first is put in place last, as a sign that all exist."""
    new = directory / "new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    init_db_dir(new, count)  # type: ignore[no-untyped-call]
    for number in reversed(wanted):
        _partition(new, number).replace(_partition(directory, number))
    shutil.rmtree(new)


def _move(source: Path, target: Path, number: int) -> None:
    """Move a partition, perhaps to another disk: copy it completely or not at all, then delete the old."""
    old, new = _partition(source, number), _partition(target, number)
    with closing(sqlite3.connect(old)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # merges what a crash left beside the file
        database.execute("PRAGMA journal_mode = DELETE")
    copy = new.with_suffix(".copy")
    shutil.copyfile(old, copy)
    copy.replace(new)
    old.unlink()


def _partition(directory: Path, number: int) -> Path:
    return directory / f"part-{number}.sqlite3"


def _present(directory: Path) -> list[int]:
    names = (path.stem.partition("-")[2] for path in directory.glob("part-*.sqlite3"))
    return sorted(int(name) for name in names if name.isdecimal())


def _count(directory: Path, number: int | None = None) -> int:
    """The total number of partitions, which each of them stores."""
    number = _present(directory)[0] if number is None else number
    with closing(sqlite3.connect(_partition(directory, number))) as database:
        (count,) = database.execute("SELECT part_count FROM parts").fetchone()
    return int(count)


def _used(directory: Path, number: int) -> bool:
    """Whether a dataflow has ever used the partition."""
    with closing(sqlite3.connect(_partition(directory, number))) as database:
        tables = ("exs", "fronts", "commits", "snaps")
        return any(database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in tables)


def _named(numbers: Sequence[int]) -> str:
    return f"partition{'s' * (len(numbers) != 1)} {', '.join(map(str, numbers))}"


@contextmanager
def _usable(directory: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error, TypeError) as err:
        raise SettingsError(f"recovery directory {directory} cannot be used: {err}") from err
