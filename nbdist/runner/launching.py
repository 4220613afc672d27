"""From a plan to a run that goes on: the checks, the launcher, which is chosen once, and the start."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nbdist import config
from nbdist.engines import engine_of
from nbdist.engines.engine import WATCHER, Engine
from nbdist.engines.slurm_step import allocation_of
from nbdist.errors import LaunchError, UsageMistake
from nbdist.frameworks.environment import is_installed
from nbdist.launch import local
from nbdist.model import RunSpec
from nbdist.model.plan import Plan
from nbdist.options import Options
from nbdist.runner.checking import check_program
from nbdist.runner.handle import Interrupts, RunHandle, store
from nbdist.runner.planning import not_written, plan
from nbdist.runner.pruning import PRUNING, keeping, pruner
from nbdist.runner.resuming import check_checkpoints
from nbdist.store.paths import RunDirectory, make_private, open_to_append, write_private
from nbdist.warm.match import PRELOADED
from nbdist.warm.pool import Standby, WarmPool, ranks

if TYPE_CHECKING:
    from nbdist.preflight import Origin

_WHERE = ("SLURM_CONF", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE")
"""Variables that a later watcher of the run needs. A token is not among them."""


def launch(
    plan: Plan,
    interrupts: Interrupts,
    *,
    check: bool,
    warm: bool | None = None,
    origin: Callable[[str], Origin | None] = lambda _: None,
    typed: str = "",
    pruning: float = PRUNING,
) -> tuple[RunHandle, list[str]]:
    """Check the program, start the run, and remove old runs for at most ``pruning`` seconds meanwhile. The
    run, which interrupts stop from here on, and what there is to say to the user.

    Raises UsageMistake for a program that cannot work, LaunchError and KeyboardInterrupt, with nothing
    running.
    """
    warnings = check_program(plan, language=config.language(), origin=origin, typed=typed) if check else ()
    limits = keeping()
    interrupts.begin()
    handle = start(plan, warm=warm)
    interrupts.stop(handle)
    pruner.begin(store(), limits, most=pruning)
    return handle, [*warnings, *plan.notes, *handle.notes]


def start(plan: Plan, *, warm: bool | None = None, pool: WarmPool = ranks) -> RunHandle:
    """Start the run: with ranks that wait in the ``pool`` where there are such and ``warm`` is not False.

    Waits for nothing that takes longer than a moment. Raises LaunchError, and UsageMistake where another run
    writes into its directory of checkpoints, with nothing running.
    """
    check_checkpoints(plan.spec)
    _make_log_dir(plan.spec)
    with beginning(store().runs / plan.spec.run_id):
        directory = store().create(plan.spec, plan.cell, plan.write_inputs)
        handle = choose_launcher(plan, warm=warm, pool=pool).start(directory, plan)
    # to start a process takes some milliseconds where the machine is busy
    asking = threading.Thread(target=ask_git, args=(handle.directory, plan.spec), name="nbdist asks git")
    asking.start()
    return handle


@contextlib.contextmanager
def beginning(path: Path) -> Iterator[None]:
    """Remove the directory of a run or a sweep that could not begin. Raises LaunchError where a disk refused
    it, and what else prevented it, as an interrupt while gigabytes are written."""
    try:
        yield
    except BaseException as error:
        # asked before there is room again
        problem = not_written(error, path) if isinstance(error, OSError) else None
        if not isinstance(error, FileExistsError):
            shutil.rmtree(path, ignore_errors=True)
        if problem is not None:
            raise problem from error
        raise


# the tree alone, as it is: no lock that the user's own git would meet, no hook of the repository
_STATUS = ("--no-optional-locks", "-c", "core.fsmonitor=false", "status")
_AS_LINES = ("--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty")


def ask_git(directory: RunDirectory, spec: RunSpec) -> None:
    """Let git write which commit the program's folder is at, and whether files that it tracks were changed
    since, into the run's directory. It is not waited for."""
    folder = Path(spec.cwd if directory.is_cell(spec.program) else os.path.dirname(spec.program))
    if not any((above / ".git").exists() for above in (folder, *folder.parents)):
        return
    try:
        with open(open_to_append(directory.git), "ab") as output:
            asked = subprocess.Popen(
                ["git", "-C", str(folder), *_STATUS, *_AS_LINES],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
    except OSError:
        return
    local.collect(asked)


class Launcher(Protocol):
    def start(self, directory: RunDirectory, plan: Plan) -> RunHandle:
        """Start the run whose directory has been made. Raises LaunchError, with nothing running."""
        ...


def choose_launcher(plan: Plan, *, warm: bool | None, pool: WarmPool = ranks) -> Launcher:
    """The one place that decides how a run is started."""
    pool.collect()
    standby, not_warm = pool.engage(plan, warm=warm)
    if standby is not None:
        return WarmLauncher(standby)
    note = f"the ranks kept ready were not used: {not_warm}" if not_warm else ""
    if plan.spec.engine:
        allocation = allocation_of(plan.spec, plan.environment)
        placed = f"a step of Slurm's job {allocation}, without the queue" if allocation else ""
        return EngineLauncher((note, placed), as_step=bool(allocation))
    return ColdLauncher((note,))


@dataclass(frozen=True, slots=True)
class ColdLauncher:
    """A new supervisor on this machine, with new ranks."""

    notes: tuple[str, ...]

    def start(self, directory: RunDirectory, plan: Plan) -> RunHandle:
        local.start(directory, plan.spec, plan.environment)
        return RunHandle(directory, notes=self.notes)


@dataclass(frozen=True, slots=True)
class WarmLauncher:
    """Ranks that wait, or still import; where they turn out not to fit, a cold start."""

    standby: Standby

    def start(self, directory: RunDirectory, plan: Plan) -> RunHandle:
        if not (problem := self.standby.go(directory, plan.environment)):
            local.look_after(self.standby.supervisor, directory)
            return RunHandle(directory)
        self.standby.leave()
        return ColdLauncher((f"the ranks kept ready were not used: {problem}",)).start(directory, plan)


@dataclass(frozen=True, slots=True)
class EngineLauncher:
    """The queue of Slurm or Ray, or a step of a job, and here a process that watches the run."""

    notes: tuple[str, ...]
    as_step: bool

    def start(self, directory: RunDirectory, plan: Plan) -> RunHandle:
        spec = plan.spec
        make_private(directory.nodes)
        engine = engine_of(spec, as_step=self.as_step)
        job = engine.submit(directory, spec, plan.environment)
        try:
            self._let_watch(directory, plan, engine, job)
        except BaseException:
            # without a watcher nothing would end it
            with contextlib.suppress(LaunchError, OSError):
                engine.stop(job, gently=False)
            raise
        return RunHandle(directory, notes=self.notes)

    def _let_watch(self, directory: RunDirectory, plan: Plan, engine: Engine, job: str) -> None:
        """Write down which job it is, and start its watcher. Raises LaunchError and OSError."""
        spec = plan.spec
        # a later watcher of the run may have another environment
        where = {key: plan.environment[key] for key in _WHERE if key in plan.environment}
        about: dict[str, object] = {"engine": spec.engine, "job": job, "environment": where}
        with contextlib.suppress(LaunchError):
            about["cluster"] = engine.cluster()
        write_private(directory.job, json.dumps(about))
        local.submit(directory, plan.environment, spec.python, detached=spec.detached, module=WATCHER)


def keep_ready(count: int, framework: str) -> None:
    """Keep so many ranks of a framework ("": the first that is installed) ready for the next runs. Raises
    UsageMistake or LaunchError."""
    name = framework or next((name for name in PRELOADED if is_installed(name)), "")
    if not name or not is_installed(name):
        raise UsageMistake(
            f"{name or 'none of torch, paddle, jax'} is not installed: nothing can be kept ready"
        )
    options = Options(nproc=count, framework=name)
    ranks.keep(lambda: plan(options, cell="", cwd=os.getcwd(), python_path=sys.path))


def _make_log_dir(spec: RunSpec) -> None:
    if not (path := spec.log_dir):
        return
    from nbdist.launch.log_watch import check_log_dir  # most runs have none

    try:
        os.makedirs(path, exist_ok=True)
        # the nodes of an engine write into directories of their own
        check_log_dir(Path(path), [] if spec.engine else [rank.local_rank for rank in spec.here])
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename not in (None, path) else error.strerror
        raise LaunchError(f"--log-dir {path}: {what}: name a directory of yours") from None
