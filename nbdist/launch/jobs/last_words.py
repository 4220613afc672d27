"""What a job said last about itself. The lives of a job that is put into the queue again share one file."""

from __future__ import annotations

import re

from nbdist.store.paths import RunDirectory

_TAIL = 64_000
# what ``schedulers.slurm_batch`` says first in each life
_BEGINS = re.compile(r"nbdist: job \S+ on .*, life (\d+), meeting at ")


def last_words(directory: RunDirectory, life: int) -> str:
    """The last line that the job wrote in this life, which may tell why it ended."""
    try:
        text = directory.job_log.read_bytes()[-_TAIL:].decode("utf-8", errors="replace")
    except OSError:
        return (
            f"it left no {directory.job_log}: can the nodes see that directory? choose one that all machines "
            "share with  %env NBDIST_HOME=~/nbdist"
        )
    return last_line(text, life)


def last_line(text: str, life: int) -> str:
    """Of what was written before the first word of this life nothing is its own."""
    said: list[str] = []
    known = life == 0
    for line in map(str.strip, text.splitlines()):
        if (begins := _BEGINS.match(line)) is not None:
            said, known = [], int(begins[1]) == life
        elif line and known:
            said.append(line)
    return said[-1] if said else ""
