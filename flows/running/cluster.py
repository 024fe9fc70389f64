"""Runs one job on several local processes of one Bytewax cluster.

Threads would share the interpreter lock, so every worker is a process: `python -m` with this module.
The parent locks the store and starts process 0, which creates the store's tables, and then the others.
A worker reads its task from standard input and writes frames to standard output, one per line, each
with a letter for its kind. It ends when its input closes, so a killed parent leaves no worker behind.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import orjson

from backscroll.flows.running.job import Job, ResultWriter
from backscroll.flows.terminal.errors import ClusterError
from backscroll.flows.terminal.log_setup import set_up_logging
from backscroll.operators.runtime.progress import Progress

if TYPE_CHECKING:
    from backscroll.operators.runtime.runtime import Runtime

__all__ = ["run_cluster"]

_GRACE_SECONDS = 5.0
_PATIENCE_SECONDS = 2.5  # from the request to stop until workers are killed


def run_cluster(
    job: Job,
    results: ResultWriter | None = None,
    *,
    processes: int,
    counters: Counter[str],
    stopping: threading.Event,
    prepare: Callable[[], None] = lambda: None,
    progress: MutableMapping[int, Progress] | None = None,
    metrics: Path | None = None,
) -> None:
    """Run a job on `processes` processes.

    Args:
        job: what to run.
        results: where results go; None if they go to topics.
        processes: number of worker processes.
        counters: updated with the sum of the workers' counters while the job runs.
        stopping: set it to stop the workers.
        prepare: called once the store is locked, before any worker runs.
        progress: updated with each worker's latest progress, by its number.
        metrics: a directory in which the workers share their Prometheus metrics.

    Raises:
        StoreError: another engine uses the store.
        ClusterError: a worker failed.
    """
    from backscroll.connectors.lancedb.schema import occupy
    from backscroll.connectors.lancedb.tables import is_remote

    with ExitStack() as stack:
        temporary = Path(stack.enter_context(TemporaryDirectory(prefix="backscroll-")))
        store = job.settings.store or str(temporary / "store")
        # The workers hold the lock as well, so the store is free once the last of them has ended in any way.
        held = () if is_remote(store) else (stack.enter_context(occupy(Path(store))).fileno(),)
        prepare()
        pending = temporary / "pending"
        np.zeros(3 * processes, np.int64).tofile(pending)
        task = {
            "job": Job(
                job.kind, job.files, job.settings.model_copy(update={"store": store}), job.speed, job.detected
            )
            .to_json()
            .decode(),
            "addresses": [f"127.0.0.1:{port}" for port in _free_ports(processes)],
            "pending": str(pending),
        }
        errors = list[str]()  # the first one caused the others
        of_workers = {} if progress is None else progress
        workers = [
            _Worker(
                number,
                results,
                counters=counters,
                progress=of_workers,
                errors=errors,
                held=held,
                metrics=metrics,
            )
            for number in range(processes)
        ]
        try:
            workers[0].start(task)
            while not (workers[0].ready.wait(0.1) or stopping.is_set()):
                pass
            for worker in workers[1:]:
                worker.start(task)
            _watch(workers, stopping, errors)
        finally:
            for worker in workers:
                worker.end()


class _Worker:
    """The parent's side of one worker process."""

    _lock = threading.Lock()  # only one thread at a time may write results

    def __init__(
        self,
        number: int,
        results: ResultWriter | None,
        *,
        counters: Counter[str],
        progress: MutableMapping[int, Progress],
        errors: list[str],
        held: Sequence[int],
        metrics: Path | None,
    ) -> None:
        self.number = number
        self._held = held
        self._environment = {} if metrics is None else {"PROMETHEUS_MULTIPROC_DIR": str(metrics)}
        self.ready = threading.Event()
        self.failure: BaseException | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._counted: Counter[str] = Counter()
        self._counters = counters
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._on: dict[bytes, Callable[[Any], None]] = {
            b"c": lambda body: self._count(orjson.loads(body)),
            b"p": lambda body: progress.update({number: Progress(**orjson.loads(body))}),
            b"r": lambda _: self.ready.set(),
            b"e": lambda body: errors.append(orjson.loads(body)),
        }
        if results is not None:
            self._on |= {
                b"s": lambda body: results.summaries([body]),
                b"d": lambda body: results.dead_letters([body]),
                b"o": lambda body: results.open_windows([orjson.loads(body)]),
            }

    def start(self, task: Mapping[str, Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "backscroll.flows.running.cluster"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=self._held,
            env={**os.environ, **self._environment},
        )
        assert self.process.stdin is not None
        self.process.stdin.write(orjson.dumps({**task, "process_id": self.number}) + b"\n")
        self.process.stdin.flush()
        self._reader.start()

    def stop(self) -> None:
        """Ask the worker to stop; it leaves open windows open."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def end(self) -> None:
        """Wait for the worker and its last frames; kill it if it takes too long."""
        if self.process is None:
            return
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if self.failure is not None:
                continue  # keep draining the pipe, so that the worker can end
            try:
                with self._lock:
                    self._on[line[:1]](line[1:].rstrip(b"\n"))
            except Exception as err:  # results cannot be written: `_watch` ends the job
                self.failure = err
        self.ready.set()

    def _count(self, counted: Mapping[str, int]) -> None:
        self._counters.update(Counter(counted))
        self._counters.subtract(self._counted)
        self._counted = Counter(counted)


def _watch(workers: Sequence[_Worker], stopping: threading.Event, errors: Sequence[str]) -> None:
    """Wait until all workers have ended; stop them on request or when one fails."""
    running = {worker: worker.process for worker in workers if worker.process is not None}
    asked_at: float | None = None
    cause: list[str] = []  # errors after the request to stop are its consequences
    while running:
        failed = errors or any(worker.failure is not None for worker in workers)
        if (stopping.is_set() or failed) and asked_at is None:
            asked_at, cause = time.monotonic(), list(errors)
            for worker in running:
                worker.stop()
        if asked_at is not None and time.monotonic() - asked_at > _PATIENCE_SECONDS:
            for process in running.values():
                process.kill()  # still starting, or stuck in a call: nothing recorded is lost
        for worker, process in list(running.items()):
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(0.1)
                del running[worker]
                if code and asked_at is None:
                    for other in running:
                        other.stop()
                    worker.end()
                    ended = f"worker process {worker.number} failed with exit code {code}"
                    raise ClusterError(errors[0] if errors else ended)
    for worker in workers:
        worker.end()  # its last frames are read
        if worker.failure is not None:
            raise worker.failure
    if cause:
        raise ClusterError(cause[0])


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


class _PipeResults:
    """The worker's side: writes results as frames."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()

    def frame(self, kind: bytes, bodies: Sequence[bytes]) -> None:
        with self._lock:
            self._pipe.write(b"".join(kind + body + b"\n" for body in bodies))
            self._pipe.flush()

    def summaries(self, bodies: Sequence[bytes]) -> None:
        self.frame(b"s", bodies)

    def dead_letters(self, letters: Sequence[bytes]) -> None:
        self.frame(b"d", letters)

    def open_windows(self, windows: Sequence[Mapping[str, Any]]) -> None:
        self.frame(b"o", [orjson.dumps(window) for window in windows])


def _work() -> int:
    """Run one worker process."""
    results = _PipeResults(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # what a library prints must not mix with the frames
    task = orjson.loads(sys.stdin.buffer.readline())
    from backscroll.flows.assembly.engine import open_engine
    from backscroll.flows.running.dataflow import run_dataflow
    from backscroll.flows.terminal.errors import user_error_line
    from backscroll.operators.runtime.backpressure import Backlog, Liveness, Pending
    from backscroll.operators.runtime.metrics import PENDING_WINDOWS
    from backscroll.operators.runtime.runtime import Runtime

    job, number = Job.from_json(task["job"].encode()), task["process_id"]
    set_up_logging()
    detected = None if job.detected is None else Path(job.detected)
    try:
        processes = len(task["addresses"])
        slots = np.memmap(task["pending"], dtype=np.int64, mode="r+")
        runtime = Runtime(
            pending=Pending(slots[:processes], number, PENDING_WINDOWS),
            unrecorded=Backlog(Pending(slots[processes : 2 * processes], number)),
            liveness=Liveness(slots[2 * processes :], number),
            raises=False,
        )
        with open_engine(
            job.settings, runtime=runtime, detected=detected, shared=True, processes=processes
        ) as engine:
            signal.signal(signal.SIGTERM, lambda *_: runtime.stopping.set())
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
            threading.Thread(target=_end_with_parent, daemon=True).start()
            done = threading.Event()
            reporter = threading.Thread(target=_report, args=(results, runtime, done))
            reporter.start()
            results.frame(b"r", [b""])
            try:
                run_dataflow(
                    job,
                    engine,
                    None if job.writes_topics else results,
                    process_id=number,
                    addresses=task["addresses"],
                )
            finally:
                done.set()
                reporter.join()
    except Exception as err:
        results.frame(b"e", [orjson.dumps(_line(err))])
        if user_error_line(err) is None:
            raise
        return 1
    return 0


def _report(results: _PipeResults, runtime: Runtime, done: threading.Event) -> None:
    """Send counters and progress until the work is done, and a failure as soon as it happens.

    After a failure only the input ends, so Bytewax may run for a while.
    """
    failed = False
    while True:
        last = done.wait(0.2)
        results.frame(b"c", [orjson.dumps(dict(runtime.counters))])
        results.frame(b"p", [orjson.dumps(runtime.progress.latest)])
        if runtime.failure is not None and not failed:
            failed = True
            results.frame(b"e", [orjson.dumps(_line(runtime.failure))])
        if last:
            return


def _line(err: BaseException) -> str:
    from backscroll.flows.terminal.errors import user_error_line

    return user_error_line(err) or f"{type(err).__name__}: {err}"


def _end_with_parent() -> None:
    while os.read(0, 1024):  # not sys.stdin: the interpreter needs its lock to exit
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(_work())
