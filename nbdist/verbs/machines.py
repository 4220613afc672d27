"""What the verbs do with machines: look for what is missing, keep nodes, keep ranks that wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from nbdist import options, runner
from nbdist.errors import UsageMistake
from nbdist.options import Options
from nbdist.verbs.verb import TERMINAL, Frontend

if TYPE_CHECKING:
    from nbdist.doctor import ClusterRequest, Report

_WAIT = 60.0
_IDLE = 900.0
_OF_NODES = frozenset({"engine", "nodes", "nproc", "gpus", "slurm"})
_MOST_WARM = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What the doctor has found, and ``mended``, a line each. ``json``: how it is to be shown."""

    report: Report
    mended: tuple[str, ...]
    json: bool


def doctor(_: Frontend, *, smoke: bool, fix: bool, json: bool = False, **cluster_options: Any) -> Examined:
    """Raises UsageMistake, and LaunchError for what could not be mended."""
    # most sessions never ask
    from nbdist.doctor import examine, examine_cluster, examine_mended, repair

    cluster = _cluster_request(**cluster_options)
    if cluster is not None and (smoke or fix):
        raise UsageMistake("--smoke and --fix are about this machine: leave --on out")
    report = examine(smoke=smoke) if cluster is None else examine_cluster(cluster)
    mended = repair(report) if fix else []
    if mended:
        report = examine_mended(report)
    said = mended or (["there is nothing that --fix can mend"] if fix else [])
    return Examined(report=report, mended=tuple(said), json=json)


def _cluster_request(on: str | None, **given: Any) -> ClusterRequest | None:
    """What of a cluster is to be looked at; None for this machine alone. Raises UsageMistake."""
    from nbdist.doctor import ENGINES, ClusterRequest

    if on in (None, "local"):
        if asked := next((name for name, value in given.items() if value is not None), ""):
            engine = "ray" if asked == "ray" else "slurm"
            raise UsageMistake(f"--{asked} is about a cluster: add  --on {engine}")
        return None
    if on not in ENGINES:
        raise UsageMistake(f"--on {on}: there are slurm and ray:  --on slurm")
    return ClusterRequest(
        engine=on,
        nodes=given["nodes"] or 2,
        options=given["slurm"] or (),
        address=given["ray"] or "",
        wait=given["wait"] or _WAIT,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocations:
    """The nodes that are kept, and a ``note`` where there is none. ``interrupted``: those that were asked for
    were not waited for any longer, as the note says. ``json``: how it is to be shown."""

    views: tuple[runner.AllocationView, ...]
    note: str
    interrupted: bool
    json: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """What was given back, and ``notes`` on what was not, a line each."""

    said: tuple[str, ...]
    notes: tuple[str, ...]


def alloc(
    frontend: Frontend,
    *,
    words: Sequence[str],
    idle: float | None,
    wait: float | None,
    keep: bool,
    json: bool = False,
) -> Allocations | Released:
    """Give nodes back, or ask for some where ``words`` say which, and wait for them. Raises UsageMistake and
    LaunchError."""
    match words:
        case ["off"] | ["off", _]:
            return _release("".join(words[1:]), f"{frontend.prefix}alloc off")
        case ["list", *_]:
            raise UsageMistake(f"what there is, is shown by  {frontend.prefix}alloc  alone")
    if not words and (keep or idle is not None):
        raise UsageMistake(f"say how many nodes of what:  {frontend.usage}")
    nodes = _nodes(words, frontend.usage) if words else None
    try:
        if nodes is not None:
            # a terminal has no kernel whose end could be theirs
            kept = keep or frontend.prefix == TERMINAL
            limit = _WAIT if wait is None else wait
            runner.allocate(nodes, idle=idle or _IDLE, keep=kept, wait=limit, say=frontend.say)
        elif wait is not None:
            for one in runner.held_allocations():
                runner.await_allocation(one, wait=wait, say=frontend.say)
    except KeyboardInterrupt:
        verb = f"{frontend.prefix}alloc"
        note = f"not waited for any longer: {verb} shows what there is, {verb} off gives it up"
        return Allocations(views=(), note=note, interrupted=True, json=json)
    views = tuple(runner.allocation_views())
    note = "" if views else f"no nodes are kept: {frontend.usage}"
    return Allocations(views=views, note=note, interrupted=False, json=json)


def _release(job: str, off: str) -> Released:
    """``off`` is how a person gives nodes back."""
    said = runner.release_allocations(job, by=off)
    notes = [
        f"allocation {one.job} is another notebook's, and ends with it: {off} {one.job}  ends it now"
        for one in runner.held_allocations()
    ]
    if not said and not notes:
        notes = ["there is no allocation to release"]
    return Released(said=tuple(said), notes=tuple(notes))


def _nodes(words: Sequence[str], usage: str) -> Options:
    """What the words of ``%%distributed`` say about nodes."""
    if not words[0].startswith("-"):
        raise UsageMistake(f"there is no {words[0]} here: write  {usage}")
    named = any(word == "--on" or word.startswith("--on=") for word in words)
    given = options.parse_words(words if named else [*words, "--on", "slurm"])
    plain = Options()
    for field in fields(Options):
        if field.name not in _OF_NODES and getattr(given, field.name) != getattr(plain, field.name):
            raise UsageMistake(f"nodes have no --{field.name}: it belongs to the run: write  {usage}")
    if given.engine != "slurm":
        raise UsageMistake(f"only Slurm has nodes to keep, {given.engine} has none: write  --on slurm")
    return given


def warm(frontend: Frontend, *, count: str | None, framework: str | None) -> runner.WarmState:
    """Keep so many ranks ready, or as many as the last run had; how it stands now. Raises UsageMistake."""
    count = count or ""
    if count in ("auto", "off"):
        runner.warm_ranks.choose(count)
    elif count.isdigit() and 0 < int(count) <= _MOST_WARM:
        runner.keep_ready(int(count), framework or "")
    elif count or framework:
        raise UsageMistake(f"{frontend.prefix}warm {count}: write  {frontend.usage}")
    return runner.warm_ranks.state()
