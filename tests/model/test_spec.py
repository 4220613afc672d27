"""The spec of a run, written once and read by any version."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from nbdist.model import Device, ProcessId, RankSpec, Rendezvous, RunSpec
from tests.fakes.runs import a_spec

FULL = a_spec(
    ranks=2,
    args=("--lr", "0.1"),
    python_path=("", "/home/ada/project"),
    environment={"NCCL_DEBUG": "INFO", "HF_TOKEN": "•••"},
    digests=("24:00112233aabbccdd:0011aa",),
    detached=True,
    timeout=90.0,
    scrape=False,
    owner=ProcessId(pid=77, start_time=5, boot_id="b"),
    notebook="/home/ada/训练.ipynb",
)
FULL = replace(
    FULL,
    ranks=(
        RankSpec(
            rank=0, local_rank=0, device=Device(kind="gpu", index=3), environment={"MASTER_ADDR": "{host}"}
        ),
        RankSpec(rank=1, local_rank=0, node_rank=1),
    ),
)


def through_json(data: dict[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(json.dumps(data))
    return read


@pytest.mark.parametrize(
    "spec", [pytest.param(a_spec(), id="only what is needed"), pytest.param(FULL, id="everything")]
)
def test_a_spec_comes_back_as_it_was_written(spec: RunSpec) -> None:
    written = through_json(spec.to_dict())

    assert RunSpec.from_dict(written) == spec


def test_what_a_newer_version_added_is_left_out() -> None:
    newer = through_json(FULL.to_dict())
    newer |= {"format": 2, "priority": "high"}
    newer["ranks"][0] |= {"numa_node": 1}
    newer["ranks"][0]["device"] |= {"slice": "1g.10gb"}
    newer["owner"] |= {"namespace": 4}

    assert RunSpec.from_dict(newer) == replace(FULL, format=2)


def test_what_an_older_version_did_not_write_has_its_default() -> None:
    older = through_json(a_spec().to_dict())
    for name in (
        "args",
        "python_path",
        "environment",
        "detached",
        "timeout",
        "scrape",
        "owner",
        "notebook",
        "format",
    ):
        del older[name]
    for rank in older["ranks"]:
        del rank["device"], rank["node_rank"], rank["environment"]

    assert RunSpec.from_dict(older) == a_spec()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param([], id="a list"),
        pytest.param("spec", id="a text"),
        pytest.param({}, id="nothing"),
        pytest.param({"ranks": []}, id="no name, no program"),
        pytest.param(a_spec().to_dict() | {"ranks": 2}, id="a number of ranks"),
        pytest.param(a_spec().to_dict() | {"ranks": [0, 1]}, id="ranks as numbers"),
        pytest.param(a_spec().to_dict() | {"ranks": [{"rank": 0}]}, id="half a rank"),
        pytest.param(a_spec().to_dict() | {"owner": 77}, id="an owner that is a bare pid"),
    ],
)
def test_what_is_no_spec_is_refused(data: Any) -> None:
    with pytest.raises((KeyError, TypeError)):
        RunSpec.from_dict(data)


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        pytest.param("{host}", "10.0.0.7", id="the host"),
        pytest.param("{port}", "29500", id="the port"),
        pytest.param("{port+3}", "29503", id="a port above it"),
        pytest.param("{host}:{port+1},{host}:{port+2}", "10.0.0.7:29501,10.0.0.7:29502", id="a list"),
        pytest.param("{run}: {restarts} of {retries}", "lenet-k3f9: 1 of 3", id="the run and its attempts"),
        pytest.param("GPU {index} {}", "GPU {index} {}", id="other braces stay"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_a_rendezvous_is_put_into_a_template(template: str, filled: str) -> None:
    rendezvous = Rendezvous(host="10.0.0.7", port=29_500)

    assert rendezvous.fill(template, run="lenet-k3f9", restarts=1, retries=3) == filled


@pytest.mark.parametrize(
    ("device", "shown"),
    [
        pytest.param(Device(), "CPU", id="the CPU"),
        pytest.param(Device(kind="gpu", index=3), "GPU 3", id="a GPU by its id in nvidia-smi"),
    ],
)
def test_a_device_is_shown_as_people_call_it(device: Device, shown: str) -> None:
    assert str(device) == shown
