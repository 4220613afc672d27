"""What a run stands on, for those who compare it with others later: versions, and the commit of its program.
Nothing that is missing here keeps a run from starting."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from nbdist.launch import local
from nbdist.model import RunSpec
from nbdist.store import RunDirectory
from nbdist.store.paths import open_to_append
from nbdist.version import __version__

DRIVER = Path("/proc/driver/nvidia/version")
_VERSION = re.compile(r"\s(\d+\.\d[\d.]*)\s")
# the tree alone, as it is: no lock that the user's own git would meet, no hook of the repository
_STATUS = ("--no-optional-locks", "-c", "core.fsmonitor=false", "status")
_AS_LINES = ("--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty")


def versions_of(framework: str, *, gpus: bool, driver: Path = DRIVER) -> dict[str, str]:
    """The versions of Python, nbdist, the framework ("" for none) and, with ``gpus``, NVIDIA's driver, by
    their names. The framework is not imported."""
    found = {"Python": platform.python_version(), "nbdist": __version__}
    if framework:
        found[framework] = _framework(framework)
    if gpus:
        # what NVML is asked takes a hundred times as long
        with contextlib.suppress(OSError):
            told = _VERSION.search(driver.read_text(errors="replace"))
            found["NVIDIA driver"] = told[1] if told is not None else ""
    return {name: version for name, version in found.items() if version}


def _framework(name: str) -> str:
    from nbdist.diagnosis.checks.machine import build_of  # it reads programs

    if name in ("torch", "paddle") and (build := build_of(name, sys.path)) is not None:
        return build.version
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return ""


def ask_git(directory: RunDirectory, spec: RunSpec) -> None:
    """Let git write which commit the program's folder is at, and whether files that it tracks were changed
    since, into the run's directory. It is not waited for."""
    folder = Path(spec.cwd if directory.is_cell(spec.program) else os.path.dirname(spec.program))
    if not any((above / ".git").exists() for above in (folder, *folder.parents)):
        return
    try:
        output = open_to_append(directory.git)
        try:
            asked = subprocess.Popen(
                ["git", "-C", str(folder), *_STATUS, *_AS_LINES],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(output)
    except OSError:
        return
    local.collect(asked)
