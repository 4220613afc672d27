"""The files of a run, whose paths are joined here alone, and the rules that keep them private."""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path

from nbdist.errors import NotPrivate


class PathBelow:
    """A descriptor for a path below the path in the attribute ``base``."""

    def __init__(self, name: str, base: str = "path") -> None:
        self._name = name
        self._base = base

    def __get__(self, directory: object, _: type) -> Path:
        path: Path = getattr(directory, self._base)
        return path / self._name


@dataclass(frozen=True, slots=True)
class RankDirectory:
    """The files of one rank in one attempt: ``ranks/<rank>/``, later ``ranks/<rank>/attempt-2/``."""

    path: Path

    log = PathBelow("log")  # stdout and stderr: their bytes, complete and in order
    log_times = PathBelow("log.times")  # the supervisor's index of the log's times (``store.logs``)
    system = PathBelow("system.jsonl")  # the use of the machine, measured by the supervisor
    again = PathBelow("again")  # why the rank began again without its imports ahead, if it did
    error = PathBelow("error.json")  # the exception that left the program
    error_room = PathBelow("error.json.room")  # keeps room for it on the disk (``worker.error_report``)
    calls = PathBelow("calls")  # of ``nbdist.should_stop``, at the limit of time
    saving = PathBelow("saving")  # the line of a program on its way out (``worker.way_out``)
    held = PathBelow("held.json")  # what a debugger holds, and where (``worker.debugger``)
    debugger = PathBelow("pdb")  # the socket of a held rank, for the commands of debuggers
    importing = PathBelow("importing")  # the framework that is being imported (``worker.framework_hooks``)
    metrics = PathBelow("metrics.jsonl")  # of ``nbdist.log``
    steps = PathBelow("steps.json")  # how the time of its steps divides (``worker.step_time``)
    results = PathBelow("results")  # of ``nbdist.result``: a file for each value, and its index
    display = PathBelow("display.jsonl")  # output besides text (``worker.display``)
    media = PathBelow("media")  # the pictures and the HTML of that, each named by its content
    stacks = PathBelow("stacks")  # at the last request: a line on the file, then faulthandler's
    collectives = PathBelow("collectives")  # begun at the last request
    history = PathBelow("history")  # calls in each process group at the last request or failure
    waits = PathBelow("waits")  # the rank's share of time in waits for others (``worker.stack_answers``)

    def answer(self, name: str) -> Path:
        """Return the path of a trace or a value until it is read (``worker.profiler``, ``debugger``)."""
        return self.path / f"answer-{name}"

    def cell_error(self, cell: int) -> Path:
        """Return the path of the exception that left a cell of a session."""
        return self.path / "cells" / f"{cell:04}.json"


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """The files of one run: ``<home>/runs/<run_id>/``."""

    path: Path

    @property
    def run_id(self) -> str:
        return self.path.name

    spec = PathBelow("spec.json")
    journal = PathBelow("events.jsonl")
    cell = PathBelow("cell.py")  # the text of the cell; tracebacks point here
    marks = PathBelow("marks.json")  # what the user notes about the run (``store.marks``)
    git = PathBelow("git.status")  # of the program's tree at the begin; empty where git failed
    inputs = PathBelow("inputs.box")  # the notebook's values (``values.box``), until the run has ended
    control = PathBelow("control")  # requests of processes that may write here, one file each
    cells = PathBelow("cells")  # the cells of a session, and their inputs until their ranks have them
    socket = PathBelow("socket")  # of a live session, for its cells (``store.control``)
    stacks = PathBelow("stacks.json")  # of every rank at the last request (``store.reports``)
    profile = PathBelow("profile.json")  # how the time of each rank divided (``feed.profile``)
    trace = PathBelow("profile.trace.json.gz")  # the traces of all ranks, for Perfetto
    board = PathBelow("board")  # for VisualDL, one directory per rank that logs
    supervisor_log = PathBelow("supervisor.log")  # of the supervisor itself; empty when all is well

    # of a run on an engine
    nodes = PathBelow("nodes")  # the files of one node alone, a directory each
    job = PathBelow("job.json")  # the engine's name for the run, once it was submitted
    job_script = PathBelow("job.sh")  # started by the engine
    job_log = PathBelow("job.log")  # of the engine and the job itself; the ranks have their own logs
    # of the ranks, for this user alone, until the job on Ray has read it or the run ends
    job_environment = PathBelow("job.environment")
    pulse = PathBelow("pulse")  # touched again and again while a process looks after the run

    def delete_inputs(self) -> None:
        """Delete the values that the notebook pushed."""
        with contextlib.suppress(OSError):
            self.inputs.unlink()

    def delete_environment(self) -> None:
        """Delete the environment of a job that never began."""
        with contextlib.suppress(OSError):
            self.job_environment.unlink()

    @property
    def deleted(self) -> bool:
        """Return whether the run was deleted: its spec, which is written once, is gone. Its processes may
        keep the directory itself. A file on a server that does not answer counts as present."""
        try:
            os.stat(self.spec)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            pass
        return False

    def session_cell(self, cell: int) -> Path:
        """Return the path of a session's cell; tracebacks point there."""
        return self.cells / f"{cell:04}.py"

    def is_cell(self, program: str) -> bool:
        """Return whether a run's program is its cell, even if the runs were moved since."""
        return Path(program).parts[-2:] == self.cell.parts[-2:]

    def program(self, program: str) -> Path:
        """Return the path of a run's program: its cell, which moves with the run, or the script."""
        return self.cell if self.is_cell(program) else Path(program)

    def rank(self, rank: int, attempt: int = 1) -> RankDirectory:
        path = self.path / "ranks" / str(rank)
        return RankDirectory(path if attempt == 1 else path / f"attempt-{attempt}")


@dataclass(frozen=True, slots=True)
class NodeDirectory(RunDirectory):
    """A run's directory on one node of an engine: all nodes share it, except files with one writer. ``name``
    is ``<life>-<node>``: a requeued job begins another life."""

    name: str

    @property
    def own(self) -> Path:
        return self.nodes / self.name

    spec = PathBelow("spec.json", "own")
    journal = PathBelow("events.jsonl", "own")
    control = PathBelow("control", "own")
    stacks = PathBelow("stacks.json", "own")
    supervisor_log = PathBelow("supervisor.log", "own")


@dataclass(frozen=True, slots=True)
class SweepDirectory(RunDirectory):
    """The files of a sweep: ``<home>/sweeps/<sweep_id>/``, named as those of a run."""

    process = PathBelow("process.json")  # the process that starts its runs
    ended = PathBelow("ended.json")  # why it ended, once every run that it started has


def check_home(path: Path) -> None:
    """Raise NotPrivate for a home that another user could have filled. A missing one is fine."""
    try:
        link = os.lstat(path)
    except OSError:
        _check_parent(path, path.parent)
        return
    if stat.S_ISLNK(link.st_mode):
        if link.st_uid != 0:  # or it is the administrator's, who may do worse
            _check_owner(path, link)
        _check_parent(path, path.parent)
        path = Path(os.path.realpath(path))
    _check_parent(path, path.parent)
    try:
        check_private(path)
    except FileNotFoundError:
        return  # nothing at the end of the link yet


def check_private(path: Path) -> None:
    """Raise NotPrivate for a directory that another user could have filled. Raises OSError."""
    status = os.lstat(path)
    _check_owner(path, status)
    if not stat.S_ISDIR(status.st_mode):
        raise NotPrivate(path, "is a link, or no directory", "put the directory itself in its place")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotPrivate(path, "can be written by others", f"type  chmod -R go-w {shlex.quote(str(path))}")


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid == os.geteuid():
        return
    import pwd  # only a refusal needs it

    name = ""
    with contextlib.suppress(KeyError):
        name = pwd.getpwuid(status.st_uid).pw_name
    if os.geteuid() == 0:
        remedy = f"look as that user:  sudo -u {shlex.quote(name or f'#{status.st_uid}')} nbdist ..."
    else:
        remedy = "choose a directory of your own, for example  %env NBDIST_HOME=~/nbdist"
    raise NotPrivate(path, f"belongs to user {name or status.st_uid}, not to you", remedy)


def _check_parent(path: Path, parent: Path) -> None:
    """Raise NotPrivate for a ``parent`` that others may write and that is not sticky: they may replace the
    directory. Its own group may write it: by default each user has a group alone."""
    try:
        status = os.stat(parent)
    except OSError:
        if parent != parent.parent:
            _check_parent(path, parent.parent)
        return
    others = status.st_mode & stat.S_IWOTH or (
        status.st_mode & stat.S_IWGRP and status.st_gid != os.getegid()
    )
    if others and not status.st_mode & stat.S_ISVTX:
        raise NotPrivate(
            path,
            f"can be replaced by others, who may write {parent}",
            "choose a directory of your own, for example  %env NBDIST_HOME=~/nbdist",
        )


def make_private(path: Path) -> Path:
    """Make the directory, and the missing ones above it, for this user alone."""
    if not path.is_dir():
        make_private(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    return path


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user may read: whole, or not at all."""
    write_whole(path, text.encode("utf-8", "surrogatepass"), mode=0o600)


def write_whole(path: Path, content: bytes, *, mode: int, durable: bool = False) -> None:
    """Write a file whole, or not at all. ``durable``: return once it is on the disk."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def open_to_append(path: str | Path) -> int:
    """Open a file for this user alone, to append to it. Raises OSError."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def append_whole(handle: int, data: bytes) -> bool:
    """Append all of ``data`` or nothing to a file with one writer; return whether it was possible."""
    try:
        written = os.write(handle, data)
        if written < len(data):
            # the disk is full; a torn part would spoil later data
            os.ftruncate(handle, os.fstat(handle).st_size - written)
    except OSError:
        return False
    return written == len(data)
