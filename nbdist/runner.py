"""Starts runs and hands them out: the only place that joins store, frameworks, devices and schedulers."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist import config, processes
from nbdist.board import ensure_board
from nbdist.devices import list_gpus
from nbdist.errors import LaunchError, UnknownRun, UsageMistake
from nbdist.frameworks import (
    Placement,
    by_name,
    detect_framework,
    imported_modules,
    inherited,
    is_installed,
    rank_environment,
)
from nbdist.frameworks.registry import FRAMEWORKS
from nbdist.model import Device, RankSpec, Run, RunSpec
from nbdist.options import Options
from nbdist.schedulers import local
from nbdist.store import (
    LogLines,
    LogStream,
    RunDirectory,
    RunStore,
    last_values,
    request_stop,
    snapshot,
)

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE", re.I)
_POLL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run that could start: its spec, its program, and what a person should know about it."""

    spec: RunSpec
    cell: str | None
    environment: Mapping[str, str]
    notes: tuple[str, ...]


class RunHandle:
    """A run, live or ended, in this or any other process. Everything is read from its directory."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory

    @property
    def run_id(self) -> str:
        return self.directory.run_id

    @property
    def run(self) -> Run:
        """How the run stands now. Raises UnknownRun when its directory is gone."""
        run = snapshot(self.directory)
        if run is None:
            raise UnknownRun(f"the directory of run {self.run_id} is gone or cannot be read")
        return run

    @property
    def status(self) -> str:
        """ "pending", "starting", "running", "stopping", "succeeded", "failed", "cancelled", "lost"."""
        return self.run.state.value

    def wait(self, timeout: float | None = None) -> str:
        """Wait until the run ends, at most ``timeout`` seconds; the status then."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.run.state.terminal:
            if deadline is not None and time.monotonic() >= deadline:
                break
            time.sleep(_POLL)
        return self.status

    def logs(self, rank: int = 0) -> str:
        """Everything the rank has written so far, as text; bytes that are no UTF-8 are replaced."""
        self._check_rank(rank)
        data = b"".join(iter(LogStream(self.directory.rank(rank, self.run.attempt).log).read, b""))
        return data.decode("utf-8", errors="replace")

    def log_lines(self, rank: int) -> Iterator[str]:
        """The lines of a rank's log as a terminal would show them, from the start."""
        self._check_rank(rank)
        stream = LogStream(self.directory.rank(rank, self.run.attempt).log)
        lines = LogLines()
        while data := stream.read():
            yield from lines.feed(data)
        yield from lines.close()

    def metrics(self) -> dict[str, float]:
        """The last value of each metric that a rank recorded with ``nbdist.log``."""
        return last_values(self.run, self.directory)

    def stop(self, reason: str = "stopped from Python", timeout: float = 15.0) -> str:
        """Ask the run to end (SIGINT, then SIGTERM, then SIGKILL) and wait for it; the status then."""
        request_stop_of(self, reason)
        return self.wait(timeout)

    def _check_rank(self, rank: int) -> None:
        if not 0 <= rank < self.run.spec.world_size:
            last = self.run.spec.world_size - 1
            raise UsageMistake(f"run {self.run.label} has no rank {rank}: it has 0 to {last}")

    def __repr__(self) -> str:
        return f"<nbdist run {self.run_id}: {self.status}>"


def store() -> RunStore:
    """The runs of this user."""
    return RunStore(config.home())


def runs() -> list[RunHandle]:
    """Every run of this user, the newest first."""
    return [RunHandle(directory) for directory in store().directories()]


def attach(run: str | None = None) -> RunHandle:
    """The run with this id, name or ending of an id; the latest where none is named.

    Raises UnknownRun.
    """
    if run is not None:
        return RunHandle(store().find(run))
    latest = next(iter(store().directories()), None)
    if latest is None:
        raise UnknownRun("there are no runs yet: start one with  %%distributed -n 2")
    return RunHandle(latest)


def plan(
    options: Options,
    *,
    cell: str,
    cwd: str,
    python_path: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    notebook: str = "",
) -> Plan:
    """What would be started for a cell. Checks all that can be checked before anything is.

    Raises UsageMistake or LaunchError; nothing has been written then.
    """
    environ = dict(os.environ if environ is None else environ)
    framework, used = _framework(options, cell)
    devices, notes = _devices(options, environ)
    world_size = len(devices)
    gpus = tuple(device.index for device in devices if device.kind == "gpu")
    backend = options.backend
    if backend == "nccl" and not gpus:
        raise UsageMistake("--backend nccl needs GPUs and this machine has none: leave it out")
    directory = Path(options.cwd or cwd).expanduser()
    directory = directory if directory.is_absolute() else Path(cwd) / directory
    if not directory.is_dir():
        raise UsageMistake(f"--cwd {options.cwd or cwd}: there is no such directory")
    environment = inherited(environ, world_size)
    if "OMP_NUM_THREADS" not in environ and "OMP_NUM_THREADS" in environment:
        notes.append("OMP_NUM_THREADS=1 in each rank; --env OMP_NUM_THREADS=4 for more")
    _check_env(options)
    environment.update(options.env)
    created = time.time()
    run_id = _run_id(options.name or framework or "run", created)
    home = config.home(environ)
    _check_disk(home)
    ranks = tuple(
        RankSpec(
            rank=rank,
            local_rank=rank,
            device=device,
            environment={
                **rank_environment(
                    Placement(
                        rank=rank,
                        world_size=world_size,
                        local_rank=rank,
                        local_world_size=world_size,
                        node_rank=0,
                        nodes=1,
                        gpus=gpus,
                    ),
                    backend,
                ),
            },
        )
        for rank, device in enumerate(devices)
    )
    spec = RunSpec(
        run_id=run_id,
        name=options.name or framework or "run",
        created=created,
        program=str(home / "runs" / run_id / "cell.py"),
        python=sys.executable,
        cwd=str(directory.resolve()),
        ranks=ranks,
        framework=framework or "none",
        backend=backend,
        args=options.args,
        python_path=tuple(python_path),
        environment={key: _masked(key, value) for key, value in options.env},
        detached=options.detach,
        timeout=options.timeout,
        owner=None if options.detach else processes.identify(os.getpid()),
        notebook=notebook,
    )
    _check_modules(used)
    return Plan(spec=spec, cell=cell, environment=environment, notes=tuple(notes))


def start(plan: Plan) -> RunHandle:
    """Start the run. Raises LaunchError, with nothing running."""
    directory = store().create(plan.spec, plan.cell)
    submitted = local.submit(directory, plan.environment, plan.spec.python, detached=plan.spec.detached)
    _children.append(submitted)
    return RunHandle(directory)


def request_stop_of(handle: RunHandle, reason: str) -> None:
    """Ask the supervisor of a run to stop it; where the disk refuses the request, by a signal."""
    run = handle.run
    if run.state.terminal:
        return
    try:
        request_stop(handle.directory, reason)
    except OSError:
        if run.supervisor is not None:
            processes.send(run.supervisor, signal.SIGTERM)


def board_url(handles: Sequence[RunHandle]) -> str:
    """Where a browser on this machine sees the curves of these runs; starts VisualDL where it must.

    Raises LaunchError when it does not start.
    """
    return ensure_board(store().home).url([handle.run_id for handle in handles])


# Supervisors that this process started: kept until they have been waited for, or each would stay a
# zombie, and its lifeline would close.
_children: list[local.Submitted] = []


def collect_supervisors() -> None:
    """Wait for the supervisors that have ended."""
    for submitted in list(_children):
        if submitted.process.poll() is not None:
            if submitted.lifeline is not None:
                submitted.lifeline.close()
            _children.remove(submitted)


def _framework(options: Options, cell: str) -> tuple[str, tuple[str, ...]]:
    """The name of the framework of a run ("" for none), and the modules that must be there for it."""
    if options.framework == "none":
        return "", ()
    if options.framework != "auto":
        framework = by_name(options.framework)
        return framework.name, (framework.module,)
    detected = detect_framework(cell)
    imported = set(imported_modules(cell))
    used = tuple(f.module for f in FRAMEWORKS if f.module in imported)
    return (detected.name if detected else ""), used


def _check_env(options: Options) -> None:
    """Refuse what would be overwritten in every rank. Raises UsageMistake."""
    place = Placement(rank=0, world_size=1, local_rank=0, local_world_size=1, node_rank=0, nodes=1, gpus=(0,))
    own = rank_environment(place, "gloo")
    for key, _ in options.env:
        if key == "CUDA_VISIBLE_DEVICES":
            raise UsageMistake("--env CUDA_VISIBLE_DEVICES: choose the GPUs of the run with  --gpus 0,1")
        if key in own or key.startswith("NBDIST_RA") or key in ("NBDIST_RUN_ID", "NBDIST_RUN_DIR"):
            raise UsageMistake(f"--env {key}: nbdist sets {key} in each rank: leave it out")


def _check_modules(modules: Sequence[str]) -> None:
    for framework in FRAMEWORKS:
        if framework.module in modules and not is_installed(framework.module):
            raise UsageMistake(
                f"{framework.name} is not installed for {sys.executable}: run  "
                f'%pip install "nbdist[{framework.extra}]"  and restart the kernel'
            )


def _devices(options: Options, environ: Mapping[str, str]) -> tuple[list[Device], list[str]]:
    """A device for each rank, and what to say about the choice. Raises UsageMistake."""
    if options.gpus is None and options.nproc is not None:
        return [Device()] * options.nproc, []
    gpus = list_gpus(environ.get("CUDA_VISIBLE_DEVICES"))
    there = [gpu.index for gpu in gpus]
    if options.gpus is None:
        if there:
            return [Device(kind="gpu", index=index) for index in there], []
        return [Device()] * 2, ["no GPU here: 2 ranks on the CPU; -n 4 for another number"]
    if options.gpus == "all":
        if not there:
            raise UsageMistake("--gpus all: this machine has no GPU: write  -n 2  for 2 CPU ranks")
        wanted = there
    else:
        wanted = [int(index) for index in options.gpus]
    missing = [index for index in wanted if index not in there]
    if not there:
        count = options.nproc or len(wanted)
        ids = ",".join(map(str, wanted))
        raise UsageMistake(
            f"--gpus {ids}: this machine has no GPU that can be used: write  -n {count}  for "
            f"{count} CPU rank{'s' if count > 1 else ''}"
        )
    if missing:
        known = ", ".join(map(str, there))
        raise UsageMistake(
            f"no GPU {', '.join(map(str, missing))}: this machine has {known}: write  "
            f"--gpus {','.join(map(str, there))}"
        )
    if options.nproc is not None and options.nproc != len(wanted):
        raise UsageMistake(f"-n {options.nproc} and {len(wanted)} GPUs disagree: leave out -n")
    return [Device(kind="gpu", index=index) for index in wanted], []


def _check_disk(home: Path) -> None:
    """Raises LaunchError when the runs cannot be written, or there is no room for them."""
    existing = home
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not os.access(existing, os.W_OK | os.X_OK) or not existing.is_dir():
        raise LaunchError(
            f"{existing} cannot be written, and the runs belong into {home}: choose another place, "
            "for example  %env NBDIST_HOME=/tmp/nbdist"
        )
    if home.exists() and home.stat().st_uid != os.geteuid():
        raise LaunchError(
            f"{home} belongs to another user: choose another place with  %env NBDIST_HOME=/tmp/nbdist-mine"
        )
    free = shutil.disk_usage(existing).free
    if free < config.MIN_FREE_DISK:
        raise LaunchError(
            f"only {free >> 20} MB are free on the disk of {home}: free some, or choose another "
            "disk with  %env NBDIST_HOME=/another/disk/nbdist"
        )


def _run_id(name: str, created: float) -> str:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(created))
    return f"{stamp}-{name}-{''.join(secrets.choice(_ALPHABET) for _ in range(4))}"


def _masked(key: str, value: str) -> str:
    return "•••" if _SECRET.search(key) else value
