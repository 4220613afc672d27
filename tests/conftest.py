"""Real runs of real cells, each in a home of its own, and a Chromium: for every test that asks for one."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nbdist import options, processes, runner
from nbdist.errors import UnknownRun
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import STARTED

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.notebooks.course import Executing

# ranks that wait are made beside whatever comes next; tests/warm asks for them by itself
os.environ.setdefault("NBDIST_WARM", "off")

# shells start what is to run in the background with interrupts ignored, and children inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)

RunCell = Callable[..., runner.RunHandle]


# what starts ranks, a kernel, a cluster or a page: a test that asks for one of these takes seconds
_STARTERS = {"start_cell", "run_cell", "start_owner", "run_on", "kernel", "same_kernel", "used_kernel"}
_STARTERS |= {"executed", "browser", "lab_server", "cluster", "breakable"}

# folders of which every test does
_SLOW = {"browser", "engines", "gpu", "hosted", "libraries", "nodes", "notebooks", "tutorials"}

# a real run for each promise of the README, which make test makes; [...] chooses a case
PROMISES = {
    "a cell of torch runs": "runner/test_torch.py::test_ranks_meet_with_nothing_but_the_environment",
    "a cell of paddle runs": "runner/test_paddle.py::test_ranks_meet_with_nothing_but_the_environment",
    "a cell fails": "magics/test_distributed.py::test_a_failed_run_fails_its_cell_with_one_clear_error",
    "a cell hangs": "diagnosis/test_stalls_in_runs.py::test_a_run_that_hangs_shows_it_and_can_go_on",
    "a cell is interrupted": "magics/test_distributed.py::test_an_interrupted_cell_stops_its_run_and_fails",
    "stuck ranks save": "faults/test_stuck_ranks.py"
    "::test_a_rank_gets_to_its_finally[torch one in all_reduce]",
    "the kernel is killed": "faults/test_the_owner_goes.py::test_a_foreground_run_is_stopped[killed]",
    "the kernel is killed, -d": "faults/test_the_owner_goes.py::test_a_detached_run_goes_on[killed]",
    "the supervisor is killed": "faults/test_the_supervisor_goes.py"
    "::test_a_killed_supervisor_leaves_nothing_and_the_run_says_so",
    "names in": "magics/test_push.py::test_ranks_have_the_names_that_are_pushed_and_none_stays_behind",
    "results out": "magics/test_results.py::test_a_cell_pulls_what_rank_0_gave",
    "a figure": "browser/test_outputs.py::test_figures_stand_among_the_lines_in_the_notebook_and_in_a_report",
    "a session": "magics/test_ranks.py::test_a_cell_has_what_the_ones_before_have_made",
    "a sweep": "magics/test_sweeps.py::test_a_sweep_of_a_cell_of_a_function_and_one_that_is_interrupted",
    "a resume": "runner/test_resuming.py::test_a_run_goes_on_from_what_another_one_has_saved",
    "a rank is held": "magics/test_debugging.py::test_a_cell_asks_for_commands_until_its_ranks_go_on",
    "a profile": "worker/test_profiler.py::test_a_running_program_is_recorded_and_goes_on[torch]",
    "a function": "magics/test_run.py::test_a_function_of_the_notebook_runs_in_ranks_and_returns",
    "a script": "cli/test_run.py::test_a_script_is_shown_live_and_then_summed_up",
    "a line of torchrun": "cli/test_run.py::test_a_pasted_command_line_runs_as_it_stands",
    "warm ranks": "warm/test_in_a_notebook.py::test_after_the_first_run_the_next_one_finds_its_ranks_ready",
    "VisualDL": "board/test_board_in_a_browser.py::test_the_curves_of_both_ranks_are_shown_and_grow",
    "the panel": "browser/test_panel.py"
    "::test_lines_of_both_ranks_are_seen_while_they_run_and_stop_stops_them",
    "sidebar and dashboard": "browser/test_dashboard.py"
    "::test_a_run_is_watched_and_stopped_while_its_cell_keeps_the_kernel_busy",
    "a notebook": "notebooks/test_course.py::test_a_notebook_runs_from_top_to_bottom[10-live-ranks]",
}

# where several processes share the tests, a file that takes minutes is not to be the last: in this order. The
# browser's tests compute, those of Slurm wait: side by side they use the processors well
_LONGEST = ("notebooks", "browser", "engines", "tutorials", "hosted", "warm", "faults", "libraries", "nodes")
_LONGEST += ("diagnosis", "board", "test_packaging.py", "magics", "runner", "cli", "worker")


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start something as slow, those of a promise, and begin with the longest."""
    root = Path(__file__).parent
    promises = {*PROMISES.values()}
    places = {name: place for place, name in enumerate(_LONGEST)}

    def top(item: pytest.Item) -> str:
        return item.path.relative_to(root).parts[0]

    for item in items:
        if top(item) in _SLOW or _STARTERS & {*getattr(item, "fixturenames", ())}:
            item.add_marker(pytest.mark.slow)
        node = f"{item.path.relative_to(root)}::{item.nodeid.partition('::')[2]}"
        if {node, node.partition("[")[0]} & promises:
            item.add_marker(pytest.mark.promise)
    items.sort(key=lambda item: places.get(top(item), len(places)))


# files whose tests share what takes long to start: a JupyterLab and the page in which it is loaded, a Slurm
_TOGETHER = re.compile(r"tests/(browser/|engines/test_(doctor|slurm|slurm_step)\.py)")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """Give each process a file at a time, or all those that share what takes long to start."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Sharing(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return str(Path(file).parent) if _TOGETHER.match(file) else file

    return Sharing(config, log)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of the runs of one test."""
    monkeypatch.setenv("NBDIST_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def written(home: Path) -> WrittenRun:
    """A run whose ranks have started."""
    return WrittenRun(home).happened(*STARTED)


@pytest.fixture
def start_cell(home: Path, tmp_path: Path) -> Iterator[RunCell]:
    """Start a cell as the magic would; what is left at the end is stopped."""
    handles: list[runner.RunHandle] = []

    def start(line: str, cell: str, cwd: Path = tmp_path) -> runner.RunHandle:
        plan = runner.plan(options.parse(line), cell=cell, cwd=str(cwd), python_path=["", *sys.path])
        handles.append(runner.start(plan))
        return handles[-1]

    yield start
    for handle in handles:
        with contextlib.suppress(UnknownRun):  # its directory was what the test deleted
            handle.stop("the test is over")


@pytest.fixture
def run_cell(start_cell: RunCell) -> RunCell:
    """Start a cell and wait for its end."""

    def run(line: str, cell: str, limit: float = 60.0, **more: object) -> runner.RunHandle:
        handle = start_cell(line, cell, **more)
        assert handle.wait(limit) not in ("pending", "starting", "running"), handle.logs(0)
        return handle

    return run


@pytest.fixture
def leaves_nothing(home: Path) -> Iterator[None]:
    """Fails the test when a process of its runs is left behind."""
    yield
    left = [
        process
        for handle in runner.runs()
        for process in processes.marked("NBDIST_RUN_DIR", str(handle.directory.path))
    ]
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, 9)
    assert not left


@pytest.fixture(scope="session")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Executing:
    """Runs a notebook of the course, or takes it from the process that has run it already."""
    from tests.notebooks import course

    base = tmp_path_factory.getbasetemp()
    # processes that share the tests have their folders beside each other
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "course"
    root.mkdir(exist_ok=True)
    return lambda name: course.executed(name, root)


@contextlib.contextmanager
def a_browser() -> Iterator[Browser]:
    """A Chromium. Not for the whole session: Playwright keeps the thread's event loop as its own while it
    is open, and other tests need one, too."""
    from playwright.sync_api import expect, sync_playwright

    from tests.browser.lab import CHROMIUM_FLAGS, chromium

    # milliseconds, of 5,000: other tests take the processors
    expect.set_options(timeout=20_000)

    executable = chromium()
    if executable is None:
        if os.environ.get("CI"):
            pytest.fail("there is no Chromium, and in CI the browser tests must run")
        pytest.skip("there is no Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Return the folder of screenshots: NBDIST_PICTURES, else build/pictures."""
    folder = Path(os.environ.get("NBDIST_PICTURES", "build/pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
