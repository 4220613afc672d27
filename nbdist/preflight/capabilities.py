"""This machine's framework builds, memory and GPUs, as a program needs them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from importlib import machinery, metadata
from pathlib import Path

from nbdist.preflight.finding import Build, Finding, Situation, finding_of
from nbdist.preflight.program import Program

# the file with a framework's version, and patterns of version and CUDA
_FILES = {
    "torch": ("version.py", r"__version__ = ['\"]([^'\"]+)", r"^cuda(?:: [\w\[\]]+)? = ['\"]([\d.]+)"),
    "paddle": ("version/__init__.py", r"full_version\s*= ['\"]([^'\"]+)", r"cuda_version\s*= ['\"]([\d.]+)"),
}


def find_module(name: str, path: Sequence[str]) -> machinery.ModuleSpec | None:
    """Return what ``import name`` would find on ``path`` for a top-level module."""
    spec = machinery.PathFinder.find_spec(name, list(path))
    if spec is not None:
        return spec
    # built-in modules, and editable installations with their own finder
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
    """Return the build of an installed framework; None if missing or unreadable."""
    spec = find_module(framework, path)
    if spec is None or not spec.submodule_search_locations:
        return None
    file, version, cuda = _FILES[framework]
    try:
        text = (Path(spec.submodule_search_locations[0]) / file).read_text(errors="replace")
    except OSError:
        return None
    installed, for_cuda = re.search(version, text), re.search(cuda, text, re.MULTILINE)
    if installed is None:
        return None
    return Build(version=installed[1], cuda=for_cuda[1] if for_cuda is not None else "")


def version_of(distribution: str) -> str | None:
    """Return the version of an installed distribution, by its name on PyPI."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def at_least(version: str, wanted: str) -> bool:
    """Return whether a version is the wanted one or later, by the leading numbers."""
    numbers = [tuple(map(int, re.findall(r"\d+", text)[:3])) for text in (version, wanted)]
    return numbers[0] >= numbers[1]


_GB = 1e9
_LEAST_SHARED = 512 << 20
"""Bytes of /dev/shm below which workers that pass batches soon fill it (containers have 64 MB)."""

_TAKEN = 0.25  # the share of a GPU's memory that makes a process worth naming
_GPU_WHEEL = {
    "torch": "%pip install torch  from the index for CUDA",
    "paddle": "%pip install paddlepaddle-gpu",
}


def check_machine(program: Program, situation: Situation) -> Iterator[Finding]:
    yield from _workers(program, situation)
    if situation.gpus:
        yield from _builds(program, situation)
        yield from _holdings(situation)


def _workers(program: Program, situation: Situation) -> Iterator[Finding]:
    size = situation.shared_memory
    for call in program.calls if size is not None and size < _LEAST_SHARED else ():
        workers = program.value(call.argument("num_workers"))
        without = program.value(call.argument("use_shared_memory")) is False
        if call.method == "DataLoader" and isinstance(workers, int) and workers > 0 and not without:
            values = {"workers": workers, "count": situation.world_size, "size": (size or 0) >> 20}
            yield finding_of("shared-memory-small", call.line, **values)
            return


def _builds(program: Program, situation: Situation) -> Iterator[Finding]:
    for framework, wheel in _GPU_WHEEL.items():
        lines = [node.lineno for name, node in program.imports() if name.partition(".")[0] == framework]
        build = situation.build(framework) if lines else None
        if build is None:
            continue
        values = {"framework": framework, "version": build.version}
        if not build.cuda:
            yield finding_of("cpu-build", lines[0], **values, fix=wheel)
        elif situation.driver_cuda and major(build.cuda) > major(situation.driver_cuda):
            yield finding_of(
                "driver-too-old", lines[0], **values, cuda=build.cuda, driver=situation.driver_cuda
            )


def major(version: str) -> int:
    head = version.partition(".")[0]
    return int(head) if head.isdigit() else 0


def _holdings(situation: Situation) -> Iterator[Finding]:
    for held in situation.held:
        if held.gpu in situation.gpus and held.total and held.memory / held.total >= _TAKEN:
            values = {
                "gpu": str(held.gpu),
                "memory": f"{held.memory / _GB:.1f}",
                "total": f"{held.total / _GB:.0f}",
                "by": f" by {held.holder}" if held.holder else "",
                "by_zh": f"（{held.holder}）" if held.holder else "",
            }
            yield finding_of("gpu-held", **values)
