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
from nbdist.diagnosis.checks.machine import build_of, version_of
from nbdist.diagnosis.checks.removed import at_least
from nbdist.doctor.report import Entry, Level

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
    yield Entry(
        section="python",
        title="Python",
        level=Level.OK if tested else Level.WARNING,
        what=f"{version}, {sys.executable}",
        fix="" if tested else "nbdist is tested with Python 3.10 to 3.13",
        fix_zh="" if tested else "nbdist 在 Python 3.10 到 3.13 上测试过",
    )
    yield Entry(section="python", title="nbdist", level=Level.OK, what=f"{version_of('nbdist')}, {_place()}")
    said, old = [], []
    for name, least in _NEEDED.items():
        found = version_of(name)
        said.append(f"{name} {found or '-'}")
        if found is None or not at_least(found, least):
            old.append(f'"{name}>={least}"')
    yield Entry(
        section="python",
        title="packages",
        level=Level.ERROR if old else Level.OK,
        what=", ".join(said),
        fix=f"%pip install -U {' '.join(old)}" if old else "",
    )


def _place() -> str:
    return str(Path(config.__file__).parent)


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
        yield Entry(
            section="frameworks",
            title=name,
            level=Level.INFO,
            what="not installed",
            fix=f"%pip install {_INSTALL[name]}  where you want to use it",
            what_zh="没有安装",
            fix_zh=f"需要时  %pip install {_INSTALL[name]}",
        )
        return
    yield _build(name, build, gpus)
    answer = (question or ask_framework)(name)
    yield _start(name, build, answer, gpus)


def _build(name: str, build: Build, gpus: int) -> Entry:
    what = f"{build.version}, built for {'CUDA ' + build.cuda if build.cuda else 'the CPU'}"
    what_zh = f"{build.version}，{'CUDA ' + build.cuda if build.cuda else 'CPU'} 版"
    level, fix = Level.OK, ""
    found = driver() if build.cuda else None
    if gpus and not build.cuda:
        level, fix = Level.WARNING, _GPU_INSTALL[name]
    elif found is not None and _major(build.cuda) > _major(found.cuda):
        what, what_zh = (
            f"{what}; the driver knows CUDA {found.cuda}",
            f"{what_zh}；驱动只支持 CUDA {found.cuda}",
        )
        level, fix = Level.ERROR, f"install a build for CUDA {found.cuda} or older, or a newer driver"
    return Entry(section="frameworks", title=name, level=level, what=what, what_zh=what_zh, fix=fix)


def _start(name: str, build: Build, answer: dict[str, object] | str, gpus: int) -> Entry:
    title = f"{name} starts"
    if isinstance(answer, str):
        return Entry(
            section="frameworks",
            title=title,
            level=Level.ERROR,
            what=answer,
            fix=f"%pip install --force-reinstall {_INSTALL[name]}  and restart the kernel",
            fix_zh=f"%pip install --force-reinstall {_INSTALL[name]}，然后重启内核",
        )
    seen = int(str(answer.get("gpus", 0)))
    nccl = f", NCCL {answer['nccl']}" if answer.get("nccl") else ""
    if not answer.get("distributed"):
        return Entry(
            section="frameworks",
            title=title,
            level=Level.ERROR,
            what="it was built without distributed training",
            what_zh="这个版本不带分布式训练",
            fix=f"%pip install {_INSTALL[name]}  from PyPI",
        )
    blind = bool(build.cuda) and gpus > 0 and seen == 0
    return Entry(
        section="frameworks",
        title=title,
        level=Level.ERROR if blind else Level.OK,
        what=f"sees {seen} of {gpus} GPUs{nccl}" if gpus else "on the CPU, with gloo",
        what_zh=f"看到 {gpus} 块 GPU 中的 {seen} 块{nccl}" if gpus else "在 CPU 上，用 gloo",
        fix="update the NVIDIA driver, or install a build for an older CUDA" if blind else "",
        fix_zh="更新 NVIDIA 驱动，或安装较低 CUDA 的版本" if blind else "",
    )


def _major(version: str) -> int:
    head = version.partition(".")[0]
    return int(head) if head.isdigit() else 0


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
        level, what, what_zh = Level.ERROR, "VisualDL is not installed", "没有安装 VisualDL"
    elif not at_least(version, _VISUALDL_LEAST) or at_least(version, _VISUALDL_BELOW):
        level = Level.ERROR
        what, what_zh = (
            f"VisualDL {version} is not one that nbdist knows",
            f"nbdist 不支持 VisualDL {version}",
        )
    else:
        level, what, what_zh = Level.OK, f"VisualDL {version}", f"VisualDL {version}"
    yield Entry(
        section="board",
        title="VisualDL",
        level=level,
        what=what,
        what_zh=what_zh,
        fix="" if level is Level.OK else f'%pip install "visualdl>={_VISUALDL_LEAST},<{_VISUALDL_BELOW}"',
    )
    if url := environ.get("NBDIST_PROXY_URL"):
        good = "%PORT%" in url
        yield Entry(
            section="board",
            title="NBDIST_PROXY_URL",
            level=Level.OK if good else Level.ERROR,
            what=url if good else f"{url} does not say where the port goes",
            what_zh=url if good else f"{url} 没有写端口的位置",
            fix="" if good else "%env NBDIST_PROXY_URL=/api_serving/%PORT%/",
        )
