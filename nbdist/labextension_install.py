"""Puts the page's extension where this user's Jupyter looks for it.

For a Jupyter server that runs in another environment than nbdist, and whose environment this user cannot
change: the page then has the extension after it is loaded again, without a restart of the server.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from nbdist.errors import UsageMistake

_NAME = "nbdist"
_BUILT = Path(__file__).parent / "labextension"


def jupyter_data(environment: Mapping[str, str] = os.environ) -> Path:
    """Where Jupyter keeps what one user has installed (``jupyter --data-dir``), JUPYTER_DATA_DIR first."""
    if chosen := environment.get("JUPYTER_DATA_DIR"):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Jupyter"
    shared = environment.get("XDG_DATA_HOME")
    return (Path(shared) if shared else Path.home() / ".local" / "share") / "jupyter"


def installed(data: Path | None = None) -> bool:
    """Whether this very extension is there: after an upgrade of nbdist it is not."""
    place = (data or jupyter_data()) / "labextensions" / _NAME / "package.json"
    try:
        return place.read_bytes() == (_BUILT / "package.json").read_bytes()
    except OSError:
        return False


def install(data: Path | None = None) -> Path:
    """Copies the extension into ``data`` (this user's by default) and returns where it is now.

    What was there before is replaced at once, so that a page which is being loaded gets one or the other.
    Raises UsageMistake where this nbdist was never built, and OSError where ``data`` cannot be written.
    """
    if not (_BUILT / "package.json").is_file():
        raise UsageMistake("this checkout of nbdist has no built page: run  make  in it")
    folder = (data or jupyter_data()) / "labextensions"
    place = folder / _NAME
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{_NAME}-", dir=folder) as beside:
        shutil.copytree(_BUILT, Path(beside) / "new")
        if place.is_symlink() or place.exists():
            place.rename(Path(beside) / "old")
        (Path(beside) / "new").rename(place)
    return place
