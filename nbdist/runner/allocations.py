"""Nodes of Slurm that are kept for the next runs: asked for, awaited, given back."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable

from nbdist import config, processes
from nbdist.errors import LaunchError, UsageMistake
from nbdist.model import Reason
from nbdist.options import Options
from nbdist.runner.engines import check_shared
from nbdist.runner.held import Held, count_nodes, held, note_end
from nbdist.schedulers import slurm_alloc
from nbdist.schedulers.engine import PROCESS, Phase
from nbdist.schedulers.local import collect
from nbdist.store.allocations import Allocation, AllocationDirectory, allocations, make_allocation
from nbdist.store.paths import open_to_append
from nbdist.text import reason_text

_ATTENDANTS = 60.0
"""Seconds that the nodes have to be ready once they are there."""

_OLD = 3600.0
_POLL = 0.1
_GRANTED = 1.0
"""Seconds between two questions to Slurm."""

_LEAVE = 5.0
"""Seconds until nobody waits any longer for Slurm to have taken the nodes back."""


def allocate(
    options: Options, *, idle: float, keep: bool, wait: float, say: Callable[[str], None]
) -> AllocationDirectory:
    """Ask for nodes, and wait for them up to ``wait`` seconds; ``say`` is told why they are awaited.

    Raises UsageMistake or LaunchError, with nothing asked for.
    """
    if mine := [one for one in held() if one.ours and _alive(one)]:
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
        job = slurm_alloc.ask(directory, about, os.environ)
    except LaunchError:
        shutil.rmtree(directory.path, ignore_errors=True)
        raise
    directory.put_job(job, slurm_alloc.slurm_conf())
    if not keep:
        _look_after(directory, about)
    say(f"allocation {job}: asked for {Held(directory, about).size}")
    await_allocation(Held(directory, about), wait=wait, say=say)
    return directory


def await_allocation(one: Held, *, wait: float, say: Callable[[str], None]) -> None:
    """Wait until the nodes can be used, or so long. Raises LaunchError where they will never be."""
    begin = looked = time.monotonic()
    said, granted = Reason(), 0.0
    while not one.ready:
        now = time.monotonic()
        if not said or now - looked >= _GRANTED:
            looked, status = now, slurm_alloc.stand(one.job, one.about.nodes).status
            if status.phase in (Phase.OVER, Phase.FORGOTTEN):
                raise _ended(one, status.reason or Reason.said(_last_said(one.directory)))
            if status.phase is Phase.WAITING and status.hopeless:
                slurm_alloc.release(one.job)
                raise _ended(one, status.reason)
            if status.phase is Phase.RUNNING:
                granted = granted or now
            elif status.reason and status.reason != said:
                say(f"allocation {one.job} waits in the queue: {reason_text(status.reason)}")
            said = status.reason or said or Reason("starting")
        if granted and now - granted > _ATTENDANTS:
            slurm_alloc.release(one.job)
            raise _ended(one, Reason("allocation-silent", last=_last_said(one.directory)))
        if not granted and now - begin > wait:
            say(
                f"allocation {one.job} is still in the queue: %dist_alloc shows it, %dist_alloc --wait 30m "
                "waits for it, %dist_alloc off gives it up; until then runs wait in the queue themselves"
            )
            return
        time.sleep(_POLL)


def release_allocations(job: str = "", *, by: str = "%dist_alloc off") -> list[str]:
    """Give back those of this process, and what was kept, or the one of this number, whosever; what to say of
    each. Raises UsageMistake or LaunchError."""
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


def _alive(one: Held) -> bool:
    standing = slurm_alloc.stand(one.job, one.about.nodes)
    if standing.status.phase in (Phase.OVER, Phase.FORGOTTEN):
        note_end(one, standing)
        return False
    return True


def _give_back(one: Held) -> None:
    deadline = time.monotonic() + _LEAVE
    heard = False
    while slurm_alloc.stand(one.job, one.about.nodes).status.phase not in (Phase.OVER, Phase.FORGOTTEN):
        if time.monotonic() > deadline:
            if heard:
                return  # a node of it does not answer, and Slurm waits for that one
            raise LaunchError(f"Slurm did not take allocation {one.job} back: try  !scancel {one.job}")
        heard = slurm_alloc.release(one.job) or heard
        time.sleep(0.2)


def _ended(one: Held, reason: Reason) -> LaunchError:
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
    log = open_to_append(directory.log)
    try:
        caretaker = subprocess.Popen(
            [about.python, "-I", "-S", str(PROCESS), "--allocation", str(directory.path)],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)
    collect(caretaker)


def _forget_old() -> None:
    """Remove what is left of those that have been over for long."""
    for directory in allocations(config.home()):
        with contextlib.suppress(OSError):
            if directory.why_over() and time.time() - directory.over.stat().st_mtime > _OLD:
                shutil.rmtree(directory.path, ignore_errors=True)


def _last_said(directory: AllocationDirectory) -> str:
    with contextlib.suppress(OSError):
        lines = directory.job_log.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
    return ""
