"""Stacks of ranks as text in both languages: who waits for whom, cause and fix, then the groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nbdist.diagnosis.exits import rank_names
from nbdist.diagnosis.stack_groups import StackGroup, StackRow
from nbdist.diagnosis.stacks import StackReport, in_several, is_behind
from nbdist.text import say

_PROBLEMS = frozenset({"not-ready", "replaced", "stopped", "silent", "ended"})
_KEPT = 8  # the most groups in one sentence
Paint = Callable[[str, str], str]


def sentence(report: StackReport, language: str = "en") -> str:
    """Return ``rank 1 is in time.sleep at line 9; ranks 0, 2, 3 wait in all_reduce at line 14``."""
    parts = [clause(group, report.script, language) for group in report.groups[:_KEPT]]
    if report.ended and any(group.place.waits for group in report.groups):
        who = rank_names(report.ended, language)
        parts.append(say("diagnosis.done", language, who=who, ranks=report.ended))
    return say("diagnosis.and", language).join(parts)


def clause(group: StackGroup, script: str, language: str = "en") -> str:
    """Return the position of one group in words."""
    who, place = rank_names(group.ranks, language), group.place
    if group.problem:
        return f"{who} {_problem(group, language)}"
    where = ""
    if place.line is not None:
        where = say("diagnosis.where", language, line=place.line, file=place.file or script)
    elif not place.what:
        where = say("diagnosis.outside", language)
    code, what = "at", place.what
    if place.loads:
        code = "loading"
    elif place.waits:
        code, what = "waiting", _collective(group)
    elif what:
        code = "in" if where else "in-call"
    text = say(f"diagnosis.{code}", language, who=who, ranks=group.ranks, what=what, where=where)
    return text + _handled(group, language)


def _handled(group: StackGroup, language: str) -> str:
    """Return ``, handling KeyError: 'y' of line 6``; empty for ranks that handle no exception."""
    if not group.handled:
        return ""
    code = "handling" if group.handled_at is None else "handling-of"
    return say(f"diagnosis.{code}", language, error=group.handled, line=group.handled_at)


def _problem(group: StackGroup, language: str) -> str:
    code = group.problem.replace(" ", "-")
    return say(f"diagnosis.{code}", language) if code in _PROBLEMS else group.problem


def behind_text(report: StackReport, language: str = "en") -> str:
    """Return lines: how far awaited ranks are behind, errors in their logs, cause, fix; empty if unknown."""
    parts = [_distance(report, language)]
    cause = report.hint.cause.en if report.hint is not None else ""
    for raised in (raised for raised in report.raised if raised.error not in cause):
        code = "log-raised-at" if raised.where else "log-raised"
        parts.append(
            say(f"diagnosis.{code}", language, rank=raised.rank, error=raised.error, line=raised.where)
        )
    first = say("diagnosis.and", language).join(filter(None, parts))
    values = [value.text(language) for value in report.values]
    why = report.hint.text(language) if report.hint is not None else ""
    return "\n".join(filter(None, [first, *values, why]))


def _distance(report: StackReport, language: str) -> str:
    if in_several(report.groups):
        return ""
    begun = [(group, call) for group in report.groups if (call := group.collective) is not None]
    ahead = [(group, call) for group, call in begun if group.place.waits and not call.over]
    late = [(group, call) for group, call in begun if set(group.ranks) <= set(report.behind)]
    most = max((call.number for _, call in ahead), default=0)
    least = min((call.number for _, call in late), default=most)
    if least >= most:
        return ""
    least_begun = [(group, call) for group, call in late if call.number == least]
    behind = sorted(rank for group, _ in least_begun for rank in group.ranks)
    waiting = sorted(rank for group, call in ahead if call.number == most for rank in group.ranks)
    who, others = rank_names(behind, language), rank_names(waiting, language)
    if len(waiting) > 1 and len(behind) + len(waiting) == sum(len(group.ranks) for group in report.groups):
        others = say("diagnosis.the-others", language)
    # after a finished collective they wait in an uncounted call: new_group, a message
    behind_waits = any(group.place.waits and not call.over for group, call in least_begun)
    values = {"who": who, "behind": tuple(behind), "others": others, "most": most}
    if behind_waits:
        return say("diagnosis.behind-waiting", language, **values, least=least)
    return say("diagnosis.behind", language, **values, begun=least, waiting=tuple(waiting))


def role_text(group: StackGroup, report: StackReport, language: str = "en") -> str:
    """Return the heading of a group: ``wait in all_reduce, same stack``."""
    if group.problem:
        return _problem(group, language)
    if group.place.waits:
        return say("diagnosis.role-waiting", language, ranks=group.ranks, call=_collective(group))
    if group.place.loads:
        return say("diagnosis.role-loading", language)
    if set(group.ranks) <= set(report.behind):
        return say("diagnosis.role-absent", language)
    return say("diagnosis.role-same", language) if len(group.ranks) > 1 else ""


def stacks_text(
    report: StackReport,
    language: str = "en",
    *,
    all_threads: bool = False,
    paint: Paint = lambda text, _: text,
) -> str:
    """Return the whole report as text. ``paint`` receives "bold" and "grey" text."""
    if not report.groups:
        return say("diagnosis.none-taken", language, label=report.label)
    head = [paint(f"{report.label}: {sentence(report, language)}", "bold")]
    if behind := behind_text(report, language):
        head.append(behind)
    minutes, seconds = divmod(int(report.after), 60)
    head.append(paint(say("diagnosis.taken-at", language, when=f"{minutes}:{seconds:02}"), "grey"))
    if report.problem == "no answer":
        head.append(say("diagnosis.no-answer", language, label=report.label))
    parts = ["\n".join(head)]
    parts += ["\n".join(_group_lines(g, report, language, all_threads, paint)) for g in report.groups]
    return "\n\n".join(parts)


def _group_lines(
    group: StackGroup, report: StackReport, language: str, all_threads: bool, paint: Paint
) -> Iterator[str]:
    role = role_text(group, report, language)
    name = paint(rank_names(group.ranks, language), "bold")
    yield f"{name} · {role}" if role else name
    if group.blocked:
        yield say("diagnosis.blocked", language)
    yield from _row_lines(group.rows, paint)
    if all_threads:
        for number, rows in enumerate(group.threads, start=1):
            yield paint(f"  {say('diagnosis.thread', language, number=number)}", "grey")
            yield from _row_lines(rows, paint)


def _row_lines(rows: Sequence[StackRow], paint: Paint) -> Iterator[str]:
    functions = max((len(row.function) for row in rows), default=0)
    places = max((len(row.place) for row in rows), default=0)
    for row in rows:
        mark = "▸" if row.here else " "
        text = f"  {mark} {row.function:<{functions}}  {row.place:<{places}}  {row.source}".rstrip()
        yield paint(text, "bold") if row.here else text


def _collective(group: StackGroup) -> str:
    """Return the collective with its number, ``all_reduce #7``, where that is known."""
    collective = group.collective
    if collective is None or collective.over:
        return group.place.what
    what = group.place.what
    within = what == "backward" or group.place.on_device or is_behind(collective)
    text = f"{(collective.name or 'collective') if within or not what else what} #{collective.number}"
    return f"{text} in {what}" if within and what else text
