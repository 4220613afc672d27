"""Requests to the board, and the form of their addresses:

    /<token>/alive                        204
    /<token>/<run_id>[~<run_id>…]/alive   204 where these runs are known
    /<token>/<run_id>[~<run_id>…]/…       VisualDL over these runs; its page is …/scalar

Behind a proxy the token is another one (``proxied_token``), and the prefix before it stays, since pages hold
addresses. For a proxy that removes its prefix the address holds it, encoded, behind the token:
``/<token>/@<prefix>/…``. A web server that authenticates for us sends the token and its path in headers.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

RUN_SEPARATOR = "~"  # in no run id, and no proxy rewrites it
PREFIX_MARK = "@"
ALIVE = "alive"

AUTHORIZATION = "Authorization"
PUBLIC_PATH = "X-Nbdist-Public-Path"


def proxied_token(token: str) -> str:
    """Return the token for a proxy: valid under any host name, and no way back to ``token``, which is not."""
    return hmac.new(token.encode(), b"proxied", "sha256").hexdigest()


def page(run_ids: Sequence[str]) -> str:
    """Return the path, below the token, of the page with the scalars of these runs."""
    if not run_ids:
        raise ValueError("a board shows at least one run")
    return f"{RUN_SEPARATOR.join(run_ids)}/scalar"


def encoded(prefix: str) -> str:
    """Return a path as one segment of another one."""
    return PREFIX_MARK + base64.urlsafe_b64encode(prefix.encode()).decode().rstrip("=")


_LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRequest:
    """A request for a view, which the browser sees at ``public_path``. ``path`` is the whole request, with
    any prefix that a proxy removed; ``below`` is its part behind the view. ``direct``: without a proxy."""

    runs: tuple[str, ...]
    public_path: str
    path: str
    below: str
    direct: bool


class Refused(Exception):
    """An answer with this status, and no view."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def read_request(environ: Mapping[str, Any], token: str) -> BoardRequest:
    """Read a WSGI request. Raises Refused."""
    path = environ.get("PATH_INFO", "")
    given = environ.get("HTTP_AUTHORIZATION", "")
    if given and hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        prefix = environ.get("HTTP_X_NBDIST_PUBLIC_PATH", "")
        # quoted as in an address (/user/ann%40example.org), while WSGI has decoded the path
        plain = unquote(prefix, "latin-1")
        if not path.startswith(f"{plain}/"):
            raise Refused(404, "Not found.\n")
        return _view(prefix, path[len(plain) + 1 :], direct=False)
    before, valid, rest = _around(path, (token, proxied_token(token)))
    direct = valid == token
    # a page elsewhere can let its own name resolve to 127.0.0.1, but not change this header
    if not _LOOPBACK.fullmatch(environ.get("HTTP_HOST", "")) and (direct or not valid):
        raise Refused(403, "This server answers to this machine only.\n")
    if not valid or (direct and before):
        raise Refused(404, "Not found.\n")
    mark, _, behind = rest.partition("/")
    if mark.startswith(PREFIX_MARK) and not direct:
        return _view(f"{_decoded(mark)}/{valid}/{mark}", behind, direct=direct)
    return _view(f"{before}/{valid}", rest, direct=direct)


def _around(path: str, tokens: tuple[str, ...]) -> tuple[str, str, str]:
    """Return the path before a token, the token, and the path behind it; empty without a token."""
    parts = path.split("/")
    for place, part in enumerate(parts):
        for token in tokens:
            if hmac.compare_digest(part.encode(), token.encode()):
                return "/".join(parts[:place]), token, "/".join(parts[place + 1 :])
    return "", "", ""


def _view(prefix: str, rest: str, *, direct: bool) -> BoardRequest:
    name, slash, below = rest.partition("/")
    return BoardRequest(
        runs=tuple(dict.fromkeys(name.split(RUN_SEPARATOR))),
        public_path=f"{prefix}/{name}",
        path=f"{prefix}/{name}{slash}{below}",
        below=below,
        direct=direct,
    )


def _decoded(mark: str) -> str:
    text = mark.removeprefix(PREFIX_MARK)
    try:
        prefix = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise Refused(404, "Not found.\n") from None
    # it becomes part of pages and headers
    if not re.fullmatch(r"(/[\w.~%@:+-]+)*", prefix, re.ASCII):
        raise Refused(404, "Not found.\n")
    return prefix
