"""Tools for agents: nine plain functions that return data, offered by ``nbdist mcp`` and by Jupyter servers.

This module alone decides what an agent may do: read, and what NBDIST_TOOLS_ALLOW names besides. A mistake of
the caller returns an ``error`` with what to type instead; every argument has a limit. Words of ranks stand
below ``untrusted``, without secrets, at most ROOM bytes of them. An agent reads the docstrings.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import re
import shlex
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, ParamSpec

from nbdist import config, runner
from nbdist.errors import NbdistError, UsageMistake
from nbdist.feed.ansi import printable
from nbdist.feed.explanation import encode
from nbdist.feed.labels import clipped
from nbdist.feed.log_lines import LogLine, MergedLines, places_text
from nbdist.feed.view import RunView
from nbdist.feed.waiting import parse_moments
from nbdist.model import Reason
from nbdist.options import parse as parse_options
from nbdist.panel import StatusReader
from nbdist.privacy import Privacy
from nbdist.verbs import machines
from nbdist.verbs import runs as verbs
from nbdist.verbs.verb import Frontend
from nbdist.version import JSON_VERSION

ROOM = 8192  # bytes as JSON of the words of ranks, in one answer

Answer = dict[str, Any]
Parameters = ParamSpec("Parameters")

_LINE = 2000  # characters of a line, which in any script are less than ROOM
_NAME = 200
_TAIL = 1 << 17  # bytes at the end of a log, in which its last lines are looked for
_MOST = 10_000  # lines, or points
_LONGEST = 600.0  # seconds of one wait
_PRUNING = 0.5  # seconds for old runs
_ERROR = 1000  # characters of a message about a mistake
_TEXTS = {
    "run": (200, 'run="lenet", an id or a label of the tool runs'),
    "script": (4000, 'script="train.py --config lenet.yaml"'),
    "cell": (200_000, 'script="train.py", with the text in that file'),
    "options": (4000, 'options="-n 2 --name lenet"'),
    "until": (200, 'until="failed,step=500"'),
    "since": (100_000, 'since="0", or next of the answer before'),
    "grep": (200, 'grep="loss: nan"'),
}
"""The most characters of an argument, and an example."""
_NUMBERS = {"rank": "rank=0", "timeout": "timeout=50", "tail": "tail=50", "last": "last=20"}
_GREATEST = 10**9
# no program writes these between the words of a log
_EXPRESSION = re.compile(r"\.[*+]|\\[bBdDsSwW.()\[\]]|\w\|\w|\)[*+?]|\][*+?]|^\^|\$$")
_HERE = Frontend("the tool ", lambda _: None)
_IN_TOOLS = (
    ("%%distributed -n 2", 'start(script="train.py", options="-n 2")'),
    ("%dist_status", "the tool runs"),
    ("%dist_", _HERE.prefix),
    ("%env ", "export "),
    ("%pip ", "pip "),
    ("  and restart the kernel", ""),
)


def _answers(function: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """Check the function's arguments, add a version to its answer, and return its mistakes as answers."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def answer(*args: Parameters.args, **keywords: Parameters.kwargs) -> Answer:
        try:
            for name, value in signature.bind(*args, **keywords).arguments.items():
                _check(signature.parameters[name], value)
            return {"version": JSON_VERSION} | function(*args, **keywords)
        except NbdistError as mistake:
            return {"version": JSON_VERSION, "error": clipped(_as_tools(str(mistake)), _ERROR)}

    return answer


def _check(parameter: inspect.Parameter, value: object) -> None:
    """Raise UsageMistake for a value that the argument may not have."""
    name = parameter.name
    if value == parameter.default:
        return
    if name in _NUMBERS:
        kinds = int if parameter.annotation != "float" else (int, float)
        # nan is not less than any
        if not isinstance(value, kinds) or not abs(value) <= _GREATEST:
            raise UsageMistake(f"{name} is a number, at most {_GREATEST}: write  {_NUMBERS[name]}")
        return
    most, example = _TEXTS[name]
    if not isinstance(value, str):
        raise UsageMistake(f"{name} is a text: write  {example}")
    if len(value) > most:
        raise UsageMistake(f"{name} has {len(value)} characters, and may have {most}: write  {example}")


def _as_tools(message: str) -> str:
    """Return a message with the commands in it written for an agent."""
    for notebook, tool in _IN_TOOLS:
        message = message.replace(notebook, tool)
    return message


def _check_allowed(tool: str) -> None:
    if tool not in config.allowed_tools():
        raise _not_allowed(tool)


def _not_allowed(tool: str) -> UsageMistake:
    return UsageMistake(
        f"{tool} is not allowed here, only reading is: the user can allow it by  nbdist mcp --allow {tool}  "
        f"or, in the environment of a Jupyter server,  {config.TOOLS_ALLOW}={tool}"
    )


@_answers
def runs() -> Answer:
    """List the latest ten distributed training runs of nbdist, the newest first: id, name (label), state,
    whether it is live or stalled, seconds, ranks, progress, and the rank and line that failed first. Other
    tools take the id or the label as run."""
    directories = verbs.status(_HERE, run=()).directories()
    return {"runs": [_brief(view) for view in StatusReader(directories, failures=True).look(time.time())]}


def _brief(view: RunView) -> Answer:
    failure = view.failure
    return {
        "run_id": view.run_id,
        "label": view.label,
        "state": view.state,
        "live": view.live,
        "stalled": view.hangs,
        "elapsed": round(view.elapsed, 1),
        "world_size": len(view.ranks),
        "progress": view.progress.text if view.progress is not None else "",
        "failure": {"rank": failure.rank, "line": failure.line} if failure is not None else None,
    }


@_answers
def start(script: str = "", cell: str = "", options: str = "") -> Answer:
    """Start a distributed training run that goes on by itself, and return its id at once; then call wait.
    Give either script, as on a command line ("train.py --lr 0.1" or "-m package.train"), or cell, the text of
    a Python program. options are those of nbdist: "-n 2" for two CPU ranks, "--gpus 0,1", "--name lenet",
    "--timeout 1h"."""
    _check_allowed("start")
    planned, check = _planned(script, cell, options)
    if planned.token:
        raise UsageMistake(
            "--nodes: the other machines need a line that only a terminal shows: nbdist run -d …"
        )
    # a tool has no terminal, and takes no signals
    interrupts = runner.Interrupts(lambda _: Reason("interrupted"), raises=False)
    handle, notes = runner.launch(planned, interrupts, check=check, pruning=_PRUNING)
    return {"run_id": handle.run_id, "label": handle.run.label, "notes": list(map(_as_tools, notes))}


def _planned(script: str, cell: str, line: str) -> tuple[runner.Plan, bool]:
    """Return the plan, and whether to check it before. Raises UsageMistake and LaunchError."""
    if bool(script.strip()) == bool(cell.strip()):
        raise UsageMistake(
            'give one of the two:  script="train.py --lr 0.1"  or  cell="the text of a program"'
        )
    first, newline, below = cell.partition("\n")
    if first.startswith("%%distributed"):
        # the other lines keep their numbers
        line, cell = f"{first.removeprefix('%%distributed')} {line}", newline + below
    chosen = parse_options(f"-d {line}")
    if not script.strip():
        try:
            planned = runner.plan(chosen, cell=cell, cwd=os.getcwd(), python_path=["", *sys.path])
        except SyntaxError as error:
            raise UsageMistake(f"line {error.lineno} of the cell does not compile: {error.msg}") from None
        return planned, chosen.check
    if chosen.args:
        raise UsageMistake('--args: write them behind the script:  script="train.py --lr 0.1"')
    try:
        words = shlex.split(script)
    except ValueError as error:
        raise UsageMistake(f"script: {error}: write it as on a command line:  train.py --lr 0.1") from None
    return runner.plan_script(chosen, words, cwd=os.getcwd()), chosen.check


@_answers
def wait(run: str = "", until: str = "ended,stalled", timeout: float = 50.0) -> Answer:
    """Wait for the first of these moments of a run (the latest where none is named): running, stalled, failed
    (a rank), finished, ended, step=N. What has come before counts. moment is the one that came; null with
    late true after timeout seconds (at most 600): the run goes on, call again. null with late false: it has
    ended without."""
    moments, seconds = parse_moments(until, "until="), min(max(timeout, 0.0), _LONGEST)
    return verbs.wait(_HERE, run=run or None, until=moments, timeout=seconds).to_dict()


@_answers
def explain(run: str = "") -> Answer:
    """Say why a run (the latest where none is named) stands as it does: the rank that failed first, its line
    of the program with the source around it, cause and fix where they are known; where ranks of a stalled run
    wait; the slowest rank; where the time goes. At most 2 kB. Call it first when a run has failed."""
    return verbs.explain(_HERE, run=run or None, json=True).explanation.to_dict(apart=True)


@_answers
def logs(run: str = "", rank: int | None = None, since: str = "", tail: int = 50, grep: str = "") -> Answer:
    """Read what the ranks of a run (the latest) printed: the last lines of each rank (tail); or with since,
    which is next of the answer before, all lines from there on, the oldest first, none twice and none lost
    ("0": from the first). more: not all fitted into 8 kB; with since, call again with next. grep is a text
    that the lines have in them, in capitals or not; it is no regular expression."""
    _check_plain(grep)
    places = verbs.log_places(since) if since else None
    request = verbs.logs(_HERE, run=run or None, rank=rank, tail=None, grep=None, json=True, since=places)
    readers, stands, word = request.readers(), request.handle.run, grep.casefold()
    if since:
        merged = MergedLines(readers, stands)
        kept, more = _fitting(line for line in merged if word in line.text.casefold())
        behind = merged.next
    else:
        last: list[LogLine] = []
        for reader in readers:
            if not grep:
                reader.skip(_TAIL)
            lines = (line for line in reader.read(stands) if word in line.text.casefold())
            last += deque(lines, maxlen=min(max(tail, 1), _MOST))
        kept, more = _fitting(sorted(last, key=lambda line: line.time)[::-1])
        kept.reverse()
        behind = places_text({reader.rank: reader.next for reader in readers})
    answer = {"run_id": stands.run_id, "state": stands.state.value, "next": behind, "more": more}
    return answer | {"untrusted": {"lines": kept}}


def _check_plain(grep: str) -> None:
    """Raise UsageMistake for a regular expression, which may take for ever and hold the server."""
    if _EXPRESSION.search(grep):
        plain = 'it is plain text, no regular expression: write a part of the line:  grep="loss: nan"'
        raise UsageMistake(f'grep="{grep}": {plain}')


def _fitting(lines: Iterable[LogLine]) -> tuple[list[Answer], bool]:
    """Return the lines for which there is room, and whether there are more."""
    kept: list[Answer] = []
    room = ROOM
    for line in lines:
        entry = {"rank": line.rank, "offset": line.offset, "text": clipped(line.text, _LINE)}
        room -= len(encode(entry).encode()) + 1
        if room < 0:
            return kept, True
        kept.append(entry)
    return kept, False


@_answers
def metrics(run: str = "", last: int = 20) -> Answer:
    """Read the last points of each metric that the ranks of a run (the latest) recorded or printed, such as
    loss: step and value, the mean over the ranks. more: not all of them fitted into 8 kB."""
    read = verbs.metrics(_HERE, run=[run] if run else [], last=min(max(last, 1), _MOST))
    (answer,) = read.to_list()
    clean = Privacy(read.runs[0][0].spec).clean
    points = {clipped(clean(tag), _NAME): curve for tag, curve in answer.pop("metrics").items()}
    more = False
    while len(encode(points).encode()) > ROOM:
        more, longest = True, max(map(len, points.values()))
        if longest > 1:
            points = {tag: curve[-(longest // 2) :] for tag, curve in points.items()}
        else:
            points = dict(list(points.items())[: len(points) // 2])
    return answer | {"more": more, "untrusted": {"metrics": points}}


@_answers
def stacks(run: str = "") -> Answer:
    """Say where every rank of a run (the latest) is, which ranks wait for which and why, without stopping
    them. now is false where the ranks were not asked: then it is where they were when nbdist last looked."""
    handle = runner.attach(run or None)
    # it reads programs, which most answers do not need
    from nbdist.diagnosis.stack_text import sentence, stacks_text
    from nbdist.diagnosis.stacks import last_stacks, take_stacks

    stands = handle.run
    # an agent that may start or stop runs may also interrupt their ranks for it
    asks = bool(config.allowed_tools()) and not stands.state.terminal
    report = take_stacks(handle.directory) if asks else last_stacks(stands, handle.directory)
    if report is None and stands.state.terminal:
        raise UsageMistake(f"{stands.label} has ended, and no stacks of it were taken: call explain")
    if report is None:
        raise _not_allowed("stacks")
    clean, hint = Privacy(stands.spec).clean, report.hint
    lines = clean(stacks_text(report)).split("\n")
    return {
        "run_id": stands.run_id,
        "label": stands.label,
        "now": asks and not report.problem,
        "after": round(report.after, 1),
        "behind": report.behind,
        "cause": clean(hint.cause.en) if hint is not None else "",
        "fix": clean(hint.fix.en) if hint is not None else "",
        "problem": report.problem,
        "untrusted": {
            "where": clipped(printable(clean(sentence(report))), _LINE),
            "text": _cut("\n".join(map(printable, lines))),
        },
    }


@_answers
def stop(run: str) -> Answer:
    """Stop a run that goes on, and wait for its end (SIGINT, then SIGTERM, then SIGKILL): its ranks still
    reach their finally. Stop only runs that you have started, or that you were asked to stop."""
    _check_allowed("stop")
    handle = runner.attach(run)
    stopped = verbs.stop(_HERE, run=handle.run_id, all=False)
    note = next(iter(stopped.going_on), "")
    return {"run_id": handle.run_id, "state": handle.status, "live": bool(note), "note": note}


@_answers
def doctor() -> Answer:
    """Check what works on this machine and what does not (Python, frameworks, GPUs, memory, disk, network),
    and say what to type where something is missing. Takes some seconds."""
    report = machines.doctor(
        _HERE, smoke=False, fix=False, on=None, nodes=None, slurm=None, ray=None, wait=None
    ).report
    fields = ("section", "title", "level", "what", "fix")
    entries = [{name: entry[name] for name in fields} for entry in report.to_dict()["entries"]]
    return {"healthy": report.healthy, "seconds": round(report.seconds, 1), "entries": entries}


def _cut(text: str) -> str:
    """Return as much of a text as there is room for."""
    kept = text.encode()[: ROOM // 2].decode(errors="ignore")
    return text if kept == text else f"{kept}\n…"


TOOLS: list[Callable[..., Answer]] = [runs, start, wait, explain, logs, metrics, stacks, stop, doctor]
"""For Jupyter AI (the entry point group ``jupyter_ai.tools``) and ``nbdist mcp``."""

_PREFIX = "nbdist_"
OFFERED = [f"{__name__}:{_PREFIX}{tool.__name__}" for tool in TOOLS]
"""For jupyter-server-mcp (the group ``jupyter_server_mcp.tools``). It offers the functions of all packages
side by side under their own names; some releases call those that are not async in the event loop."""


def __getattr__(name: str) -> Callable[..., Awaitable[Answer]]:
    """Return a tool of OFFERED: ``nbdist_start``. Raises AttributeError."""
    tool = next((tool for tool in TOOLS if name == _PREFIX + tool.__name__), None)
    if tool is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    @functools.wraps(tool)
    async def offered(*args: Any, **keywords: Any) -> Answer:
        return await asyncio.to_thread(tool, *args, **keywords)

    offered.__name__ = name
    return offered
