"""The report of the exception that ended a rank's program."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from nbdist.store import read_error
from nbdist.worker import bootstrap, error_report

LOADER = """
import os, signal
class Iterator:
    def __init__(self, worker):
        self._workers = [worker]
    def __next__(self):
        os.kill(self._workers[0].pid, signal.SIGKILL)
        raise ConnectionResetError(104, "Connection reset by peer")
"""


def written(folder: Path, error: BaseException):
    path = str(folder / "error.json")
    error_report.write(path, error, error.__traceback__, error_report.Reserve(path))
    return read_error(Path(path))


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as error:  # noqa: BLE001 - whatever a program may raise
        return error


def test_a_report_needs_no_more_than_was_kept_for_it(tmp_path: Path) -> None:
    reserve = error_report.Reserve(str(tmp_path / "error.json"))
    room = tmp_path / "error.json.room"

    assert room.stat().st_blocks * 512 >= 32_768
    reserve.write(b'{"type": "ValueError"}')

    assert [path.name for path in tmp_path.iterdir()] == ["error.json"]
    assert (tmp_path / "error.json").read_bytes() == b'{"type": "ValueError"}'


def test_what_is_written_can_be_read_and_of_a_huge_message_both_ends_are_kept(tmp_path: Path) -> None:
    report = written(tmp_path, raised(ValueError("ein Täuschungsmanöver \udcff 错误")))
    huge = written(tmp_path, raised(ValueError(f"begin {'0.5 ' * 1_000_000} end")))

    assert (report.type, report.message) == ("ValueError", "ein Täuschungsmanöver ? 错误")
    assert report.workers == ()
    assert huge.message.startswith("begin 0.5")
    assert huge.message.endswith(" end")
    assert (tmp_path / "error.json").stat().st_size < 1_000_000


def test_a_worker_that_was_killed_is_known_where_its_loader_saw_a_closed_connection(tmp_path: Path) -> None:
    worker = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    worker.start()
    namespace: dict[str, Any] = {}
    exec(compile(LOADER, f"{tmp_path}/torch/utils/data/dataloader.py", "exec"), namespace)

    loader = namespace["Iterator"](worker)

    with pytest.raises(ConnectionResetError) as caught:
        next(loader)
    report = written(tmp_path, caught.value)

    assert report.workers == ((worker.pid, -9),)
    worker.join()


class _WorkerException:
    """A worker's error as paddle's and torch's: its text alone."""

    def __init__(self) -> None:
        self.text = traceback.format_exc()

    def reraise(self) -> None:
        raise KeyError(self.text)


def test_of_an_error_in_a_worker_the_report_has_what_stood_in_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type("_WorkerException", (_WorkerException,), {})
    error_report.send_names(cast("ModuleType", SimpleNamespace(_WorkerException=kind)))
    monkeypatch.setattr(error_report, "_sent", {})
    dataset = tmp_path / "train.py"
    dataset.write_text("def sample(row):\n    return row['image']\n")
    namespace: dict[str, Any] = {}
    exec(compile(dataset.read_text(), str(dataset), "exec"), namespace)
    try:
        namespace["sample"]({"picture": 3})
    except KeyError:
        sent = kind()

    with pytest.raises(KeyError) as caught:
        sent.reraise()
    report = written(tmp_path, caught.value)

    names = [(name.line, name.name, name.what) for name in report.operands if name.file == str(dataset)]
    assert names == [(2, "row", "dict of 1 ('picture')")]


@pytest.mark.parametrize("check", [True, False], ids=["the error has it", "a name has it"])
def test_the_captured_output_of_a_process_that_failed_is_kept(tmp_path: Path, check: bool) -> None:
    def start() -> None:
        child = subprocess.run([sys.executable, "-c", "{}['b']"], capture_output=True, check=check)
        raise RuntimeError(child.returncode)

    with pytest.raises((subprocess.CalledProcessError, RuntimeError)) as caught:
        start()

    assert written(tmp_path, caught.value).printed.endswith("KeyError: 'b'\n")


def test_a_fork_of_a_rank_leaves_its_room_alone(tmp_path: Path) -> None:
    # a process of its own: what another test has imported here may not let it fork
    program = """
import os, sys
from nbdist.worker.error_report import Reserve
reserve = Reserve(sys.argv[1])
if (child := os.fork()) == 0:
    reserve.write(b"of the fork")
    os._exit(0)
os.waitpid(child, 0)
"""
    subprocess.run([sys.executable, "-c", program, tmp_path / "error.json"], check=True)

    assert [path.name for path in tmp_path.iterdir()] == ["error.json.room"]


def test_a_handler_that_raises_while_a_report_is_written_costs_no_report(tmp_path: Path) -> None:
    error = raised(ValueError("too wide"))
    path, reserve = str(tmp_path / "error.json"), error_report.Reserve(str(tmp_path / "error.json"))
    calls = []

    def interrupt(frame: FrameType, event: str, _: object) -> None:
        if frame.f_code.co_name == "_encoded" and not calls:
            calls.append(event)
            raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed.")

    sys.settrace(interrupt)
    try:
        error_report.write(path, error, error.__traceback__, reserve)
    finally:
        sys.settrace(None)

    report = read_error(Path(path))
    assert (len(calls), report is not None and report.message) == (1, "too wide")


def test_what_a_rank_replaced_of_a_framework_is_in_no_traceback() -> None:
    ours = compile(
        "def create(inner):\n    inner()", os.path.join(bootstrap._HERE, "framework_hooks.py"), "exec"
    )
    names: dict[str, Any] = {}
    exec(ours, names)

    def inner() -> None:
        raise ValueError("no such port")

    def program() -> None:
        names["create"](inner)

    try:
        program()
    except ValueError as error:
        bootstrap.take_out(error)
        functions = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert functions[1:] == ["program", "inner"]


def test_what_one_look_at_a_failure_costs_is_not_lost_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ValueError

    zero = 0
    monkeypatch.setattr("nbdist.worker.operands.conditions_of", fails)
    with pytest.raises(ZeroDivisionError) as failed:
        1 / zero

    report = written(tmp_path, failed.value)

    assert report.values == ()
    assert [(operand.name, operand.what) for operand in report.operands] == [("zero", "0")]
