"""Sweeps: planned as a run is, started as a process that starts a run for each point (``sweeper``)."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from nbdist import config
from nbdist.errors import UnknownRun, UsageMistake
from nbdist.feed.comparison import ranking
from nbdist.feed.sweep_state import SweepReader, SweepView
from nbdist.launch import local
from nbdist.model import Reason, RunState
from nbdist.model.plan import Plan
from nbdist.model.sweep import Points, Sweep, grid, names_in, names_of
from nbdist.options import Options
from nbdist.runner.checking import check_program
from nbdist.runner.handle import Interrupts, RunHandle, looks, store
from nbdist.runner.launching import beginning
from nbdist.runner.placement import choose_devices
from nbdist.runner.planning import new_run_id, ranks_on
from nbdist.runner.pruning import PRUNING, keeping, pruner
from nbdist.store.control import ask_sweep_to_end
from nbdist.store.paths import SweepDirectory, open_to_append
from nbdist.store.run_store import SweepStore, is_run_locked, take_run_lock
from nbdist.text import say
from nbdist.warm.pool import OFF, ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nbdist.preflight import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """A sweep that could start; ``first`` is the run of its first point."""

    sweep: Sweep
    first: Plan
    notes: tuple[str, ...]


def plan_sweep(options: Options, plan_point: Callable[[Options], Plan]) -> SweepPlan:
    """Plan a sweep, and write nothing. Raises UsageMistake, LaunchError, and the errors of ``plan_point``."""
    devices, notes = choose_devices(options, os.environ)
    each = options.each or len(devices)
    if each > len(devices):
        raise UsageMistake(
            f"--each {each} gives each run {each} ranks, and there is room for {len(devices)}: write  "
            f"--each {len(devices)}  or less"
        )
    places = [devices[at : at + each] for at in range(0, len(devices) - each + 1, each)]
    gpus = tuple(device.index for device in places[0] if device.kind == "gpu")
    own = replace(options, sweep=(), each=None, metric="", any_device=False)
    planned = plan_point(replace(own, gpus=gpus or None, nproc=None if gpus else each))
    points = grid(options.sweep)
    _check_use(points, planned)
    name, created = options.name or planned.spec.name, planned.spec.created
    sweep = Sweep(
        sweep_id=new_run_id(name, created),
        name=name,
        created=created,
        spec=planned.spec,
        runs=tuple(new_run_id(f"{name}-{number + 1}", created) for number in range(len(points))),
        points=points,
        slots=tuple(ranks_on(place, options.backend) for place in places),
        metric=options.metric,
        warm=False if options.warm is None and ranks.mode == OFF else options.warm,
    )
    counts = {"points": len(points), "at_once": min(len(places), len(points)), "each": each}
    notes.append(say("runs.sweep", config.language(), label=sweep.label, **counts))
    first = replace(planned, spec=sweep.run_of(0, created=created))
    return SweepPlan(
        sweep=sweep, first=first, notes=(*notes, *filter(None, [*planned.notes, planned.pushed]))
    )


def _check_use(points: Points, planned: Plan) -> None:
    """Raise UsageMistake where the arguments name a parameter that a point lacks, or the cell reads none."""
    names = names_of(points)
    used = [name for word in planned.spec.args for name in names_in(word)]
    if unknown := next((name for name in used if name not in names), ""):
        raise UsageMistake(
            f"the sweep has no {unknown} for {{{unknown}}}, only {', '.join(names)}: add  --sweep "
            f"{unknown}=1,2  or write  {{{{{unknown}}}}}  for the plain word in braces"
        )
    if lacking := [at for at, point in enumerate(points, 1) if not point.keys() >= set(used)]:
        missing = next(name for name in used if name not in points[lacking[0] - 1])
        raise UsageMistake(
            f"point {lacking[0]} of the sweep has no {missing} for {{{missing}}}: give it one, or read  "
            f'nbdist.params.get("{missing}", …)  in the program'
        )
    if planned.is_cell and not used and "params" not in planned.program.text:
        raise UsageMistake(
            f"the cell does not read {names[0]} of the sweep, so all runs would be the same: write  "
            f'nbdist.params.{names[0]}  in the cell, or add  --args "--{names[0]} {{{names[0]}}}"'
        )


def launch_sweep(
    planned: SweepPlan,
    interrupts: Interrupts,
    *,
    check: bool,
    origin: Callable[[str], Origin | None] = lambda _: None,
    typed: str = "",
    pruning: float = PRUNING,
) -> tuple[SweepHandle, list[str]]:
    """Check and start a sweep as ``launch`` does a run; interrupts stop all of it."""
    first = planned.first
    warnings = check_program(first, language=config.language(), origin=origin, typed=typed) if check else ()
    limits = keeping()
    interrupts.begin()
    handle = start_sweep(planned)
    interrupts.stop(handle)
    pruner.begin(store(), limits, most=pruning)
    return handle, [*warnings, *planned.notes]


def start_sweep(planned: SweepPlan) -> SweepHandle:
    """Start the process of a sweep. Raises LaunchError, with nothing running."""
    sweep, first = planned.sweep, planned.first
    with beginning(sweeps_store().runs / sweep.sweep_id):
        directory = sweeps_store().begin(sweep, first.program.text, first.write_inputs)
        # the lock marks the sweep as looked after, from before the process starts until it has ended
        lock = take_run_lock(directory)
        try:
            with (
                local.line_to_child() as (ours, theirs),
                open(open_to_append(directory.supervisor_log), "ab") as log,
            ):
                kept = [lock] if sweep.spec.detached else [lock, theirs.fileno()]
                words = [sys.executable, str(local.ENTRY), "runner.sweeper", str(directory.path)]
                process = local.spawn(
                    [*words, *map(str, kept)],
                    environment=first.environment,
                    output=log.fileno(),
                    descriptors=kept,
                )
        finally:
            os.close(lock)
        local.collect(process, lambda _: ours.close())
    return SweepHandle(directory)


class SweepHandle:
    """A sweep, live or ended, of any process, read from its directory. Raises UnknownRun."""

    def __init__(self, directory: SweepDirectory) -> None:
        self.directory = directory
        self._reader = SweepReader(directory)
        self.sweep = self._reader.sweep

    @property
    def sweep_id(self) -> str:
        return self.sweep.sweep_id

    @property
    def label(self) -> str:
        return self.sweep.label

    def look(self) -> SweepView:
        """Return its state now."""
        return self._reader.look()

    @property
    def status(self) -> str:
        """ "running", "finished" (every point did), "failed", "stopped", "lost"."""
        return self.look().state.value

    @property
    def runs(self) -> list[RunHandle]:
        """Return the started runs, in the order of their points."""
        return [RunHandle(directory) for _, directory in self.look().runs if not directory.deleted]

    def best(self, metric: str = "") -> RunHandle:
        """Return the run with the best value of ``metric`` (else of ``--metric``, else of the first) among
        those not failed: the highest acc, f1 and the like, the lowest of others. Raises UsageMistake."""
        wanted, view = metric or self.sweep.metric, self.look()
        comparison = view.compare()
        for number in ranking(comparison, wanted):
            run, directory = view.runs[number]
            curves = comparison.runs[number].curves
            if run.state not in (RunState.FAILED, RunState.LOST) and any(
                curve.tag == wanted or not wanted for curve in curves
            ):
                return RunHandle(directory)
        raise UsageMistake(f"no run of {self.label} has a metric {wanted}".rstrip() + " yet")

    def wait(self, timeout: float | None = None) -> str:
        """Wait for the end of all runs, at most ``timeout`` seconds; return the status then."""
        for _ in looks(timeout, pause=0.1):
            if not (view := self.look()).live:
                break
        return view.state.value

    def stop(self, reason: str = "", timeout: float = 30.0) -> str:
        """Stop all runs and start no others; wait for the end, and return the status then."""
        self.request_stop(Reason.said(reason) or Reason("stopped-from-python"))
        return self.wait(timeout)

    def request_stop(self, reason: Reason) -> None:
        """Request the end of all runs; a second request hastens it."""
        ask_sweep_to_end(self.directory, reason)

    def pass_on(self, number: signal.Signals) -> None:
        """Send a signal to the ranks that handle it."""
        for run in self.runs:
            run.pass_on(number)

    def __repr__(self) -> str:
        counts = self.look().counts
        return f"<nbdist sweep {self.sweep_id}: {counts['ended']} of {counts['points']} points have ended>"


def sweeps_store() -> SweepStore:
    """Return the sweeps of this user."""
    return SweepStore(config.home())


def live_sweeps() -> list[SweepHandle]:
    """Return the sweeps whose process lives, the newest first."""
    return list(_readable(directory for directory in sweeps_store().sweeps() if is_run_locked(directory)))


def describe_sweep(handle: SweepHandle) -> str:
    """Return the state of a sweep in a line."""
    return say("runs.sweep-stands", config.language(), label=handle.label, **handle.look().counts)


def _readable(directories: Iterable[SweepDirectory]) -> Iterator[SweepHandle]:
    for directory in directories:
        with contextlib.suppress(UnknownRun):
            yield SweepHandle(directory)


def sweep(name: str | None = None) -> SweepHandle:
    """Return the sweep with this id, name or ending of an id, else the latest. Raises UnknownRun."""
    if name is not None:
        return SweepHandle(sweeps_store().named(name))
    latest = next(_readable(sweeps_store().sweeps()), None)
    if latest is None:
        raise UnknownRun("there are no sweeps yet: start one with  %%distributed --sweep lr=0.1,0.01")
    return latest
