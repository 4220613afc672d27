"""What is said of stacks, in both languages: one sentence about who waits for whom, then the groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nbdist.diagnosis.places import Place
from nbdist.diagnosis.ranks import rank_names
from nbdist.diagnosis.stacks import StackGroup, StackReport, StackRow

_PROBLEMS = {
    "not ready": ("has not come to its program", "尚未运行到程序"),
    "replaced": (
        "cannot be asked: its program has taken the signal, or closed the file, that nbdist asks by",
        "无法询问:程序接管了 nbdist 所用的信号,或关闭了相应的文件",
    ),
    "stopped": (
        "is stopped by a signal (SIGSTOP); kill -CONT lets it go on",
        "已被信号暂停(SIGSTOP);kill -CONT 可使其继续",
    ),
    "silent": ("does not answer", "没有应答"),
    "ended": ("has exited", "已退出"),
}
_NO_STACKS = {
    "none": ("no stacks have been taken of {label}", "尚未采集 {label} 的调用栈"),
    "no answer": (
        "{label} did not answer; these are its last stacks",
        "{label} 没有应答;以下是上次的调用栈",
    ),
}
_BLOCKED = ("  its main thread is in a call that cannot be ended", "  主线程处于内核的不可中断调用中")
_KEPT = 8

Paint = Callable[[str, str], str]


def sentence(report: StackReport, language: str = "en") -> str:
    """``rank 1 is in time.sleep at line 9; ranks 0, 2, 3 wait in all_reduce at line 14``."""
    parts = [clause(group, report.script, language) for group in _that_matter(report)]
    return (";" if language == "zh" else "; ").join(parts)


def clause(group: StackGroup, script: str, language: str = "en") -> str:
    """What is to be said of the ranks of one group."""
    zh = language == "zh"
    who = rank_names(group.ranks, language)
    if group.problem:
        return f"{who} {_PROBLEMS.get(group.problem, (group.problem,) * 2)[zh]}"
    place, many = group.place, len(group.ranks) > 1
    if zh:
        return f"{who} {_where_zh(place, script)}{_doing_zh(group)}"
    if place.loads:
        doing = f"{'wait' if many else 'waits'} for {'their' if many else 'its'} DataLoader"
    elif place.waits:
        doing = f"{'wait' if many else 'waits'} in {_call(group)}"
    elif place.what:
        doing = f"{'are' if many else 'is'} in {place.what}"
    else:
        doing = "are" if many else "is"
    file = place.file or script
    line = "" if place.line is None else f" at line {place.line}{f' of {file}' if file else ''}"
    return f"{who} {doing}{line or ('' if place.what else ' outside the program')}"


def behind_text(report: StackReport, language: str = "en") -> str:
    """How far those are behind that the others wait for, or that ranks wait in different collectives; empty
    where that is not known."""
    zh = language == "zh"
    if report.apart:
        if zh:
            return f"它们调用了不同的集合通信,永远不会会合:{'、'.join(report.apart)}"
        return f"they called different collectives, and will never meet: {' and '.join(report.apart)}"
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
        others = "其他进程" if zh else "the others"
    if any(group.place.waits for group, _ in last):
        if zh:
            return f"{who} 在等待第 {least} 次集合通信,{others} 在等待第 {most} 次"
        wait = "waits" if len(behind) == 1 else "wait"
        return f"{who} {wait} in collective number {least}, {others} in number {most}"
    # one that is not over the rank has begun, and has not come out of
    done = least if all(one.over for _, one in last) else least - 1
    if zh:
        return f"{who} 已完成 {done} 次集合通信,{others} 在等待第 {most} 次"
    has, s = "has" if len(behind) == 1 else "have", "" if done == 1 else "s"
    wait = "waits" if len(waiting) == 1 else "wait"
    return f"{who} {has} done {done} collective{s}, {others} {wait} in number {most}"


def role_text(group: StackGroup, report: StackReport, language: str = "en") -> str:
    """What a group does, as its heading: ``wait in all_reduce, same stack``."""
    zh = language == "zh"
    if group.problem:
        return _PROBLEMS.get(group.problem, (group.problem,) * 2)[zh]
    if group.place.waits:
        call = _call(group)
        if zh:
            return f"等待 {call}" + (",调用栈相同" if len(group.ranks) > 1 else "")
        return f"wait in {call}, same stack" if len(group.ranks) > 1 else f"waits in {call}"
    if group.place.loads:
        return "等待 DataLoader" if zh else "waiting for the DataLoader"
    if set(group.ranks) <= set(report.behind):
        return "没有到达集合通信" if zh else "does not reach the collective"
    if len(group.ranks) > 1:
        return "调用栈相同" if zh else "same stack"
    return ""


def stacks_text(
    report: StackReport,
    language: str = "en",
    *,
    all_threads: bool = False,
    paint: Paint = lambda text, _: text,
) -> str:
    """The whole report as text. ``paint`` gets "bold" and "grey" text."""
    zh = language == "zh"
    if not report.groups:
        return _NO_STACKS["none"][zh].format(label=report.label)
    head = [paint(f"{report.label}: {sentence(report, language)}", "bold")]
    if behind := behind_text(report, language):
        head.append(behind)
    when = _clock(report.after)
    head.append(paint(f"采集于 {when}" if zh else f"taken at {when}", "grey"))
    if report.problem == "no answer":
        head.append(_NO_STACKS["no answer"][zh].format(label=report.label))
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
        yield _BLOCKED[language == "zh"]
    yield from _row_lines(group.rows, paint)
    if all_threads:
        for number, rows in enumerate(group.threads, start=1):
            title = f"线程 {number}" if language == "zh" else f"thread {number}"
            yield paint(f"  {title}", "grey")
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


def _where_zh(place: Place, script: str) -> str:
    if place.line is None:
        return "" if place.what else "在程序之外"
    file = place.file or script
    return f"在{f' {file} ' if file else ''}第 {place.line} 行"


def _doing_zh(group: StackGroup) -> str:
    place = group.place
    if place.loads:
        return "等待 DataLoader"
    if place.waits:
        return f"等待 {_call(group)}"
    return f"的 {place.what} 中" if place.what and place.line is not None else f" {place.what}".rstrip()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"
