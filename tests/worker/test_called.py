"""By which name a call of a library is told."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType, ModuleType

import pytest

from nbdist.worker.failure.arguments import called_of

CALLED = """
import sys
ran = []
class Odd:
    def __getattribute__(self, name):
        ran.append(name)
        raise SystemExit
def hands_on(f):
    def inner(*args, **kwargs):
        return sys._getframe()
        f
    return inner
def with_two(f, more):
    def inner(*args):
        return sys._getframe()
        f, more
    return inner
def takes_it(f):
    def inner(x):
        return sys._getframe()
        f
    return inner
def with_odd(f, odd):
    def inner(*args):
        return sys._getframe()
        f, odd
    return inner
def step(f):
    def closure():
        return sys._getframe()
        f
    return closure()
def f(x): ...
class Net:
    def forward(self): return sys._getframe()
    def fit(self): return sys._getframe()
"""


@pytest.mark.parametrize(
    ("call", "name"),
    [
        pytest.param(lambda m: m.hands_on(m.f)(1), "f", id="what a decorator has wrapped"),
        pytest.param(lambda m: m.with_two(m.f, m.step)(1), "inner", id="one of two functions"),
        pytest.param(lambda m: m.with_odd(m.f, m.Odd())(1), "f", id="beside another object"),
        pytest.param(lambda m: m.hands_on(m.Net())(1), "inner", id="an object"),
        pytest.param(lambda m: m.takes_it(m.f)(1), "inner", id="what has parameters of its own"),
        pytest.param(lambda m: m.step(m.f), "closure", id="what hands nothing on"),
        pytest.param(lambda m: m.Net().forward(), "Net", id="the call of an object"),
        pytest.param(lambda m: m.Net().fit(), "Net.fit", id="a method"),
    ],
)
def test_a_call_has_the_name_by_which_the_program_makes_it(
    call: Callable[[ModuleType], FrameType], name: str
) -> None:
    lent = ModuleType("lent")
    exec(CALLED, lent.__dict__)

    assert called_of(call(lent)) == name
    assert lent.ran == []
