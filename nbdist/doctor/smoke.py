"""A trial run: two ranks, one all_reduce, through nbdist's own launcher, for a framework that is there."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator

from nbdist import options, runner
from nbdist.devices.gpus import list_gpus
from nbdist.diagnosis.checks.machine import build_of
from nbdist.doctor.report import Entry, find
from nbdist.errors import NbdistError

LIMIT = 120.0
"""Seconds after which the trial is stopped."""

_PROGRAMS = {
    "torch": """\
import os, time
import torch
import torch.distributed as dist

if torch.cuda.is_available():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
one = torch.ones(1, device="cuda" if torch.cuda.is_available() else "cpu")
dist.all_reduce(one)
start = time.perf_counter()
dist.all_reduce(one)
value = one.item()
print("all_reduce", value, time.perf_counter() - start)
dist.destroy_process_group()
""",
    "paddle": """\
import time
import paddle
import paddle.distributed as dist

dist.init_parallel_env()
one = paddle.ones([1])
dist.all_reduce(one)
start = time.perf_counter()
dist.all_reduce(one)
value = one.item()
print("all_reduce", value, time.perf_counter() - start)
""",
}
# 1 from each of two ranks, summed, and that summed again
_RIGHT = 4.0


def examine_runs(framework: str, limit: float = LIMIT) -> Iterator[Entry]:
    """Start the trial, wait for its end, and say how long it took. Whatever goes on at the limit is ended."""
    build = build_of(framework, sys.path)
    if build is None:
        return
    gpus = [gpu.index for gpu in list_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"))] if build.cuda else []
    where = f"--gpus {gpus[0]},{gpus[1]}" if len(gpus) > 1 else "-n 2"
    title, started = f"{framework}, {where}", time.monotonic()
    try:
        handle = runner.start(
            runner.plan(
                options.parse(f"{where} --name doctor-{framework} -d"),
                cell=_PROGRAMS[framework],
                cwd=os.getcwd(),
                python_path=sys.path,
            )
        )
        status = handle.wait(limit)
        if status in ("pending", "starting", "running", "stopping"):
            handle.stop("the trial of the doctor took too long")
        said = [re.search(r"all_reduce (\S+) (\S+)", handle.logs(rank)) for rank in (0, 1)]
    except NbdistError as error:
        yield find("smoke.not-started", title=title, error=error)
        return
    seconds = time.monotonic() - started
    if status == "succeeded" and all(found is not None and float(found[1]) == _RIGHT for found in said):
        slowest = max(float(found[2]) for found in said if found is not None)
        yield find("smoke.works", title=title, milliseconds=slowest * 1e3, seconds=seconds)
    else:
        yield find("smoke.fails", title=title, status=status, seconds=seconds, run=handle.run.label)


def examine_board_start() -> Iterator[Entry]:
    """Start VisualDL over the latest run, ask it, and end it again where it was not running before."""
    try:
        handles = runner.runs()[:1]
        if not handles:
            return
        from nbdist.board import find_board, stop_board

        before = find_board(runner.store().home) is not None
        started = time.monotonic()
        runner.reach_board(handles)
        seconds = time.monotonic() - started
        if not before:
            stop_board(runner.store().home)
    except NbdistError as error:
        yield find("smoke.no-board", error=error)
    else:
        yield find("smoke.board", seconds=seconds)
