"""The start of a planned run: checks the program, and chooses how to start it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nbdist import config
from nbdist.engines import engine_of
from nbdist.engines.engine import WATCHER
from nbdist.engines.slurm_step import allocation_of
from nbdist.errors import LaunchError, UsageMistake
from nbdist.feed.profile import start_profile
from nbdist.frameworks.environment import is_installed
from nbdist.launch import local
from nbdist.launch.binding import NOTIFY
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
from nbdist.warm.pool import WarmPool, ranks
from nbdist.worker.profiler import STEPS

if TYPE_CHECKING:
    from nbdist.preflight import Origin

# variables that a later watcher of the run needs; a token is not among them
_WHERE = ("SLURM_CONF", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE")


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
    """Check the program, start the run, and remove old runs for at most ``pruning`` seconds meanwhile. Return
    the run, which interrupts stop from here on, and the lines for the user. Raises UsageMistake for a program
    that cannot work, LaunchError and KeyboardInterrupt, with nothing running."""
    warnings = check_program(plan, language=config.language(), origin=origin, typed=typed) if check else ()
    limits = keeping()
    interrupts.begin()
    handle = start(plan, warm=warm)
    interrupts.stop(handle)
    pruner.begin(store(), limits, most=pruning)
    return handle, [*warnings, *plan.notes, *handle.notes]


def start(plan: Plan, *, warm: bool | None = None, pool: WarmPool = ranks) -> RunHandle:
    """Start the run without waiting for it, on ranks of the ``pool`` unless ``warm`` is False. Raises
    LaunchError, and UsageMistake where another run writes its checkpoints, with nothing running."""
    check_checkpoints(plan.spec)
    _make_log_dir(plan.spec)
    with beginning(store().runs / plan.spec.run_id):
        directory = store().create(plan.spec, plan.cell, plan.write_inputs)
        notes = _begin(directory, plan, warm=warm, pool=pool)
    handle = RunHandle(directory, notes=notes)
    if STEPS in plan.environment:
        start_profile(handle.run, directory, 0)
    # on a busy machine a process takes some milliseconds to start
    threading.Thread(target=ask_git, args=(directory, plan.spec), name="nbdist asks git").start()
    return handle


def _begin(directory: RunDirectory, plan: Plan, *, warm: bool | None, pool: WarmPool) -> tuple[str, ...]:
    """Start the run on warm ranks, else by its engine, else by a new supervisor; return notes on that."""
    pool.collect()
    standby, not_warm = pool.engage(plan, warm=warm)
    if standby is not None:
        not_warm = standby.go(directory, plan.environment)
        if not not_warm:
            local.look_after(standby.supervisor, directory)
            return ()
        standby.leave()
    note = f"warm ranks were not used: {not_warm}" if not_warm else ""
    if plan.spec.engine:
        return note, _submit(directory, plan)
    local.start(directory, plan.spec, plan.environment)
    return (note,)


def _submit(directory: RunDirectory, plan: Plan) -> str:
    """Submit the run to Slurm or Ray, or as a step of a job; start its watcher. Raises LaunchError."""
    spec = plan.spec
    make_private(directory.nodes)
    allocation = allocation_of(spec, plan.environment)
    engine = engine_of(spec, as_step=bool(allocation))
    # the engine keeps a job's environment in files; the watcher here sends the notices
    for_job = {name: value for name, value in plan.environment.items() if name != NOTIFY}
    job = engine.submit(directory, spec, for_job)
    try:
        # a later watcher of the run may have another environment
        where = {key: plan.environment[key] for key in _WHERE if key in plan.environment}
        about: dict[str, object] = {"engine": spec.engine, "job": job, "environment": where}
        with contextlib.suppress(LaunchError):
            about["cluster"] = engine.cluster()
        write_private(directory.job, json.dumps(about))
        local.submit(directory, plan.environment, spec.python, detached=spec.detached, module=WATCHER)
    except BaseException:
        # nothing would end a job without a watcher
        with contextlib.suppress(LaunchError, OSError):
            engine.stop(job, gently=False)
        raise
    return f"a step of Slurm's job {allocation}, without the queue" if allocation else ""


@contextlib.contextmanager
def beginning(path: Path) -> Iterator[None]:
    """Remove the directory of a run or a sweep that an error or an interrupt kept from its begin. Raises
    LaunchError where a disk refused it, else that error."""
    try:
        yield
    except BaseException as error:
        # before the removal makes room again
        problem = not_written(error, path) if isinstance(error, OSError) else None
        if not isinstance(error, FileExistsError):
            shutil.rmtree(path, ignore_errors=True)
        if problem is not None:
            raise problem from error
        raise


# takes no lock that the user's own git would meet, and runs no hook of the repository
_STATUS = ("--no-optional-locks", "-c", "core.fsmonitor=false", "status")
_AS_LINES = ("--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty")


def ask_git(directory: RunDirectory, spec: RunSpec) -> None:
    """Let git write the commit and the changes of the program's folder; do not wait for it."""
    folder = Path(spec.cwd if directory.is_cell(spec.program) else os.path.dirname(spec.program))
    if not any((above / ".git").exists() for above in (folder, *folder.parents)):
        return
    try:
        with open(open_to_append(directory.git), "ab") as output:
            git = subprocess.Popen(
                ["git", "-C", str(folder), *_STATUS, *_AS_LINES],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
    except OSError:
        return
    local.collect(git)


def keep_ready(count: int, framework: str) -> None:
    """Keep ``count`` ranks of a ``framework`` ("": any) ready for the next runs. Raises NbdistError."""
    name = framework or next((name for name in PRELOADED if is_installed(name)), "")
    if not name or not is_installed(name):
        raise UsageMistake(
            f"{name or 'none of torch, paddle, jax'} is not installed: no ranks can be kept ready"
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
        file = f"{error.filename}: " if error.filename not in (None, path) else ""
        raise LaunchError(f"--log-dir {path}: {file}{error.strerror}: name a directory of yours") from None
