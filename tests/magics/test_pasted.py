"""Commands of a shell, pasted into a notebook with a real kernel."""

from __future__ import annotations

import pytest

SCRIPT = "import os, sys\\nprint('rank', os.environ['RANK'], sys.argv[1:])\\n"


def test_a_script_runs_behind_the_line_magic_as_in_a_shell(used_kernel) -> None:
    # the lines of all launchers are in tests/frameworks
    line = "torchrun --standalone --nproc_per_node 2 train.py --lr 0.1"
    used_kernel.run(f'open("train.py", "w").write("{SCRIPT}")')

    reply = used_kernel.run(f"%distributed {line}  # as in the tutorial")

    assert reply.status == "ok", reply.stderr
    assert {"[0] rank 0 ['--lr', '0.1']", "[1] rank 1 ['--lr', '0.1']"} <= set(reply.stdout.splitlines())


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        pytest.param(
            "%%distributed -n 2\n!torchrun --nproc_per_node 2 train.py",
            "write  %distributed torchrun --nproc_per_node 2 train.py  in a cell of its own",
            id="torchrun in a cell",
        ),
        pytest.param("%dist_init -n 2", "write  %%distributed -n 2  above the program", id="a peer's start"),
        pytest.param("%sync", "wait for each other in  dist.barrier()", id="a peer's barrier"),
        pytest.param(
            "%%distributed -n 2\n# coding: gbk\nprint('训练')",
            "the cell says that it is written in gbk, and is UTF-8: delete this line",
            id="an encoding that the cell does not have",
        ),
    ],
)
def test_what_cannot_run_so_is_told_what_to_type(same_kernel, cell: str, expected: str) -> None:
    reply = same_kernel.run(cell)

    assert reply.status == "error"
    assert expected in reply.stderr
    assert reply.stderr.startswith("UsageError: ")
    assert not (same_kernel.home / "runs").exists()


def test_a_run_is_exported_with_its_command_lines(used_kernel) -> None:
    used_kernel.run("%%distributed -n 1 --name lenet\nprint('hello')")

    reply = used_kernel.run("%dist_export lenet --to out")

    assert "# torchrun\ncd " in reply.stdout, reply.stderr
    assert "--standalone --nproc-per-node=1 " in reply.stdout
    assert "# fleetrun\ncd " in reply.stdout
    assert "# sbatch\nsbatch " in reply.stdout
    assert (used_kernel.home.parent / "out/lenet.py").read_text().strip() == "print('hello')"
