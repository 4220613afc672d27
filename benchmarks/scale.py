"""Cost of a run of many ranks for its viewers: panel, status, server, board.

    python benchmarks/scale.py [--ranks 2,8,64,256,1024] [--seconds S] [--rounds N] [--quick]

One real run of two ranks is recorded; its logs, points and events are then multiplied into the directory of a
run of many, and a process writes on in it as so many ranks would. No rank is started.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import Goal, Machine, NotMeasured, Samples, rounded, table, write_results

from nbdist.frameworks.environment import Placement, rank_environment
from nbdist.model import RankSpec, RunSpec
from nbdist.store import RunDirectory, RunStore
from nbdist.store.logs import RECORD
from tests.server.real_server import TOKEN, RealServer, real_server

CASES = Path(__file__).with_name("scale_cases.py")
WATCHERS = Path(__file__).with_name("server_cases.py")
RANKS = (2, 8, 64, 256, 1024)
PER_NODE = 8
PACKAGES = ("nbdist",)
LOOKERS = ("panel", "status", "board", "server")
FIRST, FIRST_CPU, CPU, BYTES = "first screen", "first screen, CPU", "CPU for each rank", "bytes"
NOTES = (
    "Each rank prints 2 lines of some 40 bytes a second, logs 2 values a second, is measured every 2 s.",
    "first screen: from the start of looking at a run with 40 steps of each rank on disk, without the start "
    "of the process.",
    "CPU for each rank: milliseconds of a core that the looking process takes a second, for each rank.",
    "bytes: thousands a second; panel, server: to the page; status: text; board: records on disk, made as "
    "the board server does, without the page that reads them.",
)
PROGRAM = """
import os, time, nbdist
rank = int(os.environ["RANK"])
for step in range(40):
    loss = 2.0 / (step + 1) + rank * 0.01
    nbdist.log(step=step, loss=loss, accuracy=1 - loss / 3)
    print(f"step {step:4d} loss {loss:.5f} accuracy {1 - loss / 3:.4f}", flush=True)
    time.sleep(0.1)
"""


def record(folder: Path) -> RunDirectory:
    """Record a real run of two ranks."""
    program = folder / "train.py"
    program.write_text(PROGRAM)
    words = ["run", "-n", "2", "--framework", "none", "--name", "recorded", str(program)]
    home = folder / "recorded"
    environment = os.environ | {"NBDIST_HOME": str(home)}
    subprocess.run(
        [sys.executable, "-m", "nbdist", *words],
        env=environment,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (directory,) = RunStore(home).directories()
    return directory


def multiply(recorded: RunDirectory, home: Path, count: int) -> RunDirectory:
    """Turn the recorded run into a running one of ``count`` ranks, on nodes of eight."""
    directory = RunDirectory(home / "runs" / f"20261120-141503-ranks{count}-k3f9")
    shutil.rmtree(directory.path, ignore_errors=True)
    directory.control.mkdir(parents=True)
    directory.board.mkdir()
    directory.path.chmod(0o700)
    recorded_spec = RunSpec.from_dict(json.loads(recorded.spec.read_text()))
    created = time.time() - 10
    shift = created - recorded_spec.created
    places = [_placement(rank, count) for rank in range(count)]
    spec = dataclasses.replace(
        recorded_spec,
        run_id=directory.run_id,
        name=f"ranks{count}",
        created=created,
        nodes=max(1, count // PER_NODE),
        engine="slurm",  # the files of all nodes lie in one directory
        owner=None,
        ranks=tuple(
            RankSpec(
                rank=place.rank,
                local_rank=place.local_rank,
                node_rank=place.node_rank,
                environment=rank_environment(place, "gloo"),
            )
            for place in places
        ),
    )
    directory.spec.write_text(json.dumps(spec.to_dict(), indent=1))
    for place in places:
        source, target = recorded.rank(place.rank % 2).path, directory.rank(place.rank).path
        shutil.copytree(source, target)
        for name in ("metrics.jsonl", "system.jsonl"):
            _shift(target / name, shift)
        _shift_index(target / "log.times", shift)
    events = [json.loads(line) for line in recorded.journal.read_text().splitlines()]
    directory.journal.write_text(
        "".join(json.dumps(event) + "\n" for event in _multiplied(events, count, shift))
    )
    return directory


def _placement(rank: int, count: int) -> Placement:
    local = min(count, PER_NODE)
    return Placement(
        rank=rank,
        world_size=count,
        local_rank=rank % PER_NODE,
        local_world_size=local,
        node_rank=rank // PER_NODE,
        nodes=max(1, count // PER_NODE),
        gpus=(),
    )


def _shift(path: Path, by: float) -> None:
    if not path.exists():
        return
    points = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(point | {"t": point["t"] + by}) + "\n" for point in points))


def _shift_index(path: Path, by: float) -> None:
    if path.exists():
        looks = RECORD.iter_unpack(path.read_bytes())
        path.write_bytes(b"".join(RECORD.pack(moment + by, size) for moment, size in looks))


def _multiplied(events: Sequence[dict[str, Any]], count: int, shift: float) -> Iterator[dict[str, Any]]:
    """Yield the events of the start, for each rank."""
    for event in events:
        moved = event | {"time": event["time"] + shift}
        if event["kind"] == "RankStarted":
            if event["rank"] == 0:
                yield from (moved | {"rank": rank, "pid": 10_000 + rank} for rank in range(count))
        elif event["kind"] in ("AttemptStarted", "SupervisorStarted"):
            yield moved | ({"host": "elsewhere"} if "pid" in event else {})


@contextlib.contextmanager
def written_on(directory: RunDirectory, seconds: float) -> Iterator[None]:
    """Write like so many ranks."""
    process = subprocess.Popen(
        [sys.executable, str(CASES), "ranks", str(directory.path), str(seconds)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def looked_at(name: str, directory: RunDirectory, seconds: float) -> dict[str, float]:
    with written_on(directory, seconds + 120):
        done = subprocess.run(
            [sys.executable, str(CASES), name, str(directory.path), str(seconds)],
            check=True,
            capture_output=True,
            text=True,
            timeout=seconds + 110,
        )
    return dict(json.loads(done.stdout))


def served(server: RealServer, directory: RunDirectory, seconds: float) -> dict[str, float]:
    """Watch the run by a page of the server extension; return its figures."""
    url = f"http://127.0.0.1:{server.port}{server.base_url}"
    words = [sys.executable, str(WATCHERS), "watch", url, TOKEN]

    def watched(long: float) -> tuple[dict[str, float], float]:
        cpu = _cpu_of(server.pid)
        done = subprocess.run(
            [*words, str(long), directory.run_id],
            check=True,
            capture_output=True,
            text=True,
            timeout=long + 60,
        )
        return json.loads(done.stdout), _cpu_of(server.pid) - cpu

    with written_on(directory, 3 * seconds + 120):
        seen, first_cpu = watched(6.0)
        later, cpu = watched(seconds + 6.0)
    # the second look begins as the first did; what is above it belongs to the seconds between
    return {
        "first": seen["first"],
        "first_cpu": first_cpu,
        "cpu": max(0.0, cpu - first_cpu) / seconds,
        "bytes": 1e6 * max(0.0, later["megabytes"] - seen["megabytes"]) / seconds,
    }


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(
    samples: dict[str, Samples], counts: Sequence[int], rounds: int, seconds: float, lookers: Sequence[str]
) -> list[NotMeasured]:
    missing = []
    with tempfile.TemporaryDirectory(prefix="nbdist-scale-") as name:
        folder = Path(name)
        recorded = record(folder)
        for round_number in range(rounds):
            for count in counts:
                for looker in lookers:
                    case = f"{looker}, {count} ranks"
                    home = folder / "home"
                    directory = multiply(recorded, home, count)
                    try:
                        if looker == "server":
                            with real_server(folder) as server:
                                figures = served(server, directory, seconds)
                        else:
                            figures = looked_at(looker, directory, seconds)
                    except (subprocess.SubprocessError, RuntimeError, OSError) as error:
                        missing.append(NotMeasured(case=case, reason=str(error)[:200]))
                        continue
                    finally:
                        shutil.rmtree(directory.path, ignore_errors=True)
                    _take(samples, case, count, round_number, figures)
    return missing


def _take(samples: dict[str, Samples], case: str, count: int, number: int, figures: dict[str, float]) -> None:
    samples[FIRST].add(case, FIRST, number, figures["first"])
    samples[FIRST_CPU].add(case, FIRST_CPU, number, figures["first_cpu"])
    samples[CPU].add(case, CPU, number, 1000 * figures["cpu"] / count)
    samples[BYTES].add(case, BYTES, number, figures["bytes"] / 1000)
    print(
        f"  {case}: first {figures['first']:.2f} s, CPU {100 * figures['cpu']:.1f} % of a core, "
        f"{figures['bytes'] / 1000:.1f} kB/s",
        flush=True,
    )


def lines_of(samples: dict[str, Samples]) -> list[list[str]]:
    def cell(metric: str, case: str) -> str:
        value = samples[metric].median(case, metric)
        return "-" if value is None else f"{value:.3g}"

    return [[case, *(cell(metric, case) for metric in samples)] for case in samples[FIRST].cases()]


def goals(samples: dict[str, Samples]) -> list[Goal]:
    """Judge the goals: the cost of a rank does not grow with their number."""
    checked = []
    for looker in LOOKERS:
        small, large = (samples[CPU].median(f"{looker}, {count} ranks", CPU) for count in (64, 1024))
        holds = None if small is None or large is None or not small else large <= 1.5 * small
        seen = "not measured" if holds is None else f"{small:.3g} and {large:.3g} ms"
        words = f"{looker}: a rank of 1,024 takes at most 1.5 x the CPU of one of 64"
        checked.append(Goal(goal=words, holds=holds, seen=seen))
    for looker in LOOKERS:
        first = samples[FIRST].median(f"{looker}, 1024 ranks", FIRST)
        words = f"{looker}: the first screen of 1,024 ranks within 3 s"
        seen = "not measured" if first is None else f"{rounded(first)} s"
        checked.append(Goal(goal=words, holds=None if first is None else first <= 3.0, seen=seen))
    return checked


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", default=",".join(map(str, RANKS)))
    parser.add_argument("--lookers", default=",".join(LOOKERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="of looking, in each case")
    parser.add_argument("--quick", action="store_true", help="one short round; nothing is written")
    flags = parser.parse_args()
    rounds, seconds = (1, 3.0) if flags.quick else (flags.rounds, flags.seconds)
    counts = [int(count) for count in flags.ranks.split(",")]
    machine = Machine.now(PACKAGES)
    print(machine.header())
    units = {FIRST: "s", FIRST_CPU: "s", CPU: "ms/s", BYTES: "kB/s"}
    samples = {metric: Samples(unit=unit) for metric, unit in units.items()}
    missing = measure(samples, counts, rounds, seconds, flags.lookers.split(","))
    print()
    print(table(["case", *(f"{metric} {unit}" for metric, unit in units.items())], lines_of(samples)))
    checked = goals(samples)
    for goal in checked:
        print(goal)
    for each in missing:
        print(f"not measured: {each.case}: {each.reason}")
    write_results(
        "scale",
        machine,
        [row for each in samples.values() for row in each.rows({})],
        settings={"seconds": seconds, "rounds": rounds, "ranks": counts},
        not_measured=missing,
        notes=NOTES,
        goals=checked,
        is_a_look=flags.quick,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
