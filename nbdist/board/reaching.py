"""How a browser reaches the board: directly, or through what stands between it and this machine.

In this order: ``NBDIST_PROXY_URL`` (``https://host/api_serving/%PORT%/``), where somebody says it; the
route of nbdist's own server extension; jupyter-server-proxy. The last two are asked, not guessed: only a
Jupyter server itself knows what it passes on. They are a path on the server that the notebook's page is
from, so they are right whatever that page calls its host. Else the port on this machine, which only a
browser on this machine reaches.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.parse import urlsplit

from nbdist.board.addresses import ALIVE, RUN_SEPARATOR, page
from nbdist.board.jupyter import JupyterServer, find_jupyter
from nbdist.board.server import Board
from nbdist.errors import UsageMistake

EXTENSION = "nbdist/visualdl"
"""Below a Jupyter server's base URL: the board behind nbdist's own server extension."""

_HOSTED = ("JUPYTERHUB_SERVICE_PREFIX", "COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """``url`` is what a page opens, a path where it is of the page's own server; empty where no browser
    can reach the board, and then ``problem`` says why and what to do. ``direct``: only a browser on this
    machine reaches it, and whether it is one, only it can say."""

    url: str = ""
    direct: bool = False
    problem: str = ""


def reach(
    board: Board,
    run_ids: Sequence[str],
    viewer: str = "",
    *,
    environ: Mapping[str, str] = os.environ,
) -> Reach:
    """The best way there. Raises UsageMistake for an NBDIST_PROXY_URL that is none."""
    if template := environ.get("NBDIST_PROXY_URL"):
        return Reach(url=_by_template(template, board, run_ids, viewer))
    jupyter = find_jupyter(environ)
    if jupyter is not None and (path := _behind(jupyter, board, run_ids, viewer)):
        return Reach(url=path)
    if any(name in environ for name in _HOSTED) or "google.colab" in sys.modules:
        return Reach(
            problem="this notebook is hosted elsewhere and its server passes no ports on: "
            "%pip install jupyter-server-proxy  and start the server again, or set NBDIST_PROXY_URL to the "
            "address of its ports, with %PORT% for the number"
        )
    return Reach(url=board.url(run_ids, viewer), direct=True)


def _by_template(template: str, board: Board, run_ids: Sequence[str], viewer: str) -> str:
    if "%PORT%" not in template:
        raise UsageMistake(
            f"NBDIST_PROXY_URL={template} has no %PORT%: write it as  https://host/api_serving/%PORT%/"
        )
    address = urlsplit(template.replace("%PORT%", str(board.port)))
    origin = f"{address.scheme}://{address.netloc}" if address.netloc else ""
    return origin + board.path(run_ids, address.path.rstrip("/"), viewer, stripped=True)


def _behind(jupyter: JupyterServer, board: Board, run_ids: Sequence[str], viewer: str) -> str:
    """The path on the Jupyter server; empty where it passes nothing on."""
    extension = f"{jupyter.base_url}{EXTENSION}"
    # its home may be another one than ours: does it know these runs?
    if jupyter.answers(f"{extension}/{RUN_SEPARATOR.join(run_ids)}/{ALIVE}"):
        return f"{extension}/{page(run_ids, viewer)}"
    prefix = f"{jupyter.base_url}proxy/absolute/{board.port}"
    path = board.path(run_ids, prefix, viewer)
    answer = jupyter.answers(board.path(run_ids, prefix).removesuffix("scalar") + ALIVE)
    # where we are not let in to ask, what is installed beside us is the best guess
    if answer or (answer is None and find_spec("jupyter_server_proxy") is not None):
        return path
    return ""
