"""A small job that looks around on the nodes of a cluster, and what they say meanwhile; the job of a Slurm.

The program of ``node_probe`` runs on each node, and its words come back over the engine's own connections,
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
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from nbdist.doctor import node_probe
from nbdist.doctor.node_checks import JobResult, ProbeResult
from nbdist.doctor.slurm import call
from nbdist.engines.slurm import Partition, Slurm, refusal, scrubbed, waiting
from nbdist.engines.slurm_batch import address_of
from nbdist.model.decoding import MALFORMED, loads
from nbdist.store.paths import make_private
from nbdist.text import reason_text

_T = TypeVar("_T")

_FILES = 15.0
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


class NodeJob(ABC):
    """A job that looks around on ``nodes`` nodes, waited for in the queue for ``wait`` seconds. An engine's
    own starts the probe on each, hands its lines to ``take``, and is ended by ``_end``."""

    def __init__(self, *, nodes: int, home: Path, wait: float) -> None:
        self._count = nodes
        self._wait = wait
        self._token = secrets.token_hex(16)
        self._name = f"nbdist-doctor-{self._token[:8]}"
        self._shared = home / "doctor" / self._token[:8]
        self._result = JobResult()

    def run(self) -> JobResult:
        """Start it, hear the nodes, end it."""
        result = self._result
        problem = within(_FILES, self._prepare)
        if problem != "":
            result.unwritable = problem or f"it did not answer in {_FILES:g} s"
            return result
        begun = time.monotonic()
        self._start()
        try:
            self._look(begun)
        finally:
            self._end()
            result.seconds = time.monotonic() - begun
            within(_FILES, self._clear)
        return result

    def _start(self) -> None:  # noqa: B027 - Ray needs nothing
        """Make what has to be there before the job can be ended."""

    @abstractmethod
    def _look(self, begun: float) -> None:
        """Start the job, and hear what its nodes print until it has ended or takes too long."""

    @abstractmethod
    def _end(self) -> None:
        """End what is left of the job."""

    def take(self, line: str) -> None:
        """A line that the job has printed."""
        if line.startswith("nbdist-no-python "):
            name = line.split(" ", 1)[1]
            self._result.nodes[name] = ProbeResult(name=name)
        elif line.startswith(node_probe.MARK):
            with contextlib.suppress(*MALFORMED):
                self._heard(loads(line[len(node_probe.MARK) :]))

    def _heard(self, said: Mapping[str, Any]) -> None:
        self._result.heard(said)

    def _told(self) -> dict[str, str]:
        """Where the nodes are to look."""
        mine = str(self._shared).replace("{", "{{").replace("}", "}}") + "/from-{node}"
        here = {"here": str(self._shared / "here"), "shared": str(self._shared), "mine": mine}
        return here | {"token": self._token, "folder": os.getcwd()}

    def _see(self) -> None:
        """Whether what the nodes have written comes to be seen here."""
        for node in self._result.nodes.values():
            if node.looked and not node.looked["wrote"]:
                path = self._shared / f"from-{node.hello['number']}"
                node.late = node_probe.wait_for(str(path), self._token, _FILES / 2)

    def see(self) -> None:
        within(_FILES, self._see)

    def _prepare(self) -> str:
        """Write a file for the nodes to see; what speaks against it."""
        try:
            make_private(self._shared)
            (self._shared / "here").write_text(self._token, encoding="utf-8")
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def _clear(self) -> None:
        """Take away what was laid out, and the place for it unless another doctor is at work."""
        shutil.rmtree(self._shared, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._shared.parent.rmdir()


def within(limit: float, work: Callable[[], _T]) -> _T | None:
    """What ``work`` returns; None when it takes longer than ``limit`` seconds, and is left to itself: a file
    system that stalls cannot be interrupted."""
    found: list[_T] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(limit)
    return found[0] if found else None


class SlurmJob(NodeJob):
    """One ``srun``, to which the nodes speak over Slurm's own connections. ``options`` are sbatch's."""

    def __init__(self, *, nodes: int, options: Sequence[str], home: Path, wait: float) -> None:
        super().__init__(nodes=nodes, home=home, wait=wait)
        self._options = options
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._noise: list[str] = []
        self._readers: list[threading.Thread] = []

    def _start(self) -> None:
        self._process = process = subprocess.Popen(
            self._words(),
            env=scrubbed(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # an interrupt is ours to handle
        )
        for stream, take in ((process.stdout, self._lines.put), (process.stderr, self._noise.append)):
            thread = threading.Thread(target=self._read, args=(stream, take), daemon=True)
            thread.start()
            self._readers.append(thread)

    def _look(self, begun: float) -> None:
        if self._begun(begun):
            self._speak()

    def _read(self, stream: Any, take: Callable[[str], None]) -> None:
        with contextlib.suppress(ValueError, OSError), stream:
            for line in stream:
                take(line.rstrip("\n"))
        if take == self._lines.put:
            self._lines.put(None)

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

    def _begun(self, begun: float) -> bool:
        """Wait for the first word of every node; whether all came that have a Python."""
        result, asked, started = self._result, 0.0, 0.0
        while len(result.nodes) < self._count:
            now = time.monotonic()
            if self._next() is None:
                self._over()
                return False
            if result.nodes and not started:
                started, result.queued = now, now - begun
            if not started and now - asked >= _ASK:
                asked = now
                waits, reason, hopeless = self._stands()
                if not waits:
                    started = now if reason == "running" else 0.0
                elif hopeless or now - begun > self._wait:
                    result.waits = reason or "it waits"
                    return False
            if now > (started or begun + self._wait) + _STARTED:
                result.silent = True
                break
        result.queued = result.queued or time.monotonic() - begun
        return any(node.has_python for node in result.nodes.values())

    def _stands(self) -> tuple[bool, str, bool]:
        """Of the job: whether it waits, why (or that it is "running"), whether it will for ever."""
        answer = call("squeue", "-h", f"--name={self._name}", "-o", "%T|%r|%P")
        state, reason, partition = (*answer.out.strip().partition("\n")[0].split("|"), "", "", "")[:3]
        if state != "PENDING":
            return False, "running" if state else "", False
        told = call("sinfo", "-h", "-p", partition, "-o", "%F|%a|%l") if reason != "None" else None
        why, hopeless = waiting(reason, self._count, Partition.read(partition, told.out) if told else None)
        return True, reason_text(why), hopeless

    def _over(self) -> None:
        """It ended before all had spoken."""
        code = self._process.wait()
        for thread in self._readers:  # what it said last may not be read yet
            thread.join(_RESIDUE)
        self._result.noise = said = "\n".join(self._noise[-12:])
        if code and not self._result.nodes:
            causes = re.findall(r"^srun: (?:error|fatal): (?:Unable to .*?: )?(.*)$", said, re.MULTILINE)
            text = "\n".join(causes) or said
            self._result.refused = refusal(text, self._options, Slurm().partitions)

    def _speak(self) -> None:
        nodes = [node for node in self._result.nodes.values() if node.has_python]
        told, peers = self._told(), []
        for node in nodes:
            with contextlib.suppress(OSError):  # its name has no address
                address = address_of(node.name)
                peers.append({"name": node.name, "address": address, "port": node.hello["port"]})
        self._tell(told | {"peers": peers})
        self._hear("looked", _LOOKED)
        self.see()
        if any(node.looked.get("seen") is not None for node in nodes):
            grown = f"grown-{self._token}"
            self._tell({"here": told["here"], "grown": grown})
            within(_FILES, lambda: self._grow(grown))
            self._hear("grown", _GROWN)

    def _grow(self, text: str) -> None:
        with open(self._shared / "here", "a", encoding="utf-8") as file:
            file.write(text)

    def _tell(self, told: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(told) + "\n")
            self._process.stdin.flush()

    def _hear(self, what: str, limit: float) -> None:
        """Until every node has said it, or for that many seconds."""
        deadline = time.monotonic() + limit
        while not all(getattr(node, what) for node in self._result.nodes.values() if node.has_python):
            if time.monotonic() > deadline or self._next() is None:
                return

    def _next(self) -> bool | None:
        """Take the next line; False when none came for a while, None when there will be none."""
        try:
            line = self._lines.get(timeout=0.1)
        except queue.Empty:
            return False
        if line is None:
            return None
        self.take(line)
        return True

    def _end(self) -> None:
        process, result = self._process, self._result
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        unfinished = result.waits or result.silent or not result.nodes
        try:
            process.wait(0.0 if unfinished else 10.0)
        except subprocess.TimeoutExpired:
            # by the name, which no other job has: the number is not known while it waits
            call("scancel", f"--name={self._name}")
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
