"""The recovery directory: partitions for the state of the dataflow, made once, each written by one process.

Either all processes see one directory with every partition, or each has a disk of its own with every
n-th: partition i is with process i mod n. Bytewax finds out who has which.
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
    """Of `disks` processes with a disk each, the one whose disk this is; one for all by default."""

    number: int = 0
    disks: int = 1

    def __str__(self) -> str:
        return "the directory" if self.disks == 1 else f"process {self.number} of {self.disks}"

    def partitions(self, count: int) -> list[int]:
        """Which of so many partitions belong here."""
        return list(range(self.number, count, self.disks))


def recovery_directory(settings: Settings) -> Path:
    """Where the state of the dataflow is kept.

    Raises:
        SettingsError: it is not set, and the store is no local directory to keep it in.
    """
    if settings.recovery is not None:
        return settings.recovery
    if settings.store is None or "://" in settings.store:
        raise SettingsError("recovery: name a local directory for the state of the dataflow (--recovery)")
    return Path(settings.store) / "recovery"


def init_recovery(directory: Path, count: int, disk: Disk | None = None) -> str:
    """Make the partitions that belong on a disk, or find them there; says which.

    Raises:
        SettingsError: others are there, or some are gone: nothing is touched.
    """
    disk = disk or Disk()
    if count < disk.disks:
        raise SettingsError(f"{disk.disks} processes need as many partitions: {count} are too few")
    wanted = disk.partitions(count)
    with _usable(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = _present(directory)
        if there and not any(_used(directory, number) for number in there):
            if there == wanted and _count(directory) == count:
                return f"{directory}: {_named(wanted)} of {count} are there"
            for number in there:  # such as the half of an interrupted init
                _partition(directory, number).unlink()
            there = []
        if not there:
            _make_partitions(directory, count, wanted)
            return f"{directory}: {_named(wanted)} of {count} made"
        made = _count(directory)
    if made != count:
        raise SettingsError(
            f"recovery directory {directory} was made with {made} partitions, not {count}: their number is "
            "fixed when it is made"
        )
    if there != wanted:
        raise SettingsError(
            f"recovery directory {directory} has {_named(there)} of {count}, but {disk} has to have "
            f"{_named(wanted)}: stop all processes, and bring every partition to its place with "
            "`backscroll recovery spread`, or all directories back from a backup"
        )
    return f"{directory}: {_named(wanted)} of {count} are there"


def spread_recovery(directories: Sequence[Path], disks: int) -> str:
    """Bring every partition to its place: partition i into the directory of number i mod `disks`.

    No process may run. What was interrupted goes on when it is called again.

    Args:
        directories: all that hold partitions now, those of the processes to come first, in order.
        disks: processes to come; the first so many directories are theirs.

    Raises:
        SettingsError: partitions are missing or there twice: nothing is touched.
    """
    if not 1 <= disks <= len(directories):
        raise SettingsError(f"{disks} processes need as many directories: {len(directories)} are named")
    places = dict[int, Path]()
    for directory in directories:
        with _usable(directory):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for number in _present(directory):
                if number in places and _used(directory, number):
                    if _used(places[number], number):
                        both = f"{places[number]} and {directory}"
                        raise SettingsError(f"partition {number} is in {both}: take away the older one")
                    places[number] = directory
                places.setdefault(number, directory)
    if not places:
        raise SettingsError("there is no recovery partition in any of the directories")
    first, directory = next(iter(places.items()))
    count = _count(directory, first)
    gone = sorted(set(range(count)) - places.keys())
    if gone:
        raise SettingsError(f"{_named(gone)} of {count} are in none of the directories: name them all")
    moved = 0
    for number, source in places.items():
        target = directories[number % disks]
        if source != target:
            with _usable(source), _usable(target):
                _move(source, target, number)
            moved += 1
    for directory in directories:
        for number in _present(directory):  # an unused one that an init made for what was elsewhere
            if directories[number % disks] != directory:
                _partition(directory, number).unlink()
    return f"{count} partitions in {disks} directories, {moved} of them moved"


def prepare_recovery(settings: Settings, processes: int, *, process_id: int | None = None) -> None:
    """Make the recovery partitions if there are none, and drop what old snapshots left in them.

    Only those are cleaned that no other process has open.

    Args:
        settings: the engine's settings.
        processes: how many will use them.
        process_id: the place of this process, where they are started one by one.

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
                database.execute("VACUUM")  # message text of states that are over is gone from the file
    if count < processes:
        raise SettingsError(
            f"recovery directory {directory} has {count} partitions, fewer than the {processes} "
            "processes: their number (recovery_partitions) is fixed when the directory is made"
        )


def await_recovery(settings: Settings, process_id: int, seconds: float = 60.0) -> None:
    """Wait until the first partition of a process is there, from process 0 or from an init.

    Raises:
        SettingsError: it is not in that time.
    """
    directory, deadline = recovery_directory(settings), time.monotonic() + seconds
    while not _partition(directory, process_id).exists():
        if time.monotonic() > deadline:
            raise SettingsError(
                f"recovery directory {directory} has no partition {process_id}: is process 0 running? With a "
                "disk for each process, run `backscroll recovery init` there first"
            )
        time.sleep(0.1)


def _make_partitions(directory: Path, count: int, wanted: Sequence[int]) -> None:
    """Make the wanted ones or none: the first comes last, and tells that the others are there."""
    new = directory / "new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    init_db_dir(new, count)  # type: ignore[no-untyped-call]
    for number in reversed(wanted):
        _partition(new, number).replace(_partition(directory, number))
    shutil.rmtree(new)


def _move(source: Path, target: Path, number: int) -> None:
    """Copy a partition, perhaps to another disk, whole or not at all, and delete it where it was."""
    old, new = _partition(source, number), _partition(target, number)
    with closing(sqlite3.connect(old)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # what a crash left beside the file
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
    """How many partitions there are in all, as one of them tells."""
    number = _present(directory)[0] if number is None else number
    with closing(sqlite3.connect(_partition(directory, number))) as database:
        (count,) = database.execute("SELECT part_count FROM parts").fetchone()
    return int(count)


def _used(directory: Path, number: int) -> bool:
    """Whether a dataflow has ever run with the partition."""
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
