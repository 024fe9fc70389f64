"""The Dockerfile without Docker: its steps in a clean environment, its entry point as a user with no rights.

Runs the build stage's own commands (with the paths moved below a scratch folder, and without a compiler),
copies what `.dockerignore` lets through, takes the right to write away, and starts the entry point as user
10001 against a test broker: recovery partitions, topics, the engine, a chat, its summaries, a stop.

    make image-check                              takes a minute or two, 1 GB of disk; as root it drops rights
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from support.brokers import free_port, running, wait_for

__all__ = ["Step", "read_dockerfile"]

ROOT = Path(__file__).resolve().parents[2]
_USER = 10001
_SETTINGS = ROOT / "k8s" / "base" / "settings.env"


class Step(NamedTuple):
    """One instruction of a Dockerfile, in the stage of its number."""

    stage: int
    kind: str
    text: str


def read_dockerfile(path: Path = ROOT / "Dockerfile") -> list[Step]:
    """The instructions, continued lines joined."""
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
    steps, stage = [], -1
    for line in whole.splitlines():
        kind, _, text = line.partition(" ")
        stage += kind == "FROM"
        steps.append(Step(stage, kind, text.strip()))
    return steps


def copied(source: str) -> Iterator[Path]:
    """The files of the repository that a COPY of this name brings into the image."""
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    listed = subprocess.run(["git", "ls-files", source], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.split("\n"):
        if name and name.partition("/")[0] in allowed:
            yield Path(name)


class Image:
    """The image's files below a scratch folder."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.steps = read_dockerfile()
        self._path = os.environ["PATH"]

    def moved(self, text: str) -> str:
        """A text with the image's places below the scratch folder."""
        return re.sub(
            r"(?<![\w/])/(opt/backscroll|src|var/lib/backscroll|tmp)\b", rf"{self.scratch}/\1", text
        )

    def build(self, python: str) -> None:
        """Run the build stage; nothing of it may need a compiler."""
        (self.scratch / "bin").mkdir()
        (self.scratch / "bin" / "python").symlink_to(python)
        environment = {**os.environ, "CC": "false", "CXX": "false", "CARGO": "false"}
        environment["PATH"] = f"{self.scratch / 'bin'}:{self._path}"
        folder = self.scratch
        for stage, kind, text in self.steps:
            if stage != 0:
                continue
            if kind == "ENV":
                environment |= dict(pair.split("=", 1) for pair in shlex.split(text))
            elif kind == "WORKDIR":
                folder = Path(self.moved(text))
                folder.mkdir(parents=True)
            elif kind == "COPY":
                self._copy(folder, *text.split())
            elif kind == "RUN":
                say(f"RUN {text[:100]}")
                subprocess.run(["/bin/sh", "-ec", self.moved(text)], cwd=folder, env=environment, check=True)

    def _copy(self, folder: Path, *names: str) -> None:
        for name in names[:-1]:
            files = list(copied(name))
            assert files, f"COPY {name} brings nothing"
            for file in files:
                place = folder / file
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / file, place)

    def settle(self) -> None:
        """Give the user the two folders it may write to, and nothing else."""
        for name in ("opt", "src"):
            subprocess.run(["chmod", "-R", "a-w,a+rX", str(self.scratch / name)], check=True)
        for name in ("var/lib/backscroll", "tmp"):
            (self.scratch / name).mkdir(parents=True)
            if os.geteuid() == 0:
                os.chown(self.scratch / name, _USER, _USER)
        for folder in (self.scratch, *self.scratch.iterdir()):
            if not folder.is_symlink() and folder.name != "tmp":
                folder.chmod(0o755)

    def start(self, *arguments: str, log: Path, **variables: str) -> subprocess.Popen[bytes]:
        """The entry point with arguments, as the image's user, with the image's variables and no others."""
        values = {"PATH": "/usr/bin:/bin", "TMPDIR": str(self.scratch / "tmp")}
        for stage, kind, text in self.steps:
            if stage == 1 and kind == "ENV":
                pairs = dict(pair.split("=", 1) for pair in shlex.split(self.moved(text)))
                values |= {name: value.replace("$PATH", values["PATH"]) for name, value in pairs.items()}
        (entry,) = (json.loads(step.text) for step in self.steps if step.kind == "ENTRYPOINT")
        if shutil.which("tini") is None:  # the image installs it
            entry = entry[entry.index("--") + 1 :]
        entry[0] = str(self.scratch / "opt/backscroll/bin" / entry[0])
        confined = f"setpriv --reuid={_USER} --regid={_USER} --clear-groups --no-new-privs"
        confined += " --bounding-set=-all --inh-caps=-all"
        prefix = confined.split() if os.geteuid() == 0 else []
        with log.open("wb") as file:
            return subprocess.Popen(
                [*prefix, *entry, *arguments],
                env={**values, **variables},
                cwd=self.scratch / "var/lib/backscroll",
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def run(self, *arguments: str, **variables: str) -> str:
        """The entry point to its end, which has to be a good one; returns what it said."""
        log = self.scratch / "run.log"
        process = self.start(*arguments, log=log, **variables)
        code = process.wait(300)
        said = log.read_text()
        assert code == 0, f"backscroll {' '.join(arguments)}: {code}: {said}"
        return said


def say(text: str) -> None:
    """One line of the report."""
    print(f"[{time.monotonic() - _STARTED:6.1f} s] {text}", flush=True)


def check(image: Image) -> None:
    """Start what the manifests start."""
    say(image.run("--version").strip())
    settings = dict(image.moved(line).split("=", 1) for line in _SETTINGS.read_text().splitlines())
    port = str(free_port())
    settings |= {"BACKSCROLL_HTTP_HOST": "127.0.0.1", "BACKSCROLL_HTTP_PORT": port}
    recovery = settings["BACKSCROLL_RECOVERY"]
    image.run("recovery", "init", recovery, "--parts", "8")
    image.run("recovery", "init", recovery, "--parts", "8")
    say(f"recovery init, twice: {len(list(Path(recovery).glob('part-*')))} partitions")
    with running("noida", image.scratch / "broker") as broker:
        settings["BACKSCROLL_KAFKA_BROKERS"] = broker.address
        said = image.run("topics", "create", "--partitions", "4", **settings)
        say("topics create: " + "; ".join(said.splitlines()))
        log = image.scratch / "engine.log"
        engine = image.start("run", "--workers", "2", log=log, OMP_NUM_THREADS="1", **settings)
        try:
            began = time.monotonic()
            wait_for(lambda: answers(port, "/readyz") == 200, seconds=120, what="/readyz")
            say(f"/readyz after {time.monotonic() - began:.1f} s, /livez {answers(port, '/livez')}")
            command = [
                sys.executable,
                "-m",
                "backscroll.flows.cli.main",
                "replay",
                str(ROOT / "samples" / "harbor.jsonl"),
            ]
            subprocess.run([*command, "--into", f"kafka://{broker.address}/messages"], cwd=ROOT, check=True)
            said = image.run("tail", "--from", "earliest", "--limit", "3", **settings)
            first = json.loads(said.splitlines()[0])["summary_id"]
            say(f"{len(said.splitlines())} summaries, the first {first}")
            say(f"resident memory in MB, by process: {resident(engine.pid)}")
            assert engine.poll() is None, log.read_text()
        finally:
            stopped = time.monotonic()
            engine.send_signal(signal.SIGTERM)
            code = engine.wait(60)
        assert code == 0, log.read_text()
        say(f"SIGTERM: ended with 0 in {time.monotonic() - stopped:.1f} s")
    owned = [path for path in (image.scratch / "opt").rglob("*") if path.lstat().st_uid == _USER]
    assert not owned, owned
    written = sorted({path.name for path in (image.scratch / "tmp").iterdir()})
    say(f"left in /tmp: {written or 'nothing'}; written elsewhere: nothing but /var/lib/backscroll")


def answers(port: str, path: str) -> int:
    """The status of a page; 0 where nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
            return int(answer.status)
    except OSError:
        return 0


def resident(pid: int) -> list[int]:
    """Resident megabytes of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    sizes = [int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in (pid, *map(int, children))]
    return [size * os.sysconf("SC_PAGE_SIZE") // 1_000_000 for size in sizes]


def main() -> None:
    """Build, take rights away, check; the folder goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    anybodys = shutil.which("python3.11", path="/usr/bin:/usr/local/bin") or sys.executable
    parser.add_argument("--python", default=anybodys, help="one that any user may run")
    parser.add_argument("--keep", type=Path, help="folder to build in and leave; used again if it is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="backscroll-image-") as temporary:
        scratch = options.keep or Path(temporary)
        scratch.mkdir(exist_ok=True)
        image = Image(scratch.resolve())
        if not (scratch / "opt").exists():
            image.build(options.python)
            size = subprocess.run(["du", "-sm", scratch / "opt"], capture_output=True, text=True, check=True)
            say(f"built: {size.stdout.split()[0]} MB")
            image.settle()
        check(image)


_STARTED = time.monotonic()
if __name__ == "__main__":
    main()
