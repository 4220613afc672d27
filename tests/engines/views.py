"""One directory as several machines see it, each by a file system that caches for a while.

bindfs imitates NFS here, by FUSE: a machine sees changes of another only after ``believes`` seconds, and
``stall`` delays its calls like an absent server.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from tests.engines.cluster import NoSlurm

_UP = 10.0


class Views:
    """``directory`` as each of these machines sees it."""

    def __init__(self, directory: Path, folder: Path, names: list[str], *, believes: float) -> None:
        self._directory = directory
        self._folder = folder
        self._names = names
        self._believes = believes
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def of(self, name: str) -> Path:
        return self._folder / name

    def up(self) -> None:
        """Mount the views. Raises NoSlurm."""
        bindfs = shutil.which("bindfs")
        if bindfs is None or not os.access("/dev/fuse", os.W_OK):
            raise NoSlurm("directories that machines share need bindfs and /dev/fuse")
        self._directory.mkdir(exist_ok=True)
        # what is opened is read as it is now, as with NFS
        believed = [f"{kind}_timeout={self._believes}" for kind in ("attr", "entry", "negative")]
        options = ",".join(["direct_io", *believed])
        for name in self._names:
            self.of(name).mkdir(parents=True)
            command = [bindfs, "-f", "-o", options, str(self._directory), str(self.of(name))]
            self._running[name] = subprocess.Popen(command, start_new_session=True)
        deadline = time.monotonic() + _UP
        while not all(os.path.ismount(self.of(name)) for name in self._names):
            if time.monotonic() > deadline:
                raise NoSlurm("bindfs does not mount a directory")
            time.sleep(0.05)

    def stall(self, name: str) -> None:
        """Delay each answer to this machine."""
        self._running[name].send_signal(signal.SIGSTOP)

    def answer(self, name: str) -> None:
        self._running[name].send_signal(signal.SIGCONT)

    def down(self) -> None:
        for name, process in self._running.items():
            self.answer(name)
            subprocess.run(["umount", "--lazy", self.of(name)], capture_output=True)
            process.terminate()
            process.wait()
