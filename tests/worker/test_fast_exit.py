"""The exit of a rank that has waited: objects from before its program are not torn down, all others are."""

from __future__ import annotations

import ctypes.util
import hashlib
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nbdist.worker import framework_hooks

PROGRAM = """
import weakref
from nbdist.worker.warm import keep_code

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


STREAMS = """
import ctypes, os
streams, libc = ctypes.CDLL("libstdc++.so.6"), ctypes.CDLL(None)
from nbdist.worker.warm import leave_directly

def make():
    # as the initialiser of a library that includes <iostream>
    made = ctypes.create_string_buffer(1)
    streams["_ZNSt8ios_base4InitC1Ev"](made)
    libc["__cxa_atexit"](streams["_ZNSt8ios_base4InitD1Ev"], made, None)

def write():
    streams["_ZNSt8ios_base15sync_with_stdioEb"](False)
    cout = ctypes.byref(ctypes.c_char.in_dll(streams, "_ZSt4cout"))
    streams["_ZNSo5writeEPKcl"](cout, b"of C++", ctypes.c_long(6))
    os.write(1, b"end ")
"""


@pytest.mark.skipif(ctypes.util.find_library("stdc++") is None, reason="there is no libstdc++ here")
@pytest.mark.parametrize(
    ("steps", "output"),
    [
        pytest.param("make(); leave_directly(); write()", "end of C++", id="there before"),
        pytest.param("leave_directly(); make(); write()", "end of C++", id="made later"),
        pytest.param("leave_directly(); print('end ', end='')", "end ", id="never made"),
    ],
)
def test_a_rank_leaves_with_what_is_in_the_streams_of_cplusplus(steps: str, output: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", f"{STREAMS}\n{steps}"], capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, output, "")


def test_a_program_ends_after_gloos_threads_have_come_to_rest() -> None:
    ended = threading.Event()

    def run_as_gloo() -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("pt_gloo_runloop")
        begun.set()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 1_000_000)  # half a second, without the GIL
        ended.set()

    begun = threading.Event()
    threading.Thread(target=run_as_gloo).start()
    begun.wait()

    framework_hooks.wait_for_gloo()

    assert ended.wait(0.2)
