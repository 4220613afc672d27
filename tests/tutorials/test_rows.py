"""Every system of the tutorials, as its users paste it, and its output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from nbdist.runner import RunHandle
from tests.magics.conftest import Kernel
from tests.notebooks.course import FOLDER, PATIENCE, Executing
from tests.tutorials.rows import FLEET, LAUNCH, ROWS, SPAWN, Row

# a notebook whose cells of torch fail is not run to its end
pytestmark = [
    pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed"),
    pytest.mark.timeout(PATIENCE),
]

PADDLE = pytest.mark.skipif(find_spec("paddle") is None, reason="paddle is not installed")
ROOT = Path(__file__).parents[2]
SHOW = "import os, sys\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], sys.argv[1:])"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel for all rows, as a user has one; the data sets lie where it can import them."""
    kernel = Kernel(tmp_path_factory.mktemp("rows") / "home")
    kernel.run(f"import sys\nsys.path.insert(0, {str(FOLDER)!r})")
    (kernel.home.parent / "show.py").write_text(SHOW)
    yield kernel
    kernel.close()


def needs(row: Row) -> None:
    if find_spec(row.framework) is None:
        pytest.skip(f"{row.framework} is not installed")


def check(row: Row, run: RunHandle) -> None:
    assert run.status == "finished", run.logs(0)
    logs = {rank.rank: run.logs(rank.rank) for rank in run.run.spec.here}
    for pattern in row.each:
        for rank, log in logs.items():
            assert re.search(pattern.replace("{r}", str(rank)), log), (pattern, log)
    first = logs.pop(0, "")
    for pattern in row.first:
        assert re.search(pattern, first), (pattern, first)
        assert not any(re.search(pattern, log) for log in logs.values()), pattern


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_system_of_the_tutorials_runs_in_its_notebook(row: Row, executed: Executing) -> None:
    needs(row)

    result = executed(row.notebook)

    assert row.name in result.runs, result.error
    check(row, result.runs[row.name])


NO_GPU = pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="this machine has a GPU")
# what cannot run today, or not here: what nbdist says
REFUSED = [
    pytest.param(
        "%%distributed --selected_gpus 0,1\npass", ("write  -n 2",), id="selected GPUs", marks=NO_GPU
    ),
    pytest.param("%%distributed --gpus=0,1,2,3\npass", ("write  -n 4",), id="four GPUs", marks=NO_GPU),
    pytest.param("%distributed fleetrun --gpus=0 show.py", ("write  -n 1",), id="fleetrun", marks=NO_GPU),
    pytest.param(
        "%%distributed -n 2\n!python -m paddle.distributed.launch hapitrain.py",
        ("line 2 of the cell", "%distributed python -m paddle.distributed.launch hapitrain.py"),
        id="a launcher's command line inside the cell",
    ),
]


@pytest.mark.parametrize(("cell", "expected"), REFUSED)
def test_what_cannot_run_here_is_answered_with_what_to_type(
    cell: str, expected: tuple[str, ...], kernel: Kernel
) -> None:
    reply = kernel.run(cell)

    assert reply.status == "error"
    assert not [words for words in expected if words not in reply.stderr], reply.stderr


def test_the_misspelt_variable_is_named(kernel: Kernel) -> None:
    reply = kernel.run("%%distributed -n 1\nimport os\nos.environ['CUDA_VISIABLE_DEVICES'] = '0,1'")

    assert reply.status == "ok"
    assert "CUDA_VISIABLE_DEVICES" in reply.stdout
    assert "CUDA_VISIBLE_DEVICES" in reply.stdout


LINES = [
    "python -m paddle.distributed.launch --nproc_per_node=2 --log_dir ./mylog show.py --lr 0.1",
    'fleetrun --ips="127.0.0.1" --nproc_per_node=2 show.py --lr 0.1',
    "torchrun --nproc_per_node=2 show.py --lr 0.1",
]


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_of_a_tutorial_gets_the_same_run(line: str, kernel: Kernel) -> None:
    reply = kernel.run(f"%distributed {line}")

    assert reply.status == "ok", reply.stderr
    assert "[0] rank 0 of 2 ['--lr', '0.1']\n" in reply.stdout
    assert "[1] rank 1 of 2 ['--lr', '0.1']\n" in reply.stdout


@PADDLE
def test_the_misspelt_option_of_spawn_is_named(kernel: Kernel) -> None:
    cell = SPAWN.replace("nprocs=2)", "nprocs=2, selelcted_gpus='4,5')")

    reply = kernel.run(f"%%distributed -n 1\n{cell}")

    assert "at line 36 of the cell" in reply.traceback
    assert "selelcted_gpus" in reply.traceback


@PADDLE
def test_the_callback_of_paddle_is_opened_in_visualdl(executed: Executing) -> None:
    result = executed(FLEET)

    assert "/scalar" in result.shown(result.cell_of("%dist_board fleet-hapi"))


@PADDLE
def test_the_report_to_share_is_one_file_with_the_curves(executed: Executing) -> None:
    report = (executed(FLEET).path / "report.html").read_text(encoding="utf-8")

    assert "fleet-hapi" in report
    assert "train/loss" in report
    assert not re.search(r"""(?:src|href)=["']https?://""", report)


@PADDLE
def test_workerlogs_are_what_the_ranks_wrote(executed: Executing) -> None:
    result = executed(LAUNCH)

    for rank in (0, 1):
        written = (result.path / "mylog" / f"workerlog.{rank}").read_text()
        assert written == result.runs["logs"].logs(rank)


PAGES = [
    pytest.param(f"docs/from-the-tutorials{language}.md", id=language or "en") for language in ("", ".zh-CN")
]


@pytest.mark.parametrize("page", PAGES)
def test_the_page_has_every_row_and_names_tests_that_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")

    named = set(re.findall(r"`\[([^\]`]+)\]`", text))

    assert named == {row.name for row in ROWS}
    tests = set(re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", text))
    missing = [
        (path, test)
        for path, test in tests
        if not (ROOT / path).exists() or (test and f"def {test}(" not in (ROOT / path).read_text())
    ]
    assert not missing
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert not [link for link in links if not ((ROOT / page).parent / link).exists()]
