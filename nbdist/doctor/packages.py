"""Python, the packages nbdist leans on, VisualDL, the frameworks: versions, builds, whether they start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from nbdist import config
from nbdist.devices.gpus import driver
from nbdist.diagnosis.checks.finding import Build
from nbdist.diagnosis.checks.machine import build_of, major, version_of
from nbdist.diagnosis.checks.names import at_least
from nbdist.doctor.report import Entry, Level, find

_NEEDED = {
    "ipykernel": "6.29",
    "ipython": "8.18",
    "ipywidgets": "8.1",
    "anywidget": "0.9.21",
    "psutil": "5.9",
}
_TESTED = ((3, 10), (3, 13))
IMPORT_SECONDS = 60.0

# asked in a process of its own: the kernel imports no framework
_QUESTIONS = {
    "torch": "import json,torch;c=torch.cuda;print(json.dumps(dict(version=torch.__version__,"
    "gpus=c.device_count(),distributed=torch.distributed.is_available(),"
    "nccl='.'.join(map(str,c.nccl.version())) if c.is_available() else '')))",
    "paddle": "import json,paddle;p=paddle;print(json.dumps(dict(version=p.__version__,"
    "gpus=p.device.cuda.device_count() if p.is_compiled_with_cuda() else 0,"
    "distributed=p.distributed.is_available(),"
    "nccl=str(p.version.nccl()) if p.is_compiled_with_cuda() else '')))",
}
_INSTALL = {"torch": "torch", "paddle": "paddlepaddle"}
_GPU_INSTALL = {
    "torch": "%pip install torch  from the index of a CUDA build (pytorch.org names it)",
    "paddle": "%pip install paddlepaddle-gpu  in place of paddlepaddle (paddlepaddle.org.cn names the index)",
}


def examine_python() -> Iterator[Entry]:
    version = ".".join(map(str, sys.version_info[:3]))
    tested = _TESTED[0] <= sys.version_info[:2] <= _TESTED[1]
    yield find("python.python", Level.OK if tested else None, version=version, executable=sys.executable)
    yield find("python.nbdist", version=version_of("nbdist"), place=Path(config.__file__).parent)
    found = {name: version_of(name) for name in _NEEDED}
    missing = [
        f'"{name}>={least}"' for name, least in _NEEDED.items() if not at_least(found[name] or "0", least)
    ]
    yield find(
        "python.packages",
        None if missing else Level.OK,
        found=tuple(f"{name} {version or '-'}" for name, version in found.items()),
        missing=" ".join(missing),
    )


def examine_framework(
    name: str,
    *,
    path: list[str] | None = None,
    question: Callable[[str], dict[str, object] | str] | None = None,
    gpus: int = 0,
) -> Iterator[Entry]:
    """An installed framework: its build, against the driver; then whether it starts and sees the GPUs."""
    build = build_of(name, sys.path if path is None else path)
    if build is None:
        yield find("frameworks.missing", name=name, project=_INSTALL[name])
        return
    yield _build(name, build, gpus)
    yield _start(name, build, (question or ask_framework)(name), gpus)


def _build(name: str, build: Build, gpus: int) -> Entry:
    if not build.cuda:
        level = None if gpus else Level.OK
        return find("frameworks.cpu", level, name=name, version=build.version, instead=_GPU_INSTALL[name])
    facts = {"name": name, "version": build.version, "cuda": build.cuda}
    found = driver()
    if found is not None and major(build.cuda) > major(found.cuda):
        return find("frameworks.driver-too-old", driver=found.cuda, **facts)
    return find("frameworks.cuda", **facts)


def _start(name: str, build: Build, answer: dict[str, object] | str, gpus: int) -> Entry:
    project = _INSTALL[name]
    if isinstance(answer, str):
        return find("frameworks.broken", name=name, project=project, error=answer)
    if not answer.get("distributed"):
        return find("frameworks.not-distributed", name=name, project=project)
    if not gpus:
        return find("frameworks.on-cpu", name=name)
    seen = answer.get("gpus", 0)
    level = None if build.cuda and not seen else Level.OK
    return find("frameworks.sees-gpus", level, name=name, seen=seen, gpus=gpus, nccl=answer.get("nccl"))


def ask_framework(name: str) -> dict[str, object] | str:
    """What the framework says of itself, or the last line of why it does not start."""
    try:
        process = subprocess.run(
            [sys.executable, "-c", _QUESTIONS[name]],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=IMPORT_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"import {name} took more than {IMPORT_SECONDS:g} s"
    except OSError as error:
        return f"no process could be started: {error.strerror}"
    lines = process.stdout.strip().splitlines()
    if process.returncode == 0 and lines:
        try:
            answer = json.loads(lines[-1])
        except ValueError:
            return f"import {name} said {lines[-1][:120]!r}"
        return dict(answer)
    said = process.stderr.strip().splitlines()
    return f"import {name} failed: {said[-1][:200] if said else f'exit {process.returncode}'}"


_VISUALDL_LEAST, _VISUALDL_BELOW = "2.5.3", "2.6"


def examine_board(environ: Mapping[str, str] = os.environ, *, version: str | None = None) -> Iterator[Entry]:
    version = version_of("visualdl") if version is None else version
    if not version or find_spec("visualdl") is None:
        code = "board.missing"
    elif not at_least(version, _VISUALDL_LEAST) or at_least(version, _VISUALDL_BELOW):
        code = "board.unknown"
    else:
        code = "board.visualdl"
    yield find(code, version=version, least=_VISUALDL_LEAST, below=_VISUALDL_BELOW)
    if url := environ.get("NBDIST_PROXY_URL"):
        yield find("board.proxy" if "%PORT%" in url else "board.proxy-without-port", url=url)
