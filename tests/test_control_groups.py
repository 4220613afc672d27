"""Control groups, as they are mounted in different places, and a real one where this machine lets us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nbdist import control_groups, processes
from nbdist.control_groups import find_group, groups_of, make_group, own_group
from tests.programs import until

needs_groups = pytest.mark.skipif(
    control_groups.problem() != "", reason=f"no control group can be made here: {control_groups.problem()}"
)

V1 = "36 31 0:33 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
PURE = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
HYBRID = V1 + "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
BOUND = "30 23 0:26 /docker/f00 /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n"


@pytest.mark.parametrize(
    ("mounts", "groups", "expected"),
    [
        pytest.param(PURE, "0::/user.slice/a.scope\n", "/sys/fs/cgroup/user.slice/a.scope", id="a scope"),
        pytest.param(PURE, "0::/\n", "/sys/fs/cgroup", id="a namespace of its own"),
        pytest.param(HYBRID, "4:memory:/box\n0::/\n", "/sys/fs/cgroup/unified", id="both versions"),
        pytest.param(BOUND, "0::/docker/f00/job\n", "/sys/fs/cgroup/job", id="the machine's namespace"),
        pytest.param(BOUND, "0::/docker/f001\n", None, id="a group that is not mounted"),
        pytest.param(PURE, "0::/../other\n", None, id="outside of the namespace"),
        pytest.param(V1, "4:memory:/box\n0::/\n", None, id="version 1 alone"),
        pytest.param("", "", None, id="no /proc"),
    ],
)
def test_the_own_group_is_found_where_it_is_mounted(
    tmp_path: Path, mounts: str, groups: str, expected: str | None
) -> None:
    (tmp_path / "mountinfo").write_text(mounts)
    (tmp_path / "cgroup").write_text(groups)

    assert own_group(str(tmp_path)) == expected


DAEMON = """
import os, sys
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
os.execve("/bin/sleep", ["sleep", "600"], {})
"""


@needs_groups
def test_what_has_left_its_parents_its_session_and_its_environment_is_still_in_its_group() -> None:
    made = make_group(os.getpid(), 17)
    child = subprocess.Popen(
        [sys.executable, "-c", f"input()\n{DAEMON}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    made.add(child.pid)
    with child:
        print(file=child.stdin, flush=True)
        daemon = processes.identify(int(child.stdout.readline()))

    group = find_group(os.getpid(), 17)
    assert [group.path for group in groups_of(os.getpid())] == [group.path] == [made.path]
    assert group.members() == [daemon.pid]
    os.kill(daemon.pid, signal.SIGSTOP)
    assert group.end() == 1
    group.remove()

    until(lambda: not processes.alive(daemon))
    assert find_group(os.getpid(), 17) is None
    assert not Path(made.path).exists()


def test_a_group_is_ended_by_the_pids_of_its_members_where_it_cannot_be_at_once(tmp_path: Path) -> None:
    child = subprocess.Popen(["/bin/sleep", "600"])
    group = control_groups.ControlGroup(str(tmp_path))
    (tmp_path / "cgroup.procs").write_text(f"{child.pid}\n")

    assert group.end(limit=0.1) == 1

    assert child.wait(5) == -signal.SIGKILL


GB = 1_000_000_000


class FakeTree:
    """Control groups as plain files. The slice, which is this user's, hands ``controllers`` down; below it is
    the scope that this process is in."""

    def __init__(self, root: Path, controllers: str) -> None:
        self.proc, self.slice = root / "proc", root / "mount/user.slice"
        self.proc.mkdir()
        (self.slice / "app.scope").mkdir(parents=True)
        for place in (root / "mount", self.slice, self.slice / "app.scope"):
            self.fill(place)
        (self.slice / "cgroup.subtree_control").write_text(controllers)
        (self.proc / "mountinfo").write_text(f"30 23 0:26 / {root}/mount rw - cgroup2 cgroup2 rw\n")
        (self.proc / "cgroup").write_text("0::/user.slice/app.scope\n")

    def mkdir(self, path: str) -> None:
        os.mkdir(path)
        self.fill(Path(path))

    def fill(self, place: Path) -> None:
        for name in ("procs", "subtree_control", "kill"):
            (place / f"cgroup.{name}").touch()
        for name in ("max", "swap.max", "events"):
            (place / f"memory.{name}").touch()


def test_each_rank_has_a_group_with_its_memory(tmp_path: Path) -> None:
    tree = FakeTree(tmp_path, "cpu memory pids\n")

    group = make_group(7, 17, 16 * GB, proc=str(tree.proc), mkdir=tree.mkdir)
    group.add(101, 0)
    group.add(102, 1)

    # beside the scope: one with processes in it hands no controller down
    own = tree.slice / "nbdist-7-17"
    assert (own / "cgroup.subtree_control").read_text() == "+memory"
    for rank, pid in ((0, "101"), (1, "102")):
        place = own / f"rank-{rank}"
        assert (place / "cgroup.procs").read_text() == pid
        assert (place / "memory.max").read_text() == "16000000000"
        assert (place / "memory.swap.max").read_text() == "0"


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param("low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\n", True, id="its limit"),
        pytest.param("low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\n", False, id="the machine"),
        pytest.param("low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n", False, id="nothing"),
        pytest.param("", False, id="not said"),
    ],
)
def test_what_was_killed_for_its_limit_is_known(tmp_path: Path, events: str, expected: bool) -> None:
    tree = FakeTree(tmp_path, "memory\n")
    group = make_group(7, 17, GB, proc=str(tree.proc), mkdir=tree.mkdir)
    group.add(101, 1)

    (tree.slice / "nbdist-7-17/rank-1/memory.events").write_text(events)

    assert (group.ran_out(1), group.ran_out(0)) == (expected, False)


def test_where_the_memory_controller_is_not_handed_down_nothing_is_made(tmp_path: Path) -> None:
    tree = FakeTree(tmp_path, "cpu pids\n")

    assert make_group(7, 17, GB, proc=str(tree.proc), mkdir=tree.mkdir) is None
    assert "memory controller" in control_groups.memory_problem(str(tree.proc))
    assert not list(tree.slice.glob("nbdist-*"))
    # without a limit a group is made where the process is
    assert make_group(7, 17, proc=str(tree.proc), mkdir=tree.mkdir).path.endswith("app.scope/nbdist-7-17")
