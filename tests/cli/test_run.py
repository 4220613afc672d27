"""``nbdist run``: a script on ranks, live, and an exit code that scripts can use."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nbdist import config, options, runner
from nbdist.cli.commands import main
from nbdist.model import StopRequested
from nbdist.runner import RunHandle
from nbdist.store import RunStore, read_events
from nbdist.text import reason_text
from nbdist.warm.match import shape_of
from tests.cli.conftest import Shell, read_until
from tests.programs import until

SLEEP = "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"


def test_a_script_is_shown_live_and_then_summed_up(shell: Shell) -> None:
    shell.script("train.py", "import os\nprint('hello from', os.environ['RANK'])\n")

    done = shell.run("run", "-n", "2", "train.py")

    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[0].startswith("[nbdist] train-")
    assert set(lines[1:3]) == {"[0] hello from 0", "[1] hello from 1"}
    assert "Finished · 2 ranks" in lines[3]


def test_a_pasted_command_line_runs_as_it_stands(shell: Shell) -> None:
    shell.script("train.py", "import os, sys\nprint('rank', os.environ['LOCAL_RANK'], sys.argv[1:])\n")
    pasted = "torchrun --standalone --nnodes=1 --nproc-per-node=2 --tee 3 train.py --tee 4"

    done = shell.run("run", *pasted.split())

    assert done.returncode == 0, done.stderr
    assert {"[0] rank 0 ['--tee', '4']", "[1] rank 1 ['--tee', '4']"} <= set(done.stdout.splitlines())
    assert "--tee has no effect here" in done.stderr


def test_each_log_is_written_to_a_directory_besides_and_a_further_run_is_appended(shell: Shell) -> None:
    shell.script("train.py", "import os\nprint('rank', os.environ['RANK'])\nprint('x' * 3_000_000)\n")
    pasted = "python -m paddle.distributed.launch --nproc_per_node=2 --log_dir=logs/deep train.py"

    done = [shell.run("run", *pasted.split()) for _ in range(2)]

    assert [each.returncode for each in done] == [0, 0], done[0].stderr
    for rank in range(2):
        written = (shell.folder / f"logs/deep/workerlog.{rank}").read_text()
        assert written == 2 * f"rank {rank}\n{'x' * 3_000_000}\n"


def test_a_program_that_is_not_pythons_is_a_rank_like_any_other(shell: Shell) -> None:
    # the first failure ends the other rank: it waits until that one has said its line
    program = """#!/bin/sh
echo "rank $RANK of $WORLD_SIZE: $*"
if [ "$RANK" = 0 ]; then touch said; else until [ -e said ]; do sleep 0.05; done; fi
exit "$RANK"
"""
    shell.script("train.sh", program).chmod(0o755)

    done = shell.run("run", "-n", "2", "--no-python", "./train.sh", "--lr", "0.1")

    assert done.returncode == 1
    assert "[0] rank 0 of 2: --lr 0.1" in done.stdout
    assert "rank 1 failed first" in done.stderr


def test_the_lines_of_some_ranks_alone_are_shown(shell: Shell) -> None:
    shell.script("train.py", "import os\nprint('rank', os.environ['RANK'])\n")

    done = shell.run("run", "-n", "3", "--local-ranks-filter", "0,2", "train.py")

    shown = sorted(line for line in done.stdout.splitlines() if "rank " in line)
    assert shown == ["[0] rank 0", "[2] rank 2"]
    assert "rank 1" in shell.run_handle().logs(1)


def test_what_stands_behind_the_script_is_the_scripts_though_it_looks_like_an_option(shell: Shell) -> None:
    shell.script("script.py", "import sys\nprint(sys.argv[1:])\n")

    done = shell.run(
        "run", "--nproc_per_node", "2", "script.py", "--lr", "0.1", "-n", "5", "--json", "--help"
    )

    assert done.returncode == 0, done.stderr
    assert "[1] ['--lr', '0.1', '-n', '5', '--json', '--help']" in done.stdout
    assert shell.run_handle().run.spec.world_size == 2


@pytest.mark.parametrize("typed", ["lib/train.py", "link.py", "folder/second.py"])
def test_a_script_follows_the_rules_of_python(shell: Shell, typed: str) -> None:
    shell.script("lib/beside.py", "import sys\nPATH = sys.path[0]\n")
    shell.script("lib/train.py", "import os, beside\nprint(__name__, __file__, beside.PATH, os.getcwd())\n")
    for link, target in {"link.py": "lib/train.py", "folder": "lib", "lib/second.py": "../link.py"}.items():
        (shell.folder / link).symlink_to(target)
    plain = subprocess.check_output([sys.executable, typed], cwd=shell.folder, text=True)

    done = shell.run("run", "-n", "1", typed)
    warm = shape_of(runner.plan_script(options.parse("-n 1"), [typed], cwd=str(shell.folder)))

    assert f"[0] {plain}" in done.stdout, done.stderr
    assert (done.stderr, warm.first) == ("", f"{shell.folder}/lib")


def test_a_module_runs_as_python_would_run_it(shell: Shell) -> None:
    shell.script("job/__init__.py", "print('the package')\n")
    shell.script("job/model.py", "RATE = 0.5\n")
    text = """
import multiprocessing, sys
from . import model

def work():
    print("child", model.RATE, flush=True)

if __name__ == "__main__":
    print(__package__, sys.argv[1:], sys.path[0])
    child = multiprocessing.get_context("spawn").Process(target=work)
    child.start()
    child.join()
"""
    shell.script("job/train.py", text)

    done = shell.run("run", "-n", "1", "-m", "job.train", "-m", "x")

    assert done.returncode == 0, done.stdout
    assert done.stdout.count("[0] the package") == 2, "the rank and its child, and nobody else"
    assert f"[0] job ['-m', 'x'] {shell.folder}" in done.stdout
    assert "[0] child 0.5" in done.stdout


def test_every_line_of_a_rank_that_writes_much_is_shown(shell: Shell) -> None:
    shell.script("train.py", "import sys\nsys.stdout.write(''.join(f'{i:099}\\n' for i in range(60_000)))\n")

    done = shell.run("run", "-n", "1", "train.py")

    numbers = [int(line[4:]) for line in done.stdout.splitlines() if line.startswith("[0] ")]
    assert numbers == list(range(60_000))


def test_a_failure_has_the_exit_code_of_the_rank_that_failed_first(shell: Shell) -> None:
    # what is for other ends is in test_exits.py
    program = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(4)\ntime.sleep(600)"
    shell.script("train.py", program)

    done = shell.run("run", "-n", "2", "train.py")

    assert done.returncode == 4
    assert "rank 1 failed first" in done.stderr


def test_the_first_failure_is_reported_on_stderr_and_its_fix_is_written_for_a_shell(shell: Shell) -> None:
    shell.script("train.py", "name = 'no_such_module_of_mine'\n__import__(name)\n")

    done = shell.run("run", "-n", "1", "train.py")

    assert done.returncode == 1
    assert "rank 0 failed first: ModuleNotFoundError at line 2 of train.py" in done.stderr
    (fix,) = [line for line in done.stderr.splitlines() if "install it with  pip install" in line]
    assert "%pip" not in fix
    assert "kernel" not in done.stderr
    assert "notebook" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_run_and_the_script_may_save_its_work(
    shell: Shell, number: signal.Signals
) -> None:
    program = "import time\ntry:\n    print('ready')\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    "
    shell.script("train.py", program + "print('saved')\n")
    running = shell.start("run", "-n", "2", "train.py")
    shell.until_printed("ready")

    running.send_signal(number)
    done = shell.finish(running)

    assert done.returncode == 128 + number
    assert {"[0] saved", "[1] saved"} <= set(done.stdout.splitlines())
    assert shell.run_handle().status == "stopped"
    assert not shell.left()


def test_a_second_interrupt_hastens_the_end(shell: Shell) -> None:
    shell.script("train.py", "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + SLEEP)
    running = shell.start("run", "-n", "1", "train.py")
    shell.until_printed("ready")

    running.send_signal(signal.SIGINT)
    read_until(running, "stopping")
    time.sleep(config.AS_ONE)  # before, it counts as one with the first
    running.send_signal(signal.SIGINT)
    done = shell.finish(running)

    handle = shell.run_handle()
    (stop,) = [e for e in read_events(handle.directory.journal) if isinstance(e, StopRequested)]
    (rank,) = handle.run.ranks
    assert (done.returncode, rank.code) == (130, -signal.SIGTERM)
    assert rank.exited - stop.time < config.INTERRUPT_GRACE


BEGIN_INTERRUPTED = """
import signal, sys
def look(frame, event, _, wanted={!r}):
    if (frame.f_code.co_filename.endswith(wanted[0]), frame.f_code.co_name, event) == (True, *wanted[1:]):
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)
from nbdist.cli import main
sys.setprofile(look)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("moment", "detached"),
    [
        pytest.param(("cli/commands.py", "<module>", "call"), False, id="its commands are imported"),
        pytest.param(("runner/__init__.py", "<module>", "return"), False, id="the runner is imported"),
        pytest.param(("cli/running.py", "run", "call"), False, id="its words are read"),
        pytest.param(("runner/planning.py", "plan_script", "call"), False, id="the run is planned"),
        pytest.param(("subprocess.py", "_execute_child", "return"), False, id="the first process is there"),
        pytest.param(("runner/launching.py", "start", "return"), False, id="it is started"),
        pytest.param(("runner/launching.py", "start", "return"), True, id="it is started to go on by itself"),
        pytest.param(("feed/following.py", "follow", "call"), False, id="it is followed"),
    ],
)
def test_an_interrupt_at_any_step_is_quiet_and_leaves_nothing(
    shell: Shell, moment: tuple[str, str, str], detached: bool
) -> None:
    shell.script("train.py", SLEEP)
    words = ["run", *(["-d"] if detached else []), "-n", "2", "train.py"]

    done = shell.finish(shell.start_python("-c", BEGIN_INTERRUPTED.format(moment), *words))

    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    until(lambda: all(RunHandle(run).status == "stopped" for run in RunStore(shell.home).directories()))
    assert not shell.left()


@pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells what a process ignores")
def test_a_hang_up_that_nohup_ignores_is_ignored(shell: Shell) -> None:
    shell.script("train.py", SLEEP)
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        running = shell.start("run", "-n", "1", "train.py")
    finally:
        signal.signal(signal.SIGHUP, previous)
    shell.until_printed("ready")

    status = Path(f"/proc/{running.pid}/status").read_text()
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    assert ignored >> (signal.SIGHUP - 1) & 1
    running.send_signal(signal.SIGINT)
    assert shell.finish(running).returncode == 130


def test_a_killed_command_leaves_nothing(shell: Shell) -> None:
    child = (
        "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    )
    shell.script("train.py", child + SLEEP)
    running = shell.start("run", "-n", "2", "train.py")
    handle = shell.until_printed("ready")
    assert len(shell.left()) == 4

    running.kill()
    shell.finish(running)

    until(lambda: not shell.left())
    assert handle.wait(15) == "stopped"
    assert reason_text(handle.run.reason) == "the process that started it ended"


def test_a_run_whose_output_nobody_reads_is_stopped(shell: Shell) -> None:
    shell.script("train.py", "import time\nwhile True:\n    print('line')\n    time.sleep(0.01)\n")
    running = shell.start("run", "-n", "1", "train.py")
    read_until(running, "line")

    running.stdout.close()

    assert running.wait(20) == 128 + signal.SIGPIPE
    assert shell.run_handle().status == "stopped"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param([], "no script to run: write  nbdist run -n 2 train.py", id="no script"),
        pytest.param(["torchrun", "--nnodes=2:4", "train.py"], "write  --nodes 4", id="elastic nodes"),
        pytest.param(["--no-python", "./gone.sh"], "is no program that can be run", id="no such program"),
        pytest.param(["--gpus", "0,9999", "train.py"], "--gpus", id="no such GPU"),
        pytest.param(["-n", "1", "other.py"], "there is no file ", id="no such script"),
        pytest.param(["-n", "1", "folder"], "folder is a directory", id="a directory"),
        pytest.param(["-n", "1", "broken.py"], "broken.py, line 2, does not compile", id="syntax error"),
        pytest.param(["typo.py"], "line 2 of typo.py uses wieght, which is not defined", id="no such name"),
        pytest.param(["-n", "1", "--args", "x", "train.py"], "--args is for cells", id="--args"),
        pytest.param(["-n", "1", "-m"], "-m needs a module", id="-m without a module"),
        pytest.param(["-n", "1", "-m", "nowhere"], "no module nowhere in ", id="no such module"),
        pytest.param(["-n", "1", "-m", "folder"], "a package without __main__.py", id="package"),
        pytest.param(["-n", "1", "~/gone.py"], "no script ~/gone.py", id="a tilde that no shell expanded"),
        pytest.param(["-n", "1", "--cwd", "no/where", "train.py"], "no such directory", id="no directory"),
    ],
)
def test_a_mistake_is_one_line_and_2_and_nothing_is_started(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("pass\n")
    (tmp_path / "broken.py").write_text("x = 1\nif x\n")
    (tmp_path / "typo.py").write_text("rate = 1\nprint(wieght)\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/__init__.py").write_text("raise AssertionError('imported')\n")

    code = main(["run", *words])

    (line,) = capsys.readouterr().err.splitlines()
    assert code == 2
    assert line.startswith("nbdist: ")
    assert expected in line
    assert not RunStore(home).directories()


def test_a_home_that_cannot_be_written_is_1_with_what_a_shell_can_do(shell: Shell) -> None:
    shell.script("train.py", "pass\n")
    shell.environment["NBDIST_HOME"] = str(shell.script("file", "") / "below")

    done = shell.run("run", "-n", "1", "train.py")

    assert done.returncode == 1
    assert done.stderr.startswith("nbdist: ")
    assert "export NBDIST_HOME=/tmp/nbdist" in done.stderr
    assert "%" not in done.stderr
