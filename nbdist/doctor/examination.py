"""Probes of an examination of this machine, and a trial run."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from nbdist import config, options, runner
from nbdist.devices.gpus import list_gpus
from nbdist.doctor.examination_report import Entry, Report, checks, find
from nbdist.doctor.installed import (
    IMPORT_SECONDS,
    examine_board,
    examine_framework,
    examine_notebook,
    examine_page,
    examine_python,
    examine_server,
)
from nbdist.doctor.probes import (
    examine_gpus,
    examine_host,
    examine_host_name,
    examine_loopback,
    examine_machine,
    examine_settings,
)
from nbdist.errors import NbdistError
from nbdist.preflight.capabilities import build_of
from nbdist.text import say

_NAMED_AFTER = 1.0  # seconds
LIMIT = 120.0
"""Seconds after which the doctor stops the trial."""

_SUMS = """\
import time
dist.all_reduce(x)
start = time.perf_counter()
dist.all_reduce(x)
value = x.item()
print("all_reduce", value, time.perf_counter() - start)
"""
_TRIALS = {
    "torch": f"""\
import os
import torch
import torch.distributed as dist

if torch.cuda.is_available():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
x = torch.ones(1, device="cuda" if torch.cuda.is_available() else "cpu")
{_SUMS}dist.destroy_process_group()
""",
    "paddle": f"""\
import paddle
import paddle.distributed as dist

dist.init_parallel_env()
x = paddle.ones([1])
{_SUMS}""",
}
# 1 from each of two ranks, summed, and that summed again
_RIGHT = 4.0


def examine_runs(framework: str, limit: float = LIMIT) -> Iterator[Entry]:
    """Start the trial, and report its time. End it at the limit (seconds)."""
    build = build_of(framework, sys.path)
    if build is None:
        return
    gpus = [gpu.index for gpu in list_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"))] if build.cuda else []
    where = f"--gpus {gpus[0]},{gpus[1]}" if len(gpus) > 1 else "-n 2"
    title, started = f"{framework}, {where}", time.monotonic()
    try:
        parsed = options.parse(f"{where} --name doctor-{framework} -d")
        planned = runner.plan(parsed, cell=_TRIALS[framework], cwd=os.getcwd(), python_path=sys.path)
        handle = runner.start(planned)
        status = handle.wait(limit)
        if status in ("pending", "starting", "running", "stopping"):
            handle.stop("the trial of the doctor took too long")
        sums = [re.search(r"all_reduce (\S+) (\S+)", handle.logs(rank)) for rank in (0, 1)]
    except NbdistError as error:
        yield find("smoke.not-started", title=title, error=error)
        return
    seconds = time.monotonic() - started
    if status == "finished" and all(match is not None and float(match[1]) == _RIGHT for match in sums):
        slowest = max(float(match[2]) for match in sums if match is not None)
        yield find("smoke.works", title=title, milliseconds=slowest * 1e3, seconds=seconds)
    else:
        yield find("smoke.fails", title=title, status=status, seconds=seconds, run=handle.run.label)


def examine_board_start() -> Iterator[Entry]:
    """Start VisualDL over the latest run, reach it, and end it unless it was running before."""
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


@dataclass(frozen=True, slots=True)
class Probe:
    """Function that yields entries, and its limit in seconds."""

    section: str
    title: str
    look: Callable[[], Iterable[Entry]]
    limit: float = 5.0


def probes() -> list[Probe]:
    """Return the probes that start together."""
    return [
        Probe("host", "host", examine_host),
        Probe("python", "Python", examine_python),
        *(
            Probe("frameworks", name, partial(examine_framework, name), IMPORT_SECONDS + 5.0)
            for name in _TRIALS
        ),
        Probe("gpus", "GPUs", examine_gpus, 15.0),
        Probe("machine", "machine", examine_machine),
        Probe("network", "loopback", examine_loopback),
        Probe("network", "host name", examine_host_name),
        Probe("network", "settings", examine_settings),
        Probe("notebook", "extensions", examine_notebook),
        Probe("notebook", "server", examine_server),
        Probe("notebook", "the server's JupyterLab", examine_page, 15.0),
        Probe("board", "VisualDL", examine_board),
    ]


_LAST_PROBES = [
    *(Probe("smoke", name, partial(examine_runs, name), LIMIT + 30.0) for name in _TRIALS),
    Probe("smoke", "VisualDL", examine_board_start, 60.0),
]
"""Probes that start a run or a server: one after the other, after the rest."""


def examine(
    *,
    smoke: bool = False,
    looked_at: Sequence[Probe] | None = None,
    tell: Callable[[str], object] = lambda _: None,
) -> Report:
    """Run all probes, with ``smoke`` the trials too, and ``tell`` which last. Raise nothing, and return
    within their limits."""
    started = time.monotonic()
    running = [_Look(probe) for probe in (probes() if looked_at is None else looked_at)]
    _name_those_that_last(running, tell)
    entries = [entry for look in running for entry in look.result()]
    for probe in _LAST_PROBES if smoke else ():
        look = _Look(probe)
        _name_those_that_last([look], tell)
        entries += look.result()
    return _report(entries, time.monotonic() - started)


def examine_mended(report: Report, looked_at: Sequence[Probe] | None = None) -> Report:
    """Repeat the sections of the report that have something to repair."""
    sections = {entry.section for entry in report.entries if entry.repair}
    known = probes() if looked_at is None else looked_at
    again = examine(looked_at=[probe for probe in known if probe.section in sections])
    others = [entry for entry in report.entries if entry.section not in sections]
    return _report([*others, *again.entries], report.seconds + again.seconds)


def _report(entries: Iterable[Entry], seconds: float) -> Report:
    order = list(checks()["sections"])
    ordered = sorted(entries, key=lambda entry: order.index(entry.section))
    return Report(entries=tuple(ordered), seconds=seconds)


def _name_those_that_last(looks: Sequence[_Look], tell: Callable[[str], object]) -> None:
    """Wait for the answers; name the probes that have given none, again when they are fewer."""
    language, due, named = config.language(), time.monotonic() + _NAMED_AFTER, ""
    while waits := [look for look in looks if look.lasts]:
        waits[0].wait(_NAMED_AFTER)
        names = ", ".join(look.title(language) for look in waits if look.lasts)
        if names not in ("", named) and time.monotonic() >= due:
            tell(say("doctor.examining", language, what=names))
            named = names


class _Look:
    """Probe in a daemon thread of its own."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._entries: list[Entry] = []
        self._done = threading.Event()
        self._deadline = time.monotonic() + probe.limit
        threading.Thread(target=self._run, name=f"nbdist doctor: {probe.title}", daemon=True).start()

    @property
    def lasts(self) -> bool:
        """Return whether it has no answer, and has time for one."""
        return not self._done.is_set() and time.monotonic() < self._deadline

    def title(self, language: str) -> str:
        title = self._probe.title
        return str(checks()["titles"].get(title, title)) if language == "zh" else title

    def wait(self, seconds: float) -> None:
        self._done.wait(min(seconds, max(0.0, self._deadline - time.monotonic())))

    def result(self) -> list[Entry]:
        if self._done.wait(max(0.0, self._deadline - time.monotonic())):
            return self._entries
        return [self._unknown("probe.silent", limit=self._probe.limit)]

    def _run(self) -> None:
        try:
            self._entries = list(self._probe.look())
        except Exception as error:  # noqa: BLE001 - a probe that fails must not hide what the others found
            self._entries = [self._unknown("probe.broken", error=f"{type(error).__name__}: {error}")]
        self._done.set()

    def _unknown(self, code: str, **facts: object) -> Entry:
        return replace(find(code, title=self._probe.title, **facts), section=self._probe.section)
