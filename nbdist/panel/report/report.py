"""A report: runs as one file that opens without a network, and its page."""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.metadata
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nbdist.errors import LaunchError, UsageMistake
from nbdist.feed.labels import leftover_text, state_mark, state_word
from nbdist.feed.summary import Facts, facts_of
from nbdist.feed.view import duration, number_text
from nbdist.model import Run, RunState
from nbdist.panel.report.gallery import (
    MEDIA_ROOM,
    Gallery,
    Room,
    galleries,
    media_html,
    read_hparams,
    too_large,
)
from nbdist.panel.report.logs import ROOM, LeftOut, PackedLog, left_out_texts, logs_html, packed_logs
from nbdist.panel.report.plot import MOST_TAGS, Drawing, chart_html, drawings, read_charts, unread_prints
from nbdist.panel.summary import SHEET, failure_html, head_html, outcomes_html, sheet
from nbdist.privacy import Privacy, secret_values
from nbdist.store import RunDirectory
from nbdist.text import say

MARK = "<!-- nbdist report -->"
"""By which a report is known from other files that may lie at the same place."""

_HERE = Path(__file__).parent
_COLOURS = """
html { --jp-ui-font-family: system-ui, -apple-system, "Segoe UI", "Noto Sans", "Noto Sans CJK SC", sans-serif;
  --jp-code-font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  --jp-ui-font-color1: #212121; --jp-ui-font-color2: #616161; --jp-layout-color1: #fff;
  --jp-border-color2: #e0e0e0; --n-mark: #ffe08a; color-scheme: light; background: #fff; }
html[data-jp-theme-light=false] { --jp-ui-font-color1: #e0e0e0; --jp-ui-font-color2: #a8a8a8;
  --jp-layout-color1: #141414; --jp-border-color2: #424242; --n-mark: #6d5200; color-scheme: dark;
  background: #141414; }
body { margin: 0; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What there is of one run. ``program`` is the text of its cell or script, empty where it is gone."""

    facts: Facts
    program: str
    is_cell: bool
    hparams: dict[str, str]
    media: Sequence[Gallery]
    logs: Sequence[PackedLog]

    @property
    def run(self) -> Run:
        return self.facts.run


def report_html(
    sections: Sequence[Section],
    drawings: Sequence[Drawing],
    language: str,
    privacy: Privacy,
    *,
    version: str,
    now: float,
    left_out: Sequence[str] = (),
) -> str:
    """The whole page. ``privacy`` sees every text of it; the logs it has seen already. ``left_out`` says
    what is not in it."""
    room = Room(MEDIA_ROOM)
    title = _title(sections, language)
    alone = sections[0] if len(sections) == 1 else None
    # of one run, first how it ended; several are first laid side by side
    first = _outcome(alone, language) if alone else _table(sections, language)
    body = [
        _clean(privacy, _missing(left_out, language)),
        _clean(privacy, first),
        _clean(privacy, _charts(drawings, language)),
    ]
    for section in sections:
        if section is not alone:
            body.append(_clean(privacy, _outcome(section, language, titled=True)))
        body += _section(section, language, privacy, room)
    head = _header(title, language, privacy.masked, version=version, now=now)
    script = (_HERE / "report.js").read_text(encoding="utf-8")
    return (
        f'<!doctype html>\n{MARK}\n<html lang="{language}" data-jp-theme-light="true"><head>'
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_policy(script)}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(privacy.clean(title))}</title>"
        f"<style>{_COLOURS}</style>{SHEET}{sheet('nbdist-report', _rules())}</head>"
        f'<body><div class="nbdist-report">{privacy.clean(head)}{"".join(body)}</div>'
        f"<script>{script}</script></body></html>\n"
    )


def _policy(script: str) -> str:
    """Nothing is loaded, and no script runs but ours, whatever the logs hold."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; media-src data:; base-uri 'none'; form-action 'none'"
    )


def _rules() -> str:
    return "".join((_HERE / name).read_text(encoding="utf-8") for name in ("charts.css", "report.css"))


def _clean(privacy: Privacy, parts: Iterable[str]) -> str:
    return privacy.clean("".join(parts))


def _title(sections: Sequence[Section], language: str) -> str:
    labels = ", ".join(section.run.label for section in sections)
    if len(sections) == 1:
        return f"{labels} · {say('report.report', language)}"
    return f"{say('report.comparison', language, count=len(sections))} · {labels}"


def _header(title: str, language: str, masked: int, *, version: str, now: float) -> str:
    moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(now))
    said = [say("report.exported", language, time=moment, version=version)]
    if masked:
        said.append(say("report.masked", language, count=masked))
    return (
        f'<header><h1>{html.escape(title)}</h1><span class="n-muted">{html.escape(" · ".join(said))}</span>'
        f'<button id="r-theme" type="button">{html.escape(say("report.theme", language))}</button></header>'
    )


def _missing(left_out: Sequence[str], language: str) -> Iterable[str]:
    if left_out:
        items = "".join(f"<li>{html.escape(text)}</li>" for text in left_out)
        title = html.escape(say("report.not-in-it", language))
        yield f'<aside class="r-missing"><b>{title}</b><ul>{items}</ul></aside>'


def _table(sections: Sequence[Section], language: str) -> Iterable[str]:
    """The runs side by side with the last values of their metrics."""
    tags = list(dict.fromkeys(curve.tag for section in sections for curve in section.facts.curves))[:30]
    keys = list(dict.fromkeys(key for section in sections for key in section.hparams))[:30]
    names = [say("report." + key, language) for key in ("run", "state", "ranks", "duration", "created")]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in (*names, *keys, *tags))
    yield f'<div class="r-wide"><table><thead><tr>{head}</tr></thead><tbody>'
    for section in sections:
        run = section.run
        last = {curve.tag: number_text(curve.last) for curve in section.facts.curves}
        cells = [
            f"<code>{html.escape(run.label)}</code>",
            _state(run.state, language),
            str(run.spec.world_size),
            duration(run.elapsed(0)),
            time.strftime("%Y-%m-%d %H:%M", time.localtime(run.spec.created)),
            *(html.escape(section.hparams.get(key, "")) for key in keys),
            *(html.escape(last.get(tag, "")) for tag in tags),
        ]
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield "</tbody></table></div>"


def _state(state: RunState, language: str) -> str:
    text = f"{state_mark(state.value)} {state_word(state, language)}"
    return f'<span class="n-{state.value}">{html.escape(text)}</span>'


def _charts(drawings: Sequence[Drawing], language: str) -> Iterable[str]:
    for group, title in (("metric", "charts"), ("system", "system")):
        shown = [drawing for drawing in drawings if drawing.group == group]
        if not shown and group == "system":
            continue
        yield f"<section><h2>{html.escape(say('report.' + title, language))}</h2>"
        if not shown:
            yield f'<p class="n-muted">{html.escape(say("report.no-metrics", language))}</p>'
        yield '<div class="r-grid-of">'
        yield from (chart_html(drawing, language) for drawing in shown)
        yield "</div></section>"


def _section(section: Section, language: str, privacy: Privacy, room: Room) -> Iterable[str]:
    """What one run was made with, what it showed, its logs and its program."""
    yield _clean(privacy, _hparams(section.hparams, language))
    # pictures are no text: nothing in them may be taken for one
    yield from media_html(section.media, language, privacy, room)
    yield from logs_html(section.logs, section.run.label, language)
    yield _clean(privacy, _program_part(section, language))


def _outcome(section: Section, language: str, *, titled: bool = False) -> Iterable[str]:
    facts, run = section.facts, section.run
    if titled:
        yield f"<h2>{html.escape(run.label)}</h2>"
    yield f'<div class="nbdist-summary">{head_html(facts, language)}'
    if not run.state.terminal:
        yield f"<div>{html.escape(say('report.going-on', language))}</div>"
    elif run.state is not RunState.SUCCEEDED:
        yield outcomes_html(facts, language)
    if run.attempt > 1:
        yield f"<div>{html.escape(say('report.attempts', language, count=run.attempt))}</div>"
    if leftover := leftover_text(run.leftover, language):
        yield f"<div>{html.escape(leftover)}</div>"
    yield "</div>"
    if facts.failure is not None:
        yield f"<h2>{html.escape(say('report.failure', language))}</h2>"
        yield f'<div class="nbdist-summary">{failure_html(facts.failure, facts, language)}</div>'


def _hparams(hparams: dict[str, str], language: str) -> Iterable[str]:
    if not hparams:
        return
    rows = "".join(
        f"<tr><th>{html.escape(key)}</th><td>{html.escape(value)}</td></tr>" for key, value in hparams.items()
    )
    title = html.escape(say("report.hparams", language))
    yield f'<section><h2>{title}</h2><div class="r-wide"><table>{rows}</table></div></section>'


def _program_part(section: Section, language: str) -> Iterable[str]:
    if not section.program:
        return
    title = say(f"report.{'cell' if section.is_cell else 'program'}", language)
    lines = "\n".join(
        f"<span>{number}</span>{html.escape(line)}"
        for number, line in enumerate(section.program.rstrip("\n").split("\n"), start=1)
    )
    yield f'<section><h2>{html.escape(title)}</h2><pre class="r-code">{lines}</pre></section>'


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
