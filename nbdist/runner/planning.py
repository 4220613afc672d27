"""The plan of a run, with every check that is possible before a process starts."""

from __future__ import annotations

import contextlib
import datetime
import errno
import os
import platform
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from typing import TYPE_CHECKING

import psutil

from nbdist import config, control_groups, processes
from nbdist.devices.usage import cpu_count, refusal
from nbdist.errors import LaunchError, UsageMistake
from nbdist.frameworks.environment import (
    FRAMEWORKS,
    Placement,
    check_framework,
    frameworks_of,
    inherited,
    is_installed,
    rank_environment,
)
from nbdist.launch.binding import NOTIFY
from nbdist.model import Device, RankSpec, RunSpec
from nbdist.model.plan import Plan, Program
from nbdist.options import Options, parse_duration
from nbdist.privacy import digests_of, without_values
from nbdist.runner.placement import (
    TOKEN,
    NodeSet,
    choose_devices,
    engine_devices,
    engine_options,
    find_nodes,
    link_keys,
    new_token,
    unplaced_environment,
)
from nbdist.runner.pushing import Namespace, check_early, describe_inputs, inputs_of, pack_inputs
from nbdist.runner.scripts import Script, find_script
from nbdist.store.paths import check_home
from nbdist.text import say
from nbdist.version import __version__
from nbdist.worker.checkpoints import PLACE
from nbdist.worker.profiler import STEPS

if TYPE_CHECKING:
    from nbdist.values.packing import Packed

_STANDARD = 2
_FILES = 24  # that a start opens at once, or a supervisor before its first rank

_DRIVER = Path("/proc/driver/nvidia/version")
_VERSION = re.compile(r"\s(\d+\.\d[\d.]*)\s")
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"


def plan(
    options: Options,
    *,
    cell: str,
    cwd: str,
    python_path: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    notebook: str = "",
    cell_id: str = "",
    namespace: Namespace | None = None,
) -> Plan:
    """Plan a run of a cell; write nothing. Raises UsageMistake or LaunchError, and SyntaxError for a cell
    that does not compile.

    ``cwd`` is the notebook's directory, ``python_path`` the ranks' sys.path, ``environ`` what they inherit
    (None: this process's). ``notebook`` is the notebook's path and ``cell_id`` the cell's id in it, where
    they are known. ``namespace`` has the names to push.
    """
    environ = dict(os.environ if environ is None else environ)
    folder = _directory(options.cwd, cwd)
    program = Program.parse(cell)
    path = [entry or str(folder) for entry in python_path]
    packed = pack_inputs(options, program, namespace, path=path, environ=environ)
    place = (notebook, cell_id)
    planned = _plan(options, program, environ, folder, place, python_path=tuple(python_path), packed=packed)
    if packed is None or namespace is None:
        return planned
    check_early(planned, packed)
    return replace(planned, pushed=describe_inputs(packed, namespace.also))


def plan_script(
    options: Options,
    words: Sequence[str],
    *,
    cwd: str,
    environ: Mapping[str, str] | None = None,
    notebook: str = "",
    cell_id: str = "",
) -> Plan:
    """Plan a run of ``script.py`` or ``-m module``, typed in ``cwd``; write nothing. Raises as ``plan``."""
    environ = dict(os.environ if environ is None else environ)
    folder = _directory(options.cwd, cwd)
    if options.push:
        raise UsageMistake(
            "--push gives names of a notebook to a cell: leave it out, and write values behind the program's "
            "name, for example  train.py --lr 0.1"
        )
    more = (environ | dict(options.env)).get("PYTHONPATH", "")
    script = find_script(words, cwd=Path(cwd), folder=folder, python_path=more)
    return _plan(options, script.program, environ, folder, (notebook, cell_id), script=script)


def _plan(
    options: Options,
    program: Program,
    environ: dict[str, str],
    folder: Path,
    place: tuple[str, str],
    *,
    script: Script | None = None,
    python_path: tuple[str, ...] = (),
    packed: Packed | None = None,
) -> Plan:
    """Plan a run of ``program``: a cell, or that of ``script``. The ranks run in ``folder``; ``place`` is the
    notebook and the cell, ``packed`` the values from it."""
    framework, used = _framework(options, program, () if packed is None else packed.packages)
    engine = "" if options.engine == "local" else options.engine
    devices, notes = (engine_devices(options), []) if engine else choose_devices(options, environ)
    nodes = NodeSet(count=options.nodes or 1) if engine else find_nodes(options)
    by_hand = nodes.count > 1 and not engine
    gpus = any(device.kind == "gpu" for device in devices)
    environment = inherited(environ, len(devices), gpus=gpus) | dict(options.env)
    environment.pop(TOKEN, None)
    home = config.home(environ)
    _check_env(options)
    _check_memory(options)
    check_files(0 if engine else len(devices))
    check_disk(home, more=0 if packed is None else packed.size)
    # the home chosen where the user's own is on a network
    if engine and not environ.get("NBDIST_HOME") and home.parts[:2] == ("/", "tmp"):
        raise UsageMistake(
            f"--on {options.engine} needs a directory that all machines share, and runs are in {home}: "
            "choose another one, for example  %env NBDIST_HOME=~/nbdist"
        )
    if missing := next((name for name in used if not is_installed(name)), ""):
        raise UsageMistake(
            f"{missing} is not installed for {sys.executable}: run  "
            f'%pip install "nbdist[{missing}]"  and restart the kernel'
        )
    token = ""
    if by_hand:
        given = environ | {key: value for key, value in options.env if key == TOKEN}
        # node 0 makes one for the other machines
        token = "" if nodes.rank or given.get(TOKEN) else new_token()
        environment[config.LINK_KEY] = ",".join(link_keys(given, program.text.lstrip("\n"), token))
        node = {"node": nodes.rank, "nodes": nodes.count, "others": nodes.count - 1, "master": nodes.master}
        meeting = "runs.meeting" if nodes.count == 2 else "runs.meeting-others"
        notes.append(say(meeting, config.language(), wait=options.wait, **node))
    if options.profile:
        environment[STEPS] = options.profile
    if options.notify:
        environment[NOTIFY] = options.notify
    name, created = options.name or (script.name if script else framework) or "run", time.time()
    run_id = new_run_id(name, created)
    spec = RunSpec(
        run_id=run_id,
        name=name,
        created=created,
        program=script.path if script else str(home / "runs" / run_id / "cell.py"),
        python=sys.executable,
        cwd=str(folder),
        ranks=ranks_on(devices, options.backend, nodes, placed=not engine),
        framework=framework or "none",
        backend=options.backend,
        args=script.args if script else options.args,
        python_flags=options.python_flags,
        module=script.module if script else "",
        python_path=python_path,
        digests=digests_of(environment),
        checkpoints=_checkpoints(options.checkpoints, folder, name, run_id, by_hand=by_hand),
        inputs=() if packed is None else inputs_of(packed),
        versions=versions_of(framework, gpus=gpus and not engine),
        nodes=nodes.count,
        node_rank=nodes.rank,
        master=nodes.master,
        addresses=nodes.addresses,
        engine=engine,
        engine_options=engine_options(options, environ),
        notebook=place[0],
        cell_id=place[1],
    )
    return Plan(
        spec=_with_options(spec, options),
        program=program,
        is_cell=script is None,
        environment=environment,
        notes=(*notes, *options.notes),
        write_inputs=None if packed is None else packed.write,
        token=token,
    )


def _with_options(spec: RunSpec, options: Options) -> RunSpec:
    """Add the options that the spec keeps as they were typed. Raises UsageMistake."""
    return replace(
        spec,
        environment=without_values(options.env),
        detached=options.detach,
        owner=None if options.detach else processes.identify(os.getpid()),
        timeout=options.timeout,
        until=_limit(options.until, spec.engine),
        limit=options.until,
        grace=config.grace() if options.grace is None else options.grace,
        hang_after=options.hang_after or None,
        retries=options.retries,
        debug=options.debug,
        memory=options.memory,
        pull=options.pull,
        scrape=options.scrape,
        keep_inputs=options.keep_inputs,
        log_dir=str(Path(spec.cwd) / Path(options.log_dir).expanduser()) if options.log_dir else "",
        host=options.host,
        wait=options.wait,
    )


_KAGGLE = 12 * 3600.0
"""Seconds of a session there."""


def _limit(limit: str, engine: str, environ: Mapping[str, str] = os.environ) -> float | None:
    """Return ``RunSpec.until`` for ``--until``; None where the node knows. Raises UsageMistake."""
    if ":" in limit:
        hour, minute = map(int, limit.split(":"))
        now = datetime.datetime.now()
        at = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
        return (at if at > now else at + datetime.timedelta(days=1)).timestamp()
    if limit != "auto":
        return parse_duration(limit) if limit else None
    if engine == "slurm":
        return None
    if (end := config.end_of_job(environ)) is not None:
        return end
    if "KAGGLE_KERNEL_RUN_TYPE" in environ:
        return psutil.Process(1).create_time() + _KAGGLE - config.BEFORE_END
    raise UsageMistake("--until auto: no limit is known here: write it,  --until 11h40m")


def thread_advice(plan: Plan, *, cores: int | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """Return advice where ranks compute in one thread each by default, and there are cores for more."""
    spec = plan.spec
    here = len(spec.here)
    threads = (cpu_count() if cores is None else cores) // max(1, here)
    chosen = "OMP_NUM_THREADS" in environ or "OMP_NUM_THREADS" in spec.environment
    computes = spec.framework != "none" and all(rank.device.kind == "cpu" for rank in spec.here)
    if here < 2 or threads < 2 or chosen or not computes or spec.engine:
        return ""
    return say("runs.one-thread", config.language(), threads=threads)


def _checkpoints(chosen: str, folder: Path, name: str, run_id: str, *, by_hand: bool) -> str:
    """Return the directory of a run's checkpoints: the ``chosen`` one, else one in the program's folder,
    which outlives the run's files. Machines started by hand share only a chosen one."""
    if chosen:
        return str(folder / Path(chosen).expanduser())
    return "" if by_hand else str(folder / "checkpoints" / f"{name}-{run_id[-4:]}")


def ranks_on(
    devices: Sequence[Device], backend: str, nodes: NodeSet | None = None, *, placed: bool = True
) -> tuple[RankSpec, ...]:
    """Return a rank for each device on each machine (``nodes``, or this one). Unless ``placed``, the engine
    sets the GPUs in the environment. Raises UsageMistake."""
    nodes = nodes or NodeSet()
    gpus = tuple(device.index for device in devices if device.kind == "gpu")
    environment = rank_environment if placed or not gpus else unplaced_environment
    if backend == "nccl" and not gpus:
        raise UsageMistake("--backend nccl needs GPUs and this machine has none: leave it out")
    count = len(devices)
    return tuple(
        RankSpec(
            rank=node * count + local_rank,
            local_rank=local_rank,
            node_rank=node,
            # the names of another machine's devices are unknown here
            device=device if node == nodes.rank else replace(device, name=""),
            environment=environment(
                Placement(
                    rank=node * count + local_rank,
                    world_size=nodes.count * count,
                    local_rank=local_rank,
                    local_world_size=count,
                    node_rank=node,
                    nodes=nodes.count,
                    gpus=gpus,
                ),
                backend,
            ),
        )
        for node in range(nodes.count)
        for local_rank, device in enumerate(devices)
    )


def _directory(chosen: str, notebook: str) -> Path:
    """Return the ranks' working directory: ``chosen``, relative to the notebook's. Raises UsageMistake."""
    directory = Path(notebook) / Path(chosen or notebook).expanduser()
    if not os.path.isdir(directory):
        raise UsageMistake(f"--cwd {chosen or notebook}: there is no such directory")
    return directory.resolve()


def _framework(options: Options, program: Program, pushed: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the framework of a run ("": none), and the modules it needs; inputs import those ``pushed``."""
    if options.framework == "none":
        return "", ()
    if options.framework != "auto":
        check_framework(options.framework)
        return options.framework, (options.framework,)
    used = frameworks_of(program.tree) or tuple(name for name in FRAMEWORKS if name in pushed)
    return (used[0] if used else ""), used


def versions_of(framework: str, *, gpus: bool, driver: Path = _DRIVER) -> dict[str, str]:
    """Return the known versions of what a run depends on; the framework ("": none) is not imported."""
    versions = {"Python": platform.python_version(), "nbdist": __version__}
    if framework:
        from nbdist.preflight.capabilities import build_of  # it reads programs

        build = build_of(framework, sys.path) if framework in ("torch", "paddle") else None
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[framework] = metadata.version(framework) if build is None else build.version
    if gpus:
        # NVML takes a hundred times as long
        with contextlib.suppress(OSError):
            match = _VERSION.search(driver.read_text(errors="replace"))
            versions["NVIDIA driver"] = match[1] if match is not None else ""
    return {name: version for name, version in versions.items() if version}


def _check_env(options: Options) -> None:
    """Raise UsageMistake for a variable that nbdist sets in each rank."""
    place = Placement(rank=0, world_size=1, local_rank=0, local_world_size=1, node_rank=0, nodes=1, gpus=(0,))
    own = rank_environment(place, "gloo")
    for key, _ in options.env:
        if key == "CUDA_VISIBLE_DEVICES":
            raise UsageMistake("--env CUDA_VISIBLE_DEVICES does not work: choose GPUs with  --gpus 0,1")
        if key in own or key.startswith("NBDIST_RA") or key in ("NBDIST_RUN_ID", "NBDIST_RUN_DIR", PLACE):
            raise UsageMistake(f"--env {key} does not work, nbdist sets it in each rank: leave it out")


def _check_memory(options: Options) -> None:
    """Raise UsageMistake where nbdist cannot limit the memory of a rank."""
    if options.memory is None:
        return
    if options.engine != "local":
        raise UsageMistake(
            f"--memory does not work with --on {options.engine}, which has its own limit: leave it out"
        )
    if problem := control_groups.memory_problem():
        raise UsageMistake(
            f"--memory does not work here ({problem}): leave it out, or start the server with  "
            "systemd-run --user --scope -p Delegate=yes jupyter lab"
        )


def check_disk(
    home: Path,
    free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
    *,
    more: int = 0,
) -> None:
    """Raise LaunchError when the runs cannot be written or lack room, NotPrivate when others could write."""
    check_home(home)
    existing = home
    while not os.path.exists(existing) and existing != existing.parent:
        existing = existing.parent
    if os.statvfs(existing).f_flag & os.ST_RDONLY:
        raise not_written(OSError(errno.EROFS, os.strerror(errno.EROFS)), home)
    if not os.access(existing, os.W_OK | os.X_OK) or not existing.is_dir():
        raise LaunchError(
            f"{existing} cannot be written, and runs are stored in {home}: choose another place, "
            f"for example  %env NBDIST_HOME={config.local_home()}"
        )
    free = free_bytes(existing)
    if free < config.MIN_FREE_DISK + more:
        raise LaunchError(
            f"only {free >> 20} MB are free on the disk of {home}"
            f"{f', and --push needs {more >> 20}' if more else ''}: free some, or choose another "
            "disk with  %env NBDIST_HOME=/another/disk/nbdist"
        )


def not_written(error: OSError, place: Path) -> LaunchError:
    """Return the error for an unwritable ``place``, with the disk that refused and what to type instead."""
    disk = refusal(error, place)
    can_be_freed = bool(disk) and error.errno != errno.EROFS
    return LaunchError(
        say(
            "runs.not-written",
            config.language(),
            disk=disk,
            place="" if disk else place,
            problem=error.strerror or str(error),
            runs=config.home() / "runs" if can_be_freed else "",
            home="/another/disk/nbdist" if disk else config.local_home(),
        )
    )


def check_files(ranks: int) -> None:
    """Raise LaunchError when a start, or a supervisor with so many ranks, may not open all its files."""
    opened: list[int] = []
    try:
        for _ in range(_FILES):
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        raise LaunchError(
            f"this process has {os.sysconf('SC_OPEN_MAX')} files open, all that it may have: close some, "
            "or allow more before Jupyter starts with  ulimit -n 65536"
        ) from None
    finally:
        for descriptor in opened:
            # a closed stdin's number stays taken: what got it later would pass for stdin
            if descriptor > _STANDARD:
                os.close(descriptor)
    most = getrlimit(RLIMIT_NOFILE)[1]
    if most != RLIM_INFINITY and most < _FILES + ranks:
        raise LaunchError(
            f"{ranks} ranks take {_FILES + ranks} open files, and {most} are allowed: start fewer, or allow "
            "more before Jupyter starts with  ulimit -n 65536"
        )


def new_run_id(name: str, created: float) -> str:
    """Return an id for a run created at this time (Unix seconds)."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(created))
    return f"{stamp}-{name}-{''.join(secrets.choice(_ALPHABET) for _ in range(4))}"
