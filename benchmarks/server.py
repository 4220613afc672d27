"""Cost of the server extension for a Jupyter server, and its response times.

    python benchmarks/server.py [--rounds N] [--seconds S] [--quick]

Each round takes the same time thrice: nothing goes on; eight logs grow and nobody looks; eight logs grow and
pages watch them. What is measured is how long the server takes for other requests meanwhile.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import Goal, Machine, Samples, spread, table, times, write_results

from nbdist.model import RunState
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, exited, run_ended
from tests.server.real_server import TOKEN, RealServer, real_server

CASES = Path(__file__).with_name("server_cases.py")
LOGS = 8
TABS = 4
RATE = 2_000_000.0  # bytes a second into each log
RUNS = 1000
LONG = 1_000_000_000
LEAST_ROUNDS = 3
PACKAGES = ("nbdist", "jupyter_server", "tornado")

QUIET, UNSEEN, WATCHED = "nothing goes on", "8 logs grow, nobody looks", "8 logs grow, 4 tabs watch all"
P50, P99, WORST = "p50", "p99", "max"
NOTES = (
    "p50, p99 and max are milliseconds of the server's own GET api/status, asked 50 times a second on one "
    "connection while the case goes on.",
    f"Each of the {LOGS} logs gets {RATE / 1e6:g} MB a second from another process on the same cores; every "
    "tab watches all of them and acknowledges what it gets.",
    f"list is GET nbdist/api/runs with {RUNS} runs on disk: first by a server that has never read them, "
    "then again.",
    "1 GB log: from the watch to the first lines of its end, which get their numbers a little later; and the "
    "last 64 KiB by a byte range.",
)


def child(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(CASES), *map(str, words)], stdout=subprocess.PIPE, text=True)


def seen_by(process: subprocess.Popen[str]) -> Any:
    out, _ = process.communicate(timeout=300)
    return json.loads(out)


def run_id(number: int) -> str:
    return f"20261120-{number:06}-bench-k3f9"


def latency(server: RealServer, case: str, seconds: float, runs: list[WrittenRun]) -> dict[str, Any]:
    """Return the milliseconds of the server's other requests in a case."""
    url = f"http://127.0.0.1:{server.port}{server.base_url}"
    others = []
    if case != QUIET:
        others.append(child("write", seconds + 1, RATE, *(run.directory.rank(0).log for run in runs)))
    if case == WATCHED:
        names = [run.spec.run_id for run in runs]
        others += [child("watch", url, TOKEN, seconds + 1, *names) for _ in range(TABS)]
    time.sleep(0.5)  # they start
    took = sorted(seen_by(child("ask", url, TOKEN, seconds))["took"])
    seen = [seen_by(process) for process in others]
    return {
        P50: statistics.median(took),
        P99: took[int(0.99 * (len(took) - 1))],
        WORST: took[-1],
        "seen": seen,
    }


def answer_time(server: RealServer, path: str, headers: dict[str, str] | None = None) -> float:
    """Return the seconds until the answer is complete."""
    request = urllib.request.Request(f"{server.url}/{path}", headers=server.headers | (headers or {}))
    begun = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()
    return time.perf_counter() - begun


def growing_runs(server: RealServer, first: int) -> list[WrittenRun]:
    # on another host, so that nobody looks for their supervisors
    return [
        WrittenRun(server.home, a_spec(ranks=1, run_id=run_id(first + number))).happened(*STARTED[:3])
        for number in range(LOGS)
    ]


def measure_latency(samples: Samples, folder: Path, rounds: int, seconds: float) -> list[str]:
    notes = []
    with real_server(folder) as server:
        for round_number in range(rounds):
            for place, case in enumerate((QUIET, UNSEEN, WATCHED)):
                runs = growing_runs(server, 1000 * round_number + 100 * place)
                figures = latency(server, case, seconds, runs)
                for metric in (P50, P99, WORST):
                    samples.add(case, metric, round_number, figures[metric])
                if case == WATCHED:
                    tabs = figures["seen"][1:]
                    lines = statistics.median(tab["lines"] for tab in tabs)
                    notes.append(f"a tab got {lines:,.0f} lines of {min(tab['runs'] for tab in tabs)} logs")
                times = f"{figures[P50]:.2f} {figures[P99]:.2f} ms"
                print(f"  round {round_number + 1}: {case}: {times}", flush=True)
                for run in runs:
                    shutil.rmtree(run.directory.path)
    return notes


def measure_list(samples: Samples, folder: Path, rounds: int) -> None:
    home = folder / "home"
    ended = (exited(0), exited(1), run_ended(RunState.FINISHED))
    for number in range(RUNS):
        run = WrittenRun(home, a_spec(run_id=run_id(number))).happened(*STARTED, *ended)
        points = ({"t": CREATED + step, "step": step, "v": {"loss": 1 / (step + 1)}} for step in range(100))
        run.directory.rank(0).metrics.write_text("".join(json.dumps(point) + "\n" for point in points))
    for round_number in range(rounds):
        with real_server(folder) as server:
            samples.add("list of 1000 runs, first", "answer", round_number, answer_time(server, "api/runs"))
            samples.add("list of 1000 runs, again", "answer", round_number, answer_time(server, "api/runs"))
            seconds = answer_time(server, "api/runs?search=bench")
            samples.add("search in 1000 runs, first", "answer", round_number, seconds)


def measure_long_log(samples: Samples, folder: Path, rounds: int, size: int) -> None:
    run = WrittenRun(folder / "home", a_spec(ranks=1)).happened(*STARTED[:3])
    line = b"step 000001 loss 0.123456 and what else a program prints in one line of its log, on and on\n"
    with run.directory.rank(0).log.open("wb") as log:
        for _ in range(size // (len(line) * 10_000)):
            log.write(line * 10_000)
    for round_number in range(rounds):
        with real_server(folder) as server:
            url = f"http://127.0.0.1:{server.port}{server.base_url}"
            tab = seen_by(child("watch", url, TOKEN, 6, run.spec.run_id))
            samples.add("1 GB log, first lines on the stream", "answer", round_number, tab["first"])
            path = f"api/runs/{run.spec.run_id}/ranks/0/log"
            took = answer_time(server, path, {"Range": "bytes=-65536"})
            samples.add("1 GB log, its last 64 KiB", "answer", round_number, took)


def judge(latencies: Samples, answers: Samples) -> list[Goal]:
    quiet, watched = latencies.median(UNSEEN, P99), latencies.median(WATCHED, P99)
    first = answers.median("list of 1000 runs, first", "answer")
    goals = []
    if quiet is not None and watched is not None:
        added = watched - quiet
        goals.append(
            Goal(
                goal="watching eight logs adds under 25 ms to the p99 of other requests",
                holds=added < 25,
                seen=f"{watched:.1f} ms against {quiet:.1f} ms",
            )
        )
    if first is not None:
        goals.append(
            Goal(goal="1,000 runs are listed in under 0.3 s", holds=first < 0.3, seen=f"{first:.3f} s")
        )
    return goals


def report(latencies: Samples, answers: Samples, goals: list[Goal]) -> str:
    lines = [
        [case, *(spread(latencies.values(case, metric)) for metric in (P50, P99, WORST)),
         times(latencies.ratio(case, P99, QUIET))]
        for case in latencies.cases()
    ]  # fmt: skip
    parts = [table(["other requests, ms", P50, P99, WORST, "p99 vs quiet"], lines)] if lines else []
    lines = [[case, spread(answers.values(case, "answer"))] for case in answers.cases()]
    parts += [table(["answers", "s"], lines)] if lines else []
    parts.append("Notes:\n" + "\n".join(f"  {note}" for note in NOTES))
    parts.append("Goals:\n" + "\n".join(f"  {goal}" for goal in goals))
    return "\n\n".join(parts)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each case and round; default: 10")
    parser.add_argument("--quick", action="store_true", help="one short round, for a look")
    flags = parser.parse_args(arguments)
    if flags.quick:
        flags.rounds, flags.seconds = 1, min(flags.seconds, 4.0)
    return flags


def main(arguments: Sequence[str] | None = None) -> int:
    flags = parse(arguments)
    machine = Machine.now(PACKAGES)
    latencies, answers = Samples(unit="ms"), Samples(unit="s")
    with tempfile.TemporaryDirectory(prefix="bench-server-") as scratch:
        notes = measure_latency(latencies, Path(scratch), flags.rounds, flags.seconds)
    with tempfile.TemporaryDirectory(prefix="bench-server-") as scratch:
        measure_list(answers, Path(scratch), flags.rounds)
    with tempfile.TemporaryDirectory(prefix="bench-server-") as scratch:
        measure_long_log(answers, Path(scratch), flags.rounds, LONG)
    goals = judge(latencies, answers)
    print(f"{machine.header()}\n\n{report(latencies, answers, goals)}")
    write_results(
        "server",
        machine,
        [*latencies.rows({UNSEEN: [QUIET], WATCHED: [QUIET, UNSEEN]}), *answers.rows({})],
        settings={"rounds": flags.rounds, "seconds": flags.seconds, "logs": LOGS, "tabs": TABS, "rate": RATE},
        notes=[*NOTES, *notes],
        goals=goals,
        is_a_look=flags.rounds < LEAST_ROUNDS,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
