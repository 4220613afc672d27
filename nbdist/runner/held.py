"""Allocations in hand: which there are, how each stands in words, and whether a run fits into one."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import asdict, dataclass, replace

from nbdist import config, processes
from nbdist.errors import LaunchError
from nbdist.model import Reason, RunSpec
from nbdist.model.decoding import MALFORMED
from nbdist.schedulers import slurm_alloc
from nbdist.schedulers.engine import Phase
from nbdist.schedulers.slurm_alloc import Standing
from nbdist.store.allocations import Allocation, AllocationDirectory, allocations
from nbdist.text import reason_text

_ANSWER = 2.0
# what Slurm says of a job without a limit of time
_FOR_EVER = re.compile(r"UNLIMITED|NOT_SET|INVALID|36\d-")


@dataclass(frozen=True, slots=True)
class Held:
    """An allocation of this user that is not over, as far as its files say."""

    directory: AllocationDirectory
    about: Allocation

    @property
    def job(self) -> str:
        return self.directory.number()

    @property
    def ours(self) -> bool:
        """Whether runs of this process may begin in it: it has made it, or it is nobody's."""
        return self.about.owner is None or self.about.owner == processes.identify(os.getpid())

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


def held() -> list[Held]:
    """Every allocation of this user that nobody has ended, the newest first."""
    found = []
    for directory in allocations(config.home()):
        with contextlib.suppress(OSError, *MALFORMED):
            if not directory.why_over() and directory.number():
                found.append(Held(directory, directory.read()))
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


def describe_allocations() -> list[str]:
    """Each allocation of this user in a line."""
    return [view.text for view in allocation_views()]


def allocation_views() -> list[AllocationView]:
    """Each allocation of this user, the newest first."""
    return [_look_at(one) for one in held()]


def _look_at(one: Held) -> AllocationView:
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
        standing = slurm_alloc.stand(one.job, about.nodes)
    except LaunchError as error:
        return replace(view, text=f"allocation {one.job}: {error}", reason=str(error))
    reason = reason_text(standing.status.reason)
    if standing.status.phase in (Phase.OVER, Phase.FORGOTTEN):
        note_end(one, standing)
        reason = reason_text(one.directory.why_over())
        return replace(view, state="ended", text=f"allocation {one.job} has ended: {reason}", reason=reason)
    rules = _rules(one)
    if standing.status.phase is Phase.WAITING:
        text = f"allocation {one.job}: {one.size}, waits in the queue: {reason or 'no reason given'}; {rules}"
        return replace(view, state="waiting", text=text, reason=reason)
    if standing.status.phase is Phase.UNKNOWN:
        return replace(view, text=f"allocation {one.job}: {one.size}; {reason}", reason=reason)
    return _look_into(one, view, standing)


def _look_into(one: Held, view: AllocationView, standing: Standing) -> AllocationView:
    """Of one whose nodes Slurm has given, with what its attendants say."""
    try:
        runs, idle = _tenants(one)
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


def note_end(one: Held, standing: Standing) -> None:
    with contextlib.suppress(OSError):
        one.directory.end(standing.status.reason or Reason("slurm-forgot"))


def _rules(one: Held) -> str:
    whose = "" if one.ours else ", of another notebook"
    kept = ", kept when the kernel ends" if one.about.owner is None else ""
    return f"released after {_duration(one.about.idle)} without a run{kept}{whose}"


def _unready(one: Held) -> str:
    """Why no run can begin in it now."""
    if one.ready:
        try:
            names, _ = _tenants(one)
        except LaunchError as error:
            problem = str(error)
        else:
            return f"it is busy with {', '.join(names)}" if names else ""
    else:
        problem = "its nodes are getting ready"
    standing = slurm_alloc.stand(one.job, one.about.nodes)
    if standing.status.phase in (Phase.OVER, Phase.FORGOTTEN):
        note_end(one, standing)
        return f"it has ended ({reason_text(one.directory.why_over())})"
    if standing.status.phase is Phase.WAITING:
        return f"it waits in the queue ({reason_text(standing.status.reason)})"
    return problem


def _tenants(one: Held) -> tuple[list[str], float]:
    """The names of the runs in it, and for how many seconds there have been none. Raises LaunchError."""
    from nbdist.launch.jobs.allocated import ask  # most notebooks have no allocation

    answer = ask(one.directory, 0, {"kind": "tenants"}, limit=_ANSWER)
    # behind the date and the time
    names = [os.path.basename(str(tenant["run"])).split("-", 2)[-1] for tenant in answer["tenants"]]
    return names, float(answer["idle"])


def count_nodes(count: int) -> str:
    return f"{count} node{'s' if count > 1 else ''}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:g} h"
