"""A run's files are its user's alone, and hold nothing of the environment but what nbdist set."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from nbdist import runner
from nbdist.model import Reason
from tests.programs import SLEEP, until, until_ready

pytestmark = pytest.mark.usefixtures("leaves_nothing")

SECRET = "hush-4711"
AGAIN = "import os, nbdist\nif 'attempt' not in os.environ['NBDIST_RANK_DIR']: 1 / 0\nprint('seen again')"


def modes(handle: runner.RunHandle) -> dict[Path, int]:
    found = {}
    for path in (handle.directory.path, *handle.directory.path.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # a rank that ends takes some away
            found[path] = path.stat().st_mode & 0o777
    return found


def private(handle: runner.RunHandle) -> bool:
    return all(mode == (0o700 if path.is_dir() else 0o600) for path, mode in modes(handle).items())


@pytest.mark.parametrize(
    ("line", "cell"),
    [
        pytest.param("-n 2", "import nbdist\nnbdist.log(step=1, loss=0.5)\nnbdist.board_dir()", id="success"),
        pytest.param("-n 2 --retries 1", "1 / 0", id="a failure, twice"),
        pytest.param("-n 1", "import os\nos.abort()", id="abort"),
    ],
)
def test_every_file_of_a_run_that_ended_is_private(start_cell, line: str, cell: str) -> None:
    before = os.umask(0)
    try:
        handle = start_cell(line, cell)
    finally:
        os.umask(before)

    assert handle.wait(20) in ("finished", "failed")

    assert private(handle), modes(handle)
    home = handle.directory.path.parents[1]
    assert [path.stat().st_mode & 0o777 for path in (home, home / "runs")] == [0o700, 0o700]


def test_every_file_of_a_live_run_is_private(start_cell) -> None:
    handle = until_ready(start_cell("-n 2", SLEEP))
    handle.request_stop(Reason.said("enough"))
    until(lambda: handle.run.stop_reason)

    assert private(handle), modes(handle)
    handle.wait(10)


@pytest.mark.parametrize(
    "cell",
    ["print('fine')", "raise ValueError('no data')", AGAIN, "import os\nos.kill(os.getppid(), 9)"],
    ids=["success", "failure", "another attempt", "a killed supervisor"],
)
def test_the_environment_is_on_no_disk(start_cell, monkeypatch: pytest.MonkeyPatch, cell: str) -> None:
    monkeypatch.setenv("INHERITED", SECRET)
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    names = ("DB_PASS", "DATABASE_URL", "WANDB_KEY", "PASSPHRASE", "SIGNING_KEY", "AUTH", "HF_TOKEN", "MODE")
    line = "-n 2 --retries 1 --env NCCL_DEBUG=INFO " + " ".join(f"--env {name}={SECRET}" for name in names)
    check = (
        f"import os\nassert {{os.environ[n] for n in {('INHERITED', *names)}}} == {{'{SECRET[:4]}' + "
        f"'{SECRET[4:]}'}}\nprint('seen')\n"
    )

    handle = start_cell(line, check + cell)
    handle.wait(20)

    assert handle.run.state.terminal
    assert handle.run.spec.environment == dict.fromkeys(names, "•••") | {"NCCL_DEBUG": "INFO"}
    written = {path: path.read_bytes() for path in handle.directory.path.rglob("*") if path.is_file()}
    assert any(b"seen" in content for content in written.values())
    assert [path for path, content in written.items() if SECRET.encode() in content] == []


def test_secrets_are_on_no_command_line(start_cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INHERITED", SECRET)
    handle = until_ready(start_cell(f"-n 1 --env HF_TOKEN={SECRET}", SLEEP))

    for pid in (handle.run.supervisor.pid, handle.run.ranks[0].process.pid):
        assert SECRET.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    handle.stop()
