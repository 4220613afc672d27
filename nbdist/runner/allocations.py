"""Nodes of Slurm that are kept for the next runs: which there are, asked for, awaited, given back."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from nbdist import config, processes
from nbdist.engines import slurm
from nbdist.engines.engine import Phase
from nbdist.engines.slurm import AllocationStatus
from nbdist.errors import LaunchError, UsageMistake
from nbdist.launch import local
from nbdist.model import Reason, RunSpec
from nbdist.model.decoding import MALFORMED, as_time
from nbdist.options import Options
from nbdist.runner.placement import check_shared
from nbdist.store.allocations import Allocation, AllocationDirectory, allocations, make_allocation
from nbdist.store.paths import open_to_append
from nbdist.text import reason_text

_ANSWER = 2.0
# what Slurm says of a job without a limit of time
_FOR_EVER = re.compile(r"UNLIMITED|NOT_SET|INVALID|36\d-")


@dataclass(frozen=True, slots=True)
class HeldAllocation:
    """An allocation of this user that is not over, as far as its files say."""

    directory: AllocationDirectory
    about: Allocation

    @property
    def job(self) -> str:
        return self.directory.number()

    @property
    def ours(self) -> bool:
        """Whether runs of this process may begin in it: it has made it, or it was kept for all."""
        return self.about.owner is None or self.about.owner == processes.identify(os.getpid())

    def stand(self) -> AllocationStatus:
        """How it stands, by Slurm; an end is written down. Raises LaunchError."""
        standing = slurm.stand(self.job, self.about.nodes)
        if standing.status.gone:
            with contextlib.suppress(OSError):
                self.directory.end(standing.status.reason or Reason("slurm-forgot"))
        return standing

    @property
    def ready(self) -> bool:
        """Whether its nodes are there, and wait."""
        return all(self.directory.place(node) is not None for node in range(self.about.nodes))

    @property
    def size(self) -> str:
        """``2 nodes of 1 CPU rank``."""
        kind = f"GPU{'s' if self.about.per_node > 1 else ''}" if self.about.gpus else "CPU"
        ranks = kind if self.about.gpus else f"{kind} rank{'s' if self.about.per_node > 1 else ''}"
        return f"{count_nodes(self.about.nodes)} of {self.about.per_node} {ranks}"


def held() -> list[HeldAllocation]:
    """Every allocation of this user that was not ended, the newest first."""
    found = []
    for directory in allocations(config.home()):
        with contextlib.suppress(OSError, *MALFORMED):
            if not directory.why_over() and directory.number():
                found.append(HeldAllocation(directory, directory.read()))
    return found


def choose_allocation(spec: RunSpec) -> tuple[AllocationDirectory | None, str]:
    """Where a run begins at once. None where it goes to the queue, and why, where that is a question."""
    if spec.engine != "slurm":
        return None, ""
    said = ""
    for one in held():
        if not one.ours:
            continue
        if not (problem := mismatch(one.about, spec) or _unready(one)):
            return one.directory, f"begins in the allocation {one.job}"
        said = said or f"not in the allocation {one.job}: {problem}; the run goes to Slurm's queue"
    return None, said


def mismatch(about: Allocation, spec: RunSpec) -> str:
    """Why a run does not fit into an allocation, and what to type instead; empty when it does."""
    gpus = any(rank.device.kind == "gpu" for rank in spec.ranks)
    per_node = len(spec.ranks) // spec.nodes
    if spec.nodes > about.nodes:
        asked = count_nodes(spec.nodes)
        return f"it asks for {asked}, the allocation has {about.nodes} (--nodes {about.nodes} fits)"
    if gpus and not about.gpus:
        return "it asks for GPUs, the allocation has none (-n instead of --gpus fits)"
    if per_node > about.per_node:
        flag = "--gpus" if gpus else "-n"
        return (
            f"it asks for {per_node} {'GPUs' if gpus else 'ranks'} on each node, the allocation has "
            f"{about.per_node} ({flag} {about.per_node} fits)"
        )
    if other := [option for option in spec.engine_options if option not in about.options]:
        return f"it asks for --slurm {','.join(other)}, the allocation was not made so (leave it out)"
    if spec.python != about.python:
        return f"it runs {spec.python}, the allocation {about.python}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationView:
    """An allocation as a person and a program see it: ``text`` is all of it in a line. ``hosts``, ``since``
    and ``left`` are Slurm's words, ``runs`` the names of those in it, ``idle`` and ``idle_limit`` seconds."""

    allocation: str
    state: str
    """``waiting``, ``starting``, ``ready``, ``ended`` or ``unknown``: Slurm does not answer."""

    text: str
    nodes: int
    per_node: int
    gpus: bool
    kept: bool
    ours: bool
    idle_limit: float
    idle: float | None = None
    runs: tuple[str, ...] = ()
    hosts: str = ""
    since: str = ""
    left: str = ""
    reason: str = ""

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def allocation_views() -> list[AllocationView]:
    """Each allocation of this user, the newest first."""
    return [_look_at(one) for one in held()]


def _look_at(one: HeldAllocation) -> AllocationView:
    about = one.about
    view = AllocationView(
        allocation=one.job,
        state="unknown",
        text="",
        nodes=about.nodes,
        per_node=about.per_node,
        gpus=about.gpus,
        kept=about.owner is None,
        ours=one.ours,
        idle_limit=about.idle,
    )
    try:
        standing = one.stand()
    except LaunchError as error:
        return replace(view, text=f"allocation {one.job}: {error}", reason=str(error))
    reason = reason_text(standing.status.reason)
    if standing.status.gone:
        reason = reason_text(one.directory.why_over())
        return replace(view, state="ended", text=f"allocation {one.job} has ended: {reason}", reason=reason)
    rules = _rules(one)
    if standing.status.phase is Phase.WAITING:
        text = f"allocation {one.job}: {one.size}, waits in the queue: {reason or 'no reason given'}; {rules}"
        return replace(view, state="waiting", text=text, reason=reason)
    if standing.status.phase is Phase.UNKNOWN:
        return replace(view, text=f"allocation {one.job}: {one.size}; {reason}", reason=reason)
    return _look_into(one, view, standing)


def _look_into(one: HeldAllocation, view: AllocationView, standing: AllocationStatus) -> AllocationView:
    """Of one whose nodes Slurm has given, with what its agents say."""
    try:
        runs, idle = _hosted(one)
    except LaunchError:
        use = "its nodes are getting ready" if not one.ready else "its nodes do not answer"
        view = replace(view, state="starting" if not one.ready else "unknown", reason=use)
    else:
        use = f"runs {', '.join(runs)}" if runs else f"idle for {_duration(idle)}"
        view = replace(view, state="ready", runs=tuple(runs), idle=None if runs else idle)
    since = standing.since.replace("T", " ")
    left = "" if _FOR_EVER.match(standing.left) else standing.left
    said = (f" since {since}" if since else "") + (f", time left {left}" if left else "")
    text = f"allocation {one.job}: {one.size} ({standing.status.nodes}){said}; {use}; {_rules(one)}"
    return replace(view, text=text, hosts=standing.status.nodes, since=standing.since, left=left)


def _rules(one: HeldAllocation) -> str:
    whose = "" if one.ours else ", of another notebook"
    kept = ", kept when the kernel ends" if one.about.owner is None else ""
    return f"released after {_duration(one.about.idle)} without a run{kept}{whose}"


def _unready(one: HeldAllocation) -> str:
    """Why no run can begin in it now."""
    if one.ready:
        try:
            names, _ = _hosted(one)
        except LaunchError as error:
            problem = str(error)
        else:
            return f"it is busy with {', '.join(names)}" if names else ""
    else:
        problem = "its nodes are getting ready"
    standing = one.stand()
    if standing.status.gone:
        return f"it has ended ({reason_text(one.directory.why_over())})"
    if standing.status.phase is Phase.WAITING:
        return f"it waits in the queue ({reason_text(standing.status.reason)})"
    return problem


def _hosted(one: HeldAllocation) -> tuple[list[str], float]:
    """The names of the runs in it, and for how many seconds there have been none. Raises LaunchError."""
    from nbdist.engines.allocation import ask  # most notebooks have no allocation

    answer = ask(one.directory, 0, {"kind": "hosted"}, limit=_ANSWER)
    try:
        # behind the date and the time
        names = [os.path.basename(str(hosted["run"])).split("-", 2)[-1] for hosted in answer["hosted"]]
        return names, as_time(answer["idle"])
    except MALFORMED:
        raise LaunchError("its nodes have another version of nbdist") from None


def count_nodes(count: int) -> str:
    return f"{count} node{'s' if count > 1 else ''}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:g} h"


_AGENTS = 60.0
"""Seconds that the nodes have to be ready once they are there."""

_OLD = 3600.0
_POLL = 0.1
_GRANTED = 1.0
"""Seconds between two questions to Slurm."""

_LEAVE = 5.0
"""Seconds to wait for Slurm to have taken the nodes back."""


def allocate(
    options: Options, *, idle: float, keep: bool, wait: float, say: Callable[[str], None]
) -> AllocationDirectory:
    """Ask for nodes, and wait for them up to ``wait`` seconds; ``say`` gets the reason for the wait.

    Raises UsageMistake or LaunchError, with nothing asked for.
    """
    if mine := [one for one in held() if one.ours and not one.stand().status.gone]:
        raise UsageMistake(
            f"there is an allocation already (job {mine[0].job}: {mine[0].size}): give it back with  "
            "%dist_alloc off"
        )
    home = config.home()
    check_shared(home, os.environ)
    _forget_old()
    about = _about(options, idle=idle, keep=keep)
    name = time.strftime("%Y%m%d-%H%M%S", time.localtime(about.created)) + f"-{os.getpid()}"
    try:
        directory = make_allocation(home, name, about)
    except OSError as error:
        raise LaunchError(f"{home} cannot be written: {error.strerror}") from None
    try:
        job = slurm.ask(directory, about, os.environ)
    except LaunchError:
        shutil.rmtree(directory.path, ignore_errors=True)
        raise
    # which Slurm it is: the process that looks after it may have another environment
    directory.put_job(job, {key: os.environ[key] for key in ("SLURM_CONF",) if key in os.environ})
    if not keep:
        _look_after(directory, about)
    say(f"allocation {job}: asked for {HeldAllocation(directory, about).size}")
    await_allocation(HeldAllocation(directory, about), wait=wait, say=say)
    return directory


def await_allocation(one: HeldAllocation, *, wait: float, say: Callable[[str], None]) -> None:
    """Wait until the nodes can be used, or so long. Raises LaunchError where they will never be."""
    begin = looked = time.monotonic()
    said, granted = Reason(), 0.0
    while not one.ready:
        now = time.monotonic()
        if not said or now - looked >= _GRANTED:
            looked, status = now, slurm.stand(one.job, one.about.nodes).status
            if status.gone:
                raise _ended(one, status.reason or Reason.said(_last_said(one.directory)))
            if status.phase is Phase.WAITING and status.hopeless:
                slurm.release(one.job)
                raise _ended(one, status.reason)
            if status.phase is Phase.RUNNING:
                granted = granted or now
            elif status.reason and status.reason != said:
                say(f"allocation {one.job} waits in the queue: {reason_text(status.reason)}")
            said = status.reason or said or Reason("starting")
        if granted and now - granted > _AGENTS:
            slurm.release(one.job)
            raise _ended(one, Reason("allocation-silent", last=_last_said(one.directory)))
        if not granted and now - begin > wait:
            say(
                f"allocation {one.job} is still in the queue: %dist_alloc shows it, %dist_alloc --wait 30m "
                "waits for it, %dist_alloc off gives it up; until then runs wait in the queue themselves"
            )
            return
        time.sleep(_POLL)


def release_allocations(job: str = "", *, by: str = "%dist_alloc off") -> list[str]:
    """Give back those of this process, and what was kept, or the one of this number, another notebook's, too;
    a line about each. Raises UsageMistake or LaunchError."""
    said = []
    there = held()
    if job and job not in [one.job for one in there]:
        known = ", ".join(one.job for one in there)
        raise UsageMistake(f"no allocation {job}: " + (f"there is {known}" if known else "none is kept"))
    for one in there:
        if one.job == job if job else one.ours:
            with contextlib.suppress(OSError):
                one.directory.end(Reason("stopped-by", command=by))
            _give_back(one)
            said.append(f"allocation {one.job} is released: {count_nodes(one.about.nodes)} given back")
    return said


def _give_back(one: HeldAllocation) -> None:
    deadline = time.monotonic() + _LEAVE
    heard = False
    while not slurm.stand(one.job, one.about.nodes).status.gone:
        if time.monotonic() > deadline:
            if heard:
                return  # a node of it does not answer, and Slurm waits for that one
            raise LaunchError(f"Slurm did not take allocation {one.job} back: try  !scancel {one.job}")
        heard = slurm.release(one.job) or heard
        time.sleep(0.2)


def _ended(one: HeldAllocation, reason: Reason) -> LaunchError:
    with contextlib.suppress(OSError):
        one.directory.end(reason or Reason("allocation-not-made"))
    why = reason_text(reason) or "Slurm does not say why"
    return LaunchError(f"allocation {one.job} did not come about: {why}")


def _about(options: Options, *, idle: float, keep: bool) -> Allocation:
    gpus = options.gpus is not None
    per_node = int(options.gpus[0]) if options.gpus is not None else options.nproc or 1
    return Allocation(
        engine=options.engine,
        nodes=options.nodes or 1,
        per_node=per_node,
        gpus=gpus,
        idle=idle,
        python=sys.executable,
        created=time.time(),
        options=options.slurm,
        owner=None if keep else processes.identify(os.getpid()),
        host=os.uname().nodename,
    )


def _look_after(directory: AllocationDirectory, about: Allocation) -> None:
    with open(open_to_append(directory.log), "ab") as log:
        command = local.command(about.python, "engines.allocation", str(directory.path))
        local.collect(local.spawn(command, output=log.fileno()))


def _forget_old() -> None:
    """Remove what is left of those that have been over for long."""
    for directory in allocations(config.home()):
        with contextlib.suppress(OSError):
            if directory.why_over() and time.time() - directory.over.stat().st_mtime > _OLD:
                shutil.rmtree(directory.path, ignore_errors=True)


def _last_said(directory: AllocationDirectory) -> str:
    from nbdist.engines.ending import last_line  # most allocations come about

    with contextlib.suppress(OSError):
        return last_line(directory.job_log.read_text(encoding="utf-8", errors="replace"), life=0)
    return ""
