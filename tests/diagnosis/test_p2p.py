"""Messages between ranks that met what they were not meant for."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from tests.diagnosis.failed_cells import cause_of
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited

SOCKET = (
    "NCCL error in: ProcessGroupNCCL.cpp:4257, internal error - please report this issue"
    "\nncclInternalError: Internal check failed.\nLast error:\n{}"
)
ADDRESS = "ncclSocketInit: connecting to address  with family 1 is neither AF_INET(2) nor AF_INET6(10)"
CELL = """\
def swap(x, y, peer):
    dist.send(x, dst=peer)
    dist.recv(y, src=peer)
"""


@pytest.mark.parametrize(
    ("cell", "last", "row"),
    [
        pytest.param(CELL, ADDRESS, "nccl-both-send", id="send, then recv"),
        pytest.param(
            CELL + "    if peer:\n        dist.recv(y, 0)\n        dist.send(x, 0)\n",
            ADDRESS,
            "nccl-internal-error",
            id="one side receives first",
        ),
        pytest.param(CELL, "Net : Call to accept failed", "nccl-internal-error", id="another error"),
        pytest.param(CELL.replace("recv", "print"), ADDRESS, "nccl-internal-error", id="no recv"),
        pytest.param(CELL.replace("send", "broadcast"), ADDRESS, "nccl-internal-error", id="a collective"),
    ],
)
def test_ranks_that_send_at_once_are_told(tmp_path: Path, cell: str, last: str, row: str) -> None:
    written = WrittenRun(tmp_path / "home", cell=cell).happened(*STARTED)
    frames = [(a_spec().program, 2, "swap", "")]
    for rank in (0, 1):
        written.raised(
            rank, "torch.distributed.DistBackendError", SOCKET.format(last), frames=frames, time=CREATED + 5
        )

    failure = diagnose(
        written.happened(errored(0), errored(1), exited(0, 1), exited(1, 1)).run, written.directory
    )

    assert failure is not None
    assert failure.hint is not None
    assert failure.hint.signature == row


TESTS = """\
results = [None]
if trainer.is_global_zero:
    results = trainer.test(model)
dist.broadcast_object_list(results, src=0)
print(results[0]["test_acc"])
"""
NO_NUMBER = "string indices must be integers, not 'str'"


@pytest.mark.parametrize(
    ("kind", "message", "cell", "told"),
    [
        pytest.param("TypeError", NO_NUMBER, TESTS, True, id="by a trainer"),
        pytest.param(
            "TypeError", NO_NUMBER, TESTS.replace("trainer.test(model)", "gather(x)"), True, id="a collective"
        ),
        pytest.param("KeyError", "'test_acc'", TESTS, False, id="a key"),
        pytest.param("TypeError", NO_NUMBER, TESTS.replace("trainer.test(", "score("), False, id="alone"),
        pytest.param(
            "TypeError",
            NO_NUMBER,
            TESTS.replace("results = [", "own = Trainer(devices=1); results = ["),
            False,
            id="a trainer for one",
        ),
        pytest.param(
            "TypeError",
            NO_NUMBER,
            TESTS.replace("trainer.is_global_zero", "tests"),
            False,
            id="not by the rank",
        ),
        pytest.param(
            "TypeError", NO_NUMBER, TESTS.replace("print(results", "print(others"), False, id="not it"
        ),
    ],
)
def test_a_value_of_another_collective_is_told_by_the_if(
    tmp_path: Path, kind: str, message: str, cell: str, told: bool
) -> None:
    cause = cause_of(tmp_path, kind, message, 5, cell=cell)

    assert cause.startswith("results is not what broadcast_object_list (line 4) was given") is told
