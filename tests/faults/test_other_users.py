"""Directories that another user has filled, or could have: nothing in them is read, nothing is started."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import nbdist
from nbdist import runner
from nbdist.board import ensure_board, stop_board
from nbdist.board.server import read_board
from nbdist.cli.commands import main
from nbdist.errors import LaunchError, NotPrivate
from nbdist.launch.log_watch import WorkerLogs
from nbdist.store import RunStore, look, read_error
from nbdist.store.paths import check_home, check_private
from nbdist.store.run_store import read_spec
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, RUN_ID, STARTED, a_spec, queued, supervisor_started
from tests.programs import until

OTHER = 12_345
OWN_ID = "20261120-141600-mine-zzzz"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


class Trap:
    """A home that another user has filled: its only run is of an engine and has no watcher, so that any
    reader would start one with the Python that the run names."""

    def __init__(self, folder: Path, *, owner: int = OTHER) -> None:
        self.home = folder / "home"
        self.sprung = folder / "sprung"
        canary = folder / "python"
        canary.write_text(f"#!/bin/sh\ntouch {self.sprung}\n")
        canary.chmod(0o755)
        self.sprung.touch()
        self.sprung.chmod(0o666)
        self.sprung.unlink()
        spec = replace(a_spec(), python=str(canary), engine="slurm", detached=True)
        self.run = WrittenRun(self.home, spec).happened(supervisor_started(time=CREATED), queued("Priority"))
        self.run.directory.job.write_text('{"job": "7", "environment": {}}')
        self.run.printed(0, "a secret line\n")
        self.run.directory.supervisor_log.unlink()
        give(self.home, owner)

    def give_home_back(self) -> None:
        """Leave the run alone to the other user."""
        for directory in (self.home, self.home / "runs"):
            os.chown(directory, 0, 0)

    @property
    def has_sprung(self) -> bool:
        """Return whether something was started: it writes into the run before it begins."""
        return self.sprung.exists() or self.run.directory.supervisor_log.exists()


def give(folder: Path, owner: int) -> None:
    """Give a directory and all in it to another user."""
    for path, _, names in os.walk(folder):
        for entry in (path, *(os.path.join(path, name) for name in names)):
            os.chown(entry, owner, owner, follow_symlinks=False)


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def shell(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Done]:
    """Run the command line over the home in the test's folder."""
    monkeypatch.setenv("LANG", "C.UTF-8")

    def run(*words: str) -> Done:
        code = main(words)
        return Done(code, *capsys.readouterr())

    return run


Shell = Callable[..., Done]

LOOKERS = {
    "status": ["status"],
    "status of it": ["status", RUN_ID],
    "status as JSON": ["status", "--json"],
    "logs": ["logs", RUN_ID],
    "logs as JSON": ["logs", RUN_ID, "--json", "--since", "0"],
    "explain": ["explain", RUN_ID],
    "explain as JSON": ["explain", "--json"],
    "wait": ["wait", RUN_ID, "--timeout", "0.1s"],
    "metrics": ["metrics", RUN_ID],
    "attach": ["attach", RUN_ID],
    "attach the latest": ["attach"],
    "stacks": ["stacks", RUN_ID],
    "stop": ["stop", RUN_ID],
    "stop --all": ["stop", "--all"],
    "board": ["board", RUN_ID],
    "report": ["board", RUN_ID, "--export", "/dev/null"],
    "export": ["export", RUN_ID, "--to", "/nowhere"],
}


def test_a_look_at_a_run_of_ones_own_does_start_what_watches_it(tmp_path: Path, shell: Shell) -> None:
    trap = Trap(tmp_path, owner=os.geteuid())

    done = shell("status")

    assert "lenet-k3f9" in done.out
    assert trap.has_sprung, "or the tests below would show nothing"
    until(trap.sprung.exists)


@pytest.mark.parametrize("words", LOOKERS.values(), ids=LOOKERS.keys())
def test_a_look_at_another_users_home_reads_and_starts_nothing(
    trap: Trap, shell: Shell, words: list[str]
) -> None:
    done = shell(*words)

    assert done.code == 2, done
    assert f"{trap.home} belongs to user {OTHER}, not to you" in done.err
    assert f"sudo -u '#{OTHER}' nbdist" in done.err
    assert done.err.count("\n") == 1, "one line"
    assert "secret" not in done.out
    assert not trap.has_sprung


@pytest.mark.parametrize("words", LOOKERS.values(), ids=LOOKERS.keys())
def test_a_run_of_another_user_in_a_home_of_ones_own_is_not_looked_into(
    trap: Trap, shell: Shell, words: list[str]
) -> None:
    trap.give_home_back()

    done = shell(*words)

    assert "secret" not in done.out
    assert not trap.has_sprung
    if RUN_ID in words:
        assert f"belongs to user {OTHER}, not to you" in done.err


def test_an_ordinary_user_is_told_to_choose_a_directory_of_his_own() -> None:
    with tempfile.TemporaryDirectory(prefix="nbdist-other-") as folder:
        os.chmod(folder, 0o755)
        trap = Trap(Path(folder))
        places = (str(Path(nbdist.__file__).parents[1]), sysconfig.get_paths()["purelib"])
        program = (
            f"import sys; sys.path[:0] = {places!r}\n"
            "from nbdist.cli.commands import main\nsys.exit(main(['status']))"
        )

        done = subprocess.run(
            ["/usr/bin/python3", "-c", program],
            env={"NBDIST_HOME": str(trap.home), "HOME": folder, "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
            capture_output=True,
            text=True,
            user=65_534,
            group=65_534,
            extra_groups=[],
            check=False,
        )

        if "Permission denied" in done.stderr or "No module" in done.stderr:
            pytest.skip("another user cannot read this checkout")
        assert done.returncode == 2
        assert done.stderr == (
            f"nbdist: {trap.home} belongs to user {OTHER}, not to you: choose a directory of your own, for "
            "example  export NBDIST_HOME=~/nbdist\n"
        )
        assert not trap.has_sprung


def test_a_run_of_another_user_is_one_line_and_ones_own_are_listed(trap: Trap, shell: Shell) -> None:
    trap.give_home_back()
    WrittenRun(trap.home, a_spec(run_id=OWN_ID, name="mine")).happened(*STARTED)

    done = shell("status")

    assert done.code == 0, done.err
    assert "mine-zzzz" in done.out
    assert f"run lenet-k3f9 is not read: it belongs to user {OTHER}, not to you" in done.out.splitlines()


def python(*words: str) -> subprocess.CompletedProcess[str]:
    command, folder = [sys.executable, *words], Path(nbdist.__file__).parents[1]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize(
    "flags", [pytest.param(("-m", "nbdist.entry"), id="as a module"), pytest.param((), id="by its path")]
)
def test_a_supervisor_does_not_begin_with_a_run_of_another_user(trap: Trap, flags: tuple[str, ...]) -> None:
    program = flags or (str(Path(nbdist.__file__).parent / "entry.py"),)

    done = python(*program, "launch.supervisor", str(trap.run.directory.path))

    assert done.returncode == 2
    assert done.stderr.startswith(f"nbdist: {trap.run.directory.path} belongs to user {OTHER}, not to you")
    assert not trap.has_sprung


def test_python_refuses_another_users_home(trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBDIST_HOME", str(trap.home))

    for refused in (
        nbdist.runs,
        nbdist.attach,
        lambda: nbdist.attach(RUN_ID),
        lambda: stop_board(trap.home),
        lambda: ensure_board(trap.home),
        lambda: read_board(trap.home),
        lambda: RunStore(trap.home).create(a_spec(run_id=OWN_ID), None),
        lambda: runner.RunHandle(trap.run.directory).wait(1),
        lambda: read_spec(trap.run.directory),
    ):
        with pytest.raises(NotPrivate):
            refused()
    assert look(trap.run.directory) is None
    assert not trap.has_sprung


def test_a_board_does_not_begin_over_another_users_home(trap: Trap) -> None:
    done = python("-m", "nbdist.board", str(trap.home))

    assert done.returncode == 1
    assert "not to you" in done.stderr
    assert not (trap.home / "board").exists()


def loosen(path: Path, mode: int) -> None:
    path.chmod(stat.S_IMODE(path.stat().st_mode) | mode)


@pytest.mark.parametrize("mode", [0o020, 0o002, 0o2070], ids=["the group", "all", "a group that shares"])
@pytest.mark.parametrize("where", ["home", "home/runs"])
def test_a_home_that_others_may_write_is_refused_with_what_to_type(
    tmp_path: Path, shell: Shell, where: str, mode: int
) -> None:
    trap, place = Trap(tmp_path, owner=os.geteuid()), tmp_path / where
    loosen(place, mode)

    done = shell("status")

    assert done.code == 2
    assert f"{place} can be written by others: type  chmod -R go-w {place}" in done.err
    assert not trap.has_sprung
    subprocess.run(["chmod", "-R", "go-w", place], check=True)
    assert shell("status").code == 0


def test_a_run_that_others_may_write_is_refused_alone(tmp_path: Path, shell: Shell) -> None:
    trap = Trap(tmp_path, owner=os.geteuid())
    WrittenRun(trap.home, a_spec(run_id=OWN_ID, name="mine")).happened(*STARTED)
    loosen(trap.run.directory.path, 0o020)

    done = shell("status")

    assert "run lenet-k3f9 is not read: it can be written by others" in done.out.splitlines()
    assert "mine-zzzz" in done.out
    assert f"chmod -R go-w {trap.run.directory.path}" in shell("logs", "lenet").err
    assert not trap.has_sprung


@pytest.mark.parametrize(
    ("mode", "group", "private"),
    [
        pytest.param(0o755, 0, True, id="that nobody else may write"),
        pytest.param(0o1777, 0, True, id="that is sticky, as /tmp"),
        pytest.param(0o775, os.getegid(), True, id="that the user's own group may write"),
        pytest.param(0o2775, 100, False, id="that another group may write"),
        pytest.param(0o777, 0, False, id="that all may write"),
    ],
)
def test_a_home_is_as_private_as_the_directory_above_it(
    tmp_path: Path, mode: int, group: int, private: bool
) -> None:
    above = tmp_path / "above"
    home = above / "not there yet" / "nbdist"
    above.mkdir()
    os.chown(above, 0, group)
    above.chmod(mode)

    for _ in ("before it is made", "then"):
        if private:
            check_home(home)
        else:
            with pytest.raises(NotPrivate, match=rf"can be replaced by others, who may write {above}"):
                check_home(home if not home.exists() else above / "home")
        home.mkdir(mode=0o700, parents=True, exist_ok=True)


def test_a_link_is_followed_where_the_user_has_made_it(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir(mode=0o700)
    link = tmp_path / "home"
    link.symlink_to(tmp_path / "disk")

    check_home(link)
    with pytest.raises(NotPrivate, match="is a link"):
        check_private(link)
    os.chown(link, OTHER, OTHER, follow_symlinks=False)
    with pytest.raises(NotPrivate, match=f"belongs to user {OTHER}"):
        check_home(link)


def test_a_link_leads_nowhere_that_others_may_write(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk").chmod(0o777)
    link = tmp_path / "home"
    link.symlink_to(tmp_path / "disk")

    with pytest.raises(NotPrivate, match="can be written by others"):
        check_home(link)


def test_a_spec_of_another_user_in_a_run_of_ones_own_is_not_read(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path / "home")
    os.chown(run.directory.spec, OTHER, OTHER)

    assert look(run.directory) is None


def test_a_report_of_another_user_is_not_read(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path / "home").raised(0, "ValueError", "not mine")
    os.chown(run.directory.rank(0).error, OTHER, OTHER)

    assert read_error(run.directory.rank(0).error) is None


def test_old_runs_of_another_user_are_not_removed(trap: Trap) -> None:
    trap.give_home_back()

    list(runner.prune(RunStore(trap.home), (1, 1e-9)))

    assert trap.run.directory.spec.exists()


def a_link(place: Path, victim: Path) -> None:
    place.symlink_to(victim)


def a_second_name(place: Path, victim: Path) -> None:
    os.link(victim, place)


def another_users_file(place: Path, victim: Path) -> None:
    place.touch()
    os.chown(place, OTHER, OTHER)


def a_pipe(place: Path, victim: Path) -> None:
    os.mkfifo(place)


@pytest.mark.parametrize("plant", [a_link, a_second_name, another_users_file, a_pipe])
def test_a_log_dir_in_which_something_was_planted_starts_no_run(
    start_cell: Callable[..., runner.RunHandle], home: Path, tmp_path: Path, plant: Callable[..., None]
) -> None:
    shared, victim = tmp_path / "shared", tmp_path / "victim"
    shared.mkdir()
    shared.chmod(0o1777)
    victim.write_text("mine\n")
    plant(shared / "workerlog.1", victim)

    words = r"--log-dir .*workerlog\.1: .*: name a directory of yours"
    with pytest.raises(LaunchError, match=words) as error:
        start_cell(f"-n 2 --log-dir {shared}", "print('hello')")

    assert "\n" not in str(error.value)
    assert victim.read_text() == "mine\n"
    assert not home.exists()


def test_a_log_dir_that_is_another_users_link_starts_no_run(
    start_cell: Callable[..., runner.RunHandle], tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    link = tmp_path / "logs"
    link.symlink_to(tmp_path / "mine")
    os.chown(link, OTHER, OTHER, follow_symlinks=False)

    with pytest.raises(LaunchError, match="it is a link of another user"):
        start_cell(f"-n 1 --log-dir {link}", "print('hello')")

    assert not list((tmp_path / "mine").iterdir())


def test_what_is_planted_while_a_run_goes_on_is_not_followed(tmp_path: Path) -> None:
    log, victim, problems = tmp_path / "log", tmp_path / "victim", []
    log.write_text("a line\n")
    victim.write_text("mine\n")
    copies = WorkerLogs(tmp_path, [(0, log)], report=problems.append)
    copies.tick(0.0)
    assert (tmp_path / "workerlog.0").read_text() == "a line\n"

    (tmp_path / "workerlog.0").unlink()
    (tmp_path / "workerlog.0").symlink_to(victim)
    log.write_text("a line\nanother\n")
    copies.close()

    assert problems == [f"--log-dir: {tmp_path}/workerlog.0: it is a link"]
    assert victim.read_text() == "mine\n"
