"""VisualDL's own writer in a rank: its files as ever, a copy for the run, and its faults mended."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from visualdl.reader.reader import LogReader

if TYPE_CHECKING:
    from pathlib import Path

    from tests.worker.conftest import Rank

IN_A_RANK = """
from nbdist.worker import adaptations
from nbdist.worker.framework_hooks import after_import
after_import("visualdl.writer.writer", adaptations.copy_visualdl)
from visualdl import LogWriter
"""


def scalars(directory: Path, tag: str) -> list[tuple[int, float]]:
    """Return the content of a directory of VisualDL's writer, by VisualDL's reader."""
    (file,) = directory.iterdir()
    return [(value.id, value.value) for value in LogReader(file_path=str(file)).get_data("scalar", tag)]


def test_scalars_are_in_its_own_file_and_in_the_run(rank: Rank) -> None:
    rank.does(
        IN_A_RANK
        + """
with LogWriter("logs/mine") as writer:
    writer.add_scalar("train/loss", 0.1, 1)
    writer.add_scalar(tag="train/loss", value=0.2, step=2, walltime=1763712345500)
"""
    )

    own = scalars(rank.run.path / "logs" / "mine", "train/loss")
    assert [step for step, _ in own] == [1, 2]
    assert rank.points() == [(1, {"train/loss": 0.1}), (2, {"train/loss": 0.2})]
    assert rank.lines()[1]["t"] == 1763712345.5
    assert rank.directories() == []


def test_other_kinds_are_copied_as_records_and_two_writers_kept_apart(rank: Rank) -> None:
    rank.does(
        IN_A_RANK
        + """
import numpy
writer = LogWriter("logs")
writer.add_image("samples", numpy.zeros((4, 6, 3), numpy.uint8), 1)
writer.add_histogram("weights", numpy.arange(10), 1)
writer.add_hparams({"lr": 0.1}, ["train/loss"])
nbdist.log_text("note", "both go on", 1)
other = LogWriter("other")
other.add_text("note", "hello", 1)
writer.add_scalar("loss", 0.5, 1); other.add_scalar("loss", 0.5, 1)
"""
    )

    tags = {name: [value.tag for value in rank.records(name)] for name in rank.directories()}
    assert tags == {
        "rank0.image": ["samples"],
        "rank0.histogram": ["weights"],
        "rank0.text": ["note"],
        "rank0.other.text": ["note"],
    }
    assert rank.lines()[0]["hparams"] == {"lr": 0.1}
    assert rank.lines()[0]["metrics"] == ["train/loss"]
    assert [tuple(values) for _, values in rank.points()[1:]] == [("loss",), ("other/loss",)]


def test_what_is_where_the_board_looks_is_not_copied(rank: Rank) -> None:
    rank.does(IN_A_RANK + "with LogWriter(nbdist.board_dir()) as writer: writer.add_scalar('loss', 0.5, 1)")

    assert scalars(rank.run.board / "rank0.own", "loss") == [(1, 0.5)]
    assert not rank.files.metrics.exists()


def test_a_killed_rank_that_closed_nothing_has_lost_nothing(rank: Rank) -> None:
    process = rank.start(
        IN_A_RANK
        + """
import time
writer = LogWriter("logs")
for step in range(50): writer.add_scalar("loss", 0.5, step)
print("ready", flush=True)
time.sleep(600)
"""
    )
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()

    assert [step for step, _ in scalars(rank.run.path / "logs", "loss")] == list(range(50))


def test_a_forked_child_can_go_on_writing(rank: Rank) -> None:
    rank.does(
        IN_A_RANK
        + """
import os, threading
writer = LogWriter("logs")
assert threading.active_count() == 1
if os.fork() == 0:
    writer.add_scalar("loss", 1.0, 1)
    writer.flush()
    os._exit(0)
os.wait()
writer.add_scalar("loss", 2.0, 2)
writer.close()
"""
    )

    assert scalars(rank.run.path / "logs", "loss") == [(1, 1.0), (2, 2.0)]


def test_ranks_may_make_one_directory_at_once_and_a_closed_writer_says_so_as_ever(rank: Rank) -> None:
    done = rank.does(
        IN_A_RANK
        + """
import os
from visualdl.io import bfile
os.makedirs("logs")
# what the slower of two ranks does, who has looked before the other made it
bfile.default_file_factory.get_filesystem("").makedirs("logs")
writer = LogWriter("logs")
file_writer = writer._get_file_writer()
writer.close()
try: file_writer.flush()
except OSError as error: print(error)
"""
    )

    assert "Writer is closed." in done.stdout


def test_another_visualdl_keeps_its_own_way(rank: Rank) -> None:
    rank.does(
        "import types\nfrom nbdist.worker import adaptations\n"
        "adaptations.copy_visualdl(types.ModuleType('writer'))"
    )
