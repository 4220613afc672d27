"""Tracebacks parsed from text: passed on by a framework, and chained by Python."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

import pytest

from nbdist.diagnosis.tracebacks import chains_in_log, last_words, parse, root

WORKER = """\
Traceback (most recent call last):
  File "cell.py", line 10, in <module>
    for batch in DataLoader(Images(), num_workers=2):
  File "<venv>/lib/python3.11/site-packages/torch/_utils.py", line 794, in reraise
    raise exception
ValueError: Caught ValueError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "<venv>/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py", line 54, in <listcomp>
    data = [self.dataset[idx] for idx in possibly_batched_index]
            ~~~~~~~~~~~~^^^^^
  File "cell.py", line 8, in __getitem__
    raise ValueError("image 3 is no picture")
ValueError: image 3 is no picture

"""
CAPTURE = """\
Traceback (most recent call last):
  File "cell.py", line 42, in <module>
    value = step()
  File "cell.py", line 21, in step
    return loss.item()
RuntimeError: CUDA error: operation not permitted when stream is capturing

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "cell.py", line 41, in <module>
    with torch.cuda.graph(graph):
  File "<venv>/lib/python3.12/site-packages/torch/cuda/graphs.py", line 265, in __exit__
    self.cuda_graph.capture_end()
RuntimeError: CUDA error: operation failed due to a previous error during capture
"""
SPAWNED = """\
Traceback (most recent call last):
  File "cell.py", line 8, in <module>
    mp.spawn(train, args=(2,), nprocs=2)
  File "<venv>/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 211, in join
    raise ProcessRaisedException(msg, error_index, failed_process.pid)
torch.multiprocessing.spawn.ProcessRaisedException:{space}

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "<venv>/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 87, in _wrap
    fn(i, *args)
  File "cell.py", line 6, in train
    print(1 / (rank - 1))
          ~~^~~~~~~~~~~~
ZeroDivisionError: division by zero
""".replace("{space}", " ")
SYNTAX = """\
Traceback (most recent call last):
  File "cell.py", line 6, in <module>
    import layers
  File "layers.py", line 1
    def layer(width:
             ^
SyntaxError: '(' was never closed
"""
ABORTED = """\
step 3
terminate called after throwing an instance of 'gloo::EnforceNotMet'
  what():  [enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 16 vs 8
Fatal Python error: Aborted

Thread 0x00007fa7ff491b80 (most recent call first):
  File "distributed_c10d.py", line 3151 in broadcast
  File "cell.py", line 5 in <module>
  File "/opt/nbdist/worker/bootstrap.py", line 53 in main
  File "/opt/nbdist/worker/__main__.py", line 15 in <module>

Extension modules: torch._C (total: 1)
"""
FATAL_LOG = """\
step 3
F1121 00:49:59.842957  6836 allocator.cc:12] Check failed: size > 0 (0 vs. 0)
*** Check failure stack trace: ***
"""
SUMMARY = """\
--------------------------------------
C++ Traceback (most recent call last):
--------------------------------------
0   phi::CopyKernel()

----------------------
Error Message Summary:
----------------------
ResourceExhaustedError:{space}

Out of memory error on GPU 0. Cannot allocate 98.0MB memory on GPU 0.

Please check whether there is any other process using GPU 0.
""".replace("{space}", " ")
TERMINATION = """\
----------------------
Error Message Summary:
----------------------
FatalError: `Termination signal` is detected by the operating system.
  [TimeInfo: *** Aborted at 1795222199 (unix time) try "date -d @1795222199" if you are using GNU date ***]
"""


def text_of(raises: Callable[[], object]) -> str:
    try:
        raises()
    except Exception:  # noqa: BLE001 - any that a test makes
        return traceback.format_exc()
    raise AssertionError("nothing was raised")


def rate() -> object:
    return {}["learning_rate"]


def from_the_cause() -> None:
    try:
        rate()
    except KeyError as error:
        raise RuntimeError("the settings\n\nare not complete") from error


def while_handling() -> None:
    try:
        rate()
    except KeyError:
        raise RuntimeError("no settings")  # noqa: B904 - that is what is tested


@pytest.mark.parametrize(
    ("text", "cause", "where"),
    [
        pytest.param(WORKER, "ValueError: image 3 is no picture", 8, id="a DataLoader worker"),
        pytest.param(SPAWNED, "ZeroDivisionError: division by zero", 6, id="a spawned child"),
        pytest.param(SYNTAX, "SyntaxError: '(' was never closed", 1, id="a syntax error"),
    ],
)
def test_the_cause_is_the_innermost_error(text: str, cause: str, where: int) -> None:
    first = root(parse(text))

    assert (first.text, first.frames[-1].line) == (cause, where)


def test_the_cause_of_a_chain_is_what_it_was_raised_from() -> None:
    chain = parse(text_of(from_the_cause))

    assert [(raised.type, raised.link) for raised in chain] == [("KeyError", ""), ("RuntimeError", "cause")]
    assert chain[1].message == "the settings\n\nare not complete"
    assert root(chain).text == "KeyError: 'learning_rate'"


def test_what_was_raised_while_handling_another_error_stands_for_itself() -> None:
    chain = parse(text_of(while_handling))

    assert chain[1].link == "context"
    assert root(chain).text == "RuntimeError: no settings"


def test_what_ends_the_capture_of_a_cuda_graph_is_the_cause() -> None:
    chain = parse(CAPTURE)

    assert chain[1].link == "context"
    assert root(chain).text == "RuntimeError: CUDA error: operation not permitted when stream is capturing"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="there are exception groups from Python 3.11 on")
def test_what_a_library_raises_again_in_the_same_words_is_told_where_the_program_called_it() -> None:
    def look_up(key: int) -> None:
        try:
            {}[key]
        except KeyError as error:
            raise KeyError(key) from error

    with pytest.raises(KeyError) as raised:
        look_up(191)
    cause = root(parse("".join(traceback.format_exception(raised.value))))

    assert cause.text == "KeyError: 191"
    assert [frame.function for frame in cause.frames][-2:] == [raised.traceback[0].name, "look_up"]


def test_tracebacks_are_found_among_other_lines() -> None:
    log = [
        "epoch 1",
        *(f"[rank1]: {line}" for line in WORKER.splitlines()),
        "",
        "epoch 2",
        *SYNTAX.splitlines(),
    ]

    chains = chains_in_log(log)

    # the unmarked lines first
    assert [root(chain).type for chain in chains] == ["SyntaxError", "ValueError"]
    assert [len(chain) for chain in chains] == [1, 2]


@pytest.mark.parametrize(
    ("log", "text"),
    [
        pytest.param(
            ABORTED,
            "gloo::EnforceNotMet: [enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 16 vs 8",
            id="an exception in C++",
        ),
        pytest.param(
            FATAL_LOG,
            "[allocator.cc:12] Check failed: size > 0 (0 vs. 0)\n*** Check failure stack trace: ***",
            id="a fatal line",
        ),
        pytest.param(
            SUMMARY,
            "ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 98.0MB memory on GPU 0.",
            id="paddle's summary",
        ),
    ],
)
def test_native_code_has_last_words(log: str, text: str) -> None:
    words = last_words(log.splitlines())

    assert words.text == text


WATCHDOG = """\
[rank0]:[E1126 06:07:13 ProcessGroupNCCL.cpp:689] [Rank 0] Watchdog caught collective operation timeout: Work
[rank0]:[E1126 06:07:16 ProcessGroupNCCL.cpp:733] Stack trace of the failed collective:
#0 all_reduce from /site-packages/torch/distributed/distributed_c10d.py:3068
#1 <module> from /runs/cell.py:12
#2 run from /nbdist/worker/bootstrap.py:98
#3 <module> from /nbdist/worker/__main__.py:20

terminate called after throwing an instance of 'c10::DistBackendError'
  what():  [Rank 0] Watchdog caught collective operation timeout: Work ran for 8057 milliseconds.
Exception raised from checkTimeout at ProcessGroupNCCL.cpp:692 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation)

Fatal Python error: Aborted

Thread 0x00007f4621514140 (most recent call first):
  File "/runs/cell.py", line 14 in <module>
"""


def test_the_watchdog_of_nccl_says_where_the_collective_was_called() -> None:
    words = last_words(WATCHDOG.splitlines())

    assert words.message.endswith("8057 milliseconds.")
    assert [(frame.file, frame.line) for frame in words.frames] == [
        ("/runs/cell.py", 12),
        ("/site-packages/torch/distributed/distributed_c10d.py", 3068),
    ]


def test_of_the_watchdogs_of_two_groups_it_is_not_known_which_is_meant() -> None:
    other = WATCHDOG.partition("terminate")[0].replace("cell.py:12", "cell.py:30")

    words = last_words((other + WATCHDOG).splitlines())

    assert [(frame.file, frame.line) for frame in words.frames] == [("/runs/cell.py", 14)]


def test_the_python_stack_of_a_signal_starts_in_the_program() -> None:
    words = last_words(ABORTED.splitlines())

    assert [(frame.file, frame.line) for frame in words.frames] == [
        ("cell.py", 5),
        ("distributed_c10d.py", 3151),
    ]


@pytest.mark.parametrize(
    "log",
    [
        pytest.param("", id="nothing"),
        pytest.param("step 1\nstep 2\n", id="steps"),
        pytest.param(TERMINATION, id="paddle says that it was told to end"),
        pytest.param(WORKER, id="a traceback"),
    ],
)
def test_other_lines_are_no_last_words(log: str) -> None:
    assert last_words(log.splitlines()) is None
