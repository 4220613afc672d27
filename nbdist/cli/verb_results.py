"""The results of verbs in a terminal: text, JSON, an exit code."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from nbdist import config, runner
from nbdist.cli.running import TIME_LIMIT, complain, complete_lines, in_a_shell, note, print_json
from nbdist.errors import LaunchError, UnknownRun, UsageMistake
from nbdist.feed.ansi import harmless
from nbdist.feed.explanation import encode
from nbdist.feed.labels import cut
from nbdist.feed.log_lines import LogLine, places_text
from nbdist.feed.profile import Profile
from nbdist.feed.view import number_text
from nbdist.panel import Overview, StatusReader, comparison_text, follow, stopped_text, sweep_headline
from nbdist.panel.debug_prompt import DebugPrompt
from nbdist.panel.terminal import Block, Line, Terminal
from nbdist.panel.text import LogSurface, rank_prefix
from nbdist.text import say
from nbdist.verbs.machines import Examined
from nbdist.verbs.overviews import Overviews
from nbdist.verbs.runs import Beside, Curves, Explained, Listed, Logs, Metrics, Stacks, Stopped, Waited
from nbdist.version import JSON_VERSION

if TYPE_CHECKING:
    from nbdist.board import Reach
    from nbdist.panel.report_file import Report

_LINES = 4096  # per write
_PAUSE = 0.1  # seconds between two looks at followed logs
_WATCH_PERIOD = 1.0


def _versioned(data: dict[str, Any]) -> dict[str, Any]:
    return {"version": JSON_VERSION} | data


def show_status(listed: Listed) -> int:
    if listed.json:
        views = StatusReader(listed.directories(), failures=True).look(time.time())
        print(json.dumps([_versioned(view.to_dict()) for view in views], indent=1))
        return 0
    overviews = Overviews(listed)
    if listed.watch:
        _watch(overviews, until_ended=bool(listed.named))
    else:
        print(_overview_text(overviews.look()))
    return 0


def _overview_text(overview: Overview) -> str:
    return harmless(in_a_shell(overview.text(config.language())))


def _watch(overviews: Overviews, *, until_ended: bool) -> None:
    """Keep the table at the foot of the terminal up to date, and leave the last one as text."""
    terminal = Terminal(sys.stdout)
    if not terminal.drawable:
        raise UsageMistake("--watch needs a terminal: write  nbdist status")
    block = Block(_write, terminal)
    overview = overviews.look()
    try:
        while not until_ended or any(view.live for view in overview.views):
            block.draw("", _fitting(overview, terminal))
            time.sleep(_WATCH_PERIOD)
            overview = overviews.look()
    finally:
        block.erase()
        print(_overview_text(overview))


def _fitting(overview: Overview, terminal: Terminal) -> list[Line]:
    """Return the part of the text that fits into the terminal, its foot first of all."""
    language, (columns, rows) = config.language(), terminal.size()
    lines = _overview_text(overview).splitlines()
    if len(lines) >= rows:
        foot = len(overview.others(language)) + len(overview.lines)
        end = len(lines) - min(foot, rows // 2)
        shown = max(1, rows - 2 - len(lines) + end)
        lines[shown:end] = [say("panel.more-lines", language, count=end - shown)]
    return [Line().add(cut(line, columns - 1)) for line in lines]


def show_logs(logs: Logs) -> int:
    if logs.json:
        _print_lines(logs)
        return 0
    if logs.follow:
        _follow(logs)
        return 0
    count = logs.handle.run.spec.world_size
    for rank in logs.ranks:
        prefix = "" if logs.named else rank_prefix(rank, count)
        lines = (f"{prefix}{line}\n" for line in logs.lines(rank))
        while text := "".join(islice(lines, _LINES)):
            sys.stdout.write(harmless(text))
    sys.stdout.flush()
    return 0


def _follow(logs: Logs) -> None:
    surface = LogSurface(
        _write, ranks=logs.ranks, pattern=logs.pattern, tail=logs.tail, prefixed=not logs.named
    )

    def wait(seconds: float) -> None:
        surface.caught_up()
        time.sleep(seconds)

    try:
        follow(logs.handle.directory, surface, whole=True, attend=logs.handle.keep_watched, wait=wait)
    except UnknownRun as gone:
        raise LaunchError(str(gone)) from None
    surface.caught_up()


def _print_lines(logs: Logs) -> None:
    """Print an object for each line, and a last one with the places to read on from."""
    readers, tail = logs.readers(), logs.tail
    while True:
        run = logs.handle.run
        for reader in readers:
            lines: Iterable[LogLine] = (line for line in reader.read(run) if logs.pattern.search(line.text))
            for line in lines if tail is None else deque(lines, maxlen=tail):
                place = {"rank": line.rank, "attempt": line.attempt, "time": line.time, "offset": line.offset}
                row = _versioned(place | {"untrusted": {"text": line.text}})
                sys.stdout.write(f"{encode(row)}\n")
        sys.stdout.flush()
        if not logs.follow or run.state.terminal:
            ahead = places_text({reader.rank: reader.next for reader in readers})
            print_json(_versioned({"run_id": run.run_id, "state": run.state.value, "next": ahead}))
            return
        tail = None
        time.sleep(_PAUSE)


def show_explained(explained: Explained) -> int:
    if explained.json:
        print_json(explained.explanation.to_dict())
    elif explained.copy:
        print(explained.report, end="")
    else:
        print(harmless(in_a_shell(str(explained.explanation))))
    return 0


def show_waited(waited: Waited) -> int:
    run, state = waited.run, waited.run.state.value
    if waited.json:
        print_json(_versioned(waited.to_dict()))
    elif waited.moment:
        print(waited.moment)
    elif waited.late:
        note(f"{run.label} is still {state} at the time limit")
    else:
        note(f"{run.label} has ended: {state}")
    return 0 if waited.moment else TIME_LIMIT if waited.late else 1


def show_metrics(metrics: Metrics) -> int:
    if metrics.json:
        print_json([_versioned(row) for row in metrics.to_list()])
        return 0
    for run, curves in metrics.runs:
        width = max((len(curve.tag) for curve in curves), default=0)
        for curve in curves:
            values = " ".join(f"{number_text(value)} ({at:g})" for at, value in curve.points)
            print(harmless(f"{run.label}  {curve.tag:<{width}}  {values}"))
        if not curves:
            note(f"{run.label} has recorded and printed no metrics")
    return 0


def show_compared(beside: Beside) -> int:
    if beside.json:
        print_json(beside.comparison.to_dict(all_rows=beside.all_rows))
    else:
        text = comparison_text(beside.comparison, config.language(), all_rows=beside.all_rows)
        print(harmless(in_a_shell(text)))
    return 0


def show_stopped(stopped: Stopped) -> int:
    if stopped.note:
        note(stopped.note)
    for run in stopped.ended:
        print(stopped_text(run))
    for view in stopped.sweeps:
        print(sweep_headline(view, config.language()))
    for line in stopped.going_on:
        complain(line)
    return 1 if stopped.going_on else 0


def show_stacks(stacks: Stacks) -> int:
    # an import that only this command needs
    from nbdist.diagnosis.stack_text import sentence, stacks_text

    language, report = config.language(), stacks.report
    native = {rank: in_a_shell(text) for rank, text in (stacks.native or {}).items()}
    if stacks.json:
        data = _versioned(report.to_dict()) | {"sentence": sentence(report, language)}
        if stacks.native is not None:
            data["native"] = {str(rank): text for rank, text in native.items()}
        print(json.dumps(data, indent=2))
    else:
        terminal = Terminal(sys.stdout)
        paint = terminal.paint if sys.stdout.isatty() else lambda text, _: text
        print(harmless(stacks_text(report, language, all_threads=stacks.threads, paint=paint)))
        for rank, text in native.items():
            print(harmless(f"\n[{rank}] {text.rstrip()}"))
    return 1 if report.problem else 0


def show_board(shown: Curves | Report | bool) -> int:
    if isinstance(shown, Curves):
        _show_address(shown.reach)
    elif isinstance(shown, bool):
        note("the server has ended" if shown else "there was no server")
    else:
        print(shown.path)
        note(shown.text)
    return 0


def _show_address(reach: Reach) -> None:
    if not reach.url:
        raise LaunchError(reach.problem)
    print(reach.url)
    if reach.direct and sys.stdout.isatty():
        port = urlsplit(reach.url).port
        note(f"from another machine, first:  ssh -L {port}:127.0.0.1:{port} <this machine>")
    elif not reach.direct and reach.url.startswith("/"):
        note("a path on the Jupyter server that this terminal belongs to")


def show_examined(examined: Examined) -> int:
    # an import that only this command needs
    from nbdist.doctor import report_text

    report = examined.report
    for line in examined.mended:
        note(line)
    if examined.json:
        print(harmless(json.dumps(_versioned(report.to_dict()), indent=1, ensure_ascii=False)))
    else:
        print(in_a_shell(report_text(report, config.language())))
    return 0 if report.healthy else 1


def show_session(lines: Sequence[str]) -> int:
    for line in lines:
        print(harmless(in_a_shell(line)))
    return 0


def show_profile(profile: Profile) -> int:
    print("\n".join(profile.lines(config.language())))
    return 0


def show_debugged(prompt: DebugPrompt) -> int:
    complete_lines(prompt)
    prompt.run()
    return 0


def show_export(exported: runner.Export) -> int:
    print(harmless("\n".join(runner.export_text(exported))))
    return 0


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
