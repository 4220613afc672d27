"""A /proc of processes that a test makes up, as files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class FakeProc:
    """Processes with parents, sessions, seconds of CPU and pages of memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.start(1, parent=0)

    def start(
        self,
        pid: int,
        *,
        parent: int,
        session: int = 1,
        start_time: int = 100,
        cpu: float = 0.0,
        waited: float = 0.0,
        resident: int = 0,
        pss: int | None = None,
        state: str = "S",
        name: str = "python",
    ) -> None:
        """Add a process, or change it."""
        fields = ["0"] * 49
        fields[0], fields[1], fields[2], fields[3] = state, str(parent), str(session), str(session)
        fields[11], fields[13] = str(round(cpu * TICKS)), str(round(waited * TICKS))
        fields[19], fields[21] = str(start_time), str(resident // PAGE)
        directory = self.path / str(pid)
        directory.mkdir(exist_ok=True)
        (directory / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")
        if pss is not None:
            text = f"0-1 ---p\nRss: 1 kB\nPss:  {pss // 1024} kB\nPss_Anon: 0 kB\n"
            (directory / "smaps_rollup").write_text(text)

    def end(self, pid: int) -> None:
        shutil.rmtree(self.path / str(pid))
