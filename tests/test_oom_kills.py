"""Kills by the out-of-memory killer, counted by the control group before the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.processes import oom_kills

MACHINE = "oom_kill 7\n"
VERSION_2 = "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n"
VERSION_1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"


@pytest.mark.parametrize(
    ("groups_of_process", "files", "expected"),
    [
        ("0::/user/me", {"user/me/memory.events": VERSION_2}, 2),
        ("4:memory:/jobs/1\n0::/", {"memory/jobs/1/memory.oom_control": VERSION_1}, 4),
        ("4:cpu,memory:/docker/ab", {"memory/memory.oom_control": VERSION_1}, 4),
        ("4:memory:/jobs/1\n0::/", {}, 7),
    ],
    ids=["version 2", "version 1", "version 1 in a container", "a group that does not count"],
)
def test_the_control_group_is_asked_first(
    tmp_path: Path, groups_of_process: str, files: dict[str, str], expected: int
) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    for path, text in {
        proc / "self/cgroup": groups_of_process + "\n",
        proc / "vmstat": MACHINE,
        **{groups / name: text for name, text in files.items()},
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    assert oom_kills(proc, groups) == expected


def test_without_control_groups_the_machine_is_asked(tmp_path: Path) -> None:
    (tmp_path / "vmstat").write_text(MACHINE)

    assert oom_kills(tmp_path, tmp_path) == 7


def test_where_nothing_counts_there_are_none(tmp_path: Path) -> None:
    assert oom_kills(tmp_path, tmp_path) == 0
