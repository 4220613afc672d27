"""A report: runs as one file that opens without a network. The panel draws them, from messages in the file;
where no script runs, and on paper, their summaries stand instead."""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.metadata
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist.errors import LaunchError, UsageMistake
from nbdist.feed.labels import state_mark, state_word
from nbdist.feed.view import duration, number_text
from nbdist.model import Run
from nbdist.panel.gallery import MEDIA_ROOM, Room, media_html
from nbdist.panel.look import page_sheet, rank_chip
from nbdist.panel.outputs import bundle_html
from nbdist.panel.recording import LOG_ROOM, MOST_TAGS, Recording, clean_again, record
from nbdist.panel.summary import summary_page
from nbdist.privacy import Privacy
from nbdist.store import RunDirectory
from nbdist.text import say

MARK = "<!-- nbdist report -->"
"""By which a report is known from other files that may lie at the same place."""

_STATIC = Path(__file__).parent / "static"


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
        """Return ``report.html was replaced: 1.2 MB, opens without a network``."""
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
    privacy, media, now = Privacy(*specs, homes=_homes(runs)), Room(MEDIA_ROOM), time.time()
    each = room // len(runs)
    recordings = [
        record(run, directory, privacy, language, media=media, now=now, room=each, tags=tags)
        for run, directory in runs
    ]
    page = _page(recordings, language, privacy, room=media, now=now).encode("utf-8", "replace")
    _put(place, page, path)
    return Report(
        path=path,
        size=len(page),
        replaced=replaced,
        masked=privacy.masked,
        left_out=[what.en for recording in recordings for what in recording.left_out],
    )


def _page(recordings: Sequence[Recording], language: str, privacy: Privacy, *, room: Room, now: float) -> str:
    """Return the whole page. ``privacy`` sees every text of it but those in messages, which it has seen
    already. ``room`` is that for pictures and sounds."""
    title, several = _title(recordings, language), len(recordings) > 1
    body = [_clean(privacy, _missing(recordings, language))]
    if several:
        body += [_clean(privacy, _table(recordings, language)), "<div data-nbdist-overlay></div>"]
    for recording in recordings:
        if several:
            body.append(privacy.clean(f"<h2>{html.escape(recording.run.label)}</h2>"))
        messages = (f'<script type="text/plain">{message}</script>' for message in recording.messages)
        summary = clean_again(privacy, "".join(_summary(recording, language)))
        instead = summary + _outputs(recording)
        body.append(f"<div data-nbdist-run>{instead}{''.join(messages)}</div>")
        body.append(_clean(privacy, _hparams(recording.hparams, language)))
        # pictures are no text: nothing in them may be taken for one
        body += media_html(recording.galleries, language, privacy, room)
    head = privacy.clean(_header(title, language, privacy.masked, now=now))
    script, look = _bundle()
    return (
        f'<!doctype html>\n{MARK}\n<html lang="{language}" data-nbdist-report data-jp-theme-light="true">'
        f'<head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_policy(script)}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(privacy.clean(title))}</title><style>{look}</style>{page_sheet('report')}</head>"
        f'<body><div class="nbdist-report">{head}{"".join(body)}</div>'
        f'<script type="module">{script}</script></body></html>\n'
    )


def _bundle() -> tuple[str, str]:
    """Return the panel's script, and its look. Raises LaunchError."""
    try:
        script, look = ((_STATIC / name).read_text(encoding="utf-8") for name in ("panel.js", "panel.css"))
    except FileNotFoundError:
        raise LaunchError(
            "the panel of this checkout, which a report shows, is not built: run  make"
        ) from None
    # it may not end the element that it stands in
    return script.replace("</script", "<\\/script"), look


def _policy(script: str) -> str:
    """Return the policy by which a page loads nothing and runs no script but ours, whatever the logs hold."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data: blob:; media-src data:; base-uri 'none'; form-action 'none'"
    )


def _clean(privacy: Privacy, parts: Iterable[str]) -> str:
    return privacy.clean("".join(parts))


def _title(recordings: Sequence[Recording], language: str) -> str:
    labels = ", ".join(recording.run.label for recording in recordings)
    if len(recordings) == 1:
        return f"{labels} · {say('report.report', language)}"
    return f"{say('report.comparison', language, count=len(recordings))} · {labels}"


def _header(title: str, language: str, masked: int, *, now: float) -> str:
    texts = [say("report.exported", language, time=_moment(now), version=_version())]
    if masked:
        texts.append(say("report.masked", language, count=masked))
    about = html.escape(" · ".join(texts))
    return f'<header><h1>{html.escape(title)}</h1><span class="n-muted">{about}</span></header>'


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _missing(recordings: Sequence[Recording], language: str) -> Iterator[str]:
    texts = [what.text(language) for recording in recordings for what in recording.left_out]
    if texts:
        items = "".join(f"<li>{html.escape(text)}</li>" for text in texts)
        title = html.escape(say("report.not-in-it", language))
        yield f'<aside class="r-missing"><b>{title}</b><ul>{items}</ul></aside>'


def _table(recordings: Sequence[Recording], language: str) -> Iterator[str]:
    """Return the runs side by side with the last values of their metrics."""
    tags = list(dict.fromkeys(curve.tag for each in recordings for curve in each.facts.curves))[:30]
    keys = list(dict.fromkeys(key for each in recordings for key in each.hparams))[:30]
    names = [say("report." + key, language) for key in ("run", "state", "ranks", "duration", "created")]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in (*names, *keys, *tags))
    yield f'<div class="r-wide"><table><thead><tr>{head}</tr></thead><tbody>'
    for number, recording in enumerate(recordings):
        run = recording.run
        last = {curve.tag: number_text(curve.last) for curve in recording.facts.curves}
        state = html.escape(f"{state_mark(run.state.value)} {state_word(run.state, language)}")
        cells = [
            # by its number and colour in the curves
            f"{rank_chip(str(number))} <code>{html.escape(run.label)}</code>",
            f'<span class="n-{run.state.value}">{state}</span>',
            str(run.spec.world_size),
            duration(run.elapsed(0)),
            _moment(run.spec.created),
            *(html.escape(recording.hparams.get(key, "")) for key in keys),
            *(html.escape(last.get(tag, "")) for tag in tags),
        ]
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield "</tbody></table></div>"


def _summary(recording: Recording, language: str) -> Iterator[str]:
    """Return what stands where the panel is drawn."""
    yield summary_page(recording.facts, language, recording.notes)
    if recording.program:
        yield f"<pre>{html.escape(recording.program.rstrip())}</pre>"


def _outputs(recording: Recording) -> str:
    outputs = "".join(f"<div>{bundle_html(bundle)}</div>" for bundle in recording.outputs)
    return f'<div class="r-shown">{outputs}</div>' if outputs else ""


def _hparams(hparams: Mapping[str, str], language: str) -> Iterator[str]:
    if hparams:
        rows = "".join(
            f"<tr><th>{html.escape(key)}</th><td>{html.escape(value)}</td></tr>"
            for key, value in hparams.items()
        )
        title = html.escape(say("report.hparams", language))
        yield f'<section><h2>{title}</h2><div class="r-wide"><table>{rows}</table></div></section>'


def _check(path: Path, place: Path, label: str) -> bool:
    """Return whether a report is there, to be replaced. Raises UsageMistake for a place that is none."""
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
    """Return where the runs lie, and what stands for it."""
    homes = []
    for run, directory in runs:
        for path in (directory.path, directory.path.resolve()):
            homes += [(str(path), run.run_id), (str(path.parent.parent), "$NBDIST_HOME")]
    return homes
