"""Room of the disks under some paths."""

from __future__ import annotations

import os
from pathlib import Path

from nbdist.devices.usage import Disk, disks, full_disks


def test_a_disk_is_asked_once_and_named_by_where_it_begins(tmp_path: Path) -> None:
    known = disks([str(tmp_path), str(tmp_path / "not" / "made" / "yet")])

    assert len(known) == 1
    assert os.path.ismount(known[0].mount)
    assert known[0].holds(tmp_path)
    assert 0 < known[0].free <= known[0].size
    assert full_disks([str(tmp_path)]) == []


def test_room_is_told_in_both_languages() -> None:
    disk = Disk(mount="/data", free=3 << 20, size=80_000_000_000, files=None)

    assert disk.room() == "3 MB of 80.0 GB free"
    assert disk.room("zh") == "剩余 3 MB，共 80.0 GB"
    assert not disk.full


def test_a_disk_without_inodes_is_full_whatever_room_it_has() -> None:
    disk = Disk(mount="/data", free=1 << 30, size=1 << 31, files=0)

    assert disk.full
    assert disk.room() == "no inodes left, so no file can be made"
