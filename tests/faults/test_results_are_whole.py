"""Whatever moment a rank is killed at, of each name there is the value before or the new one."""

from __future__ import annotations

import random
import time
from pathlib import Path

from nbdist.store.results import read_index, read_value
from tests.worker.conftest import Rank

KILLS = 20  # of a round


def test_a_rank_that_is_killed_at_any_moment_leaves_one_value_whole(tmp_path: Path) -> None:
    rank = Rank(tmp_path / "run")
    program = """
import itertools, numpy
for i in itertools.count():
    nbdist.result(a=[i] * 3000, b=numpy.full(40_000, i), c=(i, "x" * 5000 + str(i)))
    if i == 0: print("on", flush=True)
"""
    for _ in range(KILLS):
        process = rank.start(program)
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        time.sleep(random.random() * 0.02)
        process.kill()
        process.communicate()

        index = read_index(rank.files)
        values = {name: read_value(rank.files, result) for name, result in index.items()}
        a, b, (c, text) = values["a"], values["b"], values["c"]
        assert a == [a[0]] * 3000
        assert b.shape == (40_000,)
        assert (b == b[0]).all()
        assert text == "x" * 5000 + str(c)
        # they are given in this order
        assert a[0] >= b[0] >= c >= a[0] - 1
        assert {name: result.problem for name, result in index.items()} == dict.fromkeys("abc", "")
