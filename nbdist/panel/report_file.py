"""A report: runs as one file that opens without a network, drawn by the panel, or as summaries without
scripts."""

from __future__ import annotations

import base64
import hashlib
import html
import os
import time
from collections.abc import Iterator, Mapping, Sequence
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
from nbdist.panel.summary_view import summary_page
from nbdist.privacy import Privacy
from nbdist.store import RunDirectory
from nbdist.store.paths import write_whole
from nbdist.text import say
from nbdist.version import __version__

MARK = "<!-- nbdist report -->"
"""The mark that tells a report from other files at the same place."""

MOST_RUNS = 32
_STATIC = Path(__file__).parent / "static"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report on disk. ``replaced``: in place of an older one."""

    path: Path
    size: int
    replaced: bool
    masked: int
    left_out: Sequence[str] = ()

    @property
    def text(self) -> str:
        """Return ``report.html was replaced: 1.2 MB, opens without a network``."""
        done = "was replaced" if self.replaced else "was written"
        text = f"{self.path} {done}: {max(self.size, 50_000) / 1e6:.1f} MB, opens without a network"
        if self.masked:
            text += f", {self.masked} values that look like secrets are masked"
        return "\n".join([text, *(f"not in it: {what}" for what in self.left_out)])


def write_report(
    runs: Sequence[tuple[Run, RunDirectory]],
    path: Path,
    language: str,
    *,
    room: int = LOG_ROOM,
    tags: int = MOST_TAGS,
) -> Report:
    """Write the runs to one HTML file that needs nothing else, with ``room`` bytes of logs, and ``tags``
    charts each. Raises UsageMistake for a bad ``path``, LaunchError when writing fails."""
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
    try:
        # to be shared: as open as the user's other files
        write_whole(place, page, mode=0o666, durable=True)
    except OSError as error:
        raise LaunchError(f"the report {path} cannot be written: {error.strerror or error}") from error
    return Report(
        path=path,
        size=len(page),
        replaced=replaced,
        masked=privacy.masked,
        left_out=[what.en for recording in recordings for what in recording.left_out],
    )


def _page(recordings: Sequence[Recording], language: str, privacy: Privacy, *, room: Room, now: float) -> str:
    """Return the page. ``privacy`` masks all but the messages, which are masked. ``room``: of pictures and
    sounds."""
    title, several = _title(recordings, language), len(recordings) > 1
    body = [privacy.clean(_missing(recordings, language))]
    if several:
        body += [privacy.clean("".join(_table(recordings, language))), "<div data-nbdist-overlay></div>"]
    for recording in recordings:
        if several:
            body.append(privacy.clean(f"<h2>{html.escape(recording.run.label)}</h2>"))
        messages = (f'<script type="text/plain">{message}</script>' for message in recording.messages)
        summary = clean_again(privacy, _summary(recording, language))
        body.append(f"<div data-nbdist-run>{summary}{_outputs(recording)}{''.join(messages)}</div>")
        body.append(privacy.clean(_hparams(recording.hparams, language)))
        # pictures are no text to mask
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
    """Return the panel's script and its style sheet. Raises LaunchError."""
    try:
        script, look = ((_STATIC / name).read_text(encoding="utf-8") for name in ("panel.js", "panel.css"))
    except FileNotFoundError:
        raise LaunchError(
            "the panel of this checkout, which a report shows, is not built: run  make"
        ) from None
    # the script must not close its own element
    return script.replace("</script", "<\\/script"), look


def _policy(script: str) -> str:
    """Return the policy that lets a page load nothing and run no script but ours."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data: blob:; media-src data:; base-uri 'none'; form-action 'none'"
    )


def _title(recordings: Sequence[Recording], language: str) -> str:
    labels = ", ".join(recording.run.label for recording in recordings)
    if len(recordings) == 1:
        return f"{labels} · {say('report.report', language)}"
    return f"{say('report.comparison', language, count=len(recordings))} · {labels}"


def _header(title: str, language: str, masked: int, *, now: float) -> str:
    texts = [say("report.exported", language, time=_moment(now), version=__version__)]
    if masked:
        texts.append(say("report.masked", language, count=masked))
    about = html.escape(" · ".join(texts))
    return f'<header><h1>{html.escape(title)}</h1><span class="n-muted">{about}</span></header>'


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _missing(recordings: Sequence[Recording], language: str) -> str:
    texts = [what.text(language) for recording in recordings for what in recording.left_out]
    items = "".join(f"<li>{html.escape(text)}</li>" for text in texts)
    title = html.escape(say("report.not-in-it", language))
    return f'<aside class="r-missing"><b>{title}</b><ul>{items}</ul></aside>' if items else ""


def _table(recordings: Sequence[Recording], language: str) -> Iterator[str]:
    """Yield a table of the runs, numbered and coloured as their curves, with the last values."""
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


def _summary(recording: Recording, language: str) -> str:
    """Return the summary and program that the panel replaces when it is drawn."""
    program = recording.program.rstrip()
    page = summary_page(recording.facts, language, recording.notes)
    return f"{page}<pre>{html.escape(program)}</pre>" if recording.program else page


def _outputs(recording: Recording) -> str:
    outputs = "".join(f"<div>{bundle_html(bundle)}</div>" for bundle in recording.outputs)
    return f'<div class="r-shown">{outputs}</div>' if outputs else ""


def _hparams(hparams: Mapping[str, str], language: str) -> str:
    pairs = ((html.escape(key), html.escape(value)) for key, value in hparams.items())
    rows = "".join(f"<tr><th>{key}</th><td>{value}</td></tr>" for key, value in pairs)
    title = html.escape(say("report.hparams", language))
    return (
        f'<section><h2>{title}</h2><div class="r-wide"><table>{rows}</table></div></section>' if rows else ""
    )


def _check(path: Path, place: Path, label: str) -> bool:
    """Return whether the report replaces another. Raises UsageMistake for any other file or directory."""
    if os.path.isdir(place):
        raise UsageMistake(f"--export {path} is a directory: write  --export {path / (label + '.html')}")
    if not os.path.isdir(place.parent):
        raise UsageMistake(
            f"--export {path} needs the directory {path.parent}: make it, or write  --export {path.name}"
        )
    if not os.path.lexists(place):
        return False
    try:
        # opening a pipe would block until a writer comes
        if place.is_file():
            with place.open("rb") as file:
                if MARK.encode() in file.read(200):
                    return True
    except OSError as error:
        raise UsageMistake(f"--export {path} ({error.strerror}): write another name") from None
    raise UsageMistake(f"--export {path} exists and is no report of nbdist: write another name")


def _homes(runs: Sequence[tuple[Run, RunDirectory]]) -> list[tuple[str, str]]:
    """Return the paths of the runs, each with its replacement."""
    homes = []
    for run, directory in runs:
        for path in (directory.path, directory.path.resolve()):
            homes += [(str(path), run.run_id), (str(path.parent.parent), "$NBDIST_HOME")]
    return homes
