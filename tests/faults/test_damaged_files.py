"""Files that a disk, a program or a person has damaged: whoever looks sees what is left, other runs are shown
as ever, and what a page gets is strict JSON. NBDIST_FUZZ_FILES says how many files are damaged."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbdist import panel
from nbdist.board.scalars import Feed
from nbdist.board.server import find_board
from nbdist.cli.commands import main
from nbdist.diagnosis.stack_text import stacks_text
from nbdist.diagnosis.stacks import take_stacks
from nbdist.errors import NbdistError
from nbdist.feed.curves import read_curves
from nbdist.feed.protocol import encode
from nbdist.model import ProcessId, RankState, Reason, RunState
from nbdist.panel import LogSurface, StatusReader, follow, write_report
from nbdist.panel.status import status_html, status_text
from nbdist.server.handlers import detail_of, stacks
from nbdist.server.log_handler import open_log
from nbdist.server.run_list import RunList
from nbdist.server.streams import ClientCursor, RunTail, update_frame
from nbdist.store import RunDirectory, RunStore, look
from nbdist.store.control import StopRequest, request_stop, take_requests
from nbdist.store.logs import RECORD
from nbdist.store.reports import Collective, RankAnswer, TakenStacks, write_stacks
from nbdist.verbs.runs import log_pattern
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import (
    CREATED,
    RUN_ID,
    STARTED,
    a_spec,
    errored,
    escalated,
    exited,
    nodes_awaited,
    remote_rank,
    run_ended,
    stalled,
    stop_requested,
)
from tests.fakes.wires import split_frame

CASES = int(os.environ.get("NBDIST_FUZZ_FILES", "200"))
CHUNKS = 4
NOW = CREATED + 100
GOOD = "20261120-141600-good-zzzz"

DUMP = """Current thread 0x00007f (most recent call first):
  File "/home/ada/train.py", line 9 in step
  File "/x/nbdist/worker/__main__.py", line 3 in <module>
"""


class Refused(Exception):
    """JSON that a page would refuse."""


def strict(text: str | bytes) -> Any:
    """Parse JSON as browsers do."""

    def refuse(name: str) -> None:
        raise Refused(name)

    return json.loads(text, parse_constant=refuse)


class Bench:
    """A home with a run that nothing is done to, and one whose files are damaged, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.out = folder / "report.html"
        good = WrittenRun(self.home, a_spec(run_id=GOOD, name="good")).happened(
            *STARTED, exited(0), exited(1)
        )
        good.happened(run_ended(RunState.FINISHED)).printed(0, "fine\n").recorded(0, loss=0.5)
        self.good = good.directory
        spec = a_spec(
            args=("--lr", "0.1"),
            environment={"A": "b"},
            timeout=90.0,
            owner=ProcessId(pid=77, start_time=5, boot_id="b"),
            notebook="/home/ada/a.ipynb",
        )
        run = self.run = WrittenRun(self.home, spec)
        run.happened(
            *STARTED, nodes_awaited(1, hosts=("a", "b")), stalled(), stop_requested(), escalated(0, 1)
        )
        run.happened(remote_rank(1, RankState.RUNNING), errored(1), exited(1, 1), exited(0, -15, ended=True))
        run.happened(run_ended(RunState.FAILED, "rank 1 failed"))
        run.raised(1, "ValueError", "bad", frames=[("/home/ada/cell.py", 1, "<module>", "import torch")])
        for rank in (0, 1):
            files = run.directory.rank(rank)
            run.printed(rank, b"".join(b"step %d loss %f\n" % (n, 1 / (n + 1)) for n in range(9)))
            for step in range(6):
                run.recorded(rank, loss=1 / (step + 1))
            lines = [
                {"t": CREATED + n, "step": n, "v": {"memory": 1e9, "cpu": 1.0, "gpu": 0.5}} for n in range(9)
            ]
            files.system.write_text("".join(json.dumps(line) + "\n" for line in lines))
            with files.metrics.open("a") as metrics:
                metrics.write(
                    json.dumps({"t": CREATED, "step": 3, "v": {"a": 1.0}, "hparams": {"lr": 1}}) + "\n"
                )
            files.log_times.write_bytes(b"".join(RECORD.pack(CREATED + n, n * 60) for n in range(1, 9)))
            files.stacks.write_text('{"pid": 1}\n' + DUMP)
            files.collectives.write_text(
                json.dumps({"default": {"name": "all_reduce", "number": 3, "over": False}})
            )
            files.waits.write_bytes(struct.pack("<dd", 1.0, 2.0))
        answer = RankAnswer(
            rank=0,
            text=DUMP,
            collectives={"default": Collective(name="all_reduce", number=3, over=False, begun=CREATED)},
        )
        silent = RankAnswer(rank=1, problem="silent")
        write_stacks(run.directory, TakenStacks(time=CREATED, attempt=1, ranks=(answer, silent)))
        run.directory.job.write_text(json.dumps({"job": "7", "environment": {"A": "b"}}))
        (self.home / "board").mkdir(mode=0o700)
        board = {"pid": 2**22 + 1, "start_time": 5, "boot_id": "b", "port": 1, "token": "t"}
        (self.home / "board/server.json").write_text(json.dumps(board))
        ranks = [run.directory.rank(rank) for rank in (0, 1)]
        self.files = [
            *(run.directory.spec, run.directory.journal) * 4,  # on which most depends
            run.directory.stacks,
            run.directory.job,
            run.directory.cell,
            *(path for rank in ranks for path in (rank.metrics, rank.system, rank.log, rank.log_times)),
            *(path for rank in ranks for path in (rank.stacks, rank.collectives, rank.waits)),
            ranks[1].error,
            ranks[1].error,
            self.home / "board/server.json",
        ]
        self.pristine = {path: path.read_bytes() for path in self.files}
        runs = RunList(RunStore(self.home), clock=lambda: NOW)
        self.good_row = self._row(runs, GOOD)

    def restore(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        path.write_bytes(self.pristine[path])
        # what looking has made
        shutil.rmtree(self.run.directory.board)
        self.run.directory.board.mkdir(mode=0o700)

    def _row(self, runs: RunList, run_id: str) -> Any:
        rows = [row.to_dict() for row in runs.page(limit=10).rows]
        return next((row for row in strict(json.dumps(rows)) if row["run_id"] == run_id), None)

    def look(self, turn: int) -> None:
        """Look at the lists, and at one of the rest, each in its turn."""
        directory = self.run.directory
        views = StatusReader([directory, self.good]).look(NOW)
        assert GOOD in [view.run_id for view in views]
        strict(json.dumps([view.to_dict() for view in views]))
        (status_text(views, "en") + status_html(views, "en", NOW)).encode()
        runs = RunList(RunStore(self.home), clock=lambda: NOW)
        assert self._row(runs, GOOD) == self.good_row
        assert self._row(runs, directory.run_id) is not None or directory.deleted
        strict(json.dumps(detail_of(directory, NOW)))
        others = (self._stream, self._follow, self._report, self._summary, self._shell, self._rest)
        for other in others if turn < 0 else others[turn % len(others) :][:1]:
            other(directory)

    def _summary(self, directory: RunDirectory) -> None:
        if (run := look(directory)) is not None:
            read_curves(run, directory)
            "".join(panel.summary_bundle(run, directory, "en").values()).encode()
            panel.run_report(run, directory, "zh").encode()
            if run.state.terminal:
                stacks_text(take_stacks(directory), "en")
                strict(json.dumps(stacks(directory)))

    def _report(self, directory: RunDirectory) -> None:
        runs = [(run, source) for source in (directory, self.good) if (run := look(source)) is not None]
        write_report(runs, self.out, "en")
        assert self.out.read_text(encoding="utf-8")

    def _shell(self, directory: RunDirectory) -> None:
        for words in (["status"], ["logs", "--tail", "3", RUN_ID], ["export", RUN_ID, "--to", "/dev/null/x"]):
            out = io.TextIOWrapper(io.BytesIO(), "utf-8")
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                assert main(words) in (0, 1, 2)
            out.seek(0)
            assert "good-zzzz" in out.read() or words != ["status"]

    def _rest(self, directory: RunDirectory) -> None:
        runs = RunList(RunStore(self.home), clock=lambda: NOW)
        assert GOOD in [row.run_id for row in runs.page(limit=10, search="good").rows]
        runs.page(limit=10, search="lenet failed")
        if (log := open_log(directory, 0, None)) is not None:
            log.close()
        Feed(clock=lambda: NOW).advance(directory)
        find_board(self.home)

    def _stream(self, directory: RunDirectory) -> None:
        tail = RunTail(directory, clock=lambda: NOW)
        if tail.see() is None:
            return
        cursor = ClientCursor(tail)
        for turn in range(4):
            tail.look()
            if (update := cursor.update(10.0 * turn)) is not None:
                data = update_frame(RUN_ID, update)
                split_frame(data)
                (size,) = struct.unpack_from("<I", data)
                strict(data[4 : 4 + size])
                strict(json.dumps(encode(update)[0]))
        tail.within([(0, 0, 100_000)], 10_000)

    def _follow(self, directory: RunDirectory) -> None:
        looks = iter(range(3))

        def wait(_: float) -> None:
            if next(looks, None) is None:
                raise TimeoutError

        surface = LogSurface(
            lambda text: text.encode(), ranks=[0, 1], pattern=log_pattern(None), tail=None, prefixed=True
        )
        with contextlib.suppress(TimeoutError, NbdistError):
            follow(directory, surface, whole=True, wait=wait, clock=lambda: NOW)


WRONG: list[Any] = [
    None,
    True,
    [],
    {},
    "",
    "text",
    -1,
    0,
    2**70,
    1e308,
    [None],
    {"a": None},
    [[[]]],
    "\ud800",
    "a\0b",
    "../../etc",
    "x" * 100_000,
    "\x1b[31m\n\r",
    float("nan"),
    float("inf"),
    -float("inf"),
]
RAW = [b"9" * 5_000, b"1e999", b"-" + b"9" * 5_000, b"NaN", b'"\\ud800"', b"[" * 100_000, b'{"a":' * 100_000]
MARK = "a place of the test's"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield each place of a JSON value that another value can take."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from places(item, (*path, at))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def json_damage(data: bytes, dice: random.Random) -> bytes:
    """Replace the value in one place of a file of JSON, or of one of its lines."""
    lines = data.split(b"\n")
    candidates = [at for at, line in enumerate(lines) if line.startswith(b"{")]
    if not candidates:
        return byte_damage(data, dice)
    at = dice.choice(candidates)
    value = json.loads(lines[at])
    path = dice.choice(list(places(value)))
    if dice.random() < 0.2 and path and isinstance(path[-1], str):
        parent = value
        for key in path[:-1]:
            parent = parent[key]
        del parent[path[-1]]
        lines[at] = json.dumps(value).encode()
    elif dice.random() < 0.3:
        lines[at] = (
            json.dumps(replaced(value, path, MARK))
            .encode()
            .replace(json.dumps(MARK).encode(), dice.choice(RAW))
        )
    else:
        lines[at] = json.dumps(replaced(value, path, dice.choice(WRONG))).encode()
    return b"\n".join(lines)


def byte_damage(data: bytes, dice: random.Random) -> bytes:
    damaged = bytearray(data or b"x")
    for _ in range(dice.choice((1, 3, 30))):
        damaged[dice.randrange(len(damaged))] = dice.randrange(256)
    return bytes(damaged)


def damage(path: Path, data: bytes, dice: random.Random) -> str:
    """Damage a file; return the kind of damage."""
    kind = dice.choice(("json", "json", "json", "json", "bytes", "torn", "noise", "deep", "long", "odd"))
    if kind == "odd":
        path.unlink()
        # a program may be any file of the user's
        kinds = ("gone", "empty", "a hole", "a directory", "a pipe", "a link")
        kind = dice.choice(kinds[:3] if path.suffix == ".py" else kinds)
        if kind == "empty":
            path.touch()
        elif kind == "a directory":
            path.mkdir()
        elif kind == "a pipe":
            os.mkfifo(path)
        elif kind == "a link":
            path.symlink_to("/dev/zero")
        elif kind == "a hole":
            with path.open("wb") as file:
                file.truncate(40 << 20)
        return kind
    path.write_bytes(
        {
            "json": lambda: json_damage(data, dice),
            "bytes": lambda: byte_damage(data, dice),
            "torn": lambda: data[: dice.randrange(len(data) + 1)],
            "noise": lambda: dice.randbytes(2_000),
            "deep": lambda: dice.choice((b"[", b'{"v":', b'[{"a":')) * 200_000,
            "long": lambda: (
                data + b'{"t": 1, "v": {"loss": ' + b"1" * dice.choice((4_000, 400_000)) + b"}}\n"
            ),
        }[kind]()
    )
    return kind


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_whatever_is_damaged_nothing_but_it_is_missing(home: Path, tmp_path: Path, chunk: int) -> None:
    bench = Bench(tmp_path)

    bench.look(-1)
    for number in range(chunk, CASES, CHUNKS):
        dice = random.Random(f"nbdist {number}")
        path = dice.choice(bench.files)
        how = damage(path, bench.pristine[path], dice)
        try:
            bench.look(number)
        except Exception as error:
            raise AssertionError(f"case {number}: {how} in {path.relative_to(bench.home)}") from error
        finally:
            bench.restore(path)


SPECS = {
    "deep": 200_000 * b"[",
    "not a number": b'{"created": NaN}',
    "a huge number": b'{"created": ' + 5_000 * b"9" + b"}",
    "null": b"null",
    "no text": bytes(range(128, 256)),
    "empty": b"",
    "of another shape": b'{"run_id": 1, "ranks": [null], "name": []}',
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_a_run_whose_spec_is_damaged_is_one_line(
    home: Path, spec: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    good = WrittenRun(home, a_spec(run_id=GOOD, name="good"))
    good.happened(*STARTED, exited(0), exited(1), run_ended(RunState.FINISHED))
    run = WrittenRun(home)
    run.directory.spec.write_bytes(spec)

    codes = [main(words) for words in (["status"], ["logs", RUN_ID], ["stop", "--all"])]

    out, err = capsys.readouterr()
    assert codes == [0, 2, 0]
    assert "good-zzzz" in out
    (line,) = [line for line in out.splitlines() if line.startswith("lenet-k3f9")]
    assert "cannot be read: spec.json is damaged" in line
    assert f"nbdist: run {RUN_ID} cannot be read: spec.json is damaged" in err.splitlines()
    assert [row.run_id for row in RunList(RunStore(home)).page(limit=9).rows] == [GOOD, RUN_ID]


@pytest.mark.parametrize("kind", ["a directory", "a pipe", "a file without end"])
def test_what_is_no_file_in_the_place_of_a_spec_holds_nobody(home: Path, kind: str) -> None:
    WrittenRun(home, a_spec(run_id=GOOD, name="good")).happened(*STARTED)
    spec = WrittenRun(home).directory.spec
    spec.unlink()
    if kind == "a directory":
        spec.mkdir()
    elif kind == "a pipe":
        os.mkfifo(spec)
    else:
        spec.touch()
        os.truncate(spec, 1 << 34)

    rows = RunList(RunStore(home)).page(limit=9).rows

    assert [row.run_id for row in rows] == [GOOD, RUN_ID]
    assert rows[1].headline.startswith("cannot be read: spec.json")


@pytest.mark.parametrize("text", [*RAW, b'{"kind": "interrupt", "rank": ' + 5_000 * b"9" + b"}", b"\xff"])
def test_a_request_that_is_damaged_is_taken_away(home: Path, text: bytes) -> None:
    run = WrittenRun(home).directory
    (run.control / "stop-1-a.json").write_bytes(text)
    request_stop(run, Reason.said("mine"))

    assert take_requests(run) == [StopRequest(reason=Reason.said("mine"))]
    assert not list(run.control.iterdir())
