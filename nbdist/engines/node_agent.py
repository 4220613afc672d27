"""Waits on a node of an allocation that is kept warm, and starts there the supervisor of each run that it is
given: ``python -I -S node_agent.py ALLOCATION_DIR``, started by the engine once on each.

Who asks proves by a line (``link``) that he has the allocation's key. The agent of the first node decides
that it is over: nothing has run for long, or its owner has gone.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nbdist import config, processes
from nbdist.engines import node
from nbdist.engines.slurm_batch import address_of, free_ports, hosts_of, own_address
from nbdist.launch.binding import become_subreaper, die_with_parent
from nbdist.launch.lifetime import Wakeup, collect_exited, end_descendants
from nbdist.launch.machines.connections import QuestionListener
from nbdist.launch.machines.link import Message
from nbdist.model import ProcessId, Reason
from nbdist.store.allocations import AllocationDirectory, NodeAddress
from nbdist.store.paths import RunDirectory, check_private
from nbdist.store.run_store import Heartbeat

_TICK = 1.0
_GRACE = 8.0
"""Seconds that a run has to end itself when the allocation is over."""

# what a rank learns of its node, and not from the process that started the run
_OF_THE_NODE = ("SLURM", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")


@dataclass(slots=True)
class HostedRun:
    """A run of which this node has a supervisor, below the process ``pid``."""

    path: str
    pid: int
    pulse: Heartbeat | None
    """Of the process that waits for it; None for a run that is detached."""

    ending: bool = False


class NodeAgent:
    """Of the node ``number``."""

    def __init__(self, directory: AllocationDirectory, number: int, hosts: Sequence[str]) -> None:
        self._directory = directory
        self._about = directory.read()
        self._key = directory.key.read_text(encoding="utf-8")
        self._number = number
        self._hosts = hosts
        self._hosted: dict[int, HostedRun] = {}
        self._codes: dict[str, int] = {}
        self._count = 0
        self._selector = selectors.DefaultSelector()
        self._idle_since = time.monotonic()
        self._pulse = Heartbeat(directory.pulse)
        self._parent = os.getppid()
        self._over = Reason()
        self._ended_from_outside = False
        self._address = ""

    def serve(self) -> int:
        """Until it is over."""
        become_subreaper()
        wakeup = Wakeup()
        self._selector.register(wakeup.socket, selectors.EVENT_READ, lambda: self._signalled(wakeup))
        self._listen()
        while not self._over:
            for key, _ in self._selector.select(_TICK):
                key.data()
            self._reap()
            self._look_at_the_clock(time.monotonic())
        if not self._ended_from_outside:
            with contextlib.suppress(OSError):
                self._directory.end(self._over)
        for hosted in self._hosted.values():
            if self._orphaned:
                processes.send_all(self._supervisors(hosted), signal.SIGTERM)
            else:
                self._stop(hosted.path, gently=True)
        end_descendants(self._reap, patience=_GRACE if self._hosted else 0.0)
        return 0

    def _listen(self) -> None:
        self._address = self._reached_at(self._hosts[1 if self._number == 0 else 0 :])
        submitter = os.environ.get("SLURM_SUBMIT_HOST", "")
        place = self._reached_at([submitter]) or self._address or address_of(self._hosts[self._number])
        self._listener = QuestionListener(place, self._key, self._selector, self._answer)
        host, port = self._hosts[self._number], self._listener.port
        self._directory.put_place(NodeAddress(node=self._number, host=host, address=place, port=port))

    def _reached_at(self, others: Sequence[str]) -> str:
        """The address of this node by which the first of ``others`` reaches it; empty if unknown."""
        with contextlib.suppress(OSError):
            return own_address(address_of(others[0])) if others and others[0] else ""
        return ""

    def _answer(self, question: Message) -> Message:
        try:
            return self._do(question)
        except (OSError, SystemExit) as error:
            return {"problem": str(error)}

    def _do(self, question: Message) -> Message:
        match question.get("kind"):
            case "meet":
                self._count += 1
                address = self._address or address_of(self._hosts[self._number])
                return {"address": address, "port": free_ports(address, _job() + self._count)}
            case "start":
                return self._start(question)
            case "look":
                return self._look(str(question["run"]))
            case "stop":
                return {"told": self._stop(str(question["run"]), gently=bool(question["gently"]))}
            case "hosted":
                idle = 0.0 if self._hosted else time.monotonic() - self._idle_since
                there = [{"run": t.path, "detached": t.pulse is None} for t in self._hosted.values()]
                return {"hosted": there, "idle": idle}
            case other:
                return {"problem": f"the nodes have another version of nbdist, which does not know {other}"}

    # runs

    def _start(self, order: Mapping[str, Any]) -> Message:
        if self._hosted:
            busy = ", ".join(Path(hosted.path).name for hosted in self._hosted.values())
            return {"problem": f"it is busy with {busy}"}
        path = str(order["run"])
        agent = os.getpid()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            self._become_reaper(order, agent)
        self._hosted[pid] = HostedRun(path, pid, None if order["detached"] else _pulse_of(path))
        self._codes.pop(path, None)
        return {"pid": pid}

    def _become_reaper(self, order: Mapping[str, Any], agent: int) -> None:
        """In the child: never returns."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGURG):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            die_with_parent(agent, signal.SIGTERM)
            self._listener.forget()
            environment = environment_of(order, os.environ)
            os.environ.clear()
            os.environ.update(environment)
            code = node.main([str(order["run"]), "0", "0", *filter(None, [str(order["master"])])])
            sys.stdout.flush()
        except BaseException as error:  # noqa: BLE001 - the top of a process: said in the job's log
            print(f"nbdist: the run could not be started: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)

    def _look(self, path: str) -> Message:
        if any(hosted.path == path for hosted in self._hosted.values()):
            return {"state": "running"}
        if path in self._codes:
            return {"state": "over", "code": self._codes[path]}
        return {"state": "unknown"}

    def _stop(self, path: str, *, gently: bool) -> bool:
        """Tell the supervisor of the run to end it; otherwise let the process above it clean up."""
        told = False
        for hosted in self._hosted.values():
            if hosted.path != path:
                continue
            told = True
            processes.send_all(self._supervisors(hosted), signal.SIGURG if gently else signal.SIGKILL)
            if not gently and hosted.ending:
                processes.send_all(processes.descendants(hosted.pid), signal.SIGKILL)
            hosted.ending = hosted.ending or not gently
        return told

    def _supervisors(self, hosted: HostedRun) -> list[ProcessId]:
        below = processes.tree_below(hosted.pid)
        return [stat.process for stat in below if stat.parent == hosted.pid]

    def _reap(self) -> bool:
        """Collect children that have ended; whether others are left."""
        return collect_exited(self._child_exited)

    def _child_exited(self, pid: int, status: int) -> None:
        if (hosted := self._hosted.pop(pid, None)) is not None:
            self._codes[hosted.path] = os.waitstatus_to_exitcode(status)
            self._idle_since = time.monotonic()

    # how long

    def _look_at_the_clock(self, now: float) -> None:
        self._listener.tick(now)
        if why := self._directory.why_over():
            self._over = self._over or why  # also where the engine does not hear that it is released
        elif not self._directory.about.exists():
            self._over = Reason("allocation-deleted")
        elif self._orphaned:
            self._end_from_outside(Reason("slurm-process-gone"))
        if self._number:
            return
        for hosted in self._hosted.values():
            self._look_after(hosted)
        forsaken = self._pulse.has_stopped()
        if self._hosted:
            return
        if now - self._idle_since >= self._about.idle:
            self._over = Reason("allocation-idle", seconds=self._about.idle)
        elif self._about.owner is not None and forsaken:
            self._over = Reason("notebook-gone")

    @property
    def _orphaned(self) -> bool:
        """Whether what Slurm had started this process by has gone: it will end nothing any more."""
        return os.getppid() != self._parent

    def _look_after(self, hosted: HostedRun) -> None:
        """End a run whose owner waited for it and has gone."""
        if hosted.pulse is not None and hosted.pulse.has_stopped():
            hosted.pulse = _pulse_of(hosted.path)
            self._stop(hosted.path, gently=True)

    def _signalled(self, wakeup: Wakeup) -> None:
        for number in wakeup.requests_to_end():
            if number is not signal.SIGURG:
                self._end_from_outside(Reason("agent-got", signal=number.name))

    def _end_from_outside(self, what: Reason) -> None:
        """It is the engine's doing, which knows why."""
        if not self._over:
            self._over, self._ended_from_outside = what, True


def environment_of(order: Mapping[str, Any], own: Mapping[str, str]) -> dict[str, str]:
    """What the supervisor of a run inherits: the run's variables, and those of the node."""
    environment = dict(order["environment"])
    environment |= {key: value for key, value in own.items() if key.startswith(_OF_THE_NODE)}
    environment[config.LINK_KEY] = str(order["link_key"])
    if (gpus := environment.get("CUDA_VISIBLE_DEVICES")) and order.get("gpus"):
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus.split(",")[: int(order["gpus"])])
    return environment


def _pulse_of(run: str) -> Heartbeat:
    return Heartbeat(RunDirectory(Path(run)).pulse)


def _job() -> int:
    return int(os.environ["SLURM_JOB_ID"])


def main(arguments: Sequence[str]) -> int:
    directory = AllocationDirectory(Path(arguments[0]))
    check_private(directory.path)
    hosts = hosts_of(os.environ["SLURM_JOB_NODELIST"])
    return NodeAgent(directory, int(os.environ["SLURM_NODEID"]), hosts).serve()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
