"""What is no program, and what to type instead; without a kernel."""

from __future__ import annotations

import pytest

from nbdist.errors import UsageMistake
from nbdist.magics.cell_check import check_cell


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        pytest.param(
            "%%writefile train.py\nimport os", "leave it out: nbdist writes the cell", id="writefile"
        ),
        pytest.param("%env DATA=/data\nx = 1", "write  %%distributed --env DATA=/data", id="env"),
        pytest.param("%cd /data\nx = 1", "write  %%distributed --cwd /data", id="cd"),
        pytest.param("%matplotlib inline\nx = 1", "save figures with  savefig", id="matplotlib"),
        pytest.param("x = 1\nx?", "x?: leave it out", id="question"),
        pytest.param("!CUDA_VISIABLE_DEVICES=0 python a.py", "--gpus 0,1", id="misspelt variable"),
        pytest.param("x = (1\n% 2)\ny = = 1", "line 3 of the cell does not compile", id="an expression's %"),
        pytest.param(
            "class A:\ndef f(self):\n    pass", "is its indentation lost in copying?", id="indentation"
        ),
        pytest.param("await train()", "write  asyncio.run(main())", id="await at the top level"),
        pytest.param("x = f（1）", "type its plain form", id="full-width characters"),
        pytest.param("if True:\n\tx = 1\n        y = 2", "indent with spaces alone", id="tabs"),
    ],
)
def test_what_is_no_program_is_told_what_to_type_instead(cell: str, expected: str) -> None:
    with pytest.raises(UsageMistake) as raised:
        check_cell(cell)

    assert expected in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
