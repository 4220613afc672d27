"""Settings that come from the environment, and the figures that hold everywhere.

``NBDIST_HOME`` names the directory of the runs, ``NBDIST_PANEL`` (auto, widget, text) how a run is
shown, ``NBDIST_LANG`` (en, zh) the language of what is shown where it is not to be the page's,
``NBDIST_WARM`` (auto, off; always: for tests, every run on ranks that have waited) whether ranks are kept
ready (``warm.pool``),
``NBDIST_PUSH`` (auto) whether a cell gets the names of the notebook that it lacks, ``NBDIST_PUSH_GB`` how
much these may be,
``NBDIST_TOOLS_ALLOW`` (start,stop,stacks) what the tools for agents may do besides reading,
``NBDIST_ENGINE_SILENCE`` (seconds) how long an engine may say nothing, ``NBDIST_LOG_GB`` how long a log
may become (0: as long as it wants).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

INTERRUPT_GRACE = 3.0
"""Seconds that a rank has between SIGINT and SIGTERM when a run is stopped."""

STUCK_AFTER = 0.5
"""Seconds after SIGINT after which a rank is freed that still waits for others in native code."""

TERMINATE_GRACE = 3.0
"""Seconds that a rank has between SIGTERM and SIGKILL when a run is stopped."""

PEER_GRACE = 0.7
"""Seconds that the other ranks have between SIGTERM and SIGKILL after one has failed, and before SIGTERM when
they were freed."""

FREED_GRACE = 2.3
"""Seconds more before SIGTERM that a freed rank has while it is on its way out: it may save its work."""

PEER_LOOK = 0.03
"""Seconds that the other ranks have to say where they are after the program of one has raised."""

EXIT_GRACE = 8.0
"""Seconds that a rank whose program raised has to flush, run its atexit handlers and exit."""

MIN_FREE_DISK = 64 * 1024 * 1024
"""Bytes that must be free where the runs lie before a run is started."""

ENGINE_SILENCE = 600.0
"""Seconds after which a run counts as lost whose engine does not answer and whose nodes leave no trace: six
times as many for a run that waits in a queue, and a tenth for one that was asked to end."""

LOG_GB = 5.0
"""Gigabytes of disk that the log of one rank may take: some 50 million lines."""

PUSH_GB = 2.0
"""Gigabytes of values that a run gets from the notebook at most."""

_NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "9p", "fuse.sshfs"}
)


def home(environ: Mapping[str, str] = os.environ) -> Path:
    """The directory of the runs: NBDIST_HOME, else the user's state directory, else a local one.

    A home directory on a network filesystem is avoided: locks and sizes lag behind there.
    """
    if chosen := environ.get("NBDIST_HOME"):
        return Path(chosen).expanduser().absolute()
    state = environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local/state")
    if filesystem_of(Path(state)) in _NETWORK_FILESYSTEMS:
        return local_home()
    return Path(state) / "nbdist"


def machines_key(environ: Mapping[str, str] = os.environ) -> Path:
    """The file of the key by which machines that have this home directory in common know each other."""
    chosen = environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(chosen) / "nbdist" / "machines.key"


def local_home() -> Path:
    """A place for runs on a local disk that is this user's alone."""
    return Path("/tmp") / f"nbdist-{os.getuid()}"


def engine_silence(environ: Mapping[str, str] = os.environ) -> float:
    """ENGINE_SILENCE, or the seconds in NBDIST_ENGINE_SILENCE."""
    try:
        return float(environ["NBDIST_ENGINE_SILENCE"])
    except (KeyError, ValueError):
        return ENGINE_SILENCE


def log_room(environ: Mapping[str, str] = os.environ) -> int | None:
    """The bytes of disk that the log of one rank may take, by NBDIST_LOG_GB; None: as many as it wants."""
    try:
        gigabytes = float(environ["NBDIST_LOG_GB"])
    except (KeyError, ValueError):
        gigabytes = LOG_GB
    return int(gigabytes * 1e9) if gigabytes > 0 else None


def push_room(environ: Mapping[str, str] = os.environ) -> int:
    """The bytes of values that may be pushed, by NBDIST_PUSH_GB."""
    try:
        return int(float(environ["NBDIST_PUSH_GB"]) * 1e9)
    except (KeyError, ValueError):
        return int(PUSH_GB * 1e9)


LINK_KEY = "NBDIST_LINK_KEY"
"""The variable that tells a supervisor the key of its run on several machines. Ranks do not have it."""

TOOLS_ALLOW = "NBDIST_TOOLS_ALLOW"
CHANGING_TOOLS = ("start", "stop", "stacks")
"""What agents may do only where it is allowed: each leaves something on the disk, or in the process table."""


def allowed_tools(environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """What is in NBDIST_TOOLS_ALLOW."""
    return frozenset(filter(None, map(str.strip, environ.get(TOOLS_ALLOW, "").split(","))))


def filesystem_of(path: Path, mounts: str | None = None) -> str:
    """The type of the filesystem that ``path`` is or would be on ("" where it cannot be known).

    ``mounts`` is the text of /proc/self/mounts, which is read when it is not given.
    """
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


PAGE_LANGUAGE = "NBDIST_PAGE_LANG"
"""The variable of a kernel in which a page tells its language (``plugins/kernel.ts``)."""


def language(environ: Mapping[str, str] = os.environ) -> str:
    """ "zh" or "en": the language of what is shown: NBDIST_LANG's, else the page's, else the system's."""
    variables = ("NBDIST_LANG", PAGE_LANGUAGE, "LC_ALL", "LANG")
    wanted = next(filter(None, map(environ.get, variables)), "")
    return "zh" if wanted.lower().startswith(("zh", "chinese")) else "en"
