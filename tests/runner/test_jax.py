"""JAX programs as cells: the ranks are JAX's processes, cold and from ranks that have waited."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.conftest import RunCell

pytestmark = [
    pytest.mark.usefixtures("leaves_nothing"),
    pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed"),
]

GATHERS = """
import jax
jax.distributed.initialize()
import jax.numpy as jnp
from jax.experimental import multihost_utils
total = multihost_utils.process_allgather(jnp.array([jax.process_index() + 1])).sum()
print(f"process {jax.process_index()} of {jax.process_count()}: {total}")
"""


def test_initialize_without_arguments_joins_the_ranks_in_a_job_of_slurm(
    run_cell: RunCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    # jax would take the ranks from them
    for name, value in {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "1", "SLURM_PROCID": "0"}.items():
        monkeypatch.setenv(name, value)

    handle = run_cell("-n 2", GATHERS, limit=120)

    assert handle.status == "finished", handle.logs(0)
    assert handle.run.spec.framework == "jax"
    assert [
        next(line for line in handle.log_lines(rank) if line.startswith("process")) for rank in (0, 1)
    ] == ["process 0 of 2: 3", "process 1 of 2: 3"]
    assert all(rank.joined for rank in handle.run.ranks)


def test_jax_alone_joins_nothing(run_cell: RunCell) -> None:
    handle = run_cell("-n 2", "import jax\nprint(jax.process_count())", limit=120)

    assert [handle.logs(rank).splitlines()[-1] for rank in (0, 1)] == ["1", "1"]
    assert not any(rank.joined for rank in handle.run.ranks)
