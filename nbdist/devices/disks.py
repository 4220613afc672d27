"""The disks under some paths: how much room they have, and which of them are full."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

SHARED_MEMORY = "/dev/shm"

_LEAST = 1 << 20
"""Bytes that a disk has left which is full for most that is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """``mount`` is the directory where it begins; ``free`` (for this user) and ``size`` in bytes. ``files``
    are how many can still be made; None where the file system has no limit of its own."""

    mount: str
    free: int
    size: int
    files: int | None

    @property
    def full(self) -> bool:
        return self.free < _LEAST or self.files == 0

    def holds(self, path: str | os.PathLike[str]) -> bool:
        return os.stat(path).st_dev == os.stat(self.mount).st_dev

    def room(self, language: str = "en") -> str:
        """``3 MB of 80 MB free``."""
        zh, free, size = language == "zh", _size(self.free), _size(self.size)
        if self.files == 0:
            return "没有空闲的 inode，不能再建文件" if zh else "no inodes left, so no file can be made"
        return f"剩余 {free}，共 {size}" if zh else f"{free} of {size} free"


def disks(paths: Iterable[str]) -> list[Disk]:
    """The disks that hold these paths, each once, in their order. Of a path that is not there yet, its
    nearest parent counts; what cannot be asked is left out."""
    found: dict[int, Disk] = {}
    for path in map(_existing, paths):
        try:
            device = os.stat(path).st_dev
            if device not in found:
                found[device] = _disk(path)
        except OSError:
            continue
    return list(found.values())


def full_disks(paths: Iterable[str]) -> list[Disk]:
    """Those of them that are full."""
    return [disk for disk in disks(paths) if disk.full]


def _existing(path: str) -> str:
    path = os.path.abspath(path)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _disk(path: str) -> Disk:
    space = os.statvfs(path)
    mount = os.path.realpath(path)
    while not os.path.ismount(mount):
        mount = os.path.dirname(mount)
    # what a file system keeps back for root, root has
    free, files = (space.f_bfree, space.f_ffree) if os.geteuid() == 0 else (space.f_bavail, space.f_favail)
    return Disk(
        mount=mount,
        free=free * space.f_frsize,
        size=space.f_blocks * space.f_frsize,
        files=files if space.f_files else None,
    )


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count >> 20} MB"
