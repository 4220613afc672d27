"""Exit codes, read aloud."""

from __future__ import annotations

import pytest

from nbdist.diagnosis import describe_exit


@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param(0, "exit 0", id="success"),
        pytest.param(1, "exit 1", id="an exception"),
        pytest.param(127, "exit 127", id="not found"),
        pytest.param(-9, "SIGKILL (killed from outside, often by the out-of-memory killer)", id="kill"),
        pytest.param(-7, "SIGBUS (bad memory access, often a full /dev/shm)", id="bus error"),
        pytest.param(-6, "SIGABRT (native code gave up)", id="abort"),
        pytest.param(-11, "SIGSEGV (invalid memory access in native code)", id="segmentation fault"),
        pytest.param(-15, "SIGTERM (told to end from outside)", id="termination"),
        pytest.param(-10, "SIGUSR1", id="a signal that needs no words"),
        pytest.param(-99, "signal 99", id="a signal that does not exist"),
    ],
)
def test_an_exit_code_is_read_aloud(code: int, said: str) -> None:
    assert describe_exit(code) == said
