"""Where a Ray is, and what it is told to believe who asks: from ``--ray`` and from the environment, as Ray's
own commands take them. Pure, but for the file of the token."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from nbdist.errors import UsageMistake

DASHBOARD_PORT = 8265
ADDRESSES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
TOKEN, TOKEN_PATH, MODE = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE"

_EXAMPLE = f"--ray http://head:{DASHBOARD_PORT}"


def parse_address(text: str, *, of: str = "--ray") -> str:
    """``head``, ``head:8265`` or a URL as a URL; ``of`` is who said it. Raises UsageMistake."""
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


def find_address(asked: str, environ: Mapping[str, str]) -> str:
    """The address that was asked for, else that of the environment. Raises UsageMistake."""
    if asked:
        return parse_address(asked)
    for name in ADDRESSES:
        if text := environ.get(name, ""):
            if "://" in text:
                return parse_address(text, of=name)
            # what Ray sets within its own jobs leads to another of its servers
            raise UsageMistake(
                f"{name}={text}: that does not lead to Ray's dashboard, which is an http address: write  "
                f"{_EXAMPLE}"
            )
    raise UsageMistake(f"--on ray: which one? write the address of its dashboard:  {_EXAMPLE}")


def find_token(environ: Mapping[str, str]) -> str:
    """What proves to Ray who asks; empty where there is nothing of the kind."""
    if environ.get(MODE, "").lower() == "disabled":
        return ""
    if token := environ.get(TOKEN, "").strip():
        return token
    path = environ.get(TOKEN_PATH) or os.path.join(environ.get("HOME") or "~", ".ray", "auth_token")
    try:
        return Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, ValueError, RuntimeError):
        return ""
