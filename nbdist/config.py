"""Settings from the environment, and the figures that hold everywhere.

- ``NBDIST_HOME``: the directory of the runs
- ``NBDIST_PANEL`` (auto, widget, text): how a run is shown
- ``NBDIST_LANG`` (en, zh): the language on the screen, instead of the page's
- ``NBDIST_WARM`` (auto, off; always: for tests, every run on ranks that have waited): ranks kept ready
- ``NBDIST_PUSH`` (auto): push the names of the notebook that a cell lacks; ``NBDIST_PUSH_GB``: their limit
- ``NBDIST_TOOLS_ALLOW`` (start,stop,stacks): what the tools for agents may do besides reading
- ``NBDIST_ENGINE_SILENCE``: the seconds after which a silent engine counts as lost
- ``NBDIST_LOG_GB``: the limit of a log (0: none)
- ``NBDIST_NOTIFY``: where notices of runs are sent; ``NBDIST_SMTP``: by which server mail goes
- ``NBDIST_GRACE``: the seconds in which a rank on its way out may save its work
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# Times are in seconds.
INTERRUPT_GRACE = 3.0  # between SIGINT and SIGTERM for a rank of a stopped run
TERMINATE_GRACE = 3.0  # between SIGTERM and SIGKILL
GRACE = 30.0  # for a rank on its way out, which may save its work (``--grace``)
LONGEST_SAVE = 600.0  # for one that goes on to write within ``nbdist.saving()``
BEFORE_END = 300.0  # before the end of a job or a session, when ``--until auto`` lets the ranks leave
AS_ONE = 1.5  # between two requests to stop that count as one
STUCK_AFTER = 0.5  # after SIGINT, before a rank is freed that still waits for others in native code
# for the other ranks after a failure: between SIGTERM and SIGKILL, and before SIGTERM when they were freed
PEER_GRACE = 0.7
FREED_GRACE = 2.3  # more before SIGTERM for a freed rank on its way out: it may save its work
PEER_LOOK = 0.03  # for the other ranks to report their calls after the program of one has raised
EXIT_GRACE = 8.0  # for a rank whose program raised to flush, run its atexit handlers and exit
MIN_FREE_DISK = 64 * 1024 * 1024  # bytes on the disk of the runs before a run starts
# until a run is lost whose engine does not answer and whose nodes leave no trace: six times as many for a run
# in a queue, and a tenth for one that has to end
ENGINE_SILENCE = 600.0
LOG_GB = 5.0  # of disk for the log of one rank: some 50 million lines
PUSH_GB = 2.0  # of values from the notebook for a run

_NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "9p", "fuse.sshfs"}
)


def home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of the runs: NBDIST_HOME, else the user's state directory, or a local one instead
    of a network filesystem, where locks and sizes lag behind."""
    if chosen := environ.get("NBDIST_HOME"):
        return Path(chosen).expanduser().absolute()
    state = environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local/state")
    if filesystem_of(Path(state)) in _NETWORK_FILESYSTEMS:
        return local_home()
    return Path(state) / "nbdist"


def machines_key(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the file of the key by which machines that share this home directory know each other."""
    chosen = environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(chosen) / "nbdist" / "machines.key"


def local_home() -> Path:
    """Return this user's directory for runs on a local disk."""
    return Path("/tmp") / f"nbdist-{os.getuid()}"


def engine_silence() -> float:
    """Return ENGINE_SILENCE, or the seconds in NBDIST_ENGINE_SILENCE."""
    return _number(os.environ, "NBDIST_ENGINE_SILENCE", ENGINE_SILENCE)


def grace(environ: Mapping[str, str] = os.environ) -> float:
    """Return GRACE, or the seconds in NBDIST_GRACE."""
    return _number(environ, "NBDIST_GRACE", GRACE)


def end_of_job(environ: Mapping[str, str]) -> float | None:
    """Return the Unix time at which ranks have to leave a job of Slurm; None where it names no end."""
    end = environ.get("SLURM_JOB_END_TIME", "")
    return float(end) - BEFORE_END if end.isdecimal() else None


def log_room() -> int | None:
    """Return the bytes of disk that the log of a rank may take, by NBDIST_LOG_GB; None for any number."""
    gigabytes = _number(os.environ, "NBDIST_LOG_GB", LOG_GB)
    return int(gigabytes * 1e9) if gigabytes > 0 else None


def push_room(environ: Mapping[str, str] = os.environ) -> int:
    """Return the bytes of values that may be pushed, by NBDIST_PUSH_GB."""
    return int(_number(environ, "NBDIST_PUSH_GB", PUSH_GB) * 1e9)


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(environ[name])
    except (KeyError, ValueError):
        return default


# has the key of a run on several machines, for its supervisors alone
LINK_KEY = "NBDIST_LINK_KEY"

# in the environment of kernels whose server has nbdist's extension
SERVED = "NBDIST_SERVED"

TOOLS_ALLOW = "NBDIST_TOOLS_ALLOW"
# an agent needs leave for these: each leaves something on the disk, or in the process table
CHANGING_TOOLS = ("start", "stop", "stacks")


def allowed_tools(environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Return the entries of NBDIST_TOOLS_ALLOW."""
    return frozenset(filter(None, map(str.strip, environ.get(TOOLS_ALLOW, "").split(","))))


def may_be_culled(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether a hub may end this server as idle while a detached run goes on."""
    return "JUPYTERHUB_USER" in environ and SERVED not in environ


def filesystem_of(path: Path, mounts: str | None = None) -> str:
    """Return the type of the filesystem of a ``path`` ("": unknown); ``mounts`` is /proc/self/mounts."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text(errors="replace")
        except OSError:
            return ""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        inside = str(path) == point or str(path).startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def language(environ: Mapping[str, str] = os.environ) -> str:
    """Return "zh" or "en": NBDIST_LANG's language, else the page's or the system's."""
    # a page sets the second in its kernel (``plugins/kernel.ts``)
    variables = ("NBDIST_LANG", "NBDIST_PAGE_LANG", "LC_ALL", "LANG")
    wanted = next(filter(None, map(environ.get, variables)), "")
    return "zh" if wanted.lower().startswith(("zh", "chinese")) else "en"
