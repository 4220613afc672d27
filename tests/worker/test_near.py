"""The name that is nearest to one that an error misses."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from nbdist.worker.failure.near import nearest

MISSES = """
class Net:
    layers = 3
    def __init__(self):
        self.weights = 1
    @property
    def costly(self):
        raise SystemExit
labels = Net()
def check(values):
    LINE
check(labels)
"""


@pytest.mark.parametrize(
    ("line", "near"),
    [
        pytest.param("return values.wieghts", "weights", id="an attribute"),
        pytest.param("return values.layer", "layers", id="of the class"),
        pytest.param("return values.costy", "costly", id="a property, which does not run"),
        pytest.param("return lables", "labels", id="a global"),
        pytest.param("return value", "values", id="a parameter"),
        pytest.param("return rnage(3)", "range", id="a built-in"),
        pytest.param("return values.gradient", "", id="nothing like it"),
        pytest.param("return [].apend(1)", "append", id="of a list"),
        pytest.param("raise AttributeError('no name')", "", id="an error without a name"),
    ],
)
def test_the_nearest_name_is_found(line: str, near: str) -> None:
    with pytest.raises((AttributeError, NameError)) as raised:
        exec(compile(MISSES.replace("LINE", line), "program.py", "exec"), {"__name__": "program"})

    assert nearest(raised.value, raised.value.__traceback__) == near


@pytest.mark.parametrize(
    ("line", "near"),
    [
        pytest.param("table['label']", " label", id="a blank"),
        pytest.param("table['Label']", " label", id="a capital, too"),
        pytest.param("table.loc['row_one']", "row one", id="a row"),
        pytest.param("table['weight']", "", id="nothing like it"),
        pytest.param("table.loc['row_2']", "", id="another number"),
        pytest.param("{'label': 1}['labels']", "", id="no table"),
    ],
)
def test_the_nearest_name_in_a_table_is_found(line: str, near: str) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"id": [1, 2], " label": [0, 1]}, index=["row one", "row_1"])
    with pytest.raises(KeyError) as raised:
        exec(compile(line, "program.py", "exec"), {"__name__": "program", "table": table})

    assert nearest(raised.value, raised.value.__traceback__) == near


ASKS = """
class Wide:
    __slots__ = ("scale",)
    def backward(self): ...
    def __getattr__(self, name):
        raise SystemExit
class Lists(list):
    def __getitem__(self, at):
        raise SystemExit
scaler, scaled_, scale = Wide(), 3, Lists()
def step(lost):
    LINE
step(Wide())
"""


@pytest.mark.parametrize(
    ("line", "near"),
    [
        pytest.param("scaled.backward()", "scaler", id="the one that has what is asked for"),
        pytest.param("scaled.bit_length()", "scaled_", id="of a number"),
        pytest.param("scaled.scale", "scaler", id="a slot"),
        pytest.param("scaled.append(1)", "scale", id="of a list"),
        pytest.param("scaled.nothing()", "", id="none has it"),
        pytest.param("scaled.backward(scaled.bit_length())", "", id="none has both"),
        pytest.param("scaled", "scaled_", id="nothing is asked for"),
        pytest.param("loss.backward()", "lost", id="a parameter"),
        pytest.param("[scaled.backward() for one in (1,)]", "scaler", id="in a comprehension"),
        pytest.param("(lambda: scaled.backward())()", "scaler", id="in a lambda"),
        pytest.param("exec('scaled.backward()')", "scaled_", id="in a text, of which no line is known"),
        pytest.param("lost.backward().bakward()", "", id="of None"),
    ],
)
def test_a_near_name_has_what_the_line_asks_of_it(line: str, near: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(text := ASKS.replace("LINE", line))
    linecache.checkcache(str(path))
    with pytest.raises((AttributeError, NameError)) as raised:
        exec(compile(text, str(path), "exec"), {"__name__": "program"})

    assert nearest(raised.value, raised.value.__traceback__) == near


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(KeyError(3), id="a key that is no text"),
        pytest.param(KeyError(), id="no key"),
        pytest.param(AttributeError("of nothing"), id="no object"),
        pytest.param(UnboundLocalError("name 'x'"), id="a name without a value"),
        pytest.param(NameError("name", name="value"), id="no traceback"),
    ],
)
def test_without_a_name_to_look_for_there_is_none(error: Exception) -> None:
    assert nearest(error, None) == ""
