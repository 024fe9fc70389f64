"""The golden files of the readers: small exports in the true layout, and what is in them."""

from __future__ import annotations

import tarfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from backscroll.connectors.files.formats import SKIPPED, read_file
from backscroll.operators.messages import Received

GOLDEN = Path(__file__).parents[1] / "connectors" / "files" / "golden"
BERLIN = ZoneInfo("Europe/Berlin")
FOLDERS = ("slack", "zulip")  # formats whose export is a folder


def inputs() -> list[tuple[str, Path]]:
    """Every golden file, or folder, with the name of its format."""
    found = []
    for folder in sorted(path for path in GOLDEN.iterdir() if path.name != "expected"):
        files = [folder] if folder.name in FOLDERS else sorted(p for p in folder.rglob("*") if p.is_file())
        found += [(folder.name, path) for path in files]
    return found


def read(path: Path, format: str = "auto") -> tuple[list[Received], dict[str, int]]:
    """What a file holds, and how many entries were skipped for which reason."""
    counters: Counter[str] = Counter()
    items = list(read_file(path, format, tz=BERLIN, counters=counters))
    return items, {name.removeprefix(SKIPPED): count for name, count in counters.items()}


def values(items: list[Received]) -> list[Any]:
    """The messages among what was read."""
    return [item.value for item in items if isinstance(item.value, dict)]


def packed(folder: Path, archive: Path) -> Path:
    """The folder as a zip or a tar.gz, whichever the name of the archive says."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packing:
            for path in files:
                packing.write(path, path.relative_to(folder).as_posix())
    else:
        with tarfile.open(archive, "w:gz") as packing_tar:
            for path in reversed(files):
                packing_tar.add(path, f"zulip-export/{path.relative_to(folder).as_posix()}")
    return archive
