"""Writes a report: reads what there is of the runs, and puts the file in its place, whole or not at all."""

from __future__ import annotations

import importlib.metadata
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nbdist.errors import LaunchError, UsageMistake
from nbdist.feed.summary import facts_of
from nbdist.model import Run
from nbdist.panel.report.gallery import galleries, read_hparams, too_large
from nbdist.panel.report.logs import ROOM, LeftOut, left_out_texts, packed_logs
from nbdist.panel.report.page import MARK, Section, report_html
from nbdist.panel.report.privacy import Privacy
from nbdist.panel.report.series import MOST_TAGS, drawings, read_charts, unread_prints
from nbdist.privacy import secret_values
from nbdist.store import RunDirectory

MOST_RUNS = 32

_PROGRAM_ROOM = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report that was written. ``replaced``: an older one was there."""

    path: Path
    size: int
    replaced: bool
    masked: int
    left_out: Sequence[str] = ()

    @property
    def said(self) -> str:
        """``report.html was replaced: 1.2 MB, opens without a network``."""
        done = "was replaced" if self.replaced else "was written"
        text = f"{self.path} {done}: {max(self.size, 50_000) / 1e6:.1f} MB, opens without a network"
        if self.masked:
            text += f"; {self.masked} values that look like secrets are masked"
        return "\n".join([text, *(f"not in it: {what}" for what in self.left_out)])


def write_report(
    runs: Sequence[tuple[Run, RunDirectory]],
    path: Path,
    language: str,
    *,
    room: int = ROOM,
    tags: int = MOST_TAGS,
) -> Report:
    """Write the runs, at least one, to one HTML file that needs nothing else. ``room``: bytes of logs,
    ``tags``: how many of each run are drawn.

    Raises UsageMistake when there is no place for it at ``path``, LaunchError when it cannot be written.
    """
    if len(runs) > MOST_RUNS:
        raise UsageMistake(f"{len(runs)} runs make no page that opens: name at most {MOST_RUNS}")
    place = Path(os.path.realpath(path.expanduser()))
    replaced = _check(path, place, runs[0][0].label)
    told = [secret for run, _ in runs for secret in secret_values(run.spec.args)]
    privacy = Privacy(homes=_homes(runs), secrets=told)
    now = time.time()
    # a run that goes on has taken so long until now
    runs = [(run if run.state.terminal else replace(run, ended=now), directory) for run, directory in runs]
    sections = [
        Section(
            facts=facts_of(run, directory),
            program=_program(run, directory),
            is_cell=directory.is_cell(run.spec.program),
            hparams=read_hparams(run, directory),
            media=galleries(run, directory),
            logs=packed_logs(run, directory, privacy.clean, language, room=room // len(runs)),
        )
        for run, directory in runs
    ]
    charts = [read_charts(run, directory, most=tags) for run, directory in runs]
    drawn = drawings([(run.label, one) for (run, _), one in zip(runs, charts, strict=True)])
    left_out = [
        LeftOut(
            label=run.label,
            tags=sum(key.group == "metric" for key in one.marks) + len(one.dropped),
            dropped=tuple(one.dropped),
            logs=section.logs,
            records=too_large(directory),
            unread=unread_prints(run, directory),
            program=not section.program and _has_program(run, directory),
        )
        for (run, directory), one, section in zip(runs, charts, sections, strict=True)
    ]
    page = report_html(
        sections,
        drawn,
        language,
        privacy,
        version=_version(),
        now=now,
        left_out=left_out_texts(left_out, language),
    ).encode("utf-8", "replace")
    _put(place, page, path)
    return Report(
        path=path,
        size=len(page),
        replaced=replaced,
        masked=privacy.masked,
        left_out=left_out_texts(left_out, "en"),
    )


def _check(path: Path, place: Path, label: str) -> bool:
    """Whether a report is there that may be replaced. Raises UsageMistake for a place that is none."""
    if os.path.isdir(place):
        raise UsageMistake(
            f"--export {path}: that is a directory: write  --export {path / (label + '.html')}"
        )
    if not os.path.isdir(place.parent):
        raise UsageMistake(
            f"--export {path}: there is no directory {path.parent}: make it, or write  --export {path.name}"
        )
    if not os.path.lexists(place):
        return False
    try:
        # a pipe would have us wait for a writer
        if place.is_file():
            with place.open("rb") as file:
                if MARK.encode() in file.read(200):
                    return True
    except OSError as error:
        raise UsageMistake(f"--export {path}: {error.strerror}: write another name") from None
    raise UsageMistake(
        f"--export {path}: that file is no report of nbdist and is left alone: write another name"
    )


def _version() -> str:
    try:
        return importlib.metadata.version("nbdist")
    except importlib.metadata.PackageNotFoundError:  # a source tree that is not installed
        return "?"


def _put(place: Path, page: bytes, path: Path) -> None:
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        # to be shared: as open as the user's other files
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(page)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, place)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise LaunchError(f"the report {path} cannot be written: {error.strerror or error}") from error


def _homes(runs: Sequence[tuple[Run, RunDirectory]]) -> list[tuple[str, str]]:
    """Where the runs lie, and what stands for it."""
    found = []
    for run, directory in runs:
        for path in (directory.path, directory.path.resolve()):
            found += [(str(path), run.run_id), (str(path.parent.parent), "$NBDIST_HOME")]
    return found


def _has_program(run: Run, directory: RunDirectory) -> bool:
    """Whether there is one, which is not empty."""
    try:
        return directory.program(run.spec.program).stat().st_size > 0
    except OSError:
        return False


def _program(run: Run, directory: RunDirectory) -> str:
    path = directory.program(run.spec.program)
    try:
        if path.stat().st_size > _PROGRAM_ROOM:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
