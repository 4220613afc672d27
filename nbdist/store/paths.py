"""Where the files of a run lie. The only place that joins these paths."""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path

from nbdist.errors import NotPrivate


class PathBelow:
    """A path of a directory: its name, and the attribute of the path that it lies below."""

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

    log = PathBelow("log")
    """What the rank wrote to stdout and stderr: its bytes, complete and in order."""

    log_times = PathBelow("log.times")
    """When the log reached which length (``log_times``); the supervisor's."""

    system = PathBelow("system.jsonl")
    """What the rank's processes used, measured by the supervisor, one JSON object a line."""

    again = PathBelow("again")
    """Why the rank has begun again without what it had imported ahead, if it has."""

    error = PathBelow("error.json")
    """The exception that left the program."""

    error_room = PathBelow("error.json.room")
    """What keeps room for it on the disk while the program runs (``worker.error_report``)."""

    metrics = PathBelow("metrics.jsonl")
    """What ``nbdist.log`` wrote, one JSON object a line."""

    training = PathBelow("training.jsonl")
    """What the rank noted of its batches and its parameters (``worker.training``), one JSON object a line."""

    results = PathBelow("results")
    """What ``nbdist.result`` gave out: a file for each value, and one that says what it is."""

    display = PathBelow("display.jsonl")
    """What the rank showed besides text (``worker.display``), one JSON object a line."""

    media = PathBelow("media")
    """The pictures and the HTML of that, each named by its content."""

    stacks = PathBelow("stacks")
    """Where the rank was when it was last asked: a line about the file, then faulthandler's words."""

    collectives = PathBelow("collectives")
    """Which collectives the rank had begun when it was last asked."""

    history = PathBelow("history")
    """What the rank had called in each process group when it was last asked, or failed."""

    waits = PathBelow("waits")
    """How much of its time the rank waits for others (``worker.stacks``)."""

    def cell_error(self, cell: int) -> Path:
        """The exception that left a cell of a session."""
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

    cell = PathBelow("cell.py")
    """The cell as it was given; tracebacks point here."""

    git = PathBelow("git.status")
    """What git said of the program's tree when the run began; empty while it has not, or could not."""

    inputs = PathBelow("inputs.box")
    """The values of the notebook's names that the ranks get (``values.box``), until the run has ended."""

    control = PathBelow("control")
    """Requests of processes that may write here, one file each."""

    cells = PathBelow("cells")
    """The cells of a session, and what they are given, until their ranks have it."""

    socket = PathBelow("socket")
    """Where a session takes cells (``store.control``): there as long as it goes on."""

    stacks = PathBelow("stacks.json")
    """Where every rank was when that was last asked (``store.reports``)."""

    board = PathBelow("board")
    """What VisualDL reads, one directory per rank that logs."""

    supervisor_log = PathBelow("supervisor.log")
    """What the supervisor itself had to say; empty when all is well."""

    nodes = PathBelow("nodes")
    """Of a run that an engine has placed: what belongs to one node of it alone, a directory each."""

    job = PathBelow("job.json")
    """What the engine calls the run: there once it was submitted."""

    job_script = PathBelow("job.sh")
    """What the engine starts."""

    job_log = PathBelow("job.log")
    """What the engine and the job itself had to say; the ranks write into their own logs."""

    job_environment = PathBelow("job.environment")
    """The environment of the ranks: for this user alone, until the job on Ray has read it or the run ends."""

    pulse = PathBelow("pulse")
    """Touched again and again while a process looks after a run on other machines."""

    def delete_inputs(self) -> None:
        """The run has ended: what the notebook gave it does not stay behind."""
        with contextlib.suppress(OSError):
            self.inputs.unlink()

    def delete_environment(self) -> None:
        """Remove the environment of a job that never began."""
        with contextlib.suppress(OSError):
            self.job_environment.unlink()

    @property
    def deleted(self) -> bool:
        """Whether the run was deleted: its spec, which is written once, is not there any more.
        What its processes write meanwhile may keep the directory itself. A file that cannot be asked for, as
        on a server that is away, counts as there."""
        try:
            os.stat(self.spec)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        return False

    def session_cell(self, cell: int) -> Path:
        """The text of a cell of a session; tracebacks point here."""
        return self.cells / f"{cell:04}.py"

    def is_cell(self, program: str) -> bool:
        """Whether a run's program is its cell, and not a script. The runs may have been moved since."""
        return Path(program).parts[-2:] == self.cell.parts[-2:]

    def program(self, program: str) -> Path:
        """Where a run's program is to be read: its cell, which may have moved with the run, or the script."""
        return self.cell if self.is_cell(program) else Path(program)

    def rank(self, rank: int, attempt: int = 1) -> RankDirectory:
        path = self.path / "ranks" / str(rank)
        return RankDirectory(path if attempt == 1 else path / f"attempt-{attempt}")


@dataclass(frozen=True, slots=True)
class NodeDirectory(RunDirectory):
    """A run's directory as one of the nodes sees it that an engine has placed it on.

    They share all but what has one writer. ``name`` is ``<life>-<node>``: a job that was put into the
    queue again begins another life.
    """

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
    """The files of a sweep: ``<home>/sweeps/<sweep_id>/``. What a run has too is where a run has it, but its
    points are runs by themselves."""

    process = PathBelow("process.json")
    """Which process starts its runs."""
    ended = PathBelow("ended.json")
    """Why it ended, once every run that it started has."""


def check_home(path: Path) -> None:
    """Refuse a directory of runs that another user has filled, or could have. It may be a link of this
    user's own; one that is not there yet is fine. Raises NotPrivate."""
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
        return  # the link leads nowhere yet


def check_private(path: Path) -> None:
    """Refuse a directory that another user has filled, or could have. Raises NotPrivate, or OSError where
    it cannot be looked at."""
    status = os.lstat(path)
    _check_owner(path, status)
    if not stat.S_ISDIR(status.st_mode):
        raise NotPrivate(path, "is a link, or no directory", "put the directory itself in its place")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotPrivate(path, "can be written by others", f"type  chmod -R go-w {shlex.quote(str(path))}")


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid == os.geteuid():
        return
    name = _user(status.st_uid)
    if os.geteuid() == 0:
        remedy = f"look as that user:  sudo -u {shlex.quote(name or f'#{status.st_uid}')} nbdist ..."
    else:
        remedy = "choose a directory of your own, for example  %env NBDIST_HOME=~/nbdist"
    raise NotPrivate(path, f"belongs to user {name or status.st_uid}, not to you", remedy)


def _check_parent(path: Path, parent: Path) -> None:
    """A user who may write a directory may put another one in the place of those in it, unless it is sticky.

    A directory that only the user's own group may write counts as private: where each user has a group of
    his own, all are made so.
    """
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


def _user(uid: int) -> str:
    """The name of a user; empty where he has none."""
    import pwd  # only who is refused needs it

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def make_private(path: Path) -> Path:
    """Make the directory, and those above it that are missing, so that only this user may look in."""
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
    """Open a file that only this user may read, to append to it. Raises OSError."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def append_whole(handle: int, data: bytes) -> bool:
    """Append all of ``data`` or nothing; whether that was possible. For files with one writer."""
    try:
        written = os.write(handle, data)
        if written < len(data):
            # the disk is full; a part would make what is appended later unreadable
            os.ftruncate(handle, os.fstat(handle).st_size - written)
    except OSError:
        return False
    return written == len(data)
