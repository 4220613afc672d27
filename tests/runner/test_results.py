"""The results of ranks, read from a run in hand."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from nbdist import runner
from nbdist.errors import NotPrivate, UnknownResult, UsageMistake

pytestmark = pytest.mark.usefixtures("leaves_nothing")

GIVING = """
import os, nbdist
rank = int(os.environ["RANK"])
class Mine:
    pass
nbdist.result(acc=0.5 + rank, pair=(rank, "é"))
if rank == 0:
    nbdist.result(mine=Mine(), long="x" * 1000)
"""


def test_results_are_read_by_name_by_rank_and_of_all(run_cell) -> None:
    results = run_cell("-n 2", GIVING).results

    assert results["acc"] == 0.5
    assert results.of(1)["acc"] == 1.5
    assert results.gather("pair") == [(0, "é"), (1, "é")]
    assert list(results) == ["acc", "pair", "mine", "long"]
    assert dict(results.of(1)) == {"acc": 1.5, "pair": (1, "é")}
    assert type(results["mine"]).__module__ == "__main__"
    assert results.get("model", 5) == 5
    with pytest.raises(UnknownResult, match=r"gave no result model: it gave acc, pair, mine, long$"):
        results["model"]
    with pytest.raises(KeyError):
        results.gather("mine")
    with pytest.raises(UsageMistake, match="has no rank 2: it has 0 to 1"):
        results.of(2)
    assert results.safe["acc"] == 0.5
    assert results.safe.of(1)["acc"] == 1.5
    with pytest.raises(UsageMistake, match=r"result mine \(Mine\) is a pickle"):
        results.safe["mine"]


def test_a_run_without_results_says_how_one_is_given(run_cell) -> None:
    handle = run_cell("-n 1", "pass")

    assert repr(handle.results) == f"results of rank 0 of {handle.run.label}: none"
    assert not handle.directory.rank(0).results.exists()
    with pytest.raises(UnknownResult, match=r"write  nbdist\.result\(acc=acc\)  in its program"):
        handle.results["acc"]


LOUD = """
import nbdist
class Loud:
    def __reduce__(self): return (print, ("LOUD",))
nbdist.result(acc=0.5, loud=Loud(), text="<b>" * 100)
"""


@pytest.mark.parametrize(
    "lie",
    [
        pytest.param({"kind": "value"}, id="that it is a value"),
        pytest.param({"kind": "array", "format": "npy"}, id="that it is an array"),
        pytest.param({"format": "json"}, id="that it is JSON"),
        pytest.param({"kind": "tensor", "format": "safetensors", "framework": "torch"}, id="a tensor"),
        pytest.param({"kind": "value", "format": "pickle"}, id="another pickle"),
        pytest.param({"kind": "value", "format": "other"}, id="what nothing reads"),
    ],
)
def test_safe_executes_nothing_whatever_the_index_says(run_cell, capfd, lie: dict[str, str]) -> None:
    handle = run_cell("-n 1", LOUD)
    folder = handle.directory.rank(0).results
    index = json.loads((folder / "loud.index.json").read_text())
    (folder / "loud.index.json").write_text(json.dumps(index | lie))
    if "format" in lie:
        (folder / index["file"]).write_bytes(b"cbuiltins\nprint\n(VLOUD\ntR.")

    with pytest.raises(UsageMistake, match="loud"):
        handle.results.safe["loud"]

    assert "LOUD" not in capfd.readouterr().out


def test_only_what_returns_values_reads_them(run_cell, capfd) -> None:
    handle = run_cell("-n 2", LOUD)
    results = handle.results

    assert "loud" in results
    assert "absent" not in results
    assert results == handle.results == results.safe
    assert results != {}
    assert results != results.of(1)
    assert results._ipython_key_completions_() == list(results) == ["acc", "loud", "text"]
    assert (len(results), bool(results)) == (3, True)
    assert "index" in dict(inspect.getmembers(results))
    _, head, first, *rows = repr(results).splitlines()
    assert head.split() == ["name", "type", "shape", "size", "format", "value"]
    assert first.split() == ["acc", "float", "3", "B", "json", "0.5"]
    assert max(map(len, rows)) < 120
    assert "&lt;b&gt;" in results._repr_html_()
    assert "<b>" not in results._repr_html_()
    assert "LOUD" not in capfd.readouterr().out
    results["loud"]
    assert capfd.readouterr().out == "LOUD\n"


def test_after_a_retry_those_of_the_last_attempt_count(run_cell) -> None:
    cell = """
import os, nbdist
again = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
nbdist.result(**{f"attempt{again}": again, "both": again})
raise SystemExit(1 - again)
"""
    handle = run_cell("-n 1 --retries 1", cell)

    assert handle.status == "finished"
    assert dict(handle.results) == {"attempt1": 1, "both": 1}


def test_results_of_a_run_that_goes_on_or_failed_can_be_read(start_cell) -> None:
    cell = "import nbdist, sys\nnbdist.result(best=1)\nprint('given', flush=True)\nsys.stdin.read()\n1 / 0"

    handle = start_cell("-n 1 -d", cell)
    handle.wait(60)

    assert handle.status == "failed"
    assert runner.attach(handle.run_id).results["best"] == 1


@pytest.mark.parametrize("which", ["the run", "the directory", "the file"])
def test_what_others_could_have_written_is_not_read(run_cell, which: str) -> None:
    handle = run_cell("-n 1", "import nbdist\nnbdist.result(x=(1, 2))")
    results = handle.results
    folder = handle.directory.rank(0).results
    path = {"the run": handle.directory.path, "the directory": folder}.get(
        which, folder / results.index["x"].file
    )

    path.chmod(0o777)

    with pytest.raises(NotPrivate, match="can be written by others"):
        results["x"]


def test_a_link_is_not_followed(run_cell, tmp_path: Path) -> None:
    handle = run_cell("-n 1", "import nbdist\nnbdist.result(x=1)")
    path = handle.directory.rank(0).results / handle.results.index["x"].file
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(UsageMistake, match="cannot be read here"):
        handle.results["x"]


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        pytest.param("x = 3\nx + 1", "4", id="a value"),
        pytest.param("'''a'''", "'a'", id="a text alone"),
        pytest.param("(\n  1,\n  2,\n)  # two", "(1, 2)", id="several lines and a comment"),
        pytest.param("x = 3\nx;", "", id="a semicolon"),
        pytest.param("'é;'  ;  # quiet", "", id="a semicolon and a comment"),
        pytest.param("'a;' # not; quiet", "'a;'", id="a semicolon in a comment"),
        pytest.param("print()", "", id="None"),
        pytest.param("x = 3", "", id="no expression"),
        pytest.param("if True:\n  3", "", id="an expression within a statement"),
        pytest.param("from __future__ import annotations\n5", "5", id="a program with a future"),
        pytest.param("# nothing", "", id="nothing"),
        pytest.param(
            "class A:\n  def __repr__(self): return 1 / 0\nA()",
            "<A whose repr raises ZeroDivisionError: division by zero>",
            id="a repr that raises",
        ),
    ],
)
def test_the_last_expression_of_rank_0_is_kept(run_cell, cell: str, shown: str) -> None:
    handle = run_cell("-n 2", cell)

    assert handle.status == "finished"
    assert handle.results.last_text == shown
    assert handle.results.of(1).last_text == ""
    assert len(handle.results) == 0


def test_a_last_expression_that_raises_has_the_traceback_of_the_program(run_cell) -> None:
    handle = run_cell("-n 1", "def f():\n  return 1 / 0\nf()")

    lines = handle.logs(0).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{handle.directory.cell}", line 3, in <module>'
    assert handle.results.last_text == ""
