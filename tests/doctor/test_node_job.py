"""The job of the doctor, with a Slurm that is a few lines of shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.doctor.node_job import NodeJob

REFUSES_LATE = """#!/bin/sh
exec >&-
(sleep 0.3; echo "srun: error: Unable to allocate resources: Invalid feature specification" >&2) &
exit 1
"""


def test_what_slurm_says_as_it_ends_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    srun = tmp_path / "srun"
    srun.write_text(REFUSES_LATE)
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    found = NodeJob(
        nodes=2,
        options=[],
        home=tmp_path / "home",
        wait=10.0,
        ask=lambda name: (False, "", False),
        address_of=lambda host: "",
    ).run()

    assert found.refused == "Slurm refused the job: Invalid feature specification"
