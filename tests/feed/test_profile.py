"""The traces of ranks, merged, and how the time of each divides."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from nbdist.feed.profile import Profile, _merged

Event = tuple[str, str, float, float]
HOST: Sequence[Event] = [
    ("PyTorch Profiler (0)", "Trace", 0, 100),
    ("aten::addmm", "cpu_op", 0, 40),
    ("aten::t", "cpu_op", 10, 5),
    ("autograd::engine::evaluate_function: AddmmBackward0", "cpu_op", 40, 60),
    ("gloo:all_reduce", "user_annotation", 30, 40),
]
PADDLE: Sequence[Event] = [
    ("matmul dygraph[2 us]", "Operator", 0, 50),
    ("backward[90 us]", "UserDefined", 0, 100),
    ("Global_GradNodeAccumulation[2 us]", "Operator", 50, 50),
]
DEVICE: Sequence[Event] = [
    ("aten::addmm", "cpu_op", 0, 100),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel", 50, 25),
    ("sm90_xmma_gemm", "kernel", 0, 60),
]


def trace(pid: int, events: Sequence[Event], begin: float = 1e15) -> str:
    rows = [
        {"ph": "X", "name": name, "cat": kind, "pid": pid, "tid": pid, "ts": begin + at, "dur": lasted}
        for name, kind, at, lasted in events
    ]
    return json.dumps({"schemaVersion": 1, "traceEvents": [{}, *rows], "traceName": "a"})


def merged(tmp_path: Path, *texts: str) -> Profile:
    files = {rank: tmp_path / str(rank) for rank in range(len(texts))}
    for rank, text in enumerate(texts):
        if text:
            files[rank].write_text(text)
    return _merged(files, tmp_path / "trace.json.gz")


@pytest.mark.parametrize(
    ("events", "parts"),
    [(HOST, [0.3, 0.3, 0.1, 0.3]), (PADDLE, [0.5, 0.5, 0.0, 0.0]), (DEVICE, [0.5, 0.15, 0.1, 0.25])],
    ids=["torch", "paddle", "a GPU"],
)
def test_a_moment_belongs_to_what_computes_and_sends_in_it(
    tmp_path: Path, events: Sequence[Event], parts: Sequence[float]
) -> None:
    profile = merged(tmp_path, trace(7, events))

    (rank,) = profile.ranks
    assert list(rank.parts.values()) == pytest.approx(parts, abs=0.01)
    shares = [rank.line.count(str(part)) / len(rank.line) for part in range(4)]
    assert shares == pytest.approx(parts, abs=0.02)


def test_the_ranks_are_on_one_clock_in_one_trace(tmp_path: Path) -> None:
    profile = merged(tmp_path, trace(7, HOST), trace(8, HOST, begin=1e15 + 100))

    assert profile.seconds == pytest.approx(200e-6, abs=1e-3)
    first, second = (rank.line for rank in profile.ranks)
    # the other's half of the time is nobody's
    assert set(first[301:]) == set(second[:299]) == {"3"}
    assert first[:290].count("0") == pytest.approx(second[300:].count("0"), abs=6)
    events = json.loads(gzip.decompress(Path(profile.trace).read_bytes()))["traceEvents"]
    named = {each["pid"]: each["args"]["name"] for each in events if each.get("ph") == "M"}
    assert named == {7: "rank 0", 8: "rank 1"}
    assert sum(each.get("ph") == "X" for each in events) == 2 * len(HOST)
    assert Path(profile.trace).stat().st_mode & 0o077 == 0


def test_a_rank_without_a_trace_is_named_with_the_reason(tmp_path: Path) -> None:
    problems = [json.dumps({"problem": problem}) for problem in ("busy", "no attribute _x")]
    profile = merged(tmp_path, "", *problems, "{", trace(7, HOST))

    lines = profile.lines("en")
    assert lines[1:4] == [
        "[0] has not answered: it computes in native code, or has ended",
        "[1] its program has a profiler of its own",
        "[2] no attribute _x",
    ]
    assert (
        lines[5]
        == "[4] compute 30% · communication 30% · both at once 10% · neither (idle, Python, data) 30%"
    )
    assert profile.lines("zh")[2] == "[1] 程序自己正在使用剖析器"
