"""A notebook on a login node: a process with an IPython shell, which runs a cell at a time.

``python -m tests.engines.notebook`` is that process: a cell is a line of JSON on its standard input, and what
it wrote is one on its standard output.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


class Notebook:
    """``environment`` and ``folder`` are the kernel's."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        root = Path(__file__).parents[2]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.engines.notebook", str(folder)],
            cwd=root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, cell: str) -> str:
        """Run a cell; return its output and traceback."""
        self.process.stdin.write(json.dumps(cell) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "the kernel ended"
        return str(json.loads(answer))

    def kill(self) -> None:
        """Kill the kernel, like the system or a restart that takes too long."""
        self.process.kill()
        self.process.wait()
        self._forget()

    def close(self) -> None:
        """Shut the kernel down."""
        if self.process.poll() is None and self.process.stdin is not None:
            self.process.stdin.close()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        self._forget()

    def _forget(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def main() -> None:
    from IPython.core.interactiveshell import InteractiveShell

    os.chdir(sys.argv[1])
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "nbdist")
    for line in sys.stdin:
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            shell.run_cell(json.loads(line))
        print(json.dumps(output.getvalue()), flush=True)


if __name__ == "__main__":
    main()
