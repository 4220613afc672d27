"""Exit codes and ranks in words."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from nbdist.text import Both, say

# signals with a meaning; the others show only their name
_TELLING = frozenset({"SIGKILL", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTERM", "SIGINT"})

_OURS = frozenset({"SIGINT", "SIGTERM", "SIGKILL"})


def exit_kind(code: int, *, oom: bool = False, limit: int = 0) -> str:
    """Return ``exit 1``, or a signal's name: ``SIGSEGV``, ``SIGKILL-oom``, ``SIGKILL-limit``."""
    if code >= 0:
        return f"exit {code}"
    name = signal_name(code)
    return f"{name}-limit" if limit else f"{name}-oom" if oom and code == -signal.SIGKILL else name


def describe_exit(
    code: int,
    *,
    oom: bool = False,
    ended: bool = False,
    memory: int = 0,
    limit: int = 0,
    language: str = "en",
) -> str:
    """Return ``exit 1``, or for a negative code ``SIGSEGV (invalid memory access …)``.

    ``oom``: killed by the kernel; ``ended``: by nbdist; ``limit``: for this memory limit; ``memory``: its
    most (bytes).
    """
    name = signal_name(code)
    if ended and code < 0:
        # nbdist sends SIGINT, SIGTERM or SIGKILL: any other signal is the rank's own
        return say("exits.ended" if name in _OURS else "exits.ended-by-itself", language, signal=name)
    if code >= 0:
        return say("exits.exit", language, status=code)
    meaning = ""
    if limit or name in _TELLING:
        kind = "SIGKILL-limit" if limit else exit_kind(code, oom=oom)
        meaning = say(f"exits.{kind}", language, size=_size(limit))
    if code == -signal.SIGKILL and memory:
        meaning = say("exits.reached", language, meaning=meaning, size=_size(memory))
    return say("exits.signal", language, signal=name, meaning=meaning)


def signal_name(code: int) -> str:
    """Return ``SIGTERM`` for -15."""
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


_FEW = 6


def rank_names(ranks: Sequence[int], language: str = "en") -> str:
    """Return ``rank 1``, ``ranks 0, 2, 3``, or of many ``ranks 0–6, 8``; empty for none."""
    if not ranks:
        return ""
    zh = language == "zh"
    listed = ", ".join(map(str, ranks)) if len(ranks) <= _FEW and not zh else rank_ranges(ranks)
    if zh:
        return f"进程 {listed}"
    return f"rank {listed}" if len(ranks) == 1 else f"ranks {listed}"


def ranks_in_words(ranks: Sequence[int]) -> Both:
    """Return ``ranks 0, 2, 3`` in both languages."""
    return Both(rank_names(ranks), rank_names(ranks, "zh"))


def rank_ranges(ranks: Sequence[int]) -> str:
    """Return rising numbers with runs joined: ``0–3, 6``."""
    parts: list[list[int]] = []
    for rank in ranks:
        if parts and rank == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], rank]
        else:
            parts.append([rank])
    return ", ".join("–".join(map(str, part)) for part in parts)
