"""Memory that a process of this machine may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.devices.usage import memory_total

GB = 1 << 30


@pytest.mark.parametrize(
    ("groups", "limits", "total"),
    [
        pytest.param("0::/\n", {}, 16 * GB, id="no group"),
        pytest.param("0::/a/b\n", {"a/b/memory.max": "max"}, 16 * GB, id="a group without a limit"),
        pytest.param("0::/a/b\n", {"a/b/memory.max": f"{2 * GB}\n"}, 2 * GB, id="a limit"),
        pytest.param("0::/a/b\n", {"a/memory.max": f"{3 * GB}"}, 3 * GB, id="a limit further up"),
        pytest.param(
            "0::/a/b\n", {"memory.max": f"{4 * GB}"}, 4 * GB, id="in a container the mount is the group"
        ),
        pytest.param("0::/a\n", {"a/memory.max": f"{64 * GB}"}, 16 * GB, id="more than there is"),
        pytest.param(
            "4:cpu,memory:/j\n0::/\n", {"memory/j/memory.limit_in_bytes": f"{5 * GB}"}, 5 * GB, id="version 1"
        ),
        pytest.param(
            "4:memory:/j\n",
            {"memory/j/memory.limit_in_bytes": "9223372036854771712"},
            16 * GB,
            id="unlimited",
        ),
        pytest.param("nonsense", {}, 16 * GB, id="what cannot be understood"),
    ],
)
def test_the_lowest_limit_counts(tmp_path: Path, groups: str, limits: dict[str, str], total: int) -> None:
    for path, text in (
        {"proc/meminfo": f"MemFree: 1 kB\nMemTotal:  {16 * GB // 1024} kB\n", "proc/self/cgroup": groups}
        | {f"sys/fs/cgroup/{name}": text for name, text in limits.items()}
    ).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    assert memory_total(tmp_path) == total


def test_where_nobody_tells_nothing_is_known(tmp_path: Path) -> None:
    assert memory_total(tmp_path) is None
    assert (memory_total() or 0) > 64 << 20
