"""A low limit of open files: it is named, with what to do, wherever it is met."""

from __future__ import annotations

from collections.abc import Callable
from resource import RLIMIT_NOFILE, getrlimit

import pytest

from nbdist import runner
from nbdist.diagnosis import diagnose, failure_report
from nbdist.errors import LaunchError
from nbdist.runner.planning import check_files

pytestmark = pytest.mark.usefixtures("leaves_nothing")

LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, LIMITS)"

OPENED = "opened = []\nwhile True: opened.append(open('/dev/null'))"

DUPLICATED = """
import os
try:
    while True: os.dup(0)
except OSError:
    import decimal
"""

LOADED = """
import torch
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 4000
    def __getitem__(self, index): return [torch.zeros(3) for _ in range(8)]
batches = list(torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=2))
"""


def report_of(owner) -> str:
    assert owner.handle.wait(90) == "failed", owner.handle.logs(0)
    failure = diagnose(owner.handle.run, owner.handle.directory)
    assert failure is not None
    return failure_report(failure)


PLACES = {
    "in the rank": (OPENED, 2, "ulimit -n 65536  before the Jupyter"),
    "in an import": (DUPLICATED, 6, "ulimit -n 65536  before the Jupyter"),
    "in a DataLoader": (LOADED, 6, "set_sharing_strategy('file_system')"),
}


@pytest.mark.parametrize(
    ("few", "cell", "line", "remedy"),
    [
        pytest.param(few, *case, id=f"{place}, {few}")
        for few in (40, 64, 256)
        for place, case in PLACES.items()
        if case[0] is not LOADED or few == 64
    ],
)
def test_a_rank_that_may_open_no_more_files_says_so(
    start_owner: Callable, few: int, cell: str, line: int, remedy: str
) -> None:
    owner = start_owner("-n 1", cell, before=LIMIT.replace("LIMITS", f"({few}, {few})"))

    report = report_of(owner)

    assert f"at line {line} of the cell" in report
    assert "Too many open files" in report
    assert remedy in report
    assert "os._exit()" not in report


def test_many_ranks_are_kept_under_a_low_limit_and_have_it_themselves(start_owner: Callable) -> None:
    cell = "import resource\nprint(resource.getrlimit(resource.RLIMIT_NOFILE))"

    owner = start_owner("-n 20", cell, before=LIMIT.replace("LIMITS", "(40, 400)"))

    assert owner.handle.wait(90) == "finished"
    assert {owner.handle.logs(rank) for rank in range(20)} == {"(40, 400)\n"}


def test_more_ranks_than_files_are_allowed_are_not_started() -> None:
    most = getrlimit(RLIMIT_NOFILE)[1]

    with pytest.raises(LaunchError, match=rf"{most} ranks take {most + 24} open files, and {most} are"):
        check_files(most)


def test_a_notebook_that_may_open_no_more_files_is_told_so(kernel) -> None:
    fill = """
import os, resource
before = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
opened = []
try:
    while True: opened.append(os.dup(0))
except OSError:
    for number in range(20): os.close(opened.pop())
"""
    kernel.run("%%distributed -n 1\nprint('before')")
    kernel.run(fill)

    refused = kernel.run("%%distributed -n 1\nprint('hello')")
    kernel.run("for descriptor in opened: os.close(descriptor)")
    again = kernel.run("%%distributed -n 1\nprint('hello')")

    assert "this process has 200 files open, all that it may have: close some" in str(refused)
    assert "Traceback" not in str(refused)
    assert len(runner.runs()) == 2
    assert "hello" in str(again)
