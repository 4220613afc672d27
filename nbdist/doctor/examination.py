"""All probes at once, each with its own time limit: one that hangs is named, and never waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nbdist.devices.gpus import list_gpus
from nbdist.doctor.gpus import examine_gpus
from nbdist.doctor.machine import (
    examine_host,
    examine_host_name,
    examine_loopback,
    examine_machine,
    examine_settings,
)
from nbdist.doctor.notebook import examine_notebook, examine_page, examine_server
from nbdist.doctor.packages import IMPORT_SECONDS, examine_board, examine_framework, examine_python
from nbdist.doctor.report import SECTIONS, Entry, Level, Report
from nbdist.doctor.smoke import LIMIT, examine_board_start, examine_runs

_FRAMEWORKS = ("torch", "paddle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Something to look at. ``limit`` is in seconds."""

    section: str
    title: str
    look: Callable[[], Iterable[Entry]]
    limit: float = 5.0


def probes() -> list[Probe]:
    """What is looked at, all at the same time."""
    return [
        Probe(section="host", title="host", look=examine_host),
        Probe(section="python", title="Python", look=examine_python),
        *(
            Probe(
                section="frameworks",
                title=name,
                look=lambda name=name: list(examine_framework(name, gpus=len(list_gpus()))),  # type: ignore[misc]
                limit=IMPORT_SECONDS + 5.0,
            )
            for name in _FRAMEWORKS
        ),
        Probe(section="gpus", title="GPUs", look=examine_gpus, limit=15.0),
        Probe(section="machine", title="machine", look=examine_machine),
        Probe(section="network", title="loopback", look=examine_loopback),
        Probe(section="network", title="host name", look=examine_host_name),
        Probe(section="network", title="settings", look=examine_settings),
        Probe(section="notebook", title="extensions", look=examine_notebook),
        Probe(section="notebook", title="server", look=examine_server),
        Probe(section="notebook", title="the server's JupyterLab", look=examine_page, limit=15.0),
        Probe(section="board", title="VisualDL", look=examine_board),
    ]


def smoke_probes() -> list[Probe]:
    """What starts something: one after the other, when the rest is done."""
    return [
        *(
            Probe(
                section="smoke",
                title=name,
                look=lambda name=name: list(examine_runs(name)),  # type: ignore[misc]
                limit=LIMIT + 30.0,
            )
            for name in _FRAMEWORKS
        ),
        Probe(section="smoke", title="VisualDL", look=examine_board_start, limit=60.0),
    ]


def examine(
    *,
    smoke: bool = False,
    looked_at: Sequence[Probe] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Report:
    """Look at everything; with ``smoke`` start a trial run, too. Raises nothing, and always comes back."""
    started = clock()
    running = [_Look(probe) for probe in (probes() if looked_at is None else looked_at)]
    entries = [entry for look in running for entry in look.result(clock)]
    for probe in smoke_probes() if smoke else ():
        entries += _Look(probe).result(clock)
    return _report(entries, clock() - started)


def examine_mended(report: Report, looked_at: Sequence[Probe] | None = None) -> Report:
    """The report once what it names has been mended: only the sections that named something are looked at
    again."""
    sections = {entry.section for entry in report.entries if entry.repair}
    again = examine(
        looked_at=[
            probe for probe in (probes() if looked_at is None else looked_at) if probe.section in sections
        ]
    )
    others = [entry for entry in report.entries if entry.section not in sections]
    return _report([*others, *again.entries], report.seconds + again.seconds)


def _report(entries: Iterable[Entry], seconds: float) -> Report:
    order = list(SECTIONS)
    ordered = sorted(entries, key=lambda entry: order.index(entry.section))
    return Report(entries=tuple(ordered), seconds=seconds)


class _Look:
    """One probe in a thread of its own, which a process may leave behind when it ends."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._found: list[Entry] = []
        self._done = threading.Event()
        self._started = time.monotonic()
        threading.Thread(target=self._run, name=f"nbdist doctor: {probe.title}", daemon=True).start()

    def result(self, clock: Callable[[], float]) -> list[Entry]:
        left = self._started + self._probe.limit - clock()
        if self._done.wait(max(0.0, left)):
            return self._found
        limit = f"{self._probe.limit:g}"
        return [
            self._unknown(
                f"no answer within {limit} s", f"{limit} 秒内没有响应", "ask again, or look at it by hand"
            )
        ]

    def _run(self) -> None:
        try:
            self._found = list(self._probe.look())
        except Exception as error:  # noqa: BLE001 - a probe that fails must not hide what the others found
            said = f"{type(error).__name__}: {error}"
            self._found = [self._unknown(f"could not be looked at: {said}", f"无法检查：{said}", "")]
        self._done.set()

    def _unknown(self, what: str, what_zh: str, fix: str) -> Entry:
        return Entry(
            section=self._probe.section,
            title=self._probe.title,
            level=Level.WARNING,
            what=what,
            what_zh=what_zh,
            fix=fix,
            fix_zh="稍后再试，或手动检查" if fix else "",
        )
