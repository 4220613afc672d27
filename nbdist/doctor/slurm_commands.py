"""Slurm's commands, asked with patience that ends, and never by a shell."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

from nbdist.schedulers.slurm import scrubbed

_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said. ``missing``: there is none; ``late``: it did not answer in time."""

    code: int
    out: str = ""
    err: str = ""
    missing: bool = False
    late: bool = False

    @property
    def fine(self) -> bool:
        return self.code == 0

    @property
    def why(self) -> str:
        """The last line about what went wrong, without the command's own name."""
        if self.late:
            return f"no answer in {_PATIENCE:g} s"
        lines = [line for line in (self.err or self.out).splitlines() if line.strip()]
        return lines[-1].split(": ", 2)[-1].strip() if lines else f"exit code {self.code}"


def slurm_environment() -> dict[str, str]:
    """Of this process, without what a job has set in which it may itself run."""
    return scrubbed(os.environ)


def call(*words: str) -> Answer:
    try:
        done = subprocess.run(
            words,
            env=slurm_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except OSError:
        return Answer(127, missing=True)
    except subprocess.TimeoutExpired:
        return Answer(124, late=True)
    return Answer(done.returncode, done.stdout, done.stderr)
