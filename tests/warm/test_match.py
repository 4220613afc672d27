"""Ranks that wait are used only where a cold start would make the same."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.model import Device, RankSpec
from nbdist.warm.match import RankShape, Staleness, difference, read_at_import, surroundings
from nbdist.warm.standby import unfit

SHAPE = RankShape(
    framework="torch",
    python="/usr/bin/python",
    cwd="/work",
    python_path=("", "/lib"),
    first="",
    environment={"OMP_NUM_THREADS": "1", "LR": "1"},
    ranks=tuple(RankSpec(rank=n, local_rank=n, environment={"RANK": str(n)}) for n in range(2)),
    surroundings={"Umask": "0022", "limits": "many"},
)
# the last by Python code, as the rank has said
READ = ("TORCHDYNAMO_DISABLE", "PYTORCH_CUDA_ALLOC_CONF", "CUDA_VISIBLE_DEVICES", "LC_ALL", "SEEN_BY_PYTHON")


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        pytest.param({"framework": "paddle"}, "paddle", id="another framework"),
        pytest.param({"ranks": SHAPE.ranks[:1]}, "-n 2", id="another number"),
        pytest.param({"python": "/opt/python"}, "/usr/bin/python", id="another interpreter"),
        pytest.param({"cwd": "/home"}, "directory", id="another directory"),
        pytest.param({"python_path": ("/lib",)}, "sys.path", id="another path"),
        pytest.param({"first": "/scripts"}, "sys.path", id="a script elsewhere"),
        pytest.param({"surroundings": {"Umask": "0077", "limits": "many"}}, "Umask", id="another umask"),
        pytest.param({"surroundings": {"Umask": "0022", "limits": "few"}}, "limits", id="other limits"),
        pytest.param({"environment": {"LR": "1"}}, "OMP_NUM_THREADS", id="a variable less"),
        pytest.param(
            {"ranks": tuple(replace(r, device=Device(kind="gpu")) for r in SHAPE.ranks)}, "CPU", id="a GPU"
        ),
        *(pytest.param({"environment": {**SHAPE.environment, name: "2"}}, name, id=name) for name in READ),
    ],
)
def test_what_may_have_been_read_at_import_must_be_equal(wanted: dict, reason: str) -> None:
    problem = difference(SHAPE, replace(SHAPE, **wanted), frozenset({"SEEN_BY_PYTHON"}))

    assert reason in problem


def test_a_variable_that_no_import_reads_may_differ() -> None:
    other = replace(SHAPE, environment={**SHAPE.environment, "LR": "2", "WANDB_NAME": "x"})

    assert difference(SHAPE, other, frozenset()) == ""
    assert not read_at_import("LR", frozenset())


def test_the_surroundings_follow_this_process() -> None:
    before = surroundings()
    previous = os.umask(0o027)
    try:
        assert surroundings() == {**before, "Umask": "0027"}
    finally:
        os.umask(previous)


@pytest.fixture
def installed(tmp_path: Path) -> tuple[Path, Path, Callable[[], Staleness]]:
    """Return a directory of packages, one of the user's, and a function that looks at both."""
    site, own = tmp_path / "site-packages", tmp_path / "own"
    for place in (site, own):
        place.mkdir()
    (site / "torch.py").write_text("")
    (own / "local.py").write_text("")
    (own / "notes.txt").write_text("")

    def look() -> Staleness:
        files = {
            str(path): (path.stat().st_mtime_ns, path.stat().st_size)
            for path in (site / "torch.py", own / "local.py")
        }
        return Staleness(files, ["", str(site)], str(own))

    return site, own, look


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(lambda site, _: (site / "torch.py").write_text("x = 1"), "has changed", id="upgraded"),
        pytest.param(lambda site, _: (site / "new-1.0.dist-info").mkdir(), "installed", id="installed"),
        pytest.param(lambda site, _: (site / "a.pth").write_text("/x"), "installed", id="a path file"),
        pytest.param(lambda _, own: (own / "local.py").write_text("x = 1"), "has changed", id="edited"),
        pytest.param(lambda _, own: (own / "local.py").unlink(), "has changed", id="deleted"),
        pytest.param(
            lambda _, own: (own / "torch").mkdir(), "new modules", id="hidden by a module of one's own"
        ),
    ],
)
def test_what_was_imported_must_still_be_there(installed, change, reason: str) -> None:
    site, own, look = installed
    fresh = look()
    assert fresh.changed() == ""

    change(site, own)

    assert reason in fresh.changed()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(lambda site, _: (site / "new-1.0.dist-info").mkdir(), "installed", id="installed"),
        pytest.param(lambda _, own: (own / "torch.py").write_text(""), "new modules", id="a new module"),
        pytest.param(lambda _, own: os.utime(own / "torch/__init__.py"), "new modules", id="a new package"),
        pytest.param(lambda _, own: (own / "torch/run-2").mkdir(), "", id="a directory that has changed"),
        pytest.param(lambda _, own: (own / "train.py").write_text(""), "", id="what nobody imported"),
    ],
)
def test_what_came_while_it_was_imported_is_found_afterwards(installed, change, reason: str) -> None:
    site, own, look = installed
    (own / "torch").mkdir()
    (own / "torch/__init__.py").write_text("")
    begun = until_later(own)

    change(site, own)

    change = look().changed_since(begun)
    assert reason in change
    assert bool(change) == bool(reason)


def until_later(place: Path) -> int:
    """Return a time after that of all files, whose clock goes in steps."""
    probe = place / "probe.txt"
    probe.write_text("")
    first = probe.stat().st_mtime_ns
    while probe.stat().st_mtime_ns == first:
        probe.write_text("")
    return probe.stat().st_mtime_ns


def test_files_that_nobody_imported_may_change(installed) -> None:
    _, own, look = installed
    fresh = look()

    (own / "notes.txt").write_text("more")
    (own / "train.py").write_text("")
    (own / "torch.pt").write_text("")

    assert fresh.changed() == ""


def test_a_process_with_threads_or_a_device_is_no_rank_that_waits() -> None:
    import threading

    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert "threads" in unfit(os.getpid())
    finally:
        done.set()
        thread.join()
    assert "gone" in unfit(2**22 + 1)
