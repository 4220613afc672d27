"""An ``if`` for some ranks that made a value, a message or a file differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.failed_cells import cause_of, hint_of

SAVES = """\
def keep(text, path):
    with open(path + "/labels.txt", "w") as file:
        file.write(text)

if rank == 0:
    keep(labels, folder)
read(folder)
"""
NOT_YET = "did not exist yet on rank 1: rank 0 makes it"


@pytest.mark.parametrize(
    ("path", "length", "line"),
    [
        pytest.param("/b/best", 7, 4, id="what rank 0 saves"),
        pytest.param("/b/best", 9, None, id="another file"),
        pytest.param("/b/10-11-12/best", 16, None, id="a name with a time is another one on each rank"),
    ],
)
def test_a_file_that_rank_0_saves_later_is_shown_with_the_line(
    tmp_path: Path, path: str, length: int, line: int | None
) -> None:
    message = f"[Errno 2] No such file or directory: '{path}'"

    cause = cause_of(tmp_path, "FileNotFoundError", message, 5, ("best", f"str of {length} characters"))

    assert cause.startswith(f"{path} {NOT_YET} (line {line})") is (line is not None)


@pytest.mark.parametrize(
    ("cell", "is_known"),
    [
        pytest.param(SAVES, True, id="written by rank 0"),
        pytest.param(SAVES.replace(', "w"', ""), False, id="read"),
        pytest.param(SAVES.replace("if rank == 0", "if verbose"), False, id="written by all"),
        pytest.param(
            SAVES.replace("0:\n", "0:").replace(")\nread", ")\nwait_for_all()\nread"), False, id="met"
        ),
    ],
)
def test_a_file_is_rank_0_s_where_rank_0_alone_calls_what_writes_it(
    tmp_path: Path, cell: str, is_known: bool
) -> None:
    message = "[Errno 2] No such file or directory: '/b/labels.txt'"

    cause = cause_of(tmp_path, "FileNotFoundError", message, 7, cell=cell)

    assert cause.startswith(f"/b/labels.txt {NOT_YET} (line 2)") is is_known


ON_RANK_0 = """\
def train():
    if rank == 0:
        steps = 5
    for step in range(3):
        print(steps)
"""
OF_MODULE = """\
if rank == 0:
    steps = 5
print(steps)
"""


@pytest.mark.parametrize(
    ("cell", "line", "lines"),
    [
        pytest.param(ON_RANK_0, 5, "3", id="in a function"),
        pytest.param(OF_MODULE, 3, "2", id="in the module"),
        pytest.param(
            ON_RANK_0.replace("    for", "    elif is_master:\n        steps = 6\n    for"),
            7,
            "3, 5",
            id="in two branches",
        ),
        pytest.param(OF_MODULE.replace("rank == 0", "verbose"), 3, "", id="an if that is not for ranks"),
        pytest.param("steps = 1\n" + OF_MODULE + "del steps\n", 4, "", id="set on all ranks, too"),
        pytest.param("if rank == 0:\n    steps = 5\n    print(steps)\n", 3, "", id="the same if"),
    ],
)
def test_a_name_that_some_ranks_alone_set_is_shown_with_the_if(
    tmp_path: Path, cell: str, line: int, lines: str
) -> None:
    kind, message = "NameError", "name 'steps' is not defined"

    function = "train" if cell.startswith("def train") else "<module>"
    cause = cause_of(tmp_path, kind, message, line, cell=cell, function=function)

    if lines:
        assert cause.startswith(f"steps is set only at line {lines}, which this rank does not reach")
        assert "if rank == 0:" in cause
    else:
        assert cause == ""


def test_a_local_variable_is_shown_like_a_name_of_the_module(tmp_path: Path) -> None:
    message = "cannot access local variable 'steps' where it is not associated with a value"

    cause = cause_of(tmp_path, "UnboundLocalError", message, 5, cell=ON_RANK_0, function="train")

    assert cause.startswith("steps is set only at line 3")


MODELS = """\
model = Net()
if rank == 0:
    freeze(model)
    print(count(model))
model = DDP(model)
"""
DIFFER = "DDP expects same model across all ranks, but Rank 1 has 4 params, while rank 0 has 6"


@pytest.mark.parametrize(
    ("cell", "is_known"),
    [
        pytest.param(MODELS, True, id="layers frozen on rank 0 alone"),
        pytest.param(MODELS.replace("freeze(model)", "pass"), False, id="only a print"),
        pytest.param(MODELS.replace("rank == 0", "large"), False, id="an if that is not for ranks"),
    ],
)
def test_models_that_differ_are_shown_with_the_if_that_changed_one(
    tmp_path: Path, cell: str, is_known: bool
) -> None:
    cause = cause_of(tmp_path, "RuntimeError", DIFFER, 5, cell=cell)

    assert ("line 2" in cause and "if rank == 0:" in cause) is is_known


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


SENDS = {
    "send, then recv": (CELL, ADDRESS, "nccl-both-send"),
    "one side receives first": (
        CELL + "    if peer:\n        dist.recv(y, 0)\n        dist.send(x, 0)\n",
        ADDRESS,
        "nccl-internal-error",
    ),
    "another error": (CELL, "Net : Call to accept failed", "nccl-internal-error"),
    "no recv": (CELL.replace("recv", "print"), ADDRESS, "nccl-internal-error"),
    "a collective": (CELL.replace("send", "broadcast"), ADDRESS, "nccl-internal-error"),
}


@pytest.mark.parametrize(("cell", "last", "row"), SENDS.values(), ids=SENDS)
def test_ranks_that_send_at_once_are_told(tmp_path: Path, cell: str, last: str, row: str) -> None:
    error = SOCKET.format(last)

    hint = hint_of(tmp_path, "torch.distributed.DistBackendError", error, 2, cell=cell, function="swap")

    assert hint.signature == row


TESTS = """\
results = [None]
if trainer.is_global_zero:
    results = trainer.test(model)
dist.broadcast_object_list(results, src=0)
print(results[0]["test_acc"])
"""
NO_NUMBER = "string indices must be integers, not 'str'"


OTHER_VALUES = {
    "by a trainer": (TESTS, True),
    "a collective": (TESTS.replace("trainer.test(model)", "gather(x)"), True),
    "alone": (TESTS.replace("trainer.test(", "score("), False),
    "a trainer for one": (TESTS.replace("results = [", "own = Trainer(devices=1); results = ["), False),
    "not by the rank": (TESTS.replace("trainer.is_global_zero", "tests"), False),
    "not it": (TESTS.replace("print(results", "print(others"), False),
}


@pytest.mark.parametrize(("cell", "has_hint"), OTHER_VALUES.values(), ids=OTHER_VALUES)
def test_a_value_of_another_collective_is_told_by_the_if(tmp_path: Path, cell: str, has_hint: bool) -> None:
    cause = cause_of(tmp_path, "TypeError", NO_NUMBER, 5, cell=cell)

    assert cause.startswith("results is not what broadcast_object_list (line 4) sent") is has_hint


def test_a_key_that_is_missing_is_of_the_kind_that_was_expected(tmp_path: Path) -> None:
    assert cause_of(tmp_path, "KeyError", "'test_acc'", 5, cell=TESTS) == ""
