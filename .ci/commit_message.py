#!/usr/bin/env python3
"""Check commit messages: an imperative subject of at most 72 characters, and a body for all but tiny changes.

With a file, check the message in it (the commit-msg hook); without, each commit after the one that added
this check.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LONGEST = 72
# lines added and removed that need no reason
TINY = 6
VERBS = frozenset(
    [
        "Accept",
        "Add",
        "Agree",
        "Allow",
        "Answer",
        "Ask",
        "Assert",
        "Attach",
        "Await",
        "Begin",
        "Blame",
        "Block",
        "Break",
        "Bring",
        "Build",
        "Bump",
        "Call",
        "Cancel",
        "Cap",
        "Catch",
        "Change",
        "Check",
        "Choose",
        "Clean",
        "Close",
        "Collect",
        "Colour",
        "Compare",
        "Compile",
        "Complete",
        "Compute",
        "Connect",
        "Convert",
        "Copy",
        "Correct",
        "Count",
        "Cover",
        "Create",
        "Cut",
        "Decide",
        "Declare",
        "Delete",
        "Deprecate",
        "Describe",
        "Detect",
        "Divide",
        "Document",
        "Download",
        "Draw",
        "Drop",
        "Enable",
        "End",
        "Escape",
        "Exclude",
        "Execute",
        "Exit",
        "Expect",
        "Explain",
        "Export",
        "Expose",
        "Extend",
        "Fail",
        "Fetch",
        "Find",
        "Finish",
        "Fix",
        "Flush",
        "Fold",
        "Follow",
        "Forget",
        "Format",
        "Forward",
        "Free",
        "Freeze",
        "Gather",
        "Generate",
        "Give",
        "Go",
        "Grant",
        "Group",
        "Guard",
        "Handle",
        "Hide",
        "Hold",
        "Ignore",
        "Import",
        "Improve",
        "Include",
        "Inline",
        "Install",
        "Interrupt",
        "Introduce",
        "Join",
        "Keep",
        "Kill",
        "Launch",
        "Lead",
        "Leave",
        "Let",
        "Lift",
        "Limit",
        "Link",
        "List",
        "Listen",
        "Load",
        "Lock",
        "Log",
        "Look",
        "Lower",
        "Make",
        "Mark",
        "Mask",
        "Match",
        "Measure",
        "Mend",
        "Merge",
        "Mount",
        "Move",
        "Name",
        "Narrow",
        "Note",
        "Notify",
        "Offer",
        "Open",
        "Order",
        "Parse",
        "Pass",
        "Pause",
        "Pick",
        "Pin",
        "Place",
        "Point",
        "Poll",
        "Prefer",
        "Prepare",
        "Print",
        "Protect",
        "Prune",
        "Publish",
        "Pull",
        "Push",
        "Put",
        "Quote",
        "Raise",
        "Read",
        "Rebuild",
        "Record",
        "Recover",
        "Reduce",
        "Refactor",
        "Refuse",
        "Reject",
        "Release",
        "Reload",
        "Remember",
        "Remove",
        "Rename",
        "Render",
        "Reorder",
        "Repair",
        "Replace",
        "Report",
        "Request",
        "Require",
        "Reset",
        "Resolve",
        "Restart",
        "Restore",
        "Restrict",
        "Resume",
        "Retry",
        "Return",
        "Reuse",
        "Revert",
        "Rewrite",
        "Round",
        "Run",
        "Save",
        "Say",
        "Scale",
        "Search",
        "See",
        "Select",
        "Send",
        "Separate",
        "Serve",
        "Set",
        "Share",
        "Shorten",
        "Show",
        "Shrink",
        "Signal",
        "Simplify",
        "Size",
        "Skip",
        "Sort",
        "Speed",
        "Split",
        "Start",
        "State",
        "Stop",
        "Store",
        "Stream",
        "Support",
        "Suppress",
        "Swap",
        "Take",
        "Teach",
        "Tell",
        "Test",
        "Tighten",
        "Time",
        "Trace",
        "Track",
        "Treat",
        "Try",
        "Tune",
        "Type",
        "Undo",
        "Unify",
        "Unite",
        "Update",
        "Upgrade",
        "Upload",
        "Use",
        "Validate",
        "Wait",
        "Walk",
        "Warn",
        "Watch",
        "Widen",
        "Withdraw",
        "Wrap",
        "Write",
    ]
)


def fault(message: str, size: int) -> str | None:
    """Return what is wrong with a message of a change of ``size`` lines, or None."""
    subject, *body = message.strip().splitlines() or [""]
    if len(subject) > LONGEST:
        return f"the subject has {len(subject)} characters of {LONGEST}"
    if subject.split(" ")[0] not in VERBS:
        return "the subject begins with no verb in the imperative (.ci/commit_message.py has the list)"
    if subject.endswith(".") or ";" in subject:
        return "the subject is one change, without a full stop"
    if body and body[0]:
        return "an empty line stands between subject and body"
    if size > TINY and not any(line.strip() for line in body):
        return "a body says why"
    return None


def git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


def lines_of(numstat: str) -> int:
    """Return the lines added and removed, of ``git … --numstat``; those of binary files count as none."""
    rows = (row.split("\t") for row in numstat.splitlines() if row.count("\t") == 2)
    return sum(int(number) for row in rows for number in row[:2] if number.isdigit())


def commits() -> list[str]:
    """Return the commits that descend from the one that added this check, without merges."""
    added = git("log", "--format=%H", "--diff-filter=A", "--", str(Path(__file__))).split()
    return git("rev-list", "--no-merges", "--ancestry-path", f"{added[-1]}..HEAD").split() if added else []


def main(arguments: list[str]) -> int:
    if arguments:
        text = Path(arguments[0]).read_text(encoding="utf-8")
        message = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
        faults = {"this message": fault(message, lines_of(git("diff", "--cached", "--numstat")))}
    else:
        faults = {
            git("log", "-1", "--format=%h %s", commit).strip(): fault(
                git("log", "-1", "--format=%B", commit),
                lines_of(git("show", "--format=", "--numstat", commit)),
            )
            for commit in commits()
        }
    for name, text in faults.items():
        if text is not None:
            print(f"{name}: {text}", file=sys.stderr)
    return int(any(faults.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
