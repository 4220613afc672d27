"""Copy the page's extension, and those that draw widgets, to where this user's Jupyter looks for them.

This serves a Jupyter server of another environment that this user cannot change; the page is loaded again.
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
    """Return the folder of what one user has installed, as ``jupyter --data-dir`` prints it."""
    if chosen := environment.get("JUPYTER_DATA_DIR"):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Jupyter"
    shared = environment.get("XDG_DATA_HOME")
    return (Path(shared) if shared else Path.home() / ".local" / "share") / "jupyter"


def installed(data: Path | None = None) -> bool:
    """Return whether this very extension is there: after an upgrade of nbdist it is not."""
    place = (data or jupyter_data()) / "labextensions" / _NAME / "package.json"
    try:
        return place.read_bytes() == (_BUILT / "package.json").read_bytes()
    except OSError:
        return False


def install(data: Path | None = None) -> Path:
    """Copy the extension into ``data`` (this user's by default), replacing another at once; return its
    folder.

    Raises UsageMistake where this nbdist was never built, and OSError.
    """
    if not (_BUILT / "package.json").is_file():
        raise UsageMistake("this checkout of nbdist has no built page: run  make  in it")
    place = (data or jupyter_data()) / "labextensions" / _NAME
    _replace(place, _BUILT)
    return place


def install_widgets(data: Path | None = None, prefixes: Sequence[Path] = _PREFIXES) -> list[Path]:
    """Copy the extensions that draw widgets from this environment into ``data``; return their folders.

    Raises UsageMistake where this environment lacks one, and OSError.
    """
    places = []
    for name in WIDGETS:
        paths = (prefix / "share/jupyter/labextensions" / name for prefix in prefixes)
        built = next((path for path in paths if (path / "package.json").is_file()), None)
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
