"""Programs on warm ranks that change variables or files which an import of their framework would read."""

from __future__ import annotations

import sys

import pytest

from nbdist import runner
from nbdist.warm.match import changed_early

pytestmark = [
    pytest.mark.usefixtures("leaves_nothing"),
    pytest.mark.skipif(sys.platform != "linux", reason="ranks wait on Linux alone"),
]

AGAIN = "[nbdist] this rank begins again, cold: "

NOTICES_NOTHING = """
import importlib.util, os, sys
print("torch" in sys.modules, "numpy" in sys.modules, importlib.util.find_spec("torch").origin)
os.environ["LEARNING_RATE"] = "0.1"
sys.path.insert(0, os.getcwd())
import numpy
print("torch" in sys.modules, "numpy" in sys.modules)
from torch.utils.data import DataLoader
import torch
print(torch.__spec__.loader.path, torch.from_numpy(numpy.ones(2)).sum())
"""
SETS_ELSEWHERE = """
from threading import Thread
def load():
    import settings
    import torch
    print("threads", torch.THREADS)
thread = Thread(target=load)
thread.start()
thread.join()
"""
HAS_ITS_OWN = "import os, sys\nsys.path.insert(0, os.getcwd() + '/mine')\nimport torch\nprint(torch.MINE)"

ENDS = """
import atexit, os, sys
print("here", os.getpid())
os.chdir("/")
for name in ("SHOW_CPP_STACKTRACES",):
    os.environ["TORCH_" + name] = "1"
import torch
atexit.register(print, "the end")
print(os.getcwd(), sys.argv[1:], open("/proc/self/environ").read().count("LEARNING=1"))
sys.exit(7)
"""
FORKS = """
import os
child = os.fork()
if not child:
    os.environ["OMP_NUM_" + "THREADS"] = "2"
    import torch
    print("threads", torch.THREADS, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_program_gets_what_it_would_import(make_plan, stand_by, run_on) -> None:
    warm = run_on(stand_by(make_plan("-n 1")), make_plan("-n 1", NOTICES_NOTHING))
    cold = runner.start(make_plan("-n 1", NOTICES_NOTHING), warm=False)

    assert (warm.wait(60), cold.wait(60)) == ("finished", "finished"), warm.logs(0) + cold.logs(0)
    assert warm.logs(0).splitlines() == cold.logs(0).splitlines()


@pytest.mark.usefixtures("light_torch")
def test_a_module_of_the_user_s_may_set_what_torch_reads_in_a_thread(
    make_plan, stand_by, run_on, tmp_path
) -> None:
    (tmp_path / "settings.py").write_text("import os\nos.environ['OMP_NUM_THREADS'] = '2'\n")

    handle = run_on(stand_by(make_plan("-n 1")), make_plan("-n 1", SETS_ELSEWHERE))

    assert handle.wait(60) == "finished", handle.logs(0)
    again = f"{AGAIN}OMP_NUM_THREADS was set before the program imports torch"
    assert handle.logs(0).splitlines() == [again, "threads 2"]


@pytest.mark.usefixtures("light_torch")
def test_a_program_that_finds_another_torch_gets_that(make_plan, stand_by, run_on, tmp_path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "torch.py").write_text("MINE = 'my own torch'\n")

    handle = run_on(stand_by(make_plan("-n 1")), make_plan("-n 1", HAS_ITS_OWN))

    assert handle.wait(60) == "finished", handle.logs(0)
    again = f"{AGAIN}torch is found elsewhere than before"
    assert handle.logs(0).splitlines() == [again, "my own torch"]


@pytest.mark.usefixtures("light_torch")
def test_a_rank_that_begins_again_is_the_same_process_with_the_same_end(make_plan, stand_by, run_on) -> None:
    plan = make_plan("-n 1 --env LEARNING=1 --args '--lr 1'", ENDS)

    handle = run_on(stand_by(make_plan("-n 1")), plan)

    assert handle.wait(60) == "failed"
    first, again, second, *rest = handle.logs(0).splitlines()
    rank = handle.run.ranks[0]
    assert first == second == f"here {rank.process.pid}"
    assert again.startswith(AGAIN)
    assert again == AGAIN + handle.directory.rank(0).again.read_text()
    assert rest == ["/ ['--lr', '1'] 1", "the end"]
    assert rank.code == 7


@pytest.mark.usefixtures("light_torch")
def test_a_forked_child_says_that_it_is_too_late(make_plan, stand_by, run_on) -> None:
    handle = run_on(stand_by(make_plan("-n 1")), make_plan("-n 1", FORKS))

    assert handle.wait(60) == "finished"
    complaint, result = handle.logs(0).splitlines()
    assert "OMP_NUM_THREADS was set before the program imports torch" in complaint
    assert result == "threads 1"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        pytest.param("os.environ['A'] = '1'\nimport torch", ["A"], id="before"),
        pytest.param("import torch\nos.environ['A'] = '1'", [], id="after"),
        pytest.param("os.environ['LR'] = '1'\nimport torch", [], id="the value that it has"),
        pytest.param("V = 1\nos.environ['LR'] = str(V)\nimport torch", [], id="that value by a name"),
        pytest.param("os.environ['LR'] = input()\nimport torch", ["LR"], id="a value not known"),
        pytest.param("os.environ.update({'A': '1', 'LR': '1'})\nimport torch.nn", ["A"], id="several"),
        pytest.param("from os import environ\nenviron['A'] = '1'\nimport torch", ["A"], id="by its name"),
        pytest.param("os.putenv('A', '1')\nimport torch", ["A"], id="putenv"),
        pytest.param("os.environ.setdefault('LR', '5')\nimport torch", [], id="a default, and it is set"),
        pytest.param("os.environ.setdefault('A', '5')\nimport torch", ["A"], id="a default, and it is not"),
        pytest.param("def f():\n    os.environ['A'] = '1'\n    import torch\nf()", ["A"], id="in a function"),
        pytest.param(
            "try:\n    import torch\nexcept OSError: pass\nos.environ['A'] = '1'", ["A"], id="perhaps after"
        ),
        pytest.param("os.environ['A'] = '1'\nimport paddle, torch", ["A"], id="another framework, too"),
        pytest.param("import torch", [], id="nothing"),
    ],
)
def test_what_the_text_sets_before_the_import(make_plan, source: str, names: list[str]) -> None:
    assert changed_early(make_plan("-n 2 --env LR=1", f"import os\n{source}")) == names
