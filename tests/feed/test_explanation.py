"""An explanation of a run in two kilobytes: the panel's facts, without secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from nbdist.feed.explanation import ROOM, Explanation, encode, explain_run
from nbdist.feed.following import RunFeed
from nbdist.model import RunState
from nbdist.privacy import digests_of
from nbdist.store import RunDirectory, snapshot
from tests.corpus.test_corpus import RUNS, laid_out
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited, run_ended, stalled

SAMPLES = sorted((Path(__file__).parents[1] / "diagnosis" / "samples").glob("*.txt"))
CELL = "import os\n\n\ndef train(rate):\n    for step in range(9):\n        rate / (step - 4)\n\n\ntrain(1)\n"
TOKEN = "hf_" + "a1" * 16


@pytest.fixture
def written(tmp_path: Path) -> WrittenRun:
    return WrittenRun(tmp_path / "home", cell=CELL).happened(*STARTED)


def failed(written: WrittenRun, message: str = "division by zero", *, line: int = 6) -> WrittenRun:
    program = written.spec.program
    frames = [(program, 9, "<module>", "train(1)"), (program, line, "train", "rate / (step - 4)")]
    written.raised(1, "ZeroDivisionError", message, time=CREATED + 7, frames=frames)
    written.happened(errored(1), exited(0, -15, ended=True), exited(1, 1))
    return written.happened(run_ended(RunState.FAILED, "rank 1 failed"))


def explained(written: WrittenRun, language: str = "en") -> Explanation:
    return explain_run(written.run, written.directory, language, now=CREATED + 100)


def as_read(explanation: Explanation) -> dict[str, Any]:
    """Return the data that a program reads."""
    text = encode(explanation.to_dict())
    assert len(text.encode()) <= ROOM
    data: dict[str, Any] = json.loads(text)
    return data


def shown(directory: RunDirectory) -> dict[str, Any] | None:
    """Return the first failure in the panel."""
    run = snapshot(directory)
    assert run is not None
    feed = RunFeed(directory, room=None)
    now = run.ended or CREATED + 100
    feed.read(run, now)
    view = feed.view(run, now)
    return None if view.failure is None else asdict(view.failure)


def captured(tmp_path: Path) -> Iterator[tuple[str, RunDirectory]]:
    """Return recorded runs, and one for each sample of a framework's error."""
    for recorded in RUNS:
        (home := tmp_path / recorded["name"].replace("/", "-") / "runs").mkdir(parents=True)
        yield recorded["name"], laid_out(home, recorded)
    for sample in SAMPLES:
        run = WrittenRun(tmp_path / sample.stem, cell=CELL).happened(*STARTED)
        text = sample.read_text()
        code = re.search(r"^exit (-?\d+)( oom| limit)?$", text, re.M)
        run.printed(1, text if code is None else "epoch 1\n").printed(0, "epoch 1\n")
        ended = exited(1, int(code[1]) if code is not None else 1, time=CREATED + 8)
        run.happened(ended, exited(0, -15, ended=True, time=CREATED + 9))
        yield sample.stem, run.happened(run_ended(RunState.FAILED, "rank 1 failed")).directory


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_has_the_rank_the_line_and_the_cause_of_the_panel(tmp_path: Path, language: str) -> None:
    known = failures = 0
    zh = "_zh" if language == "zh" else ""
    for name, directory in captured(tmp_path):
        run, panel = snapshot(directory), shown(directory)
        assert run is not None

        failure = as_read(explain_run(run, directory, language))["failure"]

        assert (failure is None) == (panel is None), name
        if failure is None or panel is None:
            continue
        failures += 1
        known += bool(failure["cause"])
        for field in ("rank", "line", "file", "file_line"):
            assert failure[field] == panel[field], (name, field)
        for field in ("headline", "cause", "fix"):
            assert failure[field] == panel[field + zh], (name, field)
    assert failures > 170
    assert known > 160


def test_of_a_failure_it_has_the_lines_around_it_and_what_followed(written: WrittenRun) -> None:
    failed(written)

    data = as_read(explained(written))

    failure = data["failure"]
    assert (data["version"], data["state"], data["live"], data["elapsed"]) == (1, "failed", False, 11.9)
    assert (failure["rank"], failure["kind"], failure["line"]) == (1, "ZeroDivisionError", 6)
    assert failure["source"] == {
        "first": 4,
        "line": 6,
        "lines": ["def train(rate):", "    for step in range(9):", "        rate / (step - 4)"],
    }
    assert failure["others"] == [0]
    assert failure["untrusted"] == {
        "message": "ZeroDivisionError: division by zero",
        "last_lines": [],
        "after": ["rank 0: stopped by nbdist (SIGTERM)"],
    }


def test_for_a_person_it_is_a_few_lines_in_the_language(written: WrittenRun) -> None:
    failed(written)

    english, chinese = str(explained(written)), str(explained(written, "zh"))

    assert english.splitlines() == [
        "lenet-k3f9 · Failed · 0:11 · rank 1 failed",
        "rank 1 failed first: ZeroDivisionError at line 6 of the cell",
        "ZeroDivisionError: division by zero",
        "    4  def train(rate):",
        "    5      for step in range(9):",
        "  ▸ 6          rate / (step - 4)",
        "rank 0: stopped by nbdist (SIGTERM)",
    ]
    assert "最先失败" in chinese


def test_of_a_rank_that_raised_nothing_it_has_the_last_lines(written: WrittenRun) -> None:
    written.printed(1, "".join(f"line {number}\n" for number in range(30)))
    written.happened(exited(1, 3), run_ended(RunState.FAILED, "rank 1 failed"))

    failure = as_read(explained(written))["failure"]

    assert (failure["line"], failure["source"]) == (None, None)
    assert failure["untrusted"]["last_lines"] == [f"line {number}" for number in range(25, 30)]


def test_where_all_is_well_nothing_is_explained(written: WrittenRun) -> None:
    written.happened(exited(0), exited(1), run_ended(RunState.FINISHED))

    data = as_read(explained(written))

    assert [data[name] for name in ("failure", "stall", "slow", "reason")] == [None, None, None, ""]
    assert str(explained(written)) == "lenet-k3f9 · Finished · 0:11"


def test_it_says_since_when_nothing_happens(written: WrittenRun) -> None:
    written.happened(stalled(since=CREATED + 10))

    stall = as_read(explained(written))["stall"]

    nothing = dict.fromkeys(("where", "behind", "signature", "cause", "fix"), "")
    assert stall == {"seconds": 90.0, "ranks": [], "line": None} | nothing
    assert "No progress for 90 s" in str(explained(written))


def test_it_says_where_the_time_goes(written: WrittenRun) -> None:
    for rank, wait in enumerate((40.0, 10.0)):
        with written.directory.rank(rank).system.open("a") as file:
            for second in range(20):
                values = {"wait": wait, "cpu": 99.0, "memory": 1e9}
                file.write(json.dumps({"t": CREATED + second, "v": values}) + "\n")

    time = as_read(explained(written))["time"]

    assert time == {
        "wait": {"mean": 25.0, "least": 10.0, "most": 40.0, "rank": 0},
        "cpu": {"mean": 99.0, "least": 99.0, "most": 99.0, "rank": 0},
        "gpu": None,
    }
    assert "25 % of the time waiting for other ranks (rank 0: 40 %)" in str(explained(written))


def test_what_looks_like_a_secret_or_has_its_value_is_masked_in_all_of_it(tmp_path: Path) -> None:
    spec = a_spec(args=("--api-key", "hunter3-of-ada"), digests=digests_of({"WANDB_KEY": "swordfish-of-ada"}))
    cell = f"PGPASSWORD = 'hunter2'\nlogin(token='{TOKEN}')\nfail('swordfish-of-ada')\n"
    written = WrittenRun(tmp_path / "home", spec, cell=cell).happened(*STARTED)
    frames = [(spec.program, 3, "<module>", "fail('swordfish-of-ada')")]
    text = f"{{'api_key': 'tuna'}} swordfish-of-ada: {TOKEN}, hunter3-of-ada"
    written.raised(1, "ValueError", text, frames=frames)
    written.raised(0, "ValueError", "password=hunter2", frames=frames, time=CREATED + 12)
    written.happened(errored(1), errored(0), exited(1, 1), run_ended(RunState.FAILED, "rank 1 failed"))

    text = encode(as_read(explained(written))) + str(explained(written))

    assert [secret for secret in (TOKEN, "swordfish", "tuna", "hunter") if secret in text] == []
    assert "PGPASSWORD = '•••'" in text
    assert text.count("login(token='•••')") == 2


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x" * 100_000, id="one long line"),
        pytest.param("形状不一致\n" * 10_000, id="many lines of Chinese"),
        pytest.param('"\\\t' * 10_000, id="what JSON escapes"),
    ],
)
def test_it_is_never_more_than_two_kilobytes(tmp_path: Path, text: str) -> None:
    spec = a_spec(ranks=512, name="n" * 60)
    cell = f"#{text}\n".replace("\n", " ") + f"\nfail() # {text!r}\n" + f"# {text!r}\n" * 3
    written = WrittenRun(tmp_path / "home", spec, cell=cell).happened(*STARTED)
    place = [(spec.program, 2, "<module>", cell.splitlines()[1])]
    written.raised(1, "Problem" + "X" * 3000, text, frames=place).printed(1, text)
    for rank in range(512):
        written.raised(rank, "ValueError", f"{rank} {text}", time=CREATED + 11) if rank != 1 else None
        written.happened(errored(rank))
    written.happened(run_ended(RunState.FAILED, text))

    data = as_read(explain_run(written.run, written.directory, now=CREATED + 100))

    assert data["failure"]["rank"] == 1
    assert data["failure"]["line"] == 2
    assert data["failure"]["untrusted"]["message"].startswith("Problem")
