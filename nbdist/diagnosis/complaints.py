"""The complaint of one rank: the exception that left its program, or the last words in its log."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nbdist.diagnosis.known import Role, Signature, match
from nbdist.diagnosis.tracebacks import STARTERS, Raised, chains_in_log, last_words, parse, root
from nbdist.store import ErrorReport

# torchrun's words about the rank that failed first
_ROOT_CAUSE = re.compile(r"(?s)Root Cause.*? rank +: (\d+)")
# the last lines in which a rank without an exception may have printed the reason
_NEAR_THE_END = 80
# errors that need their source line to be recognised
_ALIKE = re.compile(r"^(?:KeyError|IndexError): |is not in list$")
# errors of a process whose partner has ended
_CLOSED = frozenset({"ConnectionResetError", "ConnectionRefusedError", "BrokenPipeError", "EOFError"})
_FATAL_SIGNALS = frozenset(
    {-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGFPE, -signal.SIGILL, -signal.SIGTRAP}
)
_SECONDARY = frozenset({Role.GONE, Role.WAITED})
# modules whose exceptions tell that a process has failed which the rank had started
_OF_CHILDREN = re.compile(r"\b(?:subprocess|multiprocessing|futures\.process|elastic|loky)\.[\w.]+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One rank's error: ``root`` caused it, ``outer`` left the program. ``found`` is the match of
    ``signature``, ``child`` what a process of the rank raised of which ``outer`` does not tell."""

    root: Raised
    outer: Raised
    signature: Signature | None = None
    found: re.Match[str] | None = None
    child: Raised | None = None

    @property
    def secondary(self) -> bool:
        """Return whether it only reports another rank's failure."""
        return self.signature is not None and self.signature.role in _SECONDARY

    @property
    def role(self) -> Role:
        return self.signature.role if self.signature is not None else Role.CAUSE

    @property
    def of_child(self) -> bool:
        """Return whether it only reports that a process of the rank failed."""
        return self.role is Role.CHILD or _OF_CHILDREN.search(self.root.type) is not None

    @property
    def gone(self) -> bool:
        return self.role is Role.GONE

    @property
    def waited(self) -> bool:
        return self.role is Role.WAITED


def complaint_of(report: ErrorReport | None, log: Sequence[str], code: int | None) -> Complaint | None:
    """Return the complaint of a rank, from its error report, the end of its log and its exit code."""
    if report is not None:
        return _of_report(report, log)
    if code in _FATAL_SIGNALS:
        words = last_words(log)
        return _recognised(words, words, words) if words is not None else None
    if code is not None and code > 0:
        return _in_log(log[-_NEAR_THE_END:])
    return None


def _of_report(report: ErrorReport, log: Sequence[str]) -> Complaint:
    outer = Raised(type=report.type, message=report.message, frames=report.frames)
    chain = parse(report.text) or (outer,)
    complaint = _of_chain(chain, outer)
    first = complaint.root
    leaving = first.type == "SystemExit"
    if complaint.secondary or leaving:
        # raised by the clean-up after something else
        for earlier in reversed(chain[: chain.index(first)]):
            before = _recognised(earlier, outer, earlier)
            if not before.secondary and earlier.type != "SystemExit":
                complaint, first, leaving = before, earlier, False
                break
    # who leaves with words, not a number, may speak of something else than what failed long before
    near = log[-_NEAR_THE_END:] if leaving else log
    whole = near if leaving and not first.message.isdigit() else log
    printed = _in_log(report.printed.splitlines(), but=chain) or _in_log(whole, but=chain, child=True)
    if complaint.of_child or leaving:
        printed = printed or _in_log(near, but=chain)
    lost = first.type in _CLOSED and complaint.signature is None
    if printed is not None and (complaint.of_child or leaving or lost):
        return replace(printed, outer=outer)
    if complaint.signature is None or complaint.role is not Role.CAUSE or first.type in _CLOSED:
        complaint = _of_workers(report, outer) or complaint
    return replace(complaint, child=printed.root) if printed is not None and printed.root.type else complaint


def _of_workers(report: ErrorReport, outer: Raised) -> Complaint | None:
    """Return torch's message for a DataLoader worker that a signal ended; torch itself may print less."""
    for pid, code in report.workers:
        name = signal.strsignal(-code) if code < 0 else None
        known = match(f"DataLoader worker (pid {pid}) is killed by signal: {name}") if name else None
        if known is not None:
            return Complaint(root=outer, outer=outer, signature=known[0], found=known[1])
    return None


def _in_log(log: Sequence[str], but: Sequence[Raised] = (), *, child: bool = False) -> Complaint | None:
    """Return a log's last traceback outside ``but``, else native code's message; for a ``child``, only what
    ended another process."""
    known = {(raised.type, raised.message.split("\n")[0]) for raised in but}
    effect: Complaint | None = None
    by = ""
    for chain in reversed(chains_in_log(log)):
        first = root(chain)
        if (launched := _ROOT_CAUSE.search(first.message)) is not None:
            by = f"rank {launched[1]}"
        if (first.type, first.message.split("\n")[0]) in known or (child and not _is_elsewhere(chain, but)):
            continue
        complaint = _of_chain(chain, chain[-1])
        if not complaint.secondary and not complaint.of_child:
            return replace(complaint, root=replace(complaint.root, by=complaint.root.by or by))
        effect = effect or complaint
    words = last_words(log) if not child else None
    if words is not None and words.message:
        return _recognised(words, words, words)
    return effect if not child else None


def _is_elsewhere(chain: Sequence[Raised], own: Sequence[Raised]) -> bool:
    """Return whether a traceback in the log of a rank ended another process, or a thread."""
    programs = {raised.frames[0].file for raised in own if raised.frames}
    first = next(iter(chain[0].frames), None)
    if first is None or chain[0].by or STARTERS.search(first.file):
        return first is not None
    return first.function == "<module>" and first.file not in programs


def _of_chain(chain: Sequence[Raised], outer: Raised) -> Complaint:
    first = root(chain)
    # an exception that passes on another process's error adds nothing
    passed_on = any(raised.link == "inside" for raised in chain)
    return _recognised(first, outer, *((first,) if passed_on else (first, outer)))


def _recognised(first: Raised, outer: Raised, *searched: Raised) -> Complaint:
    """Return a complaint with the row of the first of ``searched`` that a row matches."""
    for text in dict.fromkeys(map(_searched, searched)):
        if (known := match(text)) is not None:
            return Complaint(root=first, outer=outer, signature=known[0], found=known[1])
    return Complaint(root=first, outer=outer)


def _searched(raised: Raised) -> str:
    """Return the text to match; common errors with their line."""
    if raised.frames and _ALIKE.search(raised.text):
        at = next((frame for frame in reversed(raised.frames) if frame.source), raised.frames[-1])
        return f"{raised.text} in {at.function}: {at.source}"
    if raised.message or not raised.frames:
        return raised.text
    return f"{raised.type}: {raised.frames[-1].source}"
