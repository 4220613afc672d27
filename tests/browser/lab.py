"""A real JupyterLab and a real Chromium, driven as a user would."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import nbformat
from playwright.sync_api import Browser, Error, Locator, Page, expect

from nbdist.board import stop_board

CHROMIUM_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_NUMBER = re.compile(r"\[\d+\]")
TOKEN = "for-the-tests-alone"


def chromium() -> str | None:
    """Return the path of the system's Chromium; None without one."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class LabServer:
    """A JupyterLab with configuration, data and runs of its own, on a free port of loopback."""

    entry = f"token={TOKEN}&reset"
    """The end of a page's address, for a browser that has not logged in."""

    def __init__(
        self,
        root: Path,
        *options: str,
        without: Sequence[str] = (),
        base_url: str = "/",
        python: str = sys.executable,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """``options`` are further ones of the command line; ``without`` names lab extensions to disable;
        ``variables`` are added to the environment."""
        self.root = root
        self.base_url = base_url
        self._variables = dict(variables or {})
        self.settings = 0
        self.notebooks = root / "notebooks"
        self.home = root / "nbdist"
        self.notebooks.mkdir()
        self.set_up("notification", {"fetchNews": "false", "checkForUpdates": False})
        disabled = root / "config/labconfig/page_config.json"
        disabled.parent.mkdir(parents=True)
        disabled.write_text(json.dumps({"disabledExtensions": dict.fromkeys(without, True)}))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = root / "lab.log"
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT)
        self._process = subprocess.Popen(
            [
                python,
                "-m",
                "jupyterlab",
                "--no-browser",
                "--allow-root",
                "--ip=127.0.0.1",
                f"--port={self.port}",
                "--ServerApp.port_retries=0",
                f"--IdentityProvider.token={TOKEN}",
                f"--ServerApp.base_url={base_url}",
                f"--ServerApp.root_dir={self.notebooks}",
                "--LabApp.expose_app_in_browser=True",
                "--JupyterNotebookApp.expose_app_in_browser=True",
                "--LabApp.news_url=None",
                "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
                *options,
            ],
            env=self._environment(),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        os.close(log)

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "NBDIST_HOME": str(self.home),
            "JUPYTER_CONFIG_DIR": str(self.root / "config"),
            "JUPYTER_DATA_DIR": str(self.root / "data"),
            "JUPYTER_RUNTIME_DIR": str(self.root / "runtime"),
            "IPYTHONDIR": str(self.root / "ipython"),
            "LANG": "en_US.UTF-8",
            # nbclassic's requests are told from a console's by the name of the user
            "USER": os.environ.get("USER", "someone"),
            **self._variables,
        }

    def set_up(self, plugin: str, settings: dict[str, object]) -> None:
        """Write a user's settings of one of JupyterLab's own plugins; pages opened later have them."""
        self.settings += 1
        write_settings(self.root / "config", plugin, settings)

    def wait_until_up(self, limit: float = 60.0) -> None:
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            assert self._process.poll() is None, self.log.read_text()
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}api", timeout=5):
                return
            time.sleep(0.1)
        raise AssertionError(self.log.read_text())

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # VisualDL's server would go by itself, after a quarter of an hour
        stop_board(self.home)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.base_url}"

    def write_notebook(self, name: str, *cells: str, kernel: str = "python3") -> Path:
        """Write a notebook with these code cells."""
        return write_notebook(self.notebooks / name, *cells, kernel=kernel)


def write_settings(config: Path, plugin: str, settings: dict[str, object]) -> None:
    """Write settings of one of JupyterLab's own plugins for the user whose configuration is there."""
    folder = config / "lab/user-settings/@jupyterlab/apputils-extension"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{plugin}.jupyterlab-settings").write_text(json.dumps(settings))


def write_notebook(path: Path, *cells: str, kernel: str = "python3") -> Path:
    """Write a notebook with these code cells, for the kernel of that name."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata["kernelspec"] = {"name": kernel, "display_name": kernel, "language": "python"}
    nbformat.write(notebook, path)
    return path


def unfolded(panel: Locator) -> Locator:
    """Open the panel of a run that has finished, which is one line; return the panel."""
    panel.locator(".nbdist-details[aria-expanded=false]").click(timeout=20_000)
    return panel


class NotebookServer(Protocol):
    """A server of notebooks: ``url`` ends with a slash, ``entry`` comes behind the question mark."""

    @property
    def url(self) -> str: ...
    @property
    def entry(self) -> str: ...


class LabPage:
    """A notebook that is open in JupyterLab (or, by its ``folder``, in Notebook 7), with a kernel that is
    ready."""

    cells = ".jp-Notebook .jp-Cell"
    prompt = ".jp-InputPrompt"

    def __init__(
        self,
        server: NotebookServer,
        page: Page,
        notebook: Path,
        folder: str = "lab/tree",
        *,
        theme: str = "JupyterLab Light",
    ) -> None:
        self.server = server
        self.page = page
        self.path = notebook
        loaded = f"{server.url}{folder} {getattr(server, 'settings', 0)}"
        if page.evaluate("window.nbdistKept") == loaded:
            page.evaluate(_OPEN, notebook.name)
        else:
            page.goto(f"{server.url}{folder}/{notebook.name}?{server.entry}")
        page.locator(self.cells).first.wait_for(timeout=60_000)
        self.wait_until_ready()
        self.change_theme(theme)
        # opened again by the same test it is loaded again
        page.evaluate("loaded => { window.nbdistLoaded = loaded; delete window.nbdistKept }", loaded)

    def wait_until_ready(self) -> None:
        """Wait until the kernel accepts requests; the page's indicator is "idle" before that."""
        self.page.wait_for_function(
            """async () => {
                const widget = window.jupyterapp?.shell.currentWidget;
                if (!widget?.sessionContext) return false;
                await widget.sessionContext.ready;
                return widget.sessionContext.session?.kernel?.status === 'idle';
            }""",
            # not at each frame, which the page would draw for it
            polling=100,
            timeout=60_000,
        )

    def change_theme(self, theme: str) -> None:
        """Show the page in a theme. The server keeps it as the user's, and the next LabPage changes it back:
        to load JupyterLab anew would take as long as a test."""
        if self.page.evaluate("document.body.dataset.jpThemeName") == theme:
            return
        self.page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", theme
        )
        self.page.wait_for_function("theme => document.body.dataset.jpThemeName === theme", arg=theme)

    def run(self, index: int) -> None:
        """Start the cell; do not wait for it."""
        self.page.evaluate(
            """index => {
                const widget = window.jupyterapp.shell.currentWidget;
                widget.content.activeCellIndex = index;
                window.jupyterapp.commands.execute('notebook:run-cell');
            }""",
            index,
        )

    def start(self, index: int) -> Locator:
        """Start the cell of a run; return its panel."""
        self.run(index)
        return self.cell(index).locator(".nbdist")

    def run_and_wait(self, index: int, timeout: float = 60.0) -> None:
        self.run(index)
        self.wait_for_end(index, timeout)

    def wait_for_end(self, index: int, timeout: float = 60.0) -> None:
        prompt = self.cell(index).locator(self.prompt)
        expect(prompt).to_have_text(_NUMBER, timeout=timeout * 1000)

    def cell(self, index: int) -> Locator:
        return self.page.locator(self.cells).nth(index)

    def save(self) -> None:
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")


class ClassicPage(LabPage):
    """A notebook that is open in nbclassic."""

    cells = "#notebook .cell"
    prompt = ".input_prompt"

    def __init__(self, server: NotebookServer, page: Page, notebook: Path) -> None:
        super().__init__(server, page, notebook, "nbclassic/notebooks")

    def change_theme(self, theme: str) -> None:
        """It has one."""

    def wait_until_ready(self) -> None:
        self.page.wait_for_function("() => window.Jupyter?.notebook?.kernel?.info_reply?.status === 'ok'")

    def run(self, index: int) -> None:
        self.page.evaluate("index => window.Jupyter.notebook.execute_cells([index])", index)

    def save(self) -> None:
        self.page.evaluate("() => window.Jupyter.notebook.save_notebook()")


# a page sends back what a function returns, and the widget of a notebook is megabytes
_OPEN = """async name => {
    await window.jupyterapp.commands.execute('docmanager:open', { path: name, factory: 'Notebook' });
}"""
_CLEAR = """() => {
    const app = window.jupyterapp;
    const asks = document.querySelector('.jp-Dialog');
    if (!window.nbdistLoaded || !app?.shell.collapseRight || asks) return false;
    for (const widget of [...app.shell.widgets('main')]) widget.dispose();
    document.querySelectorAll('.Toastify__close-button').forEach(button => button.click());
    document.documentElement.lang = 'en';
    window.nbdistKept = window.nbdistLoaded;
    localStorage.clear();
    app.shell.collapseRight();
    app.shell.activateById('filebrowser');
    return true;
}"""
"""As a page is that has just been loaded: JupyterLab takes 7 s of processor time for that."""


@dataclass(frozen=True)
class _Kept:
    """A page, kept for the next test, and the script errors in it."""

    page: Page
    errors: list[str]


_kept: dict[tuple[Browser, str], _Kept] = {}

_CANCELLED = "Canceled future for"
"""JupyterLab's error about a request to a kernel that has gone or was interrupted meanwhile."""
_DISPOSED = "Cannot read properties of null (reading 'promise')"
"""Its rate limiter's error about a notebook closed before its turn, maybe by the test before."""
_CLOSED = "Kernel connection is disposed"
"""Its error where it restarts a kernel that died, of a notebook closed meanwhile."""


@contextlib.contextmanager
def new_page(
    browser: Browser,
    *,
    width: int = 1200,
    height: int = 900,
    locale: str = "en-US",
    known: str = "",
    keep: bool = True,
) -> Iterator[Page]:
    """Yield a page as new. Its script errors fail the test, except those of others and those that contain
    ``known``. A page with JupyterLab is kept for the next test unless ``keep`` is False; its sidebar stays as
    it was."""
    kept = (keep and _kept.pop((browser, locale), None)) or _load(browser, locale)
    page, errors = kept.page, kept.errors
    page.set_viewport_size({"width": width, "height": height})
    cleared = False
    try:
        yield page
        with contextlib.suppress(Error):
            page.unroute_all()
            cleared = keep and page.evaluate(_CLEAR)
    finally:
        if not cleared:
            page.context.close()
    others = (_CANCELLED, _DISPOSED, _CLOSED, *([known] if known else []))
    ours = [text for text in errors if _is_ours(text) or not any(words in text for words in others)]
    assert not ours, errors
    if cleared:
        # those that the test knew
        errors.clear()
        _kept[browser, locale] = kept


@contextlib.contextmanager
def notebook_page(
    server: LabServer,
    browser: Browser,
    name: str,
    *cells: str,
    first: str = "%load_ext nbdist",
    ran: int = 0,
    kernel: str = "python3",
    theme: str = "JupyterLab Light",
    **look: Any,
) -> Iterator[tuple[LabPage, Page]]:
    """Open a new notebook with ``cells`` below ``first``, in its own page; run its cells up to ``ran``."""
    notebook = server.write_notebook(f"{name}.ipynb", first, *cells, kernel=kernel)
    with new_page(browser, **look) as page:
        lab = LabPage(server, page, notebook, theme=theme)
        for index in range(ran + 1):
            lab.run_and_wait(index)
        yield lab, page


def close_kept_pages() -> None:
    """Close kept pages before their server ends: JupyterLab would miss it in the next test."""
    while _kept:
        _kept.popitem()[1].page.context.close()


def _load(browser: Browser, locale: str) -> _Kept:
    page = browser.new_context(locale=locale).new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(error.stack or str(error)))
    return _Kept(page, errors)


def _is_ours(stack: str) -> bool:
    """Return whether the extension or the panel, which anywidget loads from a blob, raised an error."""
    return "extensions/nbdist" in stack or "blob:" in stack
