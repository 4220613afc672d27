"""The names of ranks in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

_FEW = 6


def rank_names(ranks: Sequence[int], language: str = "en") -> str:
    """``rank 1``; ``ranks 0, 2, 3``; of many ``ranks 0–6, 8``. Empty for none."""
    if not ranks:
        return ""
    zh = language == "zh"
    listed = ", ".join(map(str, ranks)) if len(ranks) <= _FEW and not zh else rank_ranges(ranks)
    if zh:
        return f"进程 {listed}"
    return f"rank {listed}" if len(ranks) == 1 else f"ranks {listed}"


def rank_ranges(ranks: Sequence[int]) -> str:
    """``0–3, 6``: rising numbers, with what follows one another in one."""
    parts: list[list[int]] = []
    for rank in ranks:
        if parts and rank == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], rank]
        else:
            parts.append([rank])
    return ", ".join("–".join(map(str, part)) for part in parts)
