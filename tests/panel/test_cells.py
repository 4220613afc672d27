"""A cell of a session as it is shown: lines, figures, and what went wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nbdist.model import CellEnded, RankExited
from nbdist.panel import CellOutput, cell_report
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, a_spec

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


class Shown:
    """Cell 7 of a session of two ranks, which began at the end of their logs."""

    def __init__(self, home: Path) -> None:
        self.run = WrittenRun(home, a_spec(session=60.0))
        self.directory = self.run.directory
        for rank in (0, 1):
            self.run.printed(rank, "of another cell\n")
        self.logs = {rank: self.size(rank) for rank in (0, 1)}
        self.ended: dict[int, CellEnded] = {}
        self.text = ""
        self.figures: list[dict[str, str]] = []
        self.now = 0.0
        self.output = CellOutput(
            self.directory,
            7,
            language="en",
            write=self.write,
            show=self.figures.append,
            clock=lambda: self.now,
        )

    def write(self, text: str) -> None:
        self.text += text

    def size(self, rank: int) -> int:
        return self.directory.rank(rank).log.stat().st_size

    def ends(self, rank: int, outcome: str = "ok") -> None:
        self.ended[rank] = CellEnded(time=CREATED, cell=7, rank=rank, outcome=outcome, log=self.size(rank))

    def raises(self, rank: int, kind: str, message: str, *, line: int, outcome: str = "error") -> None:
        """Write an error as a rank does: first the report, then the traceback."""
        place = str(self.directory.session_cell(7))
        text = f'Traceback (most recent call last):\n  File "{place}", line {line}, in <module>\n'
        text += f"{kind}: {message}\n"
        report = {"type": kind, "message": message, "text": text, "time": CREATED, "log": self.size(rank)}
        path = self.directory.rank(rank).cell_error(7)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(report | {"frames": [[place, line, "<module>", ""]]}))
        self.run.printed(rank, text)
        self.ends(rank, outcome)

    def look(self, *, last: bool = False) -> str:
        """Return the new output."""
        before = len(self.text)
        self.output.look(self.logs, self.ended, last=last)
        return self.text[before:]

    def report(self, exits: dict[int, RankExited] | None = None) -> str:
        return cell_report(self.directory, 7, self.ended, exits or {}, "en")


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    return Shown(tmp_path)


def test_a_line_that_all_ranks_write_is_shown_once(shown: Shown) -> None:
    shown.run.printed(0, "loading\nrank 0\n").printed(1, "loading\nrank 1\nhalf")

    assert shown.look() == "[0–1] loading\n"
    shown.run.printed(0, "done\n").printed(1, " done\ndone\n")
    assert shown.look() == "[0] rank 0\n[1] rank 1\n[1] half done\n[0–1] done\n"
    shown.run.printed(1, "no newline")
    shown.ends(0)
    shown.ends(1)
    assert shown.look(last=True) == "[1] no newline\n"
    assert shown.report() == ""


def test_a_line_waits_a_moment_for_that_of_the_other_rank(shown: Shown) -> None:
    shown.run.printed(0, "step 1\n")

    early = shown.look()
    shown.run.printed(1, "step 1\n")
    together = shown.look()
    shown.run.printed(0, "step 2\n")
    shown.look()
    shown.now += 1
    late = shown.look()

    assert (early, together, late) == ("", "[0–1] step 1\n", "[0] step 2\n")


def test_tracebacks_come_behind_the_output_and_equal_ones_once(shown: Shown) -> None:
    shown.run.printed(0, "before\n").printed(1, "before\n")
    for rank in (0, 1):
        shown.raises(rank, "ValueError", "no 7", line=3)

    assert shown.look(last=True) == "[0–1] before\n"
    assert shown.report().splitlines() == [
        "ranks 0, 1: ValueError: no 7 (line 3)",
        "",
        "—— ranks 0, 1",
        "Traceback (most recent call last):",
        "  cell 7, line 3, in <module>",
        "ValueError: no 7",
    ]


def test_a_rank_that_was_freed_is_not_the_one_that_failed(shown: Shown) -> None:
    shown.raises(1, "KeyError", "'a'", line=2)
    shown.raises(0, "KeyboardInterrupt", "", line=5, outcome="freed")

    heads, *traces = shown.report().split("\n\n")

    assert heads.splitlines() == [
        "rank 1: KeyError: 'a' (line 2)",
        "rank 0 waited for other ranks in line 5: nbdist ended the wait and kept the variables",
    ]
    assert [trace.splitlines()[0] for trace in traces] == ["—— rank 1"]


def test_a_known_error_has_its_cause_and_fix(shown: Shown) -> None:
    for rank in (0, 1):
        message = f"mat1 and mat2 shapes cannot be multiplied ({rank}x3 and 4x5)"
        shown.raises(rank, "RuntimeError", message, line=3)

    heads, *rest = shown.report().split("\n\n")

    assert len(heads.splitlines()) == 2
    assert "in_features" in rest[-1]


def test_a_rank_that_died_is_named_with_how(shown: Shown) -> None:
    shown.ends(1, "died")

    report = shown.report({1: RankExited(time=CREATED, rank=1, code=-9, ended=False)})

    assert report.startswith("rank 1 ended, SIGKILL")
    assert "%dist_session reset" in report


def test_a_figure_comes_in_its_place(shown: Shown) -> None:
    name = f"{'a' * 32}.png"
    for rank in (0, 1):
        media = shown.directory.rank(rank).media
        media.mkdir()
        (media / name).write_bytes(PNG)
        shown.run.printed(rank, f"\x1b]nbdist;{name};4;3\x07<Figure>\n")

    shown.look()

    assert shown.text == "[0–1] <Figure>\n"
    assert [sorted(figure) for figure in shown.figures] == [["image/png", "text/plain"]]


def test_a_flood_is_left_to_the_log(shown: Shown) -> None:
    shown.run.printed(0, "line\n" * 30_000)
    shown.ends(0)

    lines = shown.look(last=True).splitlines()

    assert len(lines) == 20_001
    assert lines[-1] == "[nbdist] 20,000 lines shown, the rest is in the log: %dist_logs"


@pytest.mark.parametrize("ranks", [1, 2])
def test_one_line_of_many_megabytes_is_left_to_the_log(shown: Shown, ranks: int) -> None:
    for rank in range(ranks):
        shown.run.printed(rank, "x" * 12_000_000 + "\n")
        shown.ends(rank)

    shown.look(last=True)
    again = shown.look(last=True)

    assert 3_900_000 < len(shown.text) < 4_010_000
    assert "%dist_logs" in shown.text.splitlines()[-1]
    assert again == ""


def test_a_bar_that_is_drawn_for_megabytes_is_one_line(shown: Shown) -> None:
    shown.run.printed(0, "bar\r" * 2_000_000 + "\nlast")
    shown.ends(0)

    assert shown.look(last=True) == "[0] bar\n[0] last\n"
