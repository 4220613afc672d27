"""A failure as a person reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nbdist.diagnosis import Failure, Group, failure_headline, failure_report
from nbdist.programs.sources import Sources
from nbdist.store import ErrorFrame, ErrorReport, RunDirectory

CELL = "/home/ada/.local/state/nbdist/runs/20261120-141503-lenet-k3f9/cell.py"
SCRIPT = "/home/ada/work/train.py"
MODELS = "/home/ada/work/pkg/models.py"
EDITABLE = "/home/ada/src/mylib/loss.py"
TORCH = "/home/ada/venv/lib/python3.11/site-packages/torch"


def frame(file: str, line: int, function: str, source: str) -> ErrorFrame:
    return ErrorFrame(file=file, line=line, function=function, source=source)


IN_TORCH = (
    frame(CELL, 14, "<module>", "train()"),
    frame(CELL, 9, "train", "dist.all_reduce(loss)"),
    frame(f"{TORCH}/distributed/c10d_logger.py", 83, "wrapper", "return func(*args, **kwargs)"),
    frame(f"{TORCH}/distributed/distributed_c10d.py", 3252, "all_reduce", "work.wait()"),
)


def a_failure(
    *frames: ErrorFrame,
    kind: str = "ValueError",
    message: str = "bad batch",
    program: str = CELL,
    **changes: Any,
) -> Failure:
    report = ErrorReport(type=kind, message=message, frames=frames, text="", time=1.0)
    values: dict[str, Any] = {"rank": 1, "code": 1, "time": 1.0, "report": report, "tail": (), "others": ()}
    sources = Sources(program, RunDirectory(Path(CELL).parent), cwd="/home/ada/work")
    return Failure(**(values | {"sources": sources} | changes))


@pytest.mark.parametrize(
    ("failure", "headline"),
    [
        pytest.param(
            a_failure(*IN_TORCH),
            "rank 1 failed first: ValueError at line 9 of the cell",
            id="an exception in the cell",
        ),
        pytest.param(
            a_failure(
                frame(CELL, 3, "<module>", "train()"), frame(MODELS, 5, "forward", "raise"), *IN_TORCH[2:]
            ),
            "rank 1 failed first: ValueError at line 5 of pkg/models.py",
            id="an exception in a module of the user's",
        ),
        pytest.param(
            a_failure(
                frame(SCRIPT, 3, "<module>", "train()"), frame(EDITABLE, 7, "f", "raise"), program=SCRIPT
            ),
            "rank 1 failed first: ValueError at line 7 of mylib/loss.py",
            id="an exception in an editable install elsewhere",
        ),
        pytest.param(
            a_failure(kind="struct.error"),
            "rank 1 failed first: struct.error",
            id="what a module calls its error",
        ),
        pytest.param(
            a_failure(kind="torch.distributed.DistNetworkError"),
            "rank 1 failed first: DistNetworkError",
            id="an exception outside the cell",
        ),
        pytest.param(
            a_failure(report=None, code=-11),
            "rank 1 failed first: SIGSEGV (invalid memory access in native code)",
            id="a crash",
        ),
        pytest.param(a_failure(report=None, code=3), "rank 1 failed first: exit 3", id="an exit code"),
        pytest.param(
            a_failure(report=None, code=None),
            "rank 1 failed first: it has not exited",
            id="nothing is known yet",
        ),
    ],
)
def test_a_failure_has_a_headline(failure: Failure, headline: str) -> None:
    assert failure_headline(failure) == headline


@pytest.mark.parametrize(
    ("failure", "english", "chinese"),
    [
        pytest.param(
            a_failure(frame(SCRIPT, 4, "f", "f()"), program=SCRIPT),
            "rank 1 failed first: ValueError at line 4 of train.py",
            "进程 1 最先失败：ValueError，train.py 第 4 行",
            id="in a script",
        ),
        pytest.param(
            a_failure(report=None, early_exits=(0, 2, 3)),
            "rank 1 failed: exit 1 (ranks 0, 2, 3 had already finished)",
            "进程 1 失败：退出码 1（进程 0, 2–3 此前已完成）",
            id="others had ended",
        ),
        pytest.param(
            a_failure(report=None, absent=(0,)),
            "rank 1 timed out waiting for rank 0: exit 1",
            "进程 1 等待进程 0 超时：退出码 1",
            id="others did not come",
        ),
    ],
)
def test_a_headline_is_in_both_languages(failure: Failure, english: str, chinese: str) -> None:
    assert [failure_headline(failure, language) for language in ("en", "zh")] == [english, chinese]


def test_a_traceback_shows_the_cell_whole_and_folds_libraries() -> None:
    failure = a_failure(*IN_TORCH, kind="RuntimeError", message="Connection closed", others=(0, 2))

    assert failure_report(failure).splitlines() == [
        "rank 1 failed first: RuntimeError at line 9 of the cell",
        "",
        "  cell line 14, in <module>",
        "    train()",
        "  cell line 9, in train",
        "    dist.all_reduce(loss)",
        "  (1 more, torch/distributed/distributed_c10d.py line 3252, in all_reduce)",
        "    work.wait()",
        "RuntimeError: Connection closed",
        "",
        "ranks 0, 2 failed afterwards",
    ]


def test_libraries_between_two_lines_of_the_cell_are_folded_where_they_stand() -> None:
    failure = a_failure(
        frame(CELL, 20, "<module>", "model(x)"),
        frame(f"{TORCH}/nn/modules/module.py", 1773, "_wrapped_call_impl", ""),
        frame(f"{TORCH}/nn/modules/module.py", 1784, "_call_impl", "return forward_call(*args)"),
        frame(CELL, 7, "forward", "return self.fc(x.view(3))"),
        frame("/home/ada/project/lenet/layers.py", 3, "view", ""),
        others=(0,),
    )

    assert failure_report(failure).splitlines()[2:] == [
        "  cell line 20, in <module>",
        "    model(x)",
        "  (1 more, torch/nn/modules/module.py line 1784, in _call_impl)",
        "    return forward_call(*args)",
        "  cell line 7, in forward",
        "    return self.fc(x.view(3))",
        "  lenet/layers.py line 3, in view",
        "ValueError: bad batch",
        "",
        "rank 0 failed afterwards",
    ]


@pytest.mark.parametrize(
    ("kind", "message", "last"),
    [
        pytest.param("AssertionError", "", "AssertionError", id="without a message"),
        pytest.param("ValueError", "two\nlines", "lines", id="of two lines"),
        pytest.param("KeyError", "'lr: '", "KeyError: 'lr: '", id="with a colon at its end"),
        pytest.param("ValueError", "expected:", "ValueError: expected:", id="that ends in a colon"),
    ],
)
def test_a_report_ends_with_the_exception(kind: str, message: str, last: str) -> None:
    assert failure_report(a_failure(kind=kind, message=message)).splitlines()[-1] == last


def test_where_there_is_no_exception_the_end_of_the_log_stands() -> None:
    failure = a_failure(report=None, code=-6, tail=("step 3", "terminate called"), others=())

    assert failure_report(failure).splitlines() == [
        "rank 1 failed first: SIGABRT (aborted in native code)",
        "",
        "the last lines of rank 1:",
        "    step 3",
        "    terminate called",
    ]


def test_a_rank_that_wrote_nothing_leaves_only_how_it_went() -> None:
    report = failure_report(a_failure(report=None, code=-9))

    assert report.strip() == failure_headline(a_failure(report=None, code=-9))


def test_lines_of_a_script_are_named_by_its_file() -> None:
    failure = a_failure(frame(SCRIPT, 9, "train", "step()"), program=SCRIPT)

    report = failure_report(failure)

    assert report.startswith("rank 1 failed first: ValueError at line 9 of train.py\n")
    assert "  train.py line 9, in train\n    step()" in report


def test_a_report_in_chinese_is_chinese_but_for_what_the_program_said() -> None:
    group = Group(ranks=(0, 2), kind="the same error", exit="exit 3", exit_zh="退出码 3")
    failure = a_failure(*IN_TORCH, kind="RuntimeError", message="Connection closed", groups=(group,))

    assert failure_report(failure, "zh").splitlines() == [
        "进程 1 最先失败：RuntimeError，单元格第 9 行",
        "",
        "  单元格第 14 行, in <module>",
        "    train()",
        "  单元格第 9 行, in train",
        "    dist.all_reduce(loss)",
        "  (1 more, torch/distributed/distributed_c10d.py line 3252, in all_reduce)",
        "    work.wait()",
        "RuntimeError: Connection closed",
        "",
        "进程 0, 2：同样的错误（退出码 3）",
    ]
