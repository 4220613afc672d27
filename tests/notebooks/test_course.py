"""The course: every notebook runs, says what it promises, and is the same in both languages."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tokenize
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.notebooks.course import CHINESE, COURSE, FOLDER, LIMIT, PATIENCE, Executing, read, tags

pytestmark = [
    pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed"),
    pytest.mark.timeout(PATIENCE),
]

FAILING = "06-when-it-goes-wrong"
EVERY = pytest.mark.parametrize("name", COURSE)
WORDS = (tokenize.COMMENT, tokenize.STRING, tokenize.NL, getattr(tokenize, "FSTRING_MIDDLE", -1))


def code_of(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def without_words(source: str) -> list[str]:
    """Return a cell's commands as they are, and its program without comments and strings."""
    lines = source.splitlines(keepends=True)
    commands = [line for line in lines if line.startswith(("%", "!"))]
    program = "".join(line for line in lines if not line.startswith(("%", "!")))
    tokens = tokenize.generate_tokens(io.StringIO(program).readline)
    return commands + [token.string for token in tokens if token.type not in WORDS]


@EVERY
def test_a_notebook_runs_from_top_to_bottom(name: str, executed: Executing) -> None:
    result = executed(name)

    assert not result.error
    assert result.seconds < LIMIT * result.crowd
    assert not result.left


@EVERY
def test_every_run_of_a_notebook_ends_as_its_cell_is_tagged(name: str, executed: Executing) -> None:
    result = executed(name)

    for cell in result.cells:
        if match := re.search(r"^%%distributed .*--name (\S+)", cell.source):
            run = result.runs.get(match[1])
            expected = "finished"
            if "raises-exception" in tags(cell):
                expected = "failed"
            elif "--hang-after" in cell.source or "--debug" in cell.source:
                expected = "stopped"
            # a cell that is refused before the launch has no run
            if run is not None or expected == "finished":
                assert run is not None, match[1]
                assert run.status == expected, run.logs(0)


REPORTS = [
    pytest.param(
        "devices", ("at line 7 of the cell", "two devices meet"), id="devices"
    ),
    pytest.param("iterable", ("at line 18 of the cell", "takes no sampler"), id="an iterable with a sampler"),
    pytest.param("device-ids", ("at line 10 of the cell", "device_ids on the CPU"), id="the wrong GPU"),
    pytest.param(
        "only-rank-0",
        ("rank 1 failed first", "at line 11 of the cell", "first, on every rank"),
        id="only rank 0 initialises",
    ),
    pytest.param("shuffle", ("at line 8 of the cell", "remove shuffle=True"), id="shuffle and a sampler"),
    pytest.param("world-size", ("at line 8 of the cell", "remove world_size and rank"), id="no GPU to count"),
    pytest.param(
        "undefined",
        ("the cell uses learning_rate", "--push learning_rate"),
        id="a name of another cell",
    ),
    pytest.param("fluid", ("line 3 of the cell", "removed in 2.5", "paddle.nn.Conv2D"), id="paddle.fluid"),
    pytest.param("apex", ("line 5 of the cell", "torch.amp"), id="apex"),
]


@pytest.mark.parametrize(("run", "expected"), REPORTS)
def test_a_failing_cell_says_which_rank_which_line_and_what_to_change(run: str, expected: tuple[str, ...], executed: Executing) -> None:
    if run == "fluid" and find_spec("paddle") is None:
        pytest.skip("paddle is not installed")
    result = executed(FAILING)

    shown = result.shown(result.cell_of(f"--name {run}\n"))

    assert not [words for words in expected if words not in shown], shown


def test_a_run_that_hangs_says_who_is_behind(executed: Executing) -> None:
    result = executed(FAILING)

    assert "rank 1 is in time.sleep at line 10; rank 0 waits in all_reduce" in result.shown(
        result.cell_of("%dist_stacks")
    )
    assert "stopped: 2 processes ended" in result.shown(result.cell_of("%dist_stop"))


def test_held_ranks_are_asked_for_a_value(executed: Executing) -> None:
    result = executed(FAILING)

    assert "rank 0: tensor(0.5000)\nrank 1: tensor(nan)" in result.shown(result.cell_of("%dist_eval"))


def test_a_machine_that_does_not_come_is_named(executed: Executing) -> None:
    result = executed("07-several-machines")

    shown = result.shown(result.cell_of("--name alone"))

    assert re.search(r"node 0 did not connect to 127\.0\.0\.1:\d+", shown)
    assert "within 2 s" in shown


def test_the_first_machine_prints_what_one_with_another_home_needs(executed: Executing) -> None:
    result = executed("07-several-machines")

    first, second = (result.shown(result.cell_of(f"--name machine-{node}")) for node in (0, 1))

    assert re.search(r"with another home directory, run this before the cell:  %env NBDIST_TOKEN=[A-Z2-7-]{19}\n", first)
    assert "NBDIST_TOKEN" not in second


def test_a_command_line_and_the_way_back_to_it(executed: Executing) -> None:
    result = executed("02-from-torchrun")

    assert "rank 1 of 2: the sum is 3, arguments ['--nproc_per_node=7']" in result.shown(
        result.cell_of("%distributed torchrun")
    )
    assert "torchrun --standalone --nproc-per-node=2" in result.shown(result.cell_of("%dist_export"))


def test_the_ranks_keep_parts_and_compute_as_one_would(executed: Executing) -> None:
    runs = executed("08-beyond-data-parallel").runs

    for rank in (0, 1):
        fsdp = re.search(r"keeps (\d+) of (\d+) parameters; .*as on one rank: True", runs["fsdp"].logs(rank))
        assert fsdp is not None, runs["fsdp"].logs(rank)
        assert abs(int(fsdp[1]) - int(fsdp[2]) / 2) <= 1
        divided = runs["tensor-parallel"].logs(rank)
        assert "0.weight (128, 64) of (256, 64)" in divided
        assert "as on one rank: outputs True, gradients True" in divided
        assert "3 layers" in runs["pipeline-parallel"].logs(rank)
    losses = [float(loss) for loss in re.findall(r"loss (\d\.\d+)", runs["pipeline-parallel"].logs(1))]
    assert len(losses) == 4
    assert losses[-1] < losses[0]


def test_names_go_in_and_results_and_figures_come_out(executed: Executing) -> None:
    result = executed("09-in-and-out")

    def shown(words: str) -> str:
        return result.shown(result.cell_of(words))

    assert "%%distributed -n 2 --name missing --push Net,images,settings\n" in shown("--name missing")
    outputs = result.cell_of("--name digits ").outputs
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2
    ranks, here = re.findall(r"(\d+\.\d)%", shown("net.load_state_dict"))
    assert float(ranks) > float(here) > 80
    table = shown('attach("digits")')
    assert re.search(r"^accuracy +float .*^model +state_dict \(.*DistributedDataParallel\)", table, re.M | re.S)
    assert len(shown(".gather(").split(",")) == 2
    assert re.search(r"rank +step +tag +value.*\b1 +180 +loss", shown("run.history"), re.S)
    assert "pushed: images (Tensor, " in shown("--push auto")
    assert "torch.Size([1440, 10])" in shown("--push auto")
    slow, fast = re.findall(r": (\d\.\d+)", shown("def fit").splitlines()[-1])
    assert float(fast) < float(slow)


def test_a_scale_says_what_a_second_rank_gives(executed: Executing) -> None:
    result = executed("11-is-it-worth-it")

    for words in ("exchange", "--args"):
        shown = result.shown(result.cell_of(f"%dist_scale 1,2 --for 3s {words}"))
        assert re.search(r"^2 ranks give \d+\.\d ×", shown, re.M), shown


@EVERY
def test_both_languages_have_the_same_code(name: str) -> None:
    english, chinese = code_of(read(name)), code_of(read(name + CHINESE))

    assert [without_words(cell.source) for cell in chinese] == [
        without_words(cell.source) for cell in english
    ]
    assert [tags(cell) for cell in chinese] == [tags(cell) for cell in english]


@EVERY
def test_both_languages_have_the_same_parts(name: str) -> None:
    english, chinese = read(name), read(name + CHINESE)

    assert [cell.cell_type for cell in chinese.cells] == [cell.cell_type for cell in english.cells]
    texts = [cell.source for cell in chinese.cells if cell.cell_type == "markdown"]
    assert all(re.search(r"[一-鿿]", text) for text in texts)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_output_and_its_links_lead_somewhere(path: Any) -> None:
    notebook = read(path.stem)

    assert not [cell for cell in code_of(notebook) if cell.outputs or cell.execution_count is not None]
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert not [link for link in links if not (FOLDER / link).exists()]


LOGS = """%%distributed -n 2 --framework none --name digits
import nbdist
nbdist.log(accuracy=0.99, step=1)
"""


def test_a_notebook_is_run_as_make_demo_does(tmp_path: Path) -> None:
    goal = nbformat.v4.new_code_cell(LOGS, metadata={"tags": ["accuracy"]})
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%load_ext nbdist"), goal])
    nbformat.write(notebook, tmp_path / "small.ipynb")

    done = subprocess.run(
        [sys.executable, FOLDER / "run.py", tmp_path / "small.ipynb", "--out", tmp_path / "out"],
        env={**os.environ, "NBDIST_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "accuracy 99.00%, in VisualDL 99.00%" in done.stdout
    assert (tmp_path / "out/small.ipynb").exists()
