"""The addresses of the board: how they are written. ``asked`` reads them.

    /<token>/alive                        204
    /<token>/<run_id>[~<run_id>…]/alive   204 where these runs are known
    /<token>/<run_id>[~<run_id>…]/…       VisualDL over these runs; its page is …/scalar
    /<token>/tensorboard/<run_id>[…]/     TensorBoard over them

A proxy may put something in front of all that: then the token is another one (``proxied_token``), and what
stands before it is kept, since the pages hold addresses. A proxy that takes its prefix away again has left
no trace of it, so such an address says it itself, encoded, behind the token: ``/<token>/@<prefix>/…``. And
a web server that authenticates for us sends the token in a header, with the path that is its own.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence

RUN_SEPARATOR = "~"  # in no run id, and no proxy rewrites it
PREFIX_MARK = "@"
ALIVE = "alive"
TENSORBOARD = "tensorboard"
VISUALDL = ""

AUTHORIZATION = "Authorization"
PUBLIC_PATH = "X-Nbdist-Public-Path"


def proxied_token(token: str) -> str:
    """What stands for ``token`` in an address that goes through a proxy.

    Such an address is taken under any host's name, the other one under this machine's alone; who has seen
    the one cannot make the other.
    """
    return hmac.new(token.encode(), b"proxied", "sha256").hexdigest()


def page(run_ids: Sequence[str], viewer: str = VISUALDL) -> str:
    """The page over these runs, below the token; in VisualDL that of the scalars."""
    if not run_ids:
        raise ValueError("a board shows at least one run")
    runs = RUN_SEPARATOR.join(run_ids)
    return f"{viewer}/{runs}/" if viewer else f"{runs}/scalar"


def encoded(prefix: str) -> str:
    """A path as one segment of another one."""
    return PREFIX_MARK + base64.urlsafe_b64encode(prefix.encode()).decode().rstrip("=")
