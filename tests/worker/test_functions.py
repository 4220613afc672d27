"""A function that is cut out of its file is the same one as in the whole of it."""

from __future__ import annotations

import argparse
import ast
import json.decoder
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

from nbdist.worker.failure.functions import alone

WRITTEN = '''
import functools
def plain(x): return x

def long(
    x,
    y=(1,
2),
):
    return [
        x,
    y
]

@functools.lru_cache(
    maxsize=1
)
@staticmethod
def decorated():
    """Says
it in two lines."""
# a remark
    return 1
class Kind:
    def method(self):
        def inner():
            return self
        return inner

    @property
    def text(self):
        return """
text
"""
    async def later(self): ...
    def never(self):
        return 0
        if self:
            pass
if True:
    def within():
        pass
else:
    def within(x):
        pass
'''


def codes_of(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from codes_of(one)


def functions_in(text: str) -> dict[tuple[str, int], str]:
    return {
        (node.name, min([node.lineno, *(one.lineno for one in node.decorator_list)])): ast.dump(
            node, include_attributes=True
        )
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        # what ends in a text that is written further out takes the whole file
        pytest.param(WRITTEN, {"text"}, id="written oddly"),
        *(
            pytest.param(Path(str(one.__file__)).read_text(), set(), id=one.__name__)
            for one in (argparse, json.decoder, textwrap)
        ),
    ],
)
def test_a_function_alone_is_the_one_of_its_file(text: str, left_out: set[str]) -> None:
    lines, whole = text.splitlines(keepends=True), functions_in(text)
    found = {
        (code.co_name, code.co_firstlineno): ast.dump(function, include_attributes=True)
        for code in codes_of(compile(text, "written.py", "exec"))
        if (function := alone(lines, code)) is not None
    }

    assert {name for name, _ in whole.keys() - found.keys()} == left_out
    assert found == {key: whole[key] for key in found}


@pytest.mark.parametrize(
    ("text", "now"),
    [
        pytest.param("f = lambda x: x", None, id="a lambda"),
        pytest.param("f = [x for x in ()]", None, id="a comprehension"),
        pytest.param("class f:\n    x = 1", None, id="a class"),
        pytest.param("def f(): pass", "", id="a file that has gone"),
        pytest.param("def f(): pass", "def g(): pass", id="another function"),
        pytest.param("def f(): pass", "x = 1", id="no function"),
        pytest.param("def f(): pass", "def f(", id="half of one"),
        pytest.param("def f(): pass", "\x00", id="no text"),
        pytest.param("\n\ndef f(): pass", "x = 1", id="a shorter file"),
    ],
)
def test_nothing_is_taken_for_a_function_that_is_not_it(text: str, now: str | None) -> None:
    lines = (text if now is None else now).splitlines(keepends=True)

    assert [alone(lines, code) for code in codes_of(compile(text, "written.py", "exec"))] in ([None], [])
    assert alone(lines, compile(text, "written.py", "exec")) is None


def test_a_function_of_a_library_is_found_by_its_code() -> None:
    lines = Path(str(typing.__file__)).read_text().splitlines(keepends=True)

    function = alone(lines, typing.get_type_hints.__code__)

    assert function is not None
    assert (function.name, function.lineno) == (
        "get_type_hints",
        typing.get_type_hints.__code__.co_firstlineno,
    )
