"""What a report leaves out of its runs, said where it begins: nobody is to take a part for the whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbdist.panel.report.logs import PackedLog
from nbdist.text import say

_NAMES = 5
_RANKS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Of one run: how many tags it has and which of them there is no room for, its logs, how many files of
    records were too large, whether its program was, and how many bytes of its logs were not looked through
    for numbers that are only printed."""

    label: str
    tags: int = 0
    dropped: Sequence[str] = ()
    logs: Sequence[PackedLog] = ()
    records: int = 0
    program: bool = False
    unread: int = 0


def left_out_texts(all_of_them: Iterable[LeftOut], language: str) -> list[str]:
    """A sentence for each kind of thing that is not in the report; none where all is."""
    return [text for one in all_of_them for text in _texts(one, language)]


def _texts(one: LeftOut, language: str) -> Iterable[str]:
    if one.dropped:
        names = ", ".join(one.dropped[:_NAMES]) + (", …" if len(one.dropped) > _NAMES else "")
        yield say(
            "report.tags-out", language, label=one.label, count=len(one.dropped), all=one.tags, names=names
        )
    if cut := [log for log in one.logs if log.cut]:
        size = f"{sum(log.cut for log in cut) / 1e6:,.1f}"
        ranks = ", ".join(str(log.rank) for log in cut[:_RANKS]) + (", …" if len(cut) > _RANKS else "")
        yield say("report.logs-out", language, label=one.label, size=size, ranks=ranks, rank=cut[0].rank)
    if one.unread:
        yield say("report.prints-out", language, label=one.label, size=f"{one.unread / 1e6:,.1f}")
    if one.records:
        yield say("report.records-out", language, label=one.label, count=one.records)
    if one.program:
        yield say("report.program-out", language, label=one.label)
