"""Why ranks that wait for a lock, or for another one to build something, never come."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.deadlocks import why
from nbdist.diagnosis.places import Sources
from nbdist.store.reports import Call
from tests.diagnosis.hang_cells import BARRIER, a_program, a_side, at, built_in, more, reason, sources, within
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import a_spec

__all__ = ["more", "sources"]


def test_a_lock_that_the_same_thread_has_taken_is_named_with_both_lines(more: Sources) -> None:
    held = at((0,), "with self.lock", (29, "<module>"), (4, "log"), (6, "flush"), waits=False)

    hint = reason(more, held, BARRIER)

    assert hint.signature == "hang-locked-twice"
    assert "line 6 holds rank 0: the same thread has taken  self.lock  already, at line 3" in hint.cause.en


def test_a_lock_that_another_thread_has_taken_is_named_with_where_that_is(more: Sources) -> None:
    held = at((0,), "with self.lock", (29, "<module>"), (6, "flush"), waits=False)
    thread = (Call(file=a_spec().program, line=10, function="write"),)

    hint = reason(more, replace(held, beside=(thread,)), BARRIER)

    assert hint.signature == "hang-locked-by-thread"
    assert "another thread has taken  self.lock  at line 9, and keeps it at line 10" in hint.cause.en


LOCKS = """\
class Cache:
    def put(self, key):
        with self.lock:
            self.rows.add(key)
    def move(self, key, other):
        with self.lock:
            other.put(key)
    def waits(self):
        with self.lock:
            self.lock.wait()

class Writer:
    def run(self):
        with self.lock:
            self.queue.get()

cache.move(key, other)
cache.put(key)
"""


def test_what_a_thread_is_in_cannot_be_taken_by_the_one_that_waits_for_it(tmp_path: Path) -> None:
    held = at((0,), "with self.lock", (17, "<module>"), (7, "move"), (3, "put"), waits=False)
    crossing = tuple(Call(file=a_spec().program, line=line, function="") for line in (7, 3))

    found = reason(a_program(tmp_path, LOCKS), replace(held, beside=(crossing,)), BARRIER)

    assert found.signature == "hang-locked-by-thread"
    assert "another thread has taken  self.lock  at line 6, and keeps it at line 3" in found.cause.en


@pytest.mark.parametrize(
    ("line", "function"),
    [
        pytest.param(10, "waits", id="a thread that waits for a condition has given it up"),
        pytest.param(15, "run", id="another class has a lock of its own by that name"),
    ],
)
def test_a_thread_that_has_not_taken_the_lock_is_not_named(line: int, function: str, tmp_path: Path) -> None:
    held = at((0,), "with self.lock", (18, "<module>"), (3, "put"), waits=False)
    thread = (Call(file=a_spec().program, line=line, function=function),)

    found = reason(a_program(tmp_path, LOCKS), replace(held, beside=(thread,)), BARRIER)

    assert found.signature == "hang-inside"


def test_a_lock_that_a_function_left_taken_is_named_with_its_line(tmp_path: Path) -> None:
    text = """\
class Index:
    def begin(self):
        self.lock.acquire()
    def end(self):
        self.lock.release()
    def add(self):
        with self.lock:
            pass
class Cache:
    def add(self):
        with self.lock:
            pass
index.add()
"""
    sources = a_program(tmp_path, text)
    held = at((0,), "with self.lock", (13, "<module>"), (7, "add"), waits=False)
    hint = reason(sources, held, a_side((1,), "barrier", 13))

    assert hint.signature == "hang-never-released"
    assert "line 7 holds rank 0:  self.lock  was taken at line 3" in hint.cause.en
    held = at((0,), "with self.lock", (13, "<module>"), (11, "add"), waits=False)
    assert reason(sources, held, a_side((1,), "barrier", 13)).signature == "hang-inside"


def test_a_lock_in_which_another_rank_waits_is_named_by_that_rank(more: Sources) -> None:
    held = at((1,), "fcntl.flock", (41, "<module>"), (3, "cache_lock"), waits=False)

    hint = reason(more, held, at((0,), "barrier", (40, "<module>")))

    assert hint.signature == "hang-locked-by-rank"
    assert "rank 0 went into  cache_lock()  (line 39), and called barrier there" in hint.cause.en


def test_a_rank_that_ends_a_with_is_not_kept_out_of_it(tmp_path: Path) -> None:
    text = (
        "with model.join():\n    for x in shard:\n        backward(x)\n        all_reduce(total)\nbarrier()\n"
    )
    sources = a_program(tmp_path, text)
    ended = at((0,), "with model.join()", (1, "<module>"))
    library = Call(file="/v/torch/distributed/algorithms/join.py", line=265, function="__exit__")
    ended = replace(ended, calls=(*ended.way, library))

    hint = reason(sources, ended, at((1,), "all_reduce", (4, "<module>")))

    assert hint.signature == "hang-join-answers"
    assert (
        "no batch is left on rank 0: in  model.join()  (line 1) it answers what the model exchanges"
        in hint.cause.en
    )
    assert "not all_reduce, which rank 1 called in it" in hint.cause.en
    found = why([ended, at((1,), "backward", (3, "<module>"))], sources, {})
    assert found is None or found.signature not in ("hang-join-answers", "hang-locked-by-rank")


def test_a_build_that_waits_for_its_lock_file_is_told_to_delete_it(sources: Sources) -> None:
    waits = at((0,), "baton.wait", (7, "<module>"), waits=False)
    waits = within(waits, "file_baton.py")

    assert "delete the file  lock " in reason(sources, waits, a_side((1,), "barrier", 20)).fix.en


def test_a_lock_file_of_the_program_s_own_is_one_that_was_not_released(tmp_path: Path) -> None:
    waits = at((0,), "baton.wait", (3, "<module>"), waits=False)
    waits = within(waits, "file_baton.py")
    program = a_program(tmp_path, "baton = FileBaton(path)\nif not baton.try_acquire():\n    baton.wait()\n")

    assert reason(program, waits).signature == "hang-file-baton-own"


@pytest.mark.parametrize("alone", [True, False], ids=["one rank", "all ranks"])
@pytest.mark.parametrize(
    ("made", "name"),
    [
        pytest.param(9.0, "hang-lock-file-old", id="before the run"),
        pytest.param(11.0, "hang-lock-file", id="in the run"),
    ],
)
def test_a_lock_file_that_no_rank_removes_is_named(
    tmp_path: Path, made: float, name: str, alone: bool
) -> None:
    lock = tmp_path / "cache.lock"
    lock.touch()
    os.utime(lock, (made, made))
    written = WrittenRun(tmp_path / "home", cell="while True:\n    sleep(1)\nbarrier()\n")
    sources = Sources(written.spec.program, written.directory, str(tmp_path), begun=10.0)
    sleeps = a_side((0,) if alone else (0, 1), "time.sleep", 2, waits=False)
    sleeps = replace(sleeps, handled=f"FileExistsError: [Errno 17] File exists: '{lock}'")

    hint = reason(sources, sleeps, *([a_side((1,), "barrier", 3)] if alone else []))

    assert hint.signature == name
    assert "the lock file cache.lock holds rank" in hint.cause.en
    # one that is gone meanwhile holds no rank
    lock.unlink()
    assert reason(sources, sleeps).signature == "hang-polls"


SLOTS = """\
def fetch(i):
    slots.acquire()
    if i in lost:
        raise OSError(i)
    row = read(i)
    slots.release()
    return row

for i in range(9):
    fetch(i)
barrier()
"""


@pytest.mark.parametrize(
    ("program", "name"),
    [
        pytest.param(SLOTS, "hang-kept", id="an error before it"),
        pytest.param(SLOTS.replace("raise OSError(i)", "return None"), "hang-kept", id="a return before it"),
        pytest.param(SLOTS.replace("raise OSError(i)", "log(i)"), "hang-inside", id="none"),
        pytest.param(
            SLOTS.replace("if i in lost:", "try:").replace(
                "    row = read(i)", "    finally:\n        slots.release()\n    row = read(i)"
            ),
            "hang-inside",
            id="a finally",
        ),
        pytest.param(SLOTS.replace("acquire()", "acquire(timeout=9)"), "hang-inside", id="with a limit"),
    ],
)
def test_what_leaves_a_function_before_a_release_is_named(tmp_path: Path, program: str, name: str) -> None:
    end = program.count("\n")
    side = at((0,), "slots.acquire", (end - 1, "<module>"), (2, "fetch"), waits=False)

    hint = reason(a_program(tmp_path, program), side, a_side((1,), "barrier", end))

    assert hint.signature == name
    if name == "hang-kept":
        assert "line 4  r" in hint.cause.en
        assert hint.cause.en.endswith("before the slots.release() of line 6")


ACQUIRED = """\
lock.acquire()
data = prepare()
barrier()
lock.release()
"""


def test_a_lock_file_that_another_rank_has_acquired_is_told(tmp_path: Path) -> None:
    waits, holder = a_side((1,), "lock.acquire", 1, waits=False), a_side((0,), "barrier", 3)

    sources = a_program(tmp_path, ACQUIRED)
    found = reason(sources, within(waits, "_api.py"), holder)

    assert found.signature == "hang-locked-by-rank"
    assert "lock  (line 1), and called barrier there; line 1 holds rank 1" in found.cause.en
    # a lock of threads is another one on each rank
    assert reason(sources, built_in(waits), holder).signature == "hang-inside"


def test_of_two_ranks_that_build_one_waits_for_the_other(sources: Sources) -> None:
    waits = within(at((0,), "load", (7, "<module>"), waits=False), "file_baton.py")
    builds = within(at((1,), "load", (7, "<module>"), waits=False), "subprocess.py")

    assert reason(sources, waits, builds, a_side((2,), "barrier", 20)).cause.en.startswith(
        "load holds rank 1"
    )
