"""Pictures, sounds and texts of a rank are on disk at once, whatever process of it shows them."""

from __future__ import annotations

import io
import signal
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image
from visualdl.reader.reader import LogReader

from nbdist.worker.records import FILE_NAME
from tests.worker.conftest import Rank

if TYPE_CHECKING:
    from pathlib import Path

EVERYTHING = """
import numpy
values = numpy.arange(12.0)
nbdist.log_image("samples", numpy.zeros((4, 6, 3), numpy.uint8), 3)
nbdist.log_audio("samples", values / 20, 3, sample_rate=8000)
nbdist.log_text("samples", "once upon a time", 3)
nbdist.log_histogram("samples", values, 3, bins=4)
nbdist.log_pr_curve("samples", values > 5, values / 12, 3)
nbdist.log_roc_curve("samples", values > 5, values / 12, 3)
nbdist.log_embedding("samples", values.reshape(4, 3), ["a", "b", "c", "d"])
"""
KINDS = ["audio", "embeddings", "histogram", "image", "pr_curve", "roc_curve", "text"]


def test_what_is_shown_is_what_was_given_by_one_thread_without_visualdl(rank: Rank) -> None:
    done = rank.does(EVERYTHING + "import sys, threading; print(threading.active_count(), *sys.modules)")

    threads, *modules = done.stdout.splitlines()[-1].split()
    assert threads == "1"
    assert {"visualdl", "google.protobuf", "PIL", "matplotlib"}.isdisjoint(modules)
    (image,) = rank.records("rank0.image")
    assert Image.open(io.BytesIO(image.image.encoded_image_string)).size == (6, 4)
    (text,) = rank.records("rank0.text")
    assert text.text.encoded_text_string == "once upon a time"
    (histogram,) = rank.records("rank0.histogram")
    assert list(histogram.histogram.hist) == [3, 3, 3, 3]
    (audio,) = rank.records("rank0.audio")
    assert (audio.audio.length_frames, audio.audio.sample_rate) == (12, 8000)
    (curve,) = rank.records("rank0.pr_curve")
    assert curve.pr_curve.TP[0] == 6
    (embedding,) = rank.records("rank0.embeddings")
    rows = embedding.embeddings.embeddings
    assert [(list(row.label), list(row.vectors)) for row in rows][3] == (["d"], [9.0, 10.0, 11.0])


def test_a_killed_rank_has_shown_everything_where_visualdl_reads_it(rank: Rank) -> None:
    process = rank.start(EVERYTHING + "import time\nprint('ready', flush=True)\ntime.sleep(600)")
    assert process.stdout is not None
    while process.stdout.readline() != "ready\n":
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()

    assert rank.directories() == [f"rank0.{kind}" for kind in KINDS]
    assert all(len(rank.records(f"rank0.{kind}")) == 1 for kind in KINDS)
    for kind in KINDS:
        file = rank.run.board / f"rank0.{kind}" / FILE_NAME
        (value,) = LogReader(file_path=str(file)).get_data(kind, "samples")
        assert value.id == (0 if kind == "embeddings" else 3)


def test_a_forked_child_has_a_directory_of_its_own(rank: Rank) -> None:
    rank.does(
        """
import os
nbdist.log_text("who", "parent", 0)
if os.fork() == 0:
    nbdist.log_text("who", "child", 1)
    os._exit(0)
os.wait()
nbdist.log_text("who", "parent", 2)
"""
    )

    assert rank.directories() == ["rank0.text", "rank0.text-2"]
    assert [value.id for value in rank.records("rank0.text")] == [0, 2]
    assert [value.id for value in rank.records("rank0.text-2")] == [1]


def test_threads_and_signal_handlers_write_whole_records(rank: Rank) -> None:
    rank.does(
        """
import signal, threading
nbdist.log_text("begin", "")
signal.signal(signal.SIGALRM, lambda *_: nbdist.log_text("signal", "s" * 5000))
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
def work(name):
    for step in range(200): nbdist.log_text(name, name * 3000, step)
threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
for thread in threads: thread.start()
for thread in threads: thread.join()
signal.setitimer(signal.ITIMER_REAL, 0)
"""
    )

    values = rank.records("rank0.text")
    for name in "abcd":
        assert [v.id for v in values if v.tag == name] == list(range(200))
    assert {v.text.encoded_text_string for v in values if v.tag == "a"} == {"a" * 3000}


def test_a_later_attempt_and_another_rank_have_their_own(tmp_path: Path) -> None:
    for other in ({}, {"attempt": 2}, {"rank": 1}):
        rank = Rank(tmp_path / "run", **other)
        rank.does("nbdist.log_text('note', 'hello')")

    assert rank.directories() == ["rank0.attempt-2.text", "rank0.text", "rank1.text"]


def test_without_a_step_the_records_of_a_tag_are_counted(rank: Rank) -> None:
    rank.does(
        "for tag in 'aab': nbdist.log_text(tag, '')\n"
        "nbdist.log_text('a', '', step=9)\nnbdist.log_text('a', '')"
    )

    expected = [("a", 0), ("a", 1), ("b", 0), ("a", 9), ("a", 10)]
    assert [(v.tag, v.id) for v in rank.records("rank0.text")] == expected


def test_without_numpy_a_line_says_what_is_left_out_and_text_goes_on(rank: Rank) -> None:
    done = rank.does(
        """
import sys
sys.modules["numpy"] = None
for step in range(3): nbdist.log_histogram("weights", [1, 2], step)
nbdist.log_text("note", "hello")
"""
    )

    (line,) = done.stderr.splitlines()
    assert line.startswith("nbdist: histogram weights is left out: import of numpy halted")
    assert "rank0.text" in rank.directories()


def test_what_cannot_be_shown_is_said_by_its_tag(rank: Rank) -> None:
    messages = {
        "log_image('samples', 'cat.png')": "nbdist: image samples: str of <U7 is no image",
        "log_text('', 'a')": "nbdist.log_text(…): a tag is a text that is not empty",
        "log_text('a', 'a', step='b')": "nbdist.log(step=…): str is not a whole number: 'b'",
        "log_embedding('e', [1, 2])": "nbdist: embeddings e: an embedding is a matrix",
        "log_pr_curve('c', [1], [0.5, 0.5])": "nbdist: pr_curve c: 1 labels and 2 predictions",
        "log_histogram('h', ['a'])": "nbdist: histogram h: could not convert",
    }
    calls = [f"try: nbdist.{call}\nexcept TypeError as error: print(error)" for call in messages]

    lines = rank.does("\n".join(calls)).stdout.splitlines()

    assert len(lines) == len(messages)
    assert [line for line, begin in zip(lines, messages.values(), strict=True) if begin not in line] == []


def test_a_full_disk_leaves_whole_records(rank: Rank) -> None:
    done = rank.does(
        """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
nbdist.log_text("note", "a" * 100)
resource.setrlimit(resource.RLIMIT_FSIZE, (250, hard))
for _ in range(3): nbdist.log_text("note", "b" * 100)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
nbdist.log_text("note", "c" * 100)
"""
    )

    assert [v.text.encoded_text_string[0] for v in rank.records("rank0.text")] == ["a", "c"]
    assert len(done.stderr.splitlines()) == 1


def test_an_embedding_with_a_step_has_a_tag_of_its_own(rank: Rank) -> None:
    rank.does(
        "for step in (0, 5): nbdist.log_embedding('e', [[1.0, 2.0]], [['cat', 'x']], step)\n"
        "nbdist.log_embedding('f', [[1.0, 2.0]], [['cat', 'x']], header=['name', 'set'])"
    )

    records = rank.records("rank0.embeddings")
    assert [v.tag for v in records] == ["e:0", "e:5", "f"]
    assert list(records[0].embeddings.label_meta) == ["label_0", "label_1"]
    assert list(records[2].embeddings.label_meta) == ["name", "set"]


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_tensors_of_frameworks_can_be_shown(rank: Rank, framework: str) -> None:
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")

    rank.does(
        f"""
import {framework} as framework
values = framework.ones([2, 3])
values.stop_gradient = False
half = values.astype("bfloat16") if "{framework}" == "paddle" else values.requires_grad_().bfloat16()
for step, tensor in enumerate((values, half, [values[0], values[1]])):
    nbdist.log_histogram("weights", tensor, step, bins=2)
# both axes could be the channels: a tensor has them first
nbdist.log_image("picture", framework.zeros([3, 5, 4]))
"""
    )

    assert [list(v.histogram.hist) for v in rank.records("rank0.histogram")] == [[0, 6]] * 3
    (picture,) = rank.records("rank0.image")
    assert np.asarray(Image.open(io.BytesIO(picture.image.encoded_image_string))).shape == (5, 4, 3)
