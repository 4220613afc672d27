"""Front ends with and without a panel, and machines on which no process can start."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.magics.presentation import draws_widgets, why_interrupted

VOILA = {"SERVER_SOFTWARE": "voila/0.5.13"}


def a_kernel(**parent: object) -> Any:
    """Return a shell whose kernel serves this request; by default that of a front end without a page."""
    return SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda: parent))


@pytest.mark.parametrize(
    ("shell", "variables", "marimo", "draws"),
    [
        pytest.param(a_kernel(), {}, None, False, id="papermill"),
        pytest.param(a_kernel(metadata={"cellId": "a1"}), {}, None, True, id="JupyterLab"),
        pytest.param(a_kernel(), VOILA, None, True, id="Voilà"),
        pytest.param(None, {}, True, True, id="a page of marimo"),
        pytest.param(None, {}, False, False, id="a script that imports marimo"),
        pytest.param(None, {}, None, False, id="a script"),
        pytest.param(None, VOILA, None, False, id="a script that a cell of Voilà starts"),
        pytest.param(a_kernel(), VOILA | {"NBDIST_PANEL": "text"}, None, False, id="text asked for"),
    ],
)
def test_a_panel_is_drawn_where_a_page_draws_widgets(
    monkeypatch: pytest.MonkeyPatch, shell: Any, variables: dict[str, str], marimo: bool | None, draws: bool
) -> None:
    for name in ("NBDIST_PANEL", "SERVER_SOFTWARE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if marimo is not None:
        monkeypatch.setitem(sys.modules, "marimo", SimpleNamespace(running_in_notebook=lambda: marimo))

    assert draws_widgets(shell) is draws


def test_a_kernel_in_the_browser_is_told_that_nothing_can_be_started_there() -> None:
    # as JupyterLite does for  %load_ext nbdist  ; its Python has neither psutil nor subprocess
    code = (
        "import sys; sys.platform = 'emscripten'; known = set(sys.modules)\n"
        "import nbdist; nbdist.load_ipython_extension(None)\n"
        "print(*sorted(set(sys.modules) - known))"
    )
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    message, imported = output.splitlines()
    assert message.startswith("nbdist cannot run here")
    assert imported.split() == ["__future__", "nbdist", "nbdist.importing"]


@pytest.mark.parametrize(
    ("shutdown", "reason"),
    [
        pytest.param({"content": {"restart": True}}, "kernel-restarted", id="a restart"),
        pytest.param({"content": {"restart": False}}, "kernel-ended", id="a shutdown"),
        pytest.param(None, "kernel-interrupted", id="an interrupt"),
    ],
)
def test_a_server_interrupts_a_kernel_before_it_restarts_it(shutdown: object, reason: str) -> None:
    assert why_interrupted(SimpleNamespace(_shutdown_message=shutdown)).code == reason
