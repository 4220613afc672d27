"""``nbdist.checkpoint``: checkpoints that a run goes on from after a failure, each whole or absent.

    checkpoints/train-k2m1/
        step-00000100/                   finished
        .step-00000200.RUN.1.rank-0/     a draft; a later run removes that of a killed rank
            step-00000200/               the path that ``checkpoint`` returns to the program
            done-0                       sharded: rank 0 has written its part

A draft becomes a checkpoint by one rename, after its files have reached the disk: a killed rank or a power
failure leaves the checkpoint before it as the latest one.
"""

from __future__ import annotations

import errno
import operator
import os
import re
import shutil
import sys
from contextlib import contextmanager, suppress

from nbdist.worker import main_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

PLACE = "NBDIST_CHECKPOINTS"

_OWN = re.compile(r"step-\d{8,}")
_DRAFT = ".step-"
# names that programs give to unfinished files: tmp-checkpoint-500, last.ckpt.tmp, .step-7
_UNFINISHED = re.compile(r"^[._]|~$|(?:^|[._-])(?:tmp|temp|part|partial|incomplete)(?:[._-]|$)")
_NUMBER = re.compile(r"\d+")
# errors of file systems that cannot fsync a file or a directory
_NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EROFS})

_cleaned: set[str] = set()
_sharded = 0
"""The number of sharded checkpoints that this process has begun: all ranks begin the same, in one order."""


def attempt() -> int:
    """Return the number of this attempt of the run: 1, and 2, 3, … after ``--retries`` has restarted it."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) + 1


def checkpoint_dir() -> Path:
    """Make and return the directory of this run's checkpoints: the same in every rank, node and attempt, and
    in a run that ``%dist_resume`` starts. nbdist deletes none but those of a scale.

    It is the DIR of ``--checkpoints DIR``, else ``checkpoints/<run>`` in the run's working directory; outside
    a run ``checkpoints/<program>``. Raises RuntimeError without that option where you started several
    machines by hand, and OSError where it cannot be made.
    """
    from pathlib import Path

    path = _directory()
    os.makedirs(path, mode=0o700, exist_ok=True)
    return Path(path)


def latest_checkpoint() -> Path | None:
    """Return the checkpoint that was finished last, a directory or a file; None where there is none yet.

    It is never an unfinished one of ``nbdist.checkpoint``. A file that the program itself puts into
    ``checkpoint_dir()`` counts at once, unless its name begins with ``.`` or ``_``, or has a part ``tmp``,
    ``temp``, ``part``, ``partial`` or ``incomplete``: write under such a name, then rename.
    """
    from pathlib import Path

    return next(map(Path, finished(_directory())), None)


@contextmanager
def saving() -> Iterator[None]:
    """Let an interrupt, a stop and a time limit wait for the end of the block, which saves something:

        with nbdist.saving():
            torch.save(model.state_dict(), "model.pt")

    The rank has as long as it goes on to write, at most ten minutes. ``nbdist.checkpoint`` does the same.
    """
    main_thread.enter_block()
    try:
        yield
    finally:
        main_thread.leave_block()


def checkpoint(step: int, *, sharded: bool = False, keep: int | None = None) -> Checkpoint:
    """Return a checkpoint that is finished at the end of its block, unless that raises:

        with nbdist.checkpoint(step) as path:
            torch.save(model.state_dict(), path / "model.pt")

    ``path`` is a directory, later ``checkpoint_dir() / "step-00000100"``, and replaces an older one. One rank
    writes it; an empty one is no checkpoint. ``sharded``: every rank of the run writes its part into the same
    directory, which the last rank finishes. ``keep``: the number of finished ones that stay; by default all.

    Raises TypeError and ValueError for a bad step or number, OSError when it cannot be written, and
    RuntimeError where the ranks of a sharded one have no run in common.
    """
    number = operator.index(step)
    if number < 0:
        raise ValueError(f"nbdist.checkpoint({number}): steps are counted from 0")
    if keep is not None and operator.index(keep) < 1:
        raise ValueError(f"nbdist.checkpoint(…, keep={keep}): the latest one is always kept: write  keep=1")
    return Checkpoint(number, sharded=sharded, keep=keep)


class Checkpoint:
    """A checkpoint that is being written: the context manager of ``nbdist.checkpoint``."""

    def __init__(self, step: int, *, sharded: bool, keep: int | None) -> None:
        self._name = f"step-{step:08}"
        self._sharded = sharded
        self._keep = keep
        self._directory = self._draft = self._path = ""

    def __enter__(self) -> Path:
        global _sharded
        self._directory = str(checkpoint_dir())
        _remove_leftovers(self._directory)
        mine = f"rank-{_rank()}.{os.getpid()}"
        if self._sharded:
            _check_in_common()
            _sharded += 1
            mine = f"all-{_sharded}"
        self._draft = os.path.join(self._directory, f".{self._name}.{_identity()}.{mine}")
        self._path = os.path.join(self._draft, self._name)
        os.makedirs(self._path, mode=0o700, exist_ok=True)
        from pathlib import Path

        main_thread.enter_block()
        return Path(self._path)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and (self._sharded or os.listdir(self._path)):
                self._finish()
            elif not self._sharded:  # other ranks may still write into a sharded one
                shutil.rmtree(self._draft, ignore_errors=True)
        finally:
            main_thread.leave_block()

    def _finish(self) -> None:
        _sync_tree(self._path)
        if self._is_complete():
            self._publish()
            self._rotate()

    def _is_complete(self) -> bool:
        """Return whether every part is there, and this rank is to publish them."""
        if not self._sharded:
            return True
        os.close(os.open(os.path.join(self._draft, f"done-{_rank()}"), os.O_WRONLY | os.O_CREAT, 0o600))
        try:
            # the last rank sees the marks of all, and so may others
            marks = set(os.listdir(self._draft))
        except FileNotFoundError:
            return False
        return marks >= {f"done-{rank}" for rank in range(_world_size())} and self._claim()

    def _claim(self) -> bool:
        """Return whether this rank, and no other, has renamed the draft, whose name has to vanish at once: a
        rank that has just seen all marks would take it for whole."""
        whole = f"{self._draft}.whole"
        try:
            os.rename(self._draft, whole)
        except FileNotFoundError:
            return False
        self._draft, self._path = whole, os.path.join(whole, self._name)
        return True

    def _publish(self) -> None:
        """Rename the draft into place; move away the one before whole, since a process may be loading it."""
        # checkpoints are ordered by the time at which they were finished
        os.utime(self._path)
        final = os.path.join(self._directory, self._name)
        before = 0
        while True:
            try:
                os.rename(self._path, final)
                break
            except OSError:
                if not os.path.lexists(final):
                    raise
            before += 1
            with suppress(FileNotFoundError):
                os.rename(final, os.path.join(self._draft, f"before-{before}"))
        _sync(self._directory)
        shutil.rmtree(self._draft, ignore_errors=True)

    def _rotate(self) -> None:
        own = [path for path in finished(self._directory) if _OWN.fullmatch(os.path.basename(path))]
        for path in own[self._keep :] if self._keep is not None else ():
            # nobody may find a half deleted one
            name = f".{os.path.basename(path)}.{_identity()}.gone-{os.getpid()}"
            gone = os.path.join(self._directory, name)
            with suppress(OSError):
                os.rename(path, gone)
                shutil.rmtree(gone, ignore_errors=True)


def finished(directory: str) -> list[str]:
    """Return the paths of the finished checkpoints in a directory, the latest first."""
    paths: list[tuple[int, list[int], str]] = []
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        for entry in entries:
            if not _UNFINISHED.search(entry.name):
                with suppress(FileNotFoundError):
                    numbers = [int(number) for number in _NUMBER.findall(entry.name)]
                    paths.append((entry.stat().st_mtime_ns, numbers, entry.path))
    return [path for _, _, path in sorted(paths, reverse=True)]


def _directory() -> str:
    if path := os.environ.get(PLACE):
        return path
    if "NBDIST_RUN_ID" in os.environ:
        raise RuntimeError(
            "nbdist.checkpoint_dir(): nbdist knows no directory that all machines of this run see: name one, "
            "the same on each:  --checkpoints /shared/name"
        )
    program = os.path.basename(getattr(sys.modules["__main__"], "__file__", "") or "python")
    return os.path.abspath(os.path.join("checkpoints", os.path.splitext(program)[0]))


def _rank() -> int:
    return int(os.environ.get("RANK") or os.environ.get("PADDLE_TRAINER_ID") or 0)


def _world_size() -> int:
    return int(os.environ.get("WORLD_SIZE") or os.environ.get("PADDLE_TRAINERS_NUM") or 1)


def _identity() -> str:
    """Return the part of a draft's name that is this attempt's alone."""
    run = os.environ.get("NBDIST_RUN_ID") or os.environ.get("TORCHELASTIC_RUN_ID") or str(os.getpid())
    return f"{run.replace(os.sep, '-')}.{attempt()}"


def _check_in_common() -> None:
    """Raise RuntimeError where the ranks would not share one draft, or would share one of an earlier run."""
    directory = os.environ.get("NBDIST_RUN_DIR")
    if directory is None:
        common = os.environ.get("TORCHELASTIC_RUN_ID", "none") != "none"
    else:
        # the directory that an engine's nodes share has this one in it
        placed = os.path.isdir(os.path.join(directory, "nodes"))
        common = placed or os.environ.get("GROUP_WORLD_SIZE", "1") == "1"
    if _world_size() > 1 and not common:
        raise RuntimeError(
            "nbdist.checkpoint(sharded=True): these ranks have no name of their run in common, for they were "
            "started machine by machine: write  --on slurm  or  --on ray , or let rank 0 save everything"
        )


def _remove_leftovers(directory: str) -> None:
    """Delete the drafts of dead ranks, once in each process. A directory belongs to one run at a time."""
    if directory in _cleaned or "NBDIST_RUN_ID" not in os.environ:
        return
    _cleaned.add(directory)
    for name in os.listdir(directory):
        if name.startswith(_DRAFT) and f".{_identity()}." not in name:
            shutil.rmtree(os.path.join(directory, name), ignore_errors=True)


def _sync_tree(path: str) -> None:
    """Flush all below ``path`` to the disk. Raises OSError."""
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(FileNotFoundError):  # another rank is still writing
                _sync(os.path.join(folder, name))
        _sync(folder)


def _sync(path: str) -> None:
    if os.path.islink(path):
        return
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(handle)
