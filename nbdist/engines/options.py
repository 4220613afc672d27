"""Options for engines, from ``--slurm``, ``--ray`` and the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from nbdist.errors import UsageMistake

# options of sbatch that need no value
_BARE = frozenset({"contiguous", "exclusive", "hold", "no-requeue", "overcommit", "requeue", "spread-job"})
_DECIDED = {
    "nodes": "--nodes 2",
    "gpus": "--gpus 2, as many on each node",
    "gpus-per-node": "--gpus 2",
    "ntasks": "-n 2, or --gpus 2",
    "ntasks-per-node": "-n 2, or --gpus 2",
    "job-name": "--name lenet",
    "export": "--env KEY=VALUE",
    "chdir": "--cwd DIR",
}
_REFUSED = frozenset(
    {"array", "clusters", "error", "get-user-env", "input", "kill-on-invalid-dep", "open-mode", "output"}
    | {"parsable", "quiet", "test-only", "wait", "wait-all-nodes", "wrap", "bb", "bbf", "batch", "verbose"}
    | {"cluster-constraint", "export-file", "help", "usage", "version", "signal", "uid", "gid"}
)


def parse_slurm(text: str) -> tuple[str, ...]:
    """Split ``partition=gpu,nodelist=n1,n2`` into two: a piece that is no option belongs to the value before
    it. Raises UsageMistake."""
    given: list[str] = []
    for piece in text.strip("\"'").split(","):
        key, equals, value = piece.strip().partition("=")
        named = re.fullmatch(r"[a-z][a-z-]*[a-z]", key) is not None
        if named and (equals or key in _BARE):
            given.append(f"{key}={value}" if equals else key)
        elif given and "=" in given[-1]:
            given[-1] += f",{piece}"
        else:
            raise UsageMistake(
                f"--slurm {text}: write options of sbatch:  --slurm partition=gpu,time=1:00:00"
            )
    for option in given:
        _check(*option.partition("=")[::2])
    return tuple(given)


def _check(key: str, value: str) -> None:
    if key in _DECIDED:
        raise UsageMistake(f"--slurm {key}: write  {_DECIDED[key]}  instead")
    if key in _REFUSED:
        raise UsageMistake(f"--slurm {key}: nbdist needs to choose that itself: leave it out")
    if not value.isprintable():
        raise UsageMistake(f"--slurm {key}: its value has a character that cannot be printed")


DASHBOARD_PORT = 8265
ADDRESSES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
TOKEN, TOKEN_PATH, MODE = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE"

_EXAMPLE = f"--ray http://head:{DASHBOARD_PORT}"


def parse_address(text: str, *, of: str = "--ray") -> str:
    """Return the URL of ``head``, ``head:8265`` or a URL, from the option ``of``. Raises UsageMistake."""
    text = text.strip("\"' ")
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        host, port = url.hostname or "", url.port
    except ValueError:
        host = ""
    if not host or not text.isprintable() or " " in text or text in ("auto", "local"):
        raise UsageMistake(f"{of} {text}: that is no address of a Ray's dashboard: write  {_EXAMPLE}")
    if url.scheme not in ("http", "https"):
        raise UsageMistake(
            f"{of} {text}: that is for Ray's own clients, and its dashboard is needed:  "
            f"--ray http://{host}:{DASHBOARD_PORT}"
        )
    if url.username or url.password or url.query or url.fragment:
        raise UsageMistake(f"{of}: an address alone, please: write  {_EXAMPLE}  , and  %env {TOKEN}=…")
    if port is None and "://" not in text:
        port = DASHBOARD_PORT
    shown = f"[{host}]" if ":" in host else host
    return f"{url.scheme}://{shown}" + (f":{port}" if port else "") + url.path.rstrip("/")


def find_address(written: str, environ: Mapping[str, str]) -> str:
    """Return the address that the user wrote, else that of the environment. Raises UsageMistake."""
    if written:
        return parse_address(written)
    for name in ADDRESSES:
        if text := environ.get(name, ""):
            if "://" in text:
                return parse_address(text, of=name)
            # within its jobs Ray sets the address of another server
            raise UsageMistake(
                f"{name}={text}: that does not lead to Ray's dashboard, which is an http address: write  "
                f"{_EXAMPLE}"
            )
    raise UsageMistake(f"--on ray: which one? write the address of its dashboard:  {_EXAMPLE}")


ADDRESS = "address="
"""Beginning of the engine option that has a run's Ray."""


def find_token(environ: Mapping[str, str]) -> str:
    """Return the token for Ray; empty where the user has none."""
    if environ.get(MODE, "").lower() == "disabled":
        return ""
    if token := environ.get(TOKEN, "").strip():
        return token
    path = environ.get(TOKEN_PATH) or os.path.join(environ.get("HOME") or "~", ".ray", "auth_token")
    try:
        return Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, ValueError, RuntimeError):
        return ""
