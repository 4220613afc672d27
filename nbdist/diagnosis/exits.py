"""Exit codes, read aloud, in English and Chinese."""

from __future__ import annotations

import signal

_MEANINGS = {
    signal.SIGKILL: (
        "killed from outside, often by the out-of-memory killer",
        "被外部强制结束,常因内存不足",
    ),
    signal.SIGSEGV: ("invalid memory access in native code", "原生代码访问了无效内存"),
    signal.SIGABRT: ("native code gave up", "原生代码中止"),
    signal.SIGBUS: ("bad memory access, often a full /dev/shm", "内存访问错误,常因 /dev/shm 已满"),
    signal.SIGFPE: ("arithmetic error in native code", "原生代码算术错误"),
    signal.SIGILL: ("an instruction that this CPU does not have", "本机 CPU 没有的指令"),
    signal.SIGTERM: ("told to end from outside", "被外部要求结束"),
    signal.SIGINT: ("interrupted", "被中断"),
}
_NO_MEMORY = ("killed for want of memory", "系统内存不足,被强制结束")
_OVER_LIMIT = ("out of its memory limit of {size}", "超出其 {size} 的内存限制,被强制结束")
_REACHED = ("; it had reached {size}", ",当时已用 {size}")
_PARENTHESES = (" ({})", "({})")


def describe_exit(
    code: int,
    *,
    oom: bool = False,
    ended: bool = False,
    memory: int = 0,
    limit: int = 0,
    language: str = "en",
) -> str:
    """``exit 1``, or for a negative code the signal: ``SIGSEGV (invalid memory access …)``.

    ``oom`` says that the out-of-memory killer was seen at work, ``ended`` that nbdist ended the rank.
    ``limit`` is the memory limit, in bytes, that it was killed for (0: for none).
    ``memory`` is the most that it had held, in bytes (0: unknown), which SIGKILL makes interesting.
    """
    zh = language == "zh"
    if ended and code < 0:
        return f"由 nbdist 结束({_name(code)})" if zh else f"ended by nbdist ({_name(code)})"
    if code >= 0:
        return f"退出码 {code}" if zh else f"exit {code}"
    meaning = _OVER_LIMIT[zh].format(size=_size(limit)) if limit else _meaning(code, oom=oom)[zh]
    if code == -signal.SIGKILL and memory:
        meaning += _REACHED[zh].format(size=_size(memory))
    return _name(code) + (_PARENTHESES[zh].format(meaning) if meaning else "")


def _meaning(code: int, *, oom: bool) -> tuple[str, str]:
    if oom and code == -signal.SIGKILL:
        return _NO_MEMORY
    return next((said for number, said in _MEANINGS.items() if number == -code), ("", ""))


def _name(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
