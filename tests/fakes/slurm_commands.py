"""Slurm's commands as far as an allocation needs them, with one job whose state a test writes.

The programs are in a folder for PATH; what they know is in the file ``job``: a line as squeue prints it.
"""

from __future__ import annotations

from pathlib import Path

_SBATCH = """echo 'PENDING|Priority||0:00|main|2' > "$here/job"; echo 7"""
_SQUEUE = """\
[ -e "$here/job" ] || { echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1; }
case "$*" in *%S*) echo '2026-01-02T03:04:05|1:00:00';; *) cat "$here/job";; esac"""
_SINFO = "echo '0/2/0/2|up|infinite'"


class SlurmCommands:
    """``folder`` is where the programs and their job are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        programs = {"sbatch": _SBATCH, "squeue": _SQUEUE, "sinfo": _SINFO, "scancel": 'rm -f "$here/job"'}
        for name, text in programs.items():
            program = folder / name
            program.write_text(f"#!/bin/sh\nhere={folder}\n{text}\n")
            program.chmod(0o755)

    @property
    def has_job(self) -> bool:
        return (self.folder / "job").exists()

    def let(self, line: str) -> None:
        """What squeue says of the job from now on."""
        (self.folder / "job").write_text(f"{line}\n")
