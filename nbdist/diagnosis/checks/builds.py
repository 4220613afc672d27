"""How a framework was built and which modules there are, from files alone: nothing is imported."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib import machinery, metadata
from pathlib import Path

from nbdist.diagnosis.checks.situation import Build

# where a framework writes down its version, and what its CUDA is called there
_FILES = {
    "torch": ("version.py", r"__version__ = ['\"]([^'\"]+)", r"^cuda(?:: [\w\[\]]+)? = ['\"]([\d.]+)"),
    "paddle": ("version/__init__.py", r"full_version\s*= ['\"]([^'\"]+)", r"cuda_version\s*= ['\"]([\d.]+)"),
}


def find_module(name: str, path: Sequence[str]) -> machinery.ModuleSpec | None:
    """What ``import name`` would find on ``path`` for a top-level module."""
    spec = machinery.PathFinder.find_spec(name, list(path))
    if spec is not None:
        return spec
    # built-in modules, and editable installations, which bring a finder of their own
    for finder in sys.meta_path:
        if finder is not machinery.PathFinder and hasattr(finder, "find_spec"):
            try:
                spec = finder.find_spec(name, None)
            except (ImportError, ValueError, AttributeError):
                continue
            if spec is not None:
                return spec
    return None


def is_importable(name: str, path: Sequence[str]) -> bool:
    return name in sys.stdlib_module_names or find_module(name, path) is not None


def build_of(framework: str, path: Sequence[str]) -> Build | None:
    """The build of an installed framework; None where it is not installed, or does not say."""
    spec = find_module(framework, path)
    if spec is None or not spec.submodule_search_locations:
        return None
    file, version, cuda = _FILES[framework]
    try:
        text = (Path(spec.submodule_search_locations[0]) / file).read_text(errors="replace")
    except OSError:
        return None
    found, for_cuda = re.search(version, text), re.search(cuda, text, re.MULTILINE)
    if found is None:
        return None
    return Build(version=found[1], cuda=for_cuda[1] if for_cuda is not None else "")


def version_of(distribution: str) -> str | None:
    """The version of an installed distribution, by its name on PyPI."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
