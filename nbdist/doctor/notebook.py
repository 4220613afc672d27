"""The notebook around nbdist: front-end extension, server extension, the running server and its paths; and
what ``--fix`` copies there."""

from __future__ import annotations

import contextlib
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from nbdist import labextension_install, processes
from nbdist.diagnosis.checks.machine import version_of
from nbdist.diagnosis.checks.removed import at_least
from nbdist.doctor.report import Entry, Level, Report
from nbdist.errors import LaunchError
from nbdist.labextension_install import WIDGETS as EXTENSIONS_OF_WIDGETS

LABEXTENSION = "labextension"
WIDGETS = "widgets"
"""What ``--fix`` can copy, see ``REPAIRS``."""

_ANSWER_SECONDS = 2.0
_PROXY_NEEDED = "4.2"
_NUMBERS = re.compile(r"\d+")


def examine_notebook(
    *, data_paths: Sequence[str] | None = None, config_paths: Sequence[str] | None = None
) -> Iterator[Entry]:
    """The extensions as they are installed. The paths are Jupyter's own."""
    if data_paths is None or config_paths is None:
        from jupyter_core.paths import jupyter_config_path, jupyter_path

        data_paths = jupyter_path() if data_paths is None else data_paths
        config_paths = jupyter_config_path() if config_paths is None else config_paths
    lab = version_of("jupyterlab")
    yield Entry(
        section="notebook",
        title="JupyterLab",
        level=Level.OK if lab else Level.INFO,
        what=lab or "not installed in this Python: it may run from another one",
        what_zh=lab or "没有装在这个 Python 里，可能从另一个环境运行",
    )
    yield _labextension(data_paths)
    yield _server_extension(config_paths)
    yield _server_proxy(version_of("jupyter-server-proxy"))


def _labextension(data_paths: Sequence[str]) -> Entry:
    """The first place in Jupyter's search order counts."""
    for path in data_paths:
        package = Path(path) / "labextensions" / "nbdist" / "package.json"
        with contextlib.suppress(OSError, ValueError, AttributeError):
            found = str(json.loads(package.read_text()).get("version", "?"))
            own = version_of("nbdist") or found
            # 0.1.0 and 0.1.0-dev.0 there are 0.1.0.dev0 here
            same = _NUMBERS.findall(found)[:3] == _NUMBERS.findall(own)[:3]
            return Entry(
                section="notebook",
                title="JupyterLab extension",
                level=Level.OK if same else Level.WARNING,
                what=f"{found} in {package.parent}" + ("" if same else f", and nbdist is {own}"),
                what_zh=f"{found}，在 {package.parent}" + ("" if same else f"，而 nbdist 是 {own}"),
                fix="" if same else "nbdist doctor --fix , then reload the page",
                fix_zh="" if same else "nbdist doctor --fix，然后刷新页面",
                repair="" if same else LABEXTENSION,
            )
    return Entry(
        section="notebook",
        title="JupyterLab extension",
        level=Level.WARNING,
        what="not installed: panels work, the sidebar and the dashboard are missing",
        what_zh="没有安装：面板可用，但没有侧栏和总览页",
        fix="nbdist doctor --fix , then reload the page",
        fix_zh="nbdist doctor --fix，然后刷新页面",
        repair=LABEXTENSION,
    )


def _server_extension(config_paths: Sequence[str]) -> Entry:
    """Whether a configuration switches it on; the first that names it counts."""
    for path in config_paths:
        for file in sorted(Path(path).glob("jupyter_server_config.d/*.json")):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                named = json.loads(file.read_text()).get("ServerApp", {}).get("jpserver_extensions", {})
                if "nbdist" in named:
                    return _switched(bool(named["nbdist"]), file)
    return _switched(False, None)


def _switched(on: bool, file: Path | None) -> Entry:
    return Entry(
        section="notebook",
        title="server extension",
        level=Level.OK if on else Level.WARNING,
        what=f"switched on by {file}"
        if on
        else "not switched on: no dashboard, Stop through the kernel alone",
        what_zh=f"由 {file} 启用" if on else "没有启用：没有总览页，停止只能经过内核",
        fix="" if on else "jupyter server extension enable nbdist  and restart the Jupyter server",
        fix_zh="" if on else "jupyter server extension enable nbdist，然后重启 Jupyter 服务",
    )


def _server_proxy(version: str | None) -> Entry:
    old = version is not None and not at_least(version, _PROXY_NEEDED)
    return Entry(
        section="notebook",
        title="jupyter-server-proxy",
        level=Level.WARNING if old else Level.OK if version else Level.INFO,
        what=version or "not installed: the server extension shows curves without it",
        what_zh=version or "没有安装：有服务器扩展时不需要它",
        fix=f'%pip install "jupyter-server-proxy>={_PROXY_NEEDED}"  and restart the server' if old else "",
    )


def examine_server(
    environ: Mapping[str, str] = os.environ,
    *,
    runtime: Path | None = None,
    ask: Callable[[str, str], int] | None = None,
) -> Iterator[Entry]:
    """The Jupyter server of this kernel, or those of this user: base URL, whether nbdist is loaded."""
    servers = _own_servers(environ, runtime)
    if not servers:
        yield Entry(
            section="notebook",
            title="server",
            level=Level.INFO,
            what="no running Jupyter server of this user is known here",
            what_zh="这里没有发现本用户正在运行的 Jupyter 服务",
        )
        return
    for server in servers:
        yield _server(server, ask or _status_of)


def examine_page(
    environ: Mapping[str, str] = os.environ,
    *,
    runtime: Path | None = None,
    ask: Callable[[str, str], int] | None = None,
) -> Iterator[Entry]:
    """What the server's JupyterLab lacks: it may run in another environment than this kernel."""
    ask = ask or _status_of
    for server in _own_servers(environ, runtime):
        lab, token = f"{str(server.get('url', '')).rstrip('/')}/lab", str(server.get("token", ""))
        if ask(lab, token) != 200:
            continue
        if ask(f"{lab}/extensions/nbdist/package.json", token) == 404:
            yield _lacking(
                "no nbdist: the sidebar and the dashboard are missing",
                "没有 nbdist：缺少侧栏和总览页",
                LABEXTENSION,
            )
        if any(ask(f"{lab}/extensions/{name}/package.json", token) == 404 for name in EXTENSIONS_OF_WIDGETS):
            yield _lacking("it draws no widgets: panels are missing", "不能显示组件：没有面板", WIDGETS)


def _lacking(what: str, what_zh: str, repair: str) -> Entry:
    return Entry(
        section="notebook",
        title="the server's JupyterLab",
        level=Level.WARNING,
        what=f"{what}; it runs in another environment than this Python",
        what_zh=f"{what_zh}；它运行在另一个环境中",
        fix="nbdist doctor --fix , then reload the page",
        fix_zh="nbdist doctor --fix，然后刷新页面",
        repair=repair,
    )


def _own_servers(environ: Mapping[str, str], runtime: Path | None) -> list[dict[str, object]]:
    """The server of this kernel, else the first of this user's, each with a token that lets us in."""
    if runtime is None:
        from jupyter_core.paths import jupyter_runtime_dir

        runtime = Path(jupyter_runtime_dir())
    servers = list(_servers(runtime))
    parent = environ.get("JPY_PARENT_PID", "")
    servers = [one for one in servers if str(one.get("pid")) == parent] or servers
    # a hub's server has no token of its own
    hub = environ.get("JUPYTERHUB_API_TOKEN", "")
    return [one | {"token": one.get("token") or hub} for one in servers[:3]]


def _servers(runtime: Path) -> Iterator[dict[str, object]]:
    """What running servers write down about themselves: jpserver-PID.json."""
    for file in sorted(runtime.glob("jpserver-*.json")):
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(file.read_text())
            if isinstance(found, dict) and processes.identify(int(found.get("pid", 0))) is not None:
                yield found


def _server(server: Mapping[str, object], ask: Callable[[str, str], int]) -> Entry:
    base = str(server.get("base_url", "/"))
    said = f"base URL {base}, port {server.get('port')}, pid {server.get('pid')}"
    url = f"{str(server.get('url', '')).rstrip('/')}/nbdist/api/runs?limit=1"
    status = ask(url, str(server.get("token", "")))
    if status == 200:
        level, more, fix = Level.OK, "; nbdist is loaded", ""
    elif status == 404:
        level, more = Level.WARNING, "; nbdist is not loaded"
        fix = "pip install nbdist  in the server's environment, and restart the server"
    else:
        level, more, fix = Level.INFO, "", ""
    zh = {"; nbdist is loaded": "；已加载 nbdist", "; nbdist is not loaded": "；没有加载 nbdist"}.get(
        more, ""
    )
    return Entry(
        section="notebook",
        title="server",
        level=level,
        what=said + more,
        what_zh=f"base URL {base}，端口 {server.get('port')}，pid {server.get('pid')}{zh}",
        fix=fix,
        fix_zh="在服务器的环境中执行  pip install nbdist，然后重启服务器" if fix else "",
    )


def _status_of(url: str, token: str) -> int:
    """The HTTP status with which this user's own server answers; 0 when it does not."""
    request = urllib.request.Request(url, headers={"Authorization": f"token {token}"} if token else {})
    # a proxy that the environment names is not for this machine
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_ANSWER_SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, ValueError):
        return 0


def install_labextension() -> str:
    """Install it, and say what to do next. Raises LaunchError where it cannot be written."""
    try:
        place = labextension_install.install()
    except OSError as error:
        raise LaunchError(f"the JupyterLab extension could not be copied: {error}") from None
    return f"the JupyterLab extension is in {place}: reload the page"


def install_widgets() -> str:
    """Install what draws widgets, and say what to do next. Raises LaunchError where it cannot be written."""
    try:
        places = labextension_install.install_widgets()
    except OSError as error:
        raise LaunchError(f"what draws widgets could not be copied: {error}") from None
    return f"what draws widgets is in {places[-1].parent}: reload the page"


REPAIRS: Mapping[str, Callable[[], str]] = {LABEXTENSION: install_labextension, WIDGETS: install_widgets}


def repair(report: Report, repairs: Mapping[str, Callable[[], str]] = REPAIRS) -> list[str]:
    """Mend what can be mended of what was found, each once; a line for each.

    Raises LaunchError or UsageMistake for what could not be.
    """
    wanted = dict.fromkeys(entry.repair for entry in report.entries if entry.repair in repairs)
    return [repairs[name]() for name in wanted]
