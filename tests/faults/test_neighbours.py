"""Runs at the same time, of one user or of two, do not collide; a stolen port costs nobody anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import nbdist
from nbdist.store import RunDirectory
from tests.faults.conftest import Owner
from tests.programs import FAMILY, SLEEP, family_of, left_of, rank_states, ranks_of, until, until_ready

pytestmark = pytest.mark.usefixtures("leaves_nothing")

TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
NOBODY = 65534


def test_ten_runs_at_once_do_not_collide(start_cell) -> None:
    cell = "import os\nprint(os.environ['MASTER_PORT'])"
    handles = [start_cell("-n 2", cell) for _ in range(10)]

    assert [handle.wait(60) for handle in handles] == ["finished"] * 10
    assert len({handle.logs(0) for handle in handles}) == 10
    assert all(handle.logs(0) == handle.logs(1) for handle in handles)


def test_one_of_ten_runs_is_stopped_alone(start_cell) -> None:
    handles = [start_cell("-n 1 --name same", SLEEP) for _ in range(10)]
    for handle in handles:
        until_ready(handle)

    assert handles[4].stop() == "stopped"

    assert [handle.status for handle in handles] == ["running"] * 4 + ["stopped"] + ["running"] * 5


THIEF = """
import os, socket
print("port", os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0" and not os.path.exists("stolen"):
    thief = socket.socket()
    thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    thief.bind(("127.0.0.1", int(os.environ["MASTER_PORT"])))
    thief.listen()
    open("stolen", "w").close()
"""


@TORCH
def test_a_port_stolen_from_torch_is_replaced(run_cell) -> None:
    cell = f"""{THIEF}
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
"""

    handle = run_cell("-n 2", cell, limit=90)

    assert (handle.status, handle.run.attempt) == ("finished", 2), handle.logs(0)
    first, second = (handle.directory.rank(0, attempt).log.read_text().split()[1] for attempt in (1, 2))
    assert first != second


def test_a_port_that_is_stolen_again_and_again_fails_the_run(run_cell) -> None:
    cell = "import os\nraise OSError(98, 'Address already in use', os.environ['MASTER_PORT'])"

    handle = run_cell("-n 1", cell)

    assert (handle.status, handle.run.attempt) == ("failed", 4)


@pytest.fixture
def another_user(tmp_path: Path) -> Iterator[Path]:
    """Return a directory of another user of this machine, who can run Python and read this checkout."""
    if os.geteuid() != 0:
        pytest.skip("only root can start processes of another user: two users are NOT tested")
    folder = Path(tempfile.mkdtemp(prefix="nbdist-nobody-"))
    os.chown(folder, NOBODY, NOBODY)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def python_of_another_user() -> str:
    """Return an interpreter that another user may run; skip the test without one."""
    probe = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    candidates = [sys.executable, shutil.which("python3", path="/usr/bin"), shutil.which("python3")]
    for python in filter(None, candidates):
        try:
            subprocess.run([python, "-c", probe], check=True, **as_nobody(Path("/")))
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    pytest.skip("no interpreter that another user may run: two users are NOT tested")


def as_nobody(folder: Path) -> dict[str, object]:
    # this interpreter's packages, read by an interpreter that has none of them
    places = [str(Path(nbdist.__file__).parents[1]), sysconfig.get_paths()["purelib"]]
    return {
        "user": NOBODY,
        "group": NOBODY,
        "extra_groups": [],
        "cwd": folder,
        "env": {
            "PATH": os.defpath,
            "HOME": str(folder),
            "PYTHONPATH": os.pathsep.join(places),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    }


def test_two_users_run_at_once_and_neither_touches_the_other(
    start_cell, start_owner, another_user: Path
) -> None:
    mine = until_ready(start_cell("-n 2", f"{FAMILY}\ntime.sleep(600)"))
    family = family_of(mine)

    owner = start_owner("-n 2", SLEEP, python=python_of_another_user(), **as_nobody(another_user))
    directory = RunDirectory(another_user / ".local/state/nbdist/runs" / owner.run_id)
    until(lambda: "ready" in seen_by_them(another_user, owner, "handle.logs(1)"))
    assert directory.path.stat().st_uid == NOBODY
    assert seen_by_them(another_user, owner, "handle.run.port") != str(mine.run.port)

    assert mine.stop() == "stopped"
    assert left_of(mine, family) == []
    assert seen_by_them(another_user, owner, "handle.status") == "running"
    owner.kill()
    assert seen_by_them(another_user, owner, "handle.wait(15)") == "stopped"


def seen_by_them(home: Path, owner: Owner, expression: str) -> str:
    """Return the output that another user gets about a run: nobody else may read it, not even root."""
    program = f"import nbdist; handle = nbdist.attach({owner.run_id!r}); print({expression})"
    command = [python_of_another_user(), "-c", program]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, **as_nobody(home))
    return done.stdout.strip()


def test_another_user_can_neither_read_nor_stop_nor_kill_a_run(start_cell, another_user: Path) -> None:
    handle = until_ready(start_cell("-n 1", SLEEP))
    # even where the way to the home is open
    above = handle.directory.path
    while above != above.parent:
        if above.name != handle.run_id and above.stat().st_mode & 0o777 == 0o700 and above.name != "runs":
            above.chmod(0o711)
        above = above.parent
    attempts = f"""
import os, sys
from pathlib import Path
run = Path({str(handle.directory.path)!r})
def refused(what, *arguments, **more):
    try:
        what(*arguments, **more)
    except PermissionError:
        return True
    return False
print(
    refused(os.listdir, run),
    refused((run / "spec.json").read_text),
    refused((run / "ranks/0/log").read_text),
    refused((run / "control/stop-1-a.json").write_text, '{{"kind": "stop", "reason": "mine"}}'),
    refused(os.kill, {ranks_of(handle)[0].pid}, 9),
    refused(os.kill, {handle.run.supervisor.pid}, 9),
    refused(open, "/proc/{ranks_of(handle)[0].pid}/environ"),
)
"""
    output = subprocess.run(
        [python_of_another_user(), "-c", attempts],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        **as_nobody(another_user),
    ).stdout

    assert output.split() == ["True"] * 7
    assert handle.status == "running"


def test_ranks_of_runs_that_end_at_once_are_told_apart(start_cell) -> None:
    failing = start_cell(
        "-n 2", "import os, time\nif os.environ['RANK'] == '0': os._exit(5)\ntime.sleep(600)"
    )
    passing = start_cell("-n 2", "pass")

    assert (failing.wait(20), passing.wait(20)) == ("failed", "finished")
    assert (rank_states(failing), rank_states(passing)) == (["failed", "stopped"], ["finished"] * 2)
