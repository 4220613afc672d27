"""What there was before a program is not taken apart when it ends, and all else is."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import weakref
from nbdist.worker.leaving import keep_code

class Thing:
    def __init__(self, name): self.name = name
    def __del__(self): print("freed:", self.name)

def before(): pass
before.thing = Thing("of a function that was there before")

def take_out(name): print("taken out:", name)
def take_out_an_operator(name): take_out(name)
take_out_an_operator.__module__ = "torch.library"

early, late = Thing("early"), Thing("late")
weakref.finalize(early, take_out_an_operator, "an operator")
weakref.finalize(early, take_out, "something else")
code = weakref.ref(before.__code__, lambda _: print("the code was freed"))
keep_code()
weakref.finalize(late, take_out_an_operator, "an operator of the program")
del before
print("end")
"""


def test_code_and_operators_stay_and_nothing_else() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)

    lines = ended.stdout.splitlines()
    assert ended.stderr == ""
    assert lines[:2] == ["freed: of a function that was there before", "end"]
    assert sorted(lines[2:]) == [
        "freed: early",
        "freed: late",
        "taken out: an operator of the program",
        "taken out: something else",
    ]
