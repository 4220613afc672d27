"""Probes of Python, packages, frameworks, VisualDL, extensions and servers; and the repairs of ``--fix``."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from nbdist import config, labextension_install, processes
from nbdist.board.server import JupyterServer, jupyter_servers, status_of
from nbdist.devices.gpus import driver, list_gpus
from nbdist.doctor.examination_report import Entry, Level, Report, find
from nbdist.errors import LaunchError
from nbdist.labextension_install import WIDGETS as EXTENSIONS_OF_WIDGETS
from nbdist.model.decoding import MALFORMED, loads
from nbdist.preflight.capabilities import at_least, build_of, major, version_of
from nbdist.preflight.finding import Build
from nbdist.version import __version__

_NEEDED = {
    "ipykernel": "6.29",
    "ipython": "8.18",
    "ipywidgets": "8.1",
    "anywidget": "0.9.21",
    "psutil": "5.9",
}
_TESTED = ((3, 10), (3, 13))
IMPORT_SECONDS = 60.0

# for a process of its own: the kernel imports no framework
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
    "torch": {"project": "torch", "site": "pytorch.org"},
    "paddle": {"project": "paddlepaddle-gpu", "site": "paddlepaddle.org.cn"},
}


def examine_python() -> Iterator[Entry]:
    version = ".".join(map(str, sys.version_info[:3]))
    tested = _TESTED[0] <= sys.version_info[:2] <= _TESTED[1]
    yield find("python.python", Level.OK if tested else None, version=version, executable=sys.executable)
    yield find("python.nbdist", version=__version__, place=Path(config.__file__).parent)
    versions = {name: version_of(name) for name in _NEEDED}
    missing = [
        f'"{name}>={least}"' for name, least in _NEEDED.items() if not at_least(versions[name] or "0", least)
    ]
    yield find(
        "python.packages",
        None if missing else Level.OK,
        found=tuple(f"{name} {version or '-'}" for name, version in versions.items()),
        missing=" ".join(missing),
    )


def examine_framework(
    name: str,
    *,
    path: list[str] | None = None,
    question: Callable[[str], dict[str, object] | str] | None = None,
    gpus: int | None = None,
) -> Iterator[Entry]:
    """Compare a framework's build with the driver; then start it, and count the ``gpus`` that it sees."""
    build = build_of(name, sys.path if path is None else path)
    if build is None:
        yield find("frameworks.missing", name=name, project=_INSTALL[name])
        return
    gpus = len(list_gpus()) if gpus is None else gpus
    yield _build(name, build, gpus)
    yield _start(name, build, (question or ask_framework)(name), gpus)


def _build(name: str, build: Build, gpus: int) -> Entry:
    if not build.cuda:
        level = None if gpus else Level.OK
        return find("frameworks.cpu", level, name=name, version=build.version, **_GPU_INSTALL[name])
    facts = {"name": name, "version": build.version, "cuda": build.cuda}
    installed = driver()
    if installed is not None and major(build.cuda) > major(installed.cuda):
        return find("frameworks.driver-too-old", driver=installed.cuda, **facts)
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
    """Import the framework in a new process; return its facts, or why it does not start."""
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
            return dict(loads(lines[-1]))
        except MALFORMED:
            return f"import {name} printed {lines[-1][:120]!r}"
    errors = process.stderr.strip().splitlines()
    return f"import {name} failed: {errors[-1][:200] if errors else f'exit {process.returncode}'}"


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


_PROXY_NEEDED = "4.2"
_NUMBERS = re.compile(r"\d+")


def examine_notebook(*, data_paths: Sequence[str] = (), config_paths: Sequence[str] = ()) -> Iterator[Entry]:
    """Examine the installed extensions, by default on Jupyter's own paths."""
    from jupyter_core.paths import jupyter_config_path, jupyter_path

    lab = version_of("jupyterlab")
    yield find("notebook.lab", version=lab) if lab else find("notebook.no-lab")
    yield _labextension(data_paths or jupyter_path())
    yield _server_extension(config_paths or jupyter_config_path())
    if (proxy := version_of("jupyter-server-proxy")) is None:
        yield find("notebook.no-server-proxy")
    else:
        level = Level.OK if at_least(proxy, _PROXY_NEEDED) else None
        yield find("notebook.server-proxy", level, version=proxy, needed=_PROXY_NEEDED)


def _labextension(data_paths: Sequence[str]) -> Entry:
    """Examine the first extension in Jupyter's search order."""
    for path in data_paths:
        package = Path(path) / "labextensions" / "nbdist" / "package.json"
        with contextlib.suppress(OSError, *MALFORMED):
            version = str(loads(package.read_text()).get("version", "?"))
            # npm writes 0.1.0.dev0 as 0.1.0-dev.0
            same = _NUMBERS.findall(version)[:3] == _NUMBERS.findall(__version__)[:3]
            code = "notebook.labextension" if same else "notebook.labextension-old"
            return find(code, version=version, folder=package.parent, own=__version__)
    return find("notebook.no-labextension")


def _server_extension(config_paths: Sequence[str]) -> Entry:
    """Examine the first configuration that names the server extension."""
    for path in config_paths:
        for file in sorted(Path(path).glob("jupyter_server_config.d/*.json")):
            with contextlib.suppress(OSError, *MALFORMED):
                named = loads(file.read_text()).get("ServerApp", {}).get("jpserver_extensions", {})
                if "nbdist" in named:
                    code = "notebook.server-extension" if named["nbdist"] else "notebook.no-server-extension"
                    return find(code, file=file)
    return find("notebook.no-server-extension")


def examine_server(
    environ: Mapping[str, str] = os.environ, *, ask: Callable[[str, str], int] = status_of
) -> Iterator[Entry]:
    """Examine this kernel's Jupyter server, or this user's: base URL, and whether it loads nbdist."""
    servers = _own_servers(environ)
    for server in servers:
        status = ask(f"{server.url}{server.base_url}nbdist/api/runs?limit=1", server.token)
        code = {200: "notebook.server", 404: "notebook.server-without-nbdist"}.get(status)
        facts = {"base": server.base_url, "port": server.port, "pid": server.pid}
        yield find(code or "notebook.server-silent", **facts)
    if not servers:
        yield find("notebook.no-server")


def examine_page(
    environ: Mapping[str, str] = os.environ, *, ask: Callable[[str, str], int] = status_of
) -> Iterator[Entry]:
    """Examine the server's JupyterLab, which may run in another environment than this kernel."""
    for server in _own_servers(environ):
        lab, token = f"{server.url}{server.base_url}lab", server.token
        if ask(lab, token) != 200:
            continue
        if ask(f"{lab}/extensions/nbdist/package.json", token) == 404:
            yield find("notebook.page-without-nbdist")
        if any(ask(f"{lab}/extensions/{name}/package.json", token) == 404 for name in EXTENSIONS_OF_WIDGETS):
            yield find("notebook.page-without-widgets")


def _own_servers(environ: Mapping[str, str]) -> list[JupyterServer]:
    """Return the server of this kernel, else the first running ones of this user."""
    servers = [server for server in jupyter_servers(environ) if processes.identify(server.pid) is not None]
    parent = environ.get("JPY_PARENT_PID", "")
    return ([server for server in servers if str(server.pid) == parent] or servers)[:3]


def _install_labextension() -> str:
    return f"the JupyterLab extension is now in {labextension_install.install()}, reload the page"


def _install_widgets() -> str:
    places = labextension_install.install_widgets()
    return f"the extensions for widgets are now in {places[-1].parent}, reload the page"


REPAIRS = {"labextension": _install_labextension, "widgets": _install_widgets}
"""Repairs of ``--fix`` by their names in ``checks.toml``; each returns a line for the user."""


def repair(report: Report, repairs: Mapping[str, Callable[[], str]] = REPAIRS) -> list[str]:
    """Make each repair of the report once, and return their lines. Raises LaunchError or UsageMistake."""
    wanted = dict.fromkeys(entry.repair for entry in report.entries if entry.repair in repairs)
    try:
        return [repairs[name]() for name in wanted]
    except OSError as error:
        raise LaunchError(f"the extensions of JupyterLab could not be copied: {error}") from None
