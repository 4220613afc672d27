"""The complaint of one rank: the exception that left its program, or the last words in its log."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nbdist.diagnosis.known import Role, Signature, match
from nbdist.diagnosis.tracebacks import Raised, chains_in_log, last_words, parse, root
from nbdist.store import ErrorReport

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
# classes by which a process learns that one it had started has failed
_OF_CHILDREN = re.compile(
    r"^(?:subprocess|multiprocessing|concurrent\.futures\.process|torch\.(?:multiprocessing|distributed\.elastic)"
    r"|[\w.]*loky[\w.]*)\.\w+$"
)
_STARTERS = re.compile(r"^<|/(?:multiprocessing|concurrent/futures)/\w+\.py$")
"""Files in which the stack of a process begins that Python has started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One rank's error: ``root`` caused it, ``outer`` left the program. ``found`` is the match of
    ``signature``. ``child`` is what a process that the rank had started raised before that, where ``outer``
    does not tell of it."""

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
        """Return whether it only reports that a process failed which the rank had started."""
        return self.role is Role.CHILD or _OF_CHILDREN.match(self.root.type) is not None

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
    printed = _in_log(report.printed.splitlines(), but=chain) or _in_log(log, but=chain, child=True)
    if complaint.of_child or leaving:
        printed = printed or _in_log(log[-_NEAR_THE_END:] if leaving else log, but=chain)
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
    """Return a log's last traceback outside ``but``, else native code's message. Of several processes that
    mark their lines, return that of the first to fail; for a ``child``, only what surely ended another
    process."""
    known = {(raised.type, raised.message.split("\n")[0]) for raised in but}
    by_process: dict[str, list[tuple[Raised, ...]]] = {}
    for chain in chains_in_log(log):
        by_process.setdefault(chain[0].by, []).insert(0, chain)
    effect: Complaint | None = None
    for chain in (chain for chains in by_process.values() for chain in chains):
        first = root(chain)
        if (first.type, first.message.split("\n")[0]) in known or (child and not _is_elsewhere(chain, but)):
            continue
        complaint = _of_chain(chain, chain[-1])
        if not complaint.secondary and not complaint.of_child:
            return complaint
        effect = effect or complaint
    if child:
        return None
    words = last_words(log)
    if words is not None and words.message:
        return _recognised(words, words, words)
    return effect


def _is_elsewhere(chain: Sequence[Raised], own: Sequence[Raised]) -> bool:
    """Return whether a traceback in the log of a rank ended another process than the rank itself."""
    frames, programs = chain[0].frames[:1], {raised.frames[0].file for raised in own if raised.frames}
    begins = any(
        _STARTERS.search(frame.file) or (frame.function == "<module>" and frame.file not in programs)
        for frame in frames
    )
    return bool(begins or (chain[0].by and frames))


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
    """Return the text to match; common errors with their line, exits with their file."""
    if raised.type == "SystemExit" and raised.frames:
        return f"{raised.text} in {os.path.basename(raised.frames[-1].file)}"
    if raised.frames and _ALIKE.search(raised.text):
        at = next((frame for frame in reversed(raised.frames) if frame.source), raised.frames[-1])
        return f"{raised.text} in {at.function}: {at.source}"
    if raised.message or not raised.frames:
        return raised.text
    return f"{raised.type}: {raised.frames[-1].source}"
