"""A result that is a pickle is taken apart in the process of a user who asks for it, and nowhere else."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from nbdist.board import stop_board
from tests.magics.conftest import Kernel
from tests.server.real_server import RealServer, real_server

HOOK = """
import os, sys
def watch(event, about):
    if event == "pickle.find_class":
        with open(os.environ["WATCHED"], "a") as file:
            file.write(f"{about[0]}.{about[1]} in {sys.argv[:3]}\\n")
sys.addaudithook(watch)
with open(os.environ["WATCHED"] + ".begun", "a") as file:
    file.write(f"{' '.join(sys.orig_argv)}\\n")
"""

LOOKS = """
import nbdist
run = nbdist.attach()
print(run.results, 'loud' in run.results, run.results == {}, len(run.results), list(run.results.safe))
run.results
"""

CELL = """%%distributed -n 2 --name pickled --pull acc
import nbdist
class Loud:
    def __reduce__(self): return __import__("calendar").leapdays, (1996, 2026)
nbdist.log(step=1, loss=0.5)
nbdist.result(acc=1, loud=Loud())
"last"
"""
OURS = "calendar.leapdays"


def fetch(server: RealServer, path: str, body: object = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{server.url}/{path}", data=data, headers=server.headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode(errors="replace"))


@pytest.mark.slow
def test_no_screen_and_no_server_unpickles_what_a_rank_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    watched = tmp_path / "watched"
    monkeypatch.setenv("WATCHED", str(watched))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("NBDIST_PANEL", "widget")
    monkeypatch.setenv("NBDIST_HOME", str(tmp_path / "home"))
    kernel = Kernel(tmp_path / "home")
    try:
        assert kernel.run(CELL).status == "ok"
        shown = kernel.run(LOOKS)
        for typed in ("run.results['", "run.results['loud'].", "run.results."):
            kernel.client.complete(typed, reply=True, timeout=60)
        for magic in ("status", "attach", "logs", "export"):
            assert kernel.run(f"%dist_{magic} pickled").status == "ok"
        for words in (
            ["status", "--json"],
            ["logs"],
            ["logs", "--json"],
            ["explain", "--json"],
            ["metrics", "--json"],
            ["stacks"],
            ["board", "--export", "report.html"],
        ):
            command = [sys.executable, "-m", "nbdist", words[0], "pickled", *words[1:]]
            subprocess.run(command, cwd=tmp_path, check=words[0] != "stacks", timeout=60)
        with real_server(tmp_path) as server:
            [run] = json.loads(fetch(server, "api/runs"))["runs"]
            fetch(server, f"api/runs/{run['run_id']}")
            fetch(server, "api/board", {"run_ids": [run["run_id"]]})
        unasked = watched.read_text() if watched.exists() else ""
        processes = Path(f"{watched}.begun").read_text()

        assert kernel.run("print(run.results['loud'])").stdout == "8\n"
    finally:
        stop_board(kernel.home)
        kernel.close()

    assert shown.stdout.endswith("True False 2 ['acc', 'loud']\n")
    assert OURS not in unasked
    assert watched.read_text().count(OURS) == 1
    # the hook was in each of them; a supervisor, which reads no results, loads no site
    for name in ("ipykernel_launcher", "worker", "nbdist status", "jupyter_server", "nbdist.board"):
        assert name in processes, processes
