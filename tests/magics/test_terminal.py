"""``%%distributed`` in a terminal's IPython, with a real Ctrl-C."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pexpect

CELL = "import os, time\\nprint('ready', os.environ['RANK'])\\ntime.sleep(600)"


def test_a_run_is_text_in_a_terminal_and_ctrl_c_stops_it(tmp_path: Path, leaves_nothing_in) -> None:
    environment = os.environ | {
        "NBDIST_HOME": str(tmp_path / "home"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "LANG": "en_US.UTF-8",
    }
    arguments = ["-m", "IPython", "--simple-prompt", "--no-banner", "--no-confirm-exit", "--colors=NoColor"]
    shell = pexpect.spawn(sys.executable, arguments, env=environment, encoding="utf-8", timeout=30)
    try:
        shell.expect(r"In \[1\]: ")
        shell.sendline("%load_ext nbdist")
        shell.expect(r"In \[2\]: ")
        shell.sendline(f"get_ipython().run_cell_magic('distributed', '-n 2', \"{CELL}\")")
        shell.expect(r"\[0\] ready 0|\[1\] ready 1")
        shell.expect(r"\[0\] ready 0|\[1\] ready 1")

        shell.sendintr()

        shell.expect(r"Stopped · 2 ranks · .* · the kernel was interrupted")
        shell.expect(r"In \[3\]: ")
        assert "RunStopped" not in str(shell.before)
    finally:
        shell.close(force=True)
    leaves_nothing_in(tmp_path / "home")
