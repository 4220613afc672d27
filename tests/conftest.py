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

# where several processes share the tests, a file that takes minutes is not to be the last: in this order. The
# browser's tests compute, those of Slurm wait: side by side they use the processors well
_LONGEST = ("notebooks", "browser", "engines", "tutorials", "hosted", "warm", "faults", "libraries", "nodes")
_LONGEST += ("diagnosis", "board", "test_packaging.py", "magics", "runner", "cli", "worker")


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start something as slow, and begin with those that take longest."""
    root = Path(__file__).parent
    places = {name: place for place, name in enumerate(_LONGEST)}

    def top(item: pytest.Item) -> str:
        return item.path.relative_to(root).parts[0]

    for item in items:
        if top(item) in _SLOW or _STARTERS & {*getattr(item, "fixturenames", ())}:
            item.add_marker(pytest.mark.slow)
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
    """Where screenshots are kept: NBDIST_PICTURES, else build/pictures."""
    folder = Path(os.environ.get("NBDIST_PICTURES", "build/pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
