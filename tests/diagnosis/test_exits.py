"""Exit codes in words."""

from __future__ import annotations

import pytest

from nbdist.diagnosis import describe_exit


@pytest.mark.parametrize(
    ("code", "text"),
    [
        pytest.param(0, "exit 0", id="success"),
        pytest.param(1, "exit 1", id="an exception"),
        pytest.param(127, "exit 127", id="not found"),
        pytest.param(-9, "SIGKILL (killed from outside, often by the out-of-memory killer)", id="kill"),
        pytest.param(-7, "SIGBUS (bad memory access, often a full /dev/shm)", id="bus error"),
        pytest.param(-6, "SIGABRT (aborted in native code)", id="abort"),
        pytest.param(-11, "SIGSEGV (invalid memory access in native code)", id="segmentation fault"),
        pytest.param(-15, "SIGTERM (terminated from outside)", id="termination"),
        pytest.param(-10, "SIGUSR1", id="a signal that needs no words"),
        pytest.param(-99, "signal 99", id="a signal that does not exist"),
    ],
)
def test_an_exit_code_is_read_aloud(code: int, text: str) -> None:
    assert describe_exit(code) == text


@pytest.mark.parametrize(
    ("oom", "memory", "english", "chinese"),
    [
        pytest.param(
            True,
            3_100_000_000,
            "SIGKILL (out of memory, it used 3.1 GB)",
            "SIGKILL（系统内存不足，当时已用 3.1 GB）",
            id="the out-of-memory killer",
        ),
        pytest.param(True, 0, "SIGKILL (out of memory)", "SIGKILL（系统内存不足）", id="no figure"),
        pytest.param(
            False,
            312_000_000,
            "SIGKILL (killed from outside, often by the out-of-memory killer, it used 312 MB)",
            "SIGKILL（被外部强制结束，常因内存不足，当时已用 312 MB）",
            id="killed",
        ),
    ],
)
def test_a_killed_rank_says_how_much_memory_it_had(
    oom: bool, memory: int, english: str, chinese: str
) -> None:
    texts = [describe_exit(-9, oom=oom, memory=memory, language=language) for language in ("en", "zh")]

    assert texts == [english, chinese]


def test_a_rank_that_met_its_memory_limit_says_so() -> None:
    texts = [
        describe_exit(-9, oom=True, limit=16_000_000_000, language=language) for language in ("en", "zh")
    ]

    assert texts == ["SIGKILL (over its memory limit of 16.0 GB)", "SIGKILL（超出 16.0 GB 的内存限制）"]
