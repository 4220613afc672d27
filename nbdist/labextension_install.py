"""Puts the page's extension, and those that draw widgets, where this user's Jupyter looks for them.

For a Jupyter server that runs in another environment than nbdist, and whose environment this user cannot
change: the page then has the extension after it is loaded again, without a restart of the server.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from nbdist.errors import UsageMistake

WIDGETS = ("@jupyter-widgets/jupyterlab-manager", "anywidget")
"""The page's extensions without which it draws no widget; pip brings them beside nbdist."""

_NAME = "nbdist"
_BUILT = Path(__file__).parent / "labextension"
# the latter: pip install --target
_PREFIXES = (Path(sys.prefix), Path(__file__).parents[1])


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
    place = (data or jupyter_data()) / "labextensions" / _NAME
    _replace(place, _BUILT)
    return place


def install_widgets(data: Path | None = None, prefixes: Sequence[Path] = _PREFIXES) -> list[Path]:
    """Copies what draws widgets from this environment into ``data``; where they are now.

    Raises UsageMistake where this environment has none, and OSError where ``data`` cannot be written.
    """
    places = []
    for name in WIDGETS:
        found = [prefix / "share/jupyter/labextensions" / name for prefix in prefixes]
        built = next((path for path in found if (path / "package.json").is_file()), None)
        if built is None:
            raise UsageMistake(f"this environment has no {name}: %pip install jupyterlab_widgets anywidget")
        places.append((data or jupyter_data()) / "labextensions" / name)
        _replace(places[-1], built)
    return places


def _replace(place: Path, built: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent) as beside:
        shutil.copytree(built, Path(beside) / "new")
        if place.is_symlink() or place.exists():
            place.rename(Path(beside) / "old")
        (Path(beside) / "new").rename(place)
