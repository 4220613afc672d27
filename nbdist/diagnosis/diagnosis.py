"""The diagnosis of a run that failed: everything that is to be shown of it, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from nbdist.diagnosis.failure import OF_DISKS, Failure, Group, end_of_log, first_failure, names
from nbdist.diagnosis.hints import Hint
from nbdist.model import Run
from nbdist.store import RunDirectory

_SHOWN_LINE = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A fact beside the failure, in both languages."""

    en: str
    zh: str

    def text(self, language: str = "en") -> str:
        return self.zh if language == "zh" else self.en


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """``failure`` is the first one; ``notes`` are facts beside it."""

    failure: Failure
    notes: tuple[Note, ...] = ()

    @property
    def hint(self) -> Hint | None:
        """Cause and fix, where the error is known."""
        return self.failure.hint

    @property
    def groups(self) -> tuple[Group, ...]:
        """The other ranks, by what they said and how they ended."""
        return self.failure.groups

    @property
    def early_exits(self) -> tuple[int, ...]:
        """Ranks that ended well while another one still needed them."""
        return self.failure.early_exits


def diagnose(run: Run, directory: RunDirectory) -> Diagnosis | None:
    """Why the run failed; None when no rank has failed."""
    failure = first_failure(run, directory)
    if failure is None:
        return None
    return Diagnosis(failure=failure, notes=tuple(_notes(failure, run, directory)))


def _notes(failure: Failure, run: Run, directory: RunDirectory) -> list[Note]:
    notes = [_last_line(rank, run, directory) for rank in failure.absent]
    if failure.full and (failure.hint is None or failure.hint.signature not in OF_DISKS):
        notes.append(_full(failure))
    for rank in failure.early_exits:
        early = run.ranks[rank]
        before = failure.time - (early.finished or early.exited or failure.time)
        when = f"{before:.1f} s before" if before >= 0.1 else "just before"
        when_zh = f"{before:.1f} 秒前" if before >= 0.1 else "刚刚"
        notes.append(
            Note(
                en=f"{names([rank])} ended with exit 0, {when}",
                zh=f"{names([rank], 'zh')} {when_zh}以退出码 0 结束",
            )
        )
    return notes


def _full(failure: Failure) -> Note:
    return Note(
        en=f"{failure.full} was full when rank {failure.rank} ended: its log may lack its last lines",
        zh=f"rank {failure.rank} 结束时 {failure.full} 已满，它的日志可能缺少最后几行",
    )


def _last_line(rank: int, run: Run, directory: RunDirectory) -> Note:
    lines = [line for line in end_of_log(rank, run, directory) if line.strip()]
    last = lines[-1][:_SHOWN_LINE] if lines else ""
    if not last:
        return Note(
            en=f"rank {rank} did not come; it had printed nothing", zh=f"rank {rank} 没有到达，也没有输出"
        )
    return Note(
        en=f"rank {rank} did not come; its last line: {last}",
        zh=f"rank {rank} 没有到达，它的最后一行：{last}",
    )
