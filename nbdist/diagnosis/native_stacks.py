"""Stacks with the frames of native code in them, by py-spy where it is installed and allowed. py-spy halts a
process for as long as it reads, some 10 ms, so these are only taken when asked for."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence

from nbdist.model import ProcessId, RankState, Run
from nbdist.processes import alive

_LIMIT = 20.0
_MISSING = "py-spy is not installed: %pip install py-spy, and ask again"


def native_stacks(
    run: Run,
    *,
    find: Callable[[str], str | None] = shutil.which,
    call: Callable[[Sequence[str]], tuple[int, str]] | None = None,
) -> Mapping[int, str]:
    """Return py-spy's dump of each rank that runs; where it has none, why not."""
    program = find("py-spy")
    running = [rank for rank in run.ranks if rank.state is RankState.RUNNING and rank.process is not None]
    if program is None:
        return {rank.rank: _MISSING for rank in running}
    call = call or _call
    return {rank.rank: _stack(program, rank.process, call) for rank in running if rank.process is not None}


def _stack(program: str, process: ProcessId, call: Callable[[Sequence[str]], tuple[int, str]]) -> str:
    if not alive(process):
        return "it has exited"
    code, said = call([program, "dump", "--native", "--pid", str(process.pid)])
    if code == 0:
        return said
    last = said.strip().splitlines()[-1:] or [f"exit {code}"]
    hint = ": ask as root, or allow ptrace (kernel.yama.ptrace_scope)" if "ermission" in said else ""
    return f"py-spy: {last[0]}{hint}"


def _call(command: Sequence[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_LIMIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout.decode(errors="replace")
