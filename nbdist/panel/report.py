"""A report: runs as one file that opens without a network. The panel draws them, from messages in the file;
where no script runs, and on paper, their summaries stand instead."""

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
from nbdist.feed.labels import state_mark, state_word
from nbdist.feed.summary import Facts, facts_of, remarks
from nbdist.feed.view import duration, number_text
from nbdist.model import Run, RunState
from nbdist.panel.gallery import MEDIA_ROOM, Gallery, Room, galleries, media_html, too_large
from nbdist.panel.outputs import Bundle, bundle_html, output_bundles
from nbdist.panel.recording import LOG_ROOM, MOST_TAGS, Recording, record
from nbdist.panel.summary import rank_chip, sheet, summary_page
from nbdist.privacy import Privacy
from nbdist.store import RunDirectory
from nbdist.store.metrics import read_hparams
from nbdist.text import Both, both, say

MARK = "<!-- nbdist report -->"
"""By which a report is known from other files that may lie at the same place."""

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What there is of one run. ``notes`` are said beside what its summary says; ``shown`` is what its ranks
    showed, for where the panel is not drawn."""

    facts: Facts
    notes: Sequence[str]
    recording: Recording
    hparams: dict[str, str]
    shown: Sequence[Bundle]
    media: Sequence[Gallery]

    @property
    def run(self) -> Run:
        return self.facts.run


def report_html(
    sections: Sequence[Section],
    language: str,
    privacy: Privacy,
    again: Privacy,
    *,
    room: Room,
    version: str,
    now: float,
    left_out: Sequence[str] = (),
) -> str:
    """The whole page. ``privacy`` sees every text of it but the recordings, which it has seen already;
    ``again`` sees what says the same once more. ``room`` is that for pictures and sounds; ``left_out`` says
    what is not in it."""
    title = _title(sections, language)
    body = [_clean(privacy, _missing(left_out, language))]
    if len(sections) > 1:
        body.append(_clean(privacy, _table(sections, language)))
        body.append("<div data-nbdist-overlay></div>")
    for section in sections:
        if len(sections) > 1:
            body.append(privacy.clean(f"<h2>{html.escape(section.run.label)}</h2>"))
        messages = (f'<script type="text/plain">{one}</script>' for one in section.recording.messages)
        instead = _clean(again, _summary(section, language)) + _shown(section)
        body.append(f"<div data-nbdist-run>{instead}{''.join(messages)}</div>")
        body.append(_clean(privacy, _hparams(section.hparams, language)))
        # pictures are no text: nothing in them may be taken for one
        body += media_html(section.media, language, privacy, room)
    head = _header(title, language, privacy.masked, version=version, now=now)
    script, look, own = _bundle()
    return (
        f'<!doctype html>\n{MARK}\n<html lang="{language}" data-nbdist-report data-jp-theme-light="true">'
        f'<head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_policy(script)}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(privacy.clean(title))}</title>"
        f"<style>{look}</style>{sheet('nbdist-report', own)}</head>"
        f'<body><div class="nbdist-report">{privacy.clean(head)}{"".join(body)}</div>'
        f'<script type="module">{script}</script></body></html>\n'
    )


def _bundle() -> tuple[str, str, str]:
    """The panel's script, its look, and the look of what is around it. Raises LaunchError."""
    try:
        script, *looks = (
            (_HERE / name).read_text(encoding="utf-8")
            for name in ("static/panel.js", "static/panel.css", "report.css")
        )
    except FileNotFoundError:
        raise LaunchError(
            "the panel of this checkout, which a report shows, is not built: run  make"
        ) from None
    # it may not end the element that it stands in
    return script.replace("</script", "<\\/script"), looks[0], looks[1]


def _policy(script: str) -> str:
    """Nothing is loaded, and no script runs but ours, whatever the logs hold."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data: blob:; media-src data:; base-uri 'none'; form-action 'none'"
    )


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
    about = html.escape(" · ".join(said))
    return f'<header><h1>{html.escape(title)}</h1><span class="n-muted">{about}</span></header>'


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
    for number, section in enumerate(sections):
        run = section.run
        last = {curve.tag: number_text(curve.last) for curve in section.facts.curves}
        cells = [
            # by its number and colour in the curves
            f"{rank_chip(str(number))} <code>{html.escape(run.label)}</code>",
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


def _summary(section: Section, language: str) -> Iterable[str]:
    """What stands where the panel is drawn."""
    yield summary_page(section.facts, language, section.notes)
    if section.recording.program:
        yield f"<pre>{html.escape(section.recording.program.rstrip())}</pre>"


def _shown(section: Section) -> str:
    shown = "".join(f"<div>{bundle_html(bundle)}</div>" for bundle in section.shown)
    return f'<div class="r-shown">{shown}</div>' if shown else ""


def _hparams(hparams: dict[str, str], language: str) -> Iterable[str]:
    if not hparams:
        return
    rows = "".join(
        f"<tr><th>{html.escape(key)}</th><td>{html.escape(value)}</td></tr>" for key, value in hparams.items()
    )
    title = html.escape(say("report.hparams", language))
    yield f'<section><h2>{title}</h2><div class="r-wide"><table>{rows}</table></div></section>'


MOST_RUNS = 32


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
    room: int = LOG_ROOM,
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
    specs = [run.spec for run, _ in runs]
    privacy, again = (Privacy(*specs, homes=_homes(runs)) for _ in range(2))
    now = time.time()
    media = Room(MEDIA_ROOM)
    sections = []
    left_out: list[Both] = []
    for run, directory in runs:
        # a run that goes on has taken so long until now
        shown = run if run.state.terminal else replace(run, ended=now)
        facts, notes = facts_of(shown, directory), _notes(run, language)
        recording = record(
            shown,
            directory,
            privacy.clean,
            language,
            media=media,
            notes=remarks(facts, language, notes),
            room=room // len(runs),
            tags=tags,
        )
        sections.append(
            Section(
                facts=facts,
                notes=notes,
                recording=recording,
                hparams={name: str(value) for name, value in read_hparams(run, directory).items()},
                shown=output_bundles(shown, directory, language, again.clean),
                media=galleries(run, directory),
            )
        )
        left_out += recording.left_out
        if count := too_large(directory):
            left_out.append(both("report.records-out", label=run.label, count=count))
    page = report_html(
        sections,
        language,
        privacy,
        again,
        room=media,
        version=_version(),
        now=now,
        left_out=[one.text(language) for one in left_out],
    ).encode("utf-8", "replace")
    _put(place, page, path)
    return Report(
        path=path,
        size=len(page),
        replaced=replaced,
        masked=privacy.masked,
        left_out=[one.en for one in left_out],
    )


def _notes(run: Run, language: str) -> list[str]:
    """What is to be said of the run as it stands in a report."""
    going_on = [] if run.state.terminal else [say("report.going-on", language)]
    return going_on + ([say("report.attempts", language, count=run.attempt)] if run.attempt > 1 else [])


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
