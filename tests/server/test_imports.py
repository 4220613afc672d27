"""Imports of a server that starts, and those that a kernel does without."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nbdist.server.app import ROUTES, NbdistApp

ROOT = Path(__file__).parents[2]
HEAVY = ("anywidget", "ipywidgets", "torch", "paddle", "visualdl", "flask", "nbdist.runner", "nbdist.magics")


def loaded_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return set(json.loads(out))


def test_a_server_that_starts_loads_next_to_nothing_of_it() -> None:
    loaded = loaded_after("import nbdist; nbdist._jupyter_server_extension_points()")

    ours = {name for name in loaded if name.startswith("nbdist")}
    assert ours == {"nbdist", "nbdist.importing", "nbdist.config", "nbdist.server", "nbdist.server.app"}


def test_the_server_loads_nothing_that_it_does_not_need() -> None:
    loaded = loaded_after("from nbdist.server.app import *; [handler_named(it) for it in ROUTES.values()]")

    assert "nbdist.server.socket" in loaded
    assert loaded.isdisjoint(HEAVY)


async def test_a_server_that_is_up_loads_the_rest(jp_serverapp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    imported: list[str] = []

    def handler_named(name: str) -> None:
        imported.append(name)
        if len(imported) == len(ROUTES):
            loop.call_soon_threadsafe(done.set)

    monkeypatch.setattr("nbdist.server.app.handler_named", handler_named)
    monkeypatch.setattr("nbdist.server.app._LATER", 0.0)

    await NbdistApp()._start_jupyter_server_extension(jp_serverapp)
    await asyncio.wait_for(done.wait(), 20)

    assert imported == list(ROUTES.values())


def test_a_rank_or_a_kernel_loads_no_server() -> None:
    loaded = loaded_after("import nbdist; nbdist.log")

    assert not {name for name in loaded if name.startswith(("nbdist.server", "jupyter_server", "tornado"))}


def test_an_installation_enables_the_extension() -> None:
    config = json.loads((ROOT / "jupyter-config/jupyter_server_config.d/nbdist.json").read_text())
    project = (ROOT / "pyproject.toml").read_text()

    assert config == {"ServerApp": {"jpserver_extensions": {"nbdist": True}}}
    assert '"jupyter-config/jupyter_server_config.d" = "etc/jupyter/jupyter_server_config.d"' in project
