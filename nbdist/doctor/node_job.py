"""A small job that looks around on the nodes of a Slurm, and what they say meanwhile.

One ``srun``: the program of ``node_probe`` on each node, whose words come back over Slurm's own connections,
and so also where the nodes see none of our files. Nothing of a user's reaches a shell: the shell on the node
has a constant text, and words.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from nbdist.doctor import node_probe
from nbdist.doctor.node_checks import JobResult, ProbeResult
from nbdist.doctor.slurm import call, slurm_environment
from nbdist.engines.slurm import refusal
from nbdist.store.paths import make_private

_T = TypeVar("_T")

FILES = 15.0
"""Seconds after which a file system that does not answer is given up."""

_STARTED = 60.0
"""Seconds after the job's start in which every node has to say something."""

_LOOKED = 60.0
_GROWN = 80.0
_ASK = 1.0
_RESIDUE = 2.0
# Slurm kills it after that many minutes, whatever becomes of us
_MINUTES = 6
_SHELL = 'test -x "$0" || { echo "nbdist-no-python ${SLURMD_NODENAME}"; exit 0; }; exec "$0" -c "$1" "$2"'
_NOT_OF_SRUN = ("requeue", "no-requeue")


class NodeJob:
    """One such job. ``ask`` tells how a job of this name stands: whether it waits, and why."""

    def __init__(
        self,
        *,
        nodes: int,
        options: Sequence[str],
        home: Path,
        wait: float,
        ask: Callable[[str], tuple[bool, str, bool]],
        address_of: Callable[[str], str],
    ) -> None:
        self._count = nodes
        self._options = options
        self._wait = wait
        self._ask = ask
        self._address_of = address_of
        self._token = secrets.token_hex(16)
        self._name = f"nbdist-doctor-{self._token[:8]}"
        self._shared = home / "doctor" / self._token[:8]
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._noise: list[str] = []
        self._readers: list[threading.Thread] = []
        self._result = JobResult()

    @property
    def _here(self) -> Path:
        return self._shared / "here"

    def run(self) -> JobResult:
        """Start it, hear the nodes, end it. Raises LaunchError where there is no Slurm."""
        result = self._result
        problem = within(FILES, lambda: prepare(self._shared, self._token))
        if problem != "":
            result.unwritable = problem or f"it did not answer in {FILES:g} s"
            return result
        begun = time.monotonic()
        process = subprocess.Popen(
            self._words(),
            env=slurm_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # an interrupt is ours to handle
        )
        try:
            self._listen(process)
            if self._begun(process, begun):
                self._speak(process)
        finally:
            self._end(process)
            result.seconds = time.monotonic() - begun
            within(FILES, lambda: clear(self._shared))
        return result

    def _words(self) -> list[str]:
        program = Path(node_probe.__file__).read_text(encoding="utf-8")
        options = [option for option in self._options if option not in _NOT_OF_SRUN]
        words = ["srun", f"--job-name={self._name}", f"--nodes={self._count}", f"--ntasks={self._count}"]
        words += ["--ntasks-per-node=1", "--cpus-per-task=1", f"--time={_MINUTES}", "--mpi=none", "--chdir=/"]
        words += ["--export=ALL", "--input=all", "--kill-on-bad-exit=0", "--wait=0"]
        if not any(option.startswith("mem") for option in options):
            words.append("--mem=512M")  # without it some sites give, and wait for, whole nodes
        words += [f"--{option}" for option in options]
        return [*words, "/bin/sh", "-c", _SHELL, sys.executable, program, self._token]

    def _listen(self, process: subprocess.Popen[str]) -> None:
        def read(stream: Any, take: Callable[[str], None], *, last: bool) -> None:
            with contextlib.suppress(ValueError, OSError), stream:
                for line in stream:
                    take(line.rstrip("\n"))
            if last:
                self._lines.put(None)

        assert process.stdout is not None
        for stream, take, last in (
            (process.stdout, self._lines.put, True),
            (process.stderr, self._noise.append, False),
        ):
            thread = threading.Thread(target=read, args=(stream, take), kwargs={"last": last}, daemon=True)
            thread.start()
            self._readers.append(thread)

    def _begun(self, process: subprocess.Popen[str], begun: float) -> bool:
        """Wait for the first word of every node; whether all came that have a Python."""
        result, asked, started = self._result, 0.0, 0.0
        while len(result.nodes) < self._count:
            now = time.monotonic()
            if self._take(0.1) is None:
                self._over(process)
                return False
            if result.nodes and not started:
                started, result.queued = now, now - begun
            if not started and now - asked >= _ASK:
                asked = now
                waits, reason, hopeless = self._ask(self._name)
                if not waits:
                    started = now if reason == "running" else 0.0
                elif hopeless or now - begun > self._wait:
                    result.waits = reason or "it waits"
                    return False
            late = now - started > _STARTED if started else now - begun > self._wait + _STARTED
            if late:
                result.silent = True
                return any(node.has_python for node in result.nodes.values())
        result.queued = result.queued or time.monotonic() - begun
        return any(node.has_python for node in result.nodes.values())

    def _over(self, process: subprocess.Popen[str]) -> None:
        """It ended before all had spoken."""
        code = process.wait()
        for thread in self._readers:  # what it said last may not be read yet
            thread.join(_RESIDUE)
        self._result.noise = said = "\n".join(self._noise[-12:])
        if code and not self._result.nodes:
            causes = re.findall(r"^srun: (?:error|fatal): (?:Unable to .*?: )?(.*)$", said, re.MULTILINE)
            text = "\n".join(causes) or said
            self._result.refused = refusal(text, self._options, self._partitions)

    def _partitions(self) -> list[str]:
        return sorted(set(call("sinfo", "-h", "-o", "%R").out.split()))

    def _speak(self, process: subprocess.Popen[str]) -> None:
        nodes = [node for node in self._result.nodes.values() if node.has_python]
        for node in nodes:
            node.address = self._address_of(node.name)
        peers = [
            {"name": node.name, "address": node.address, "port": node.hello["port"]}
            for node in nodes
            if node.address
        ]
        mine = str(self._shared).replace("{", "{{").replace("}", "}}") + "/from-{node}"
        told = {"here": str(self._here), "shared": str(self._shared), "mine": mine, "token": self._token}
        self._tell(process, told | {"peers": peers, "folder": os.getcwd()})
        self._hear("looked", _LOOKED)
        within(FILES, lambda: self._see(nodes))
        if any(node.looked.get("seen") is not None for node in nodes):
            grown = f"grown-{self._token}"
            self._tell(process, {"here": str(self._here), "grown": grown})
            within(FILES, lambda: self._grow(grown))
            self._hear("grown", _GROWN)

    def _see(self, nodes: Sequence[ProbeResult]) -> None:
        """Whether what the nodes have written comes to be seen here."""
        for node in nodes:
            if not node.looked or node.looked.get("wrote"):
                continue
            path = self._shared / f"from-{node.hello['number']}"
            node.late = node_probe.wait_for(str(path), self._token, FILES / 2)

    def _grow(self, text: str) -> None:
        with open(self._here, "a", encoding="utf-8") as file:
            file.write(text)

    def _tell(self, process: subprocess.Popen[str], told: Mapping[str, Any]) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.write(json.dumps(told) + "\n")
            process.stdin.flush()

    def _hear(self, what: str, limit: float) -> None:
        """Until every node has said it, or for that many seconds."""
        deadline = time.monotonic() + limit
        while not all(getattr(node, what) for node in self._result.nodes.values() if node.has_python):
            if time.monotonic() > deadline or self._take(0.1) is None:
                return

    def _take(self, patience: float) -> bool | None:
        """Take the next line; False when none came, None when there will be none."""
        try:
            line = self._lines.get(timeout=patience)
        except queue.Empty:
            return False
        if line is None:
            return None
        if line.startswith("nbdist-no-python "):
            name = line.split(" ", 1)[1]
            self._result.nodes[name] = ProbeResult(name=name)
        elif line.startswith(node_probe.MARK):
            with contextlib.suppress(ValueError, KeyError):
                self._result.heard(json.loads(line[len(node_probe.MARK) :]))
        return True

    def _end(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(0.0 if self._unfinished else 10.0)
        except subprocess.TimeoutExpired:
            # by the name, which no other job has: the number is not known while it waits
            call("scancel", f"--name={self._name}")
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def _unfinished(self) -> bool:
        result = self._result
        return bool(result.waits) or result.silent or not result.nodes


def prepare(shared: Path, token: str) -> str:
    """Write a file for the nodes to see; what speaks against it."""
    try:
        make_private(shared)
        (shared / "here").write_text(token, encoding="utf-8")
    except OSError as error:
        return error.strerror or str(error)
    return ""


def clear(shared: Path) -> None:
    """Take away what was laid out, and the place for it unless another doctor is at work."""
    shutil.rmtree(shared, ignore_errors=True)
    with contextlib.suppress(OSError):
        shared.parent.rmdir()


def within(limit: float, work: Callable[[], _T]) -> _T | None:
    """What ``work`` returns; None when it takes longer than ``limit`` seconds, and is left to itself: a file
    system that stalls cannot be interrupted."""
    found: list[_T] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(limit)
    return found[0] if found else None
