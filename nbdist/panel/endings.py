"""How the ranks of a run ended, each or those together that ended alike, in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from nbdist.diagnosis.exits import signal_name
from nbdist.diagnosis.ranks import rank_ranges
from nbdist.model import Rank, RankState
from nbdist.panel.facts import Facts
from nbdist.panel.labels import (
    exit_text,
    leftover_text,
    ranks_text,
    state_mark,
    state_word,
)
from nbdist.panel.slow import slow_text
from nbdist.text import say

_EACH = 8


def outcomes(facts: Facts, language: str) -> list[tuple[str, str, str]]:
    """Which ranks, the mark and the words of how they ended: each rank, or where there are many the
    ranks that ended alike."""
    run = facts.run
    each = len(run.ranks) <= _EACH
    found = []
    for rank in run.ranks:
        how = _how(rank, facts, language)
        if each and rank.rank in facts.later:
            how += f", +{facts.later[rank.rank]:.1f} s"
        found.append((rank.rank, state_mark(rank.state.value), how))
    if each:
        return [(str(number), mark, how) for number, mark, how in found]
    alike = sorted(found, key=lambda one: one[1:])
    groups = [(key, [one[0] for one in group]) for key, group in groupby(alike, key=lambda one: one[1:])]
    groups.sort(key=lambda pair: (len(pair[1]), pair[1]))
    return [(rank_ranges(numbers), mark, how) for (mark, how), numbers in groups]


def _how(rank: Rank, facts: Facts, language: str) -> str:
    """``Failed first, exit 1``, ``Ended, SIGTERM``."""
    if facts.failure is not None and rank.rank == facts.failure.rank:
        return f"{say('panel.failed-first', language)}, {exit_text(rank, language)}".rstrip(", ")
    state = state_word(rank.state, language)
    if rank.state is RankState.ENDED and rank.code is not None and rank.code < 0:
        return f"{state}, {signal_name(rank.code)}"
    return f"{state}, {exit_text(rank, language)}" if rank.code else state


def alone_text(facts: Facts, language: str) -> str:
    """What is asked where each rank may have done the whole work; empty where they shared it."""
    if not facts.alone:
        return ""
    return say("panel.alone", language, ranks=ranks_text(len(facts.run.ranks), language))


def remarks(facts: Facts, language: str, notes: Sequence[str]) -> list[str]:
    """What is to be said of the run beside how it ended; ``notes`` last."""
    slow = slow_text(facts.slow, language) if facts.slow is not None else ""
    own = (slow, alone_text(facts, language), leftover_text(facts.run.leftover, language))
    return [*filter(None, own), *notes]


def logs_title(ranks: Sequence[Rank], language: str) -> str:
    """Whose log it is; how they ended where that was no success."""
    name = f"{say('panel.rank', language)} {rank_ranges([rank.rank for rank in ranks])}"
    state = ranks[0].state
    return name if state is RankState.SUCCEEDED else f"{name} · {state_word(state, language)}"
