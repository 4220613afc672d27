"""What is said of stacks, in both languages: one sentence about who waits for whom, then the groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nbdist.diagnosis.exits import rank_names
from nbdist.diagnosis.stacks import StackGroup, StackReport, StackRow
from nbdist.text import say

_PROBLEMS = frozenset({"not-ready", "replaced", "stopped", "silent", "ended"})
_KEPT = 8

Paint = Callable[[str, str], str]


def sentence(report: StackReport, language: str = "en") -> str:
    """``rank 1 is in time.sleep at line 9; ranks 0, 2, 3 wait in all_reduce at line 14``."""
    parts = [clause(group, report.script, language) for group in _that_matter(report)]
    return say("diagnosis.and", language).join(parts)


def clause(group: StackGroup, script: str, language: str = "en") -> str:
    """What is to be said of the ranks of one group."""
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
        code, what = "waiting", _call(group)
    elif what:
        code = "in" if where else "in-call"
    return say(f"diagnosis.{code}", language, who=who, ranks=group.ranks, what=what, where=where)


def _problem(group: StackGroup, language: str) -> str:
    """Why nothing is known of where these ranks are."""
    code = group.problem.replace(" ", "-")
    return say(f"diagnosis.{code}", language) if code in _PROBLEMS else group.problem


def behind_text(report: StackReport, language: str = "en") -> str:
    """How far those are behind that the others wait for, or that ranks wait in different collectives; empty
    where that is not known."""
    if report.apart:
        *first, second = report.apart
        return say("diagnosis.apart", language, first=", ".join(first), second=second)
    found = [(group, one) for group in report.groups if (one := group.collective) is not None]
    ahead = [(group, one) for group, one in found if group.place.waits and not one.over]
    late = [(group, one) for group, one in found if set(group.ranks) <= set(report.behind)]
    most = max((one.number for _, one in ahead), default=0)
    least = min((one.number for _, one in late), default=most)
    if least >= most:
        return ""
    last = [(group, one) for group, one in late if one.number == least]
    behind = sorted(rank for group, _ in last for rank in group.ranks)
    waiting = sorted(rank for group, one in ahead if one.number == most for rank in group.ranks)
    who, others = rank_names(behind, language), rank_names(waiting, language)
    if len(waiting) > 1 and len(behind) + len(waiting) == sum(len(group.ranks) for group in report.groups):
        others = say("diagnosis.the-others", language)
    if any(group.place.waits for group, _ in last):
        return say(
            "diagnosis.behind-waiting",
            language,
            who=who,
            behind=tuple(behind),
            least=least,
            others=others,
            most=most,
        )
    # one that is not over the rank has begun, and has not come out of
    done = least if all(one.over for _, one in last) else least - 1
    return say(
        "diagnosis.behind",
        language,
        who=who,
        behind=tuple(behind),
        done=done,
        others=others,
        waiting=tuple(waiting),
        most=most,
    )


def role_text(group: StackGroup, report: StackReport, language: str = "en") -> str:
    """What a group does, as its heading: ``wait in all_reduce, same stack``."""
    if group.problem:
        return _problem(group, language)
    if group.place.waits:
        return say("diagnosis.role-waiting", language, ranks=group.ranks, call=_call(group))
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
    """The whole report as text. ``paint`` gets "bold" and "grey" text."""
    if not report.groups:
        return say("diagnosis.none-taken", language, label=report.label)
    head = [paint(f"{report.label}: {sentence(report, language)}", "bold")]
    if behind := behind_text(report, language):
        head.append(behind)
    when = _clock(report.after)
    head.append(paint(say("diagnosis.taken-at", language, when=when), "grey"))
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


def _that_matter(report: StackReport) -> list[StackGroup]:
    """Few enough for a sentence."""
    return list(report.groups[:_KEPT])


def _call(group: StackGroup) -> str:
    """``all_reduce #7``: the collective with its number, where that is known."""
    one = group.collective
    if one is None or one.over:
        return group.place.what
    what = group.place.what
    within = what == "backward" or group.place.on_device
    said = f"{(one.name or 'collective') if within or not what else what} #{one.number}"
    return f"{said} in {what}" if within else said


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"
