"""Calls that hold a rank which others wait for: loaders, threads, files, stores, ports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.deadlocks import all_joining
from nbdist.store.reports import Call
from tests.diagnosis.hang_cells import LINES, a_program, at, reason
from tests.fakes.runs import a_spec


def test_a_key_that_is_alike_on_all_ranks_is_not_told_with_its_line(tmp_path: Path) -> None:
    text = 'key = f"model-{epoch}"\nstore.get(key)\nall_reduce(loss)\n'
    waits = at((1,), "store.get", 2, waits=False, built_in=True)

    hint = reason(a_program(tmp_path, text), waits, at((0,), "all_reduce", 3))

    assert hint.signature == "hang-store"
    assert "differ by rank" not in hint.cause.en


def test_a_thread_that_died_comes_before_what_waits_for_it(tmp_path: Path) -> None:
    held, waits = at((1,), "queue.get", 1, waits=False), at((0,), "barrier", 2)

    hint = reason(a_program(tmp_path, ""), held, waits, raised={1: "KeyError: 'x'"})

    assert hint.signature == "hang-thread"
    assert "KeyError: 'x'" in hint.cause.en


PORTS = """\
port = find_free_port()
os.environ["MASTER_PORT"] = str(port)
init_process_group("gloo")
"""


@pytest.mark.parametrize(
    ("program", "line"),
    [
        pytest.param(PORTS, 1, id="a name"),
        pytest.param(PORTS.replace("str(port)", "str(random.randint(20000, 30000))"), 2, id="at once"),
        pytest.param(PORTS.replace("find_free_port()", "29501"), None, id="one for all"),
        pytest.param(PORTS.replace("MASTER_PORT", "DASHBOARD_PORT"), None, id="another port"),
    ],
)
def test_ranks_that_choose_their_ports_by_themselves_look_at_different_places(
    tmp_path: Path, program: str, line: int | None
) -> None:
    hint = all_joining([at((0, 1), "init_process_group", 3)], 2, a_program(tmp_path, program), {})

    assert hint.signature == ("hang-joining" if line is None else "hang-port-by-rank")
    assert line is None or f"(line {line}: " in hint.cause.en


@pytest.mark.parametrize(("loads", "name"), [(True, "hang-loader"), (False, "hang-inside")])
def test_a_worker_that_is_held_is_told_by_its_line(tmp_path: Path, loads: bool, name: str) -> None:
    worker = (Call(file=a_spec().program, line=4, function="validate"),)
    held = replace(at((0,), "results.get", 22, waits=False, loads=loads), workers=(worker,))

    hint = reason(a_program(tmp_path, LINES), held, at((1,), "backward", 14))

    assert hint.signature == name
    assert hint.cause.en.startswith("rank 0 at line 22: ")
    assert hint.cause.en.endswith(", other threads or workers are at line 4")
