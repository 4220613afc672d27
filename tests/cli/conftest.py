"""The command line as a shell runs it: real processes, with a home and a folder of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbdist import processes
from nbdist.runner import RunHandle
from nbdist.store import RunStore
from tests.programs import until

Finished = subprocess.CompletedProcess


class Shell:
    """A shell in ``folder`` that runs ``nbdist``, with its runs under ``home``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.environment = os.environ | {"NBDIST_HOME": str(self.home), "LANG": "C.UTF-8"}
        self._started: list[subprocess.Popen[str]] = []

    def script(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def start(self, *words: str, **more: object) -> subprocess.Popen[str]:
        return self.start_python("-m", "nbdist", *words, **more)

    def start_python(self, *words: str, **more: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,  # type: ignore[call-overload]
        )
        self._started.append(process)
        return process

    def run(self, *words: str) -> Finished[str]:
        return self.finish(self.start(*words))

    def finish(self, process: subprocess.Popen[str], limit: float = 40.0) -> Finished[str]:
        """Read the rest of a process's output; return it with the exit code."""
        out, err = process.communicate(timeout=limit)
        return Finished(process.args, process.returncode, out, err)

    def run_handle(self) -> RunHandle:
        """Return the only run."""
        until(lambda: RunStore(self.home).directories())
        (directory,) = RunStore(self.home).directories()
        until(directory.spec.exists)
        return RunHandle(directory)

    def until_printed(self, text: str) -> RunHandle:
        """Wait until every rank of the only run has printed ``text``."""
        handle = self.run_handle()
        ranks = range(handle.run.spec.world_size)
        until(lambda: all(text in handle.logs(rank) for rank in ranks))
        return handle

    def left(self) -> list[int]:
        """Return the processes of runs that are still alive."""
        paths = [str(directory.path) for directory in RunStore(self.home).directories()]
        return [process.pid for path in paths for process in processes.marked("NBDIST_RUN_DIR", path)]

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()
        try:
            until(lambda: not self.left(), limit=30)
        finally:
            for pid in self.left():
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Provide a shell; fail the test when one of its runs outlives it."""
    shell = Shell(tmp_path)
    # the tests may run below nohup, whose wish the command would respect
    previous = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield shell
    signal.signal(signal.SIGHUP, previous)
    shell.close()


def read_until(process: subprocess.Popen[str], text: str, limit: float = 20.0) -> str:
    """Read a process's output up to the line with ``text``; kill the process when the line does not come."""
    assert process.stdout is not None
    deadline = threading.Timer(limit, process.kill)
    deadline.start()
    seen = ""
    try:
        for line in process.stdout:
            seen += line
            if text in line:
                return seen
    finally:
        deadline.cancel()
    raise AssertionError(f"{text!r} was not printed in time: {seen}")
