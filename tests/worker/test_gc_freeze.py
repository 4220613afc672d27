"""Collections skip the objects of an import, and not the program's own."""

from __future__ import annotations

import pytest

PROGRAM = """
import atexit, gc

class Early:
    def __del__(self): print("early is finalized")

early = Early()
early.me = early
lost = Early()
lost.me = lost

{imports}

class Late:
    def __del__(self): print("late is finalized")

late = Late()
late.me = late
print("frozen", gc.get_freeze_count() > {least})
del lost
print("collected", gc.collect() > 0)
atexit.register(print, "at exit")
"""


@pytest.mark.parametrize(
    ("imports", "least"),
    [
        pytest.param("", 0, id="no framework"),
        pytest.param("import torch\nimport torch._dynamo", 100_000, id="torch"),
        pytest.param("import paddle", 50_000, id="paddle"),
    ],
)
def test_what_the_program_has_made_is_finalized_before_and_after_an_import(
    run_cell, imports: str, least: int
) -> None:
    if "paddle" in imports:
        pytest.importorskip("paddle")

    handle = run_cell("-n 1 --cold", PROGRAM.format(imports=imports, least=least))

    assert handle.status == "finished", handle.logs(0)
    lines = handle.logs(0).splitlines()
    assert [line for line in lines if line.startswith(("frozen", "collected"))] == [
        "frozen True",
        "collected True",
    ]
    assert lines.count("early is finalized") == 2
    assert lines.index("late is finalized") > lines.index("at exit")


def test_an_import_that_fails_may_be_tried_again(run_cell, tmp_path) -> None:
    (tmp_path / "paddle.py").write_text("raise ImportError('not today')")
    cell = """
for _ in range(2):
    try:
        import paddle
    except ImportError as error:
        print(error)
"""

    handle = run_cell("-n 1 --framework none", cell)

    assert handle.logs(0).splitlines() == ["not today"] * 2
