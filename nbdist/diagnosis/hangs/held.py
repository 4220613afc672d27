"""What holds a rank that waits for no other rank: a lock, a thread or a process of its own, the network."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Mapping, Sequence

from nbdist.diagnosis.hangs.endless import endless, retrying, spent
from nbdist.diagnosis.hangs.kept import kept
from nbdist.diagnosis.hangs.locks import locked
from nbdist.diagnosis.hangs.moments import told_names
from nbdist.diagnosis.hangs.parting import passed_by
from nbdist.diagnosis.hangs.reading import has_no_workers, no_batches
from nbdist.diagnosis.places import Sources, call_on_line, parsed, place_of
from nbdist.diagnosis.sides import Side, hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import (
    LOOPS,
    around,
    calls_of_function,
    counts_to_its_end,
    first_given,
    head,
    holds,
    is_collective,
    node_at,
    own_nodes,
    ways_out,
)
from nbdist.store.reports import Call
from nbdist.text import Both, both

# calls that threads and processes of the rank itself end
_OF_ITS_OWN = frozenset({"get", "put", "join", "acquire", "wait", "result", "communicate", "map", "recv"})
_OF_PROGRAMS = frozenset({"system", "waitpid", "wait4"})
_PIPES = re.compile(r"\b(std(?:in|out|err))\s*=\s*(?:\w+\.)?PIPE")
_OF_PIPES = re.compile(r"\bstd(?:out|err)\.(?:read|readline|readlines)$")
_OF_SOCKETS = frozenset({"recv", "recv_into", "recvfrom", "accept", "connect"})
_OF_SIGNALS = frozenset({"pause", "sigwait", "sigwaitinfo", "sigtimedwait"})
_OF_FILES = frozenset({"flock", "lockf"})
_QUEUES = frozenset({"queue.py", "queues.py"})
_OF_ASYNCIO = frozenset({"runners.py", "base_events.py"})
_OF_POOLS = frozenset({"map", "starmap", "imap", "apply", "get", "next", "wait"})
_ENDS = frozenset({"sys.exit", "os._exit", "exit", "quit", "SystemExit"})
_OF_THREADS = frozenset({"", "threading.py", "queue.py", "_base.py", "thread.py"})
# what the interpreter calls when the program has come to its end
_AT_THE_END = frozenset({"_shutdown", "_exit_function", "_python_exit"})
# a process that has ended waits there until all that it put into a queue was read
_HANDS_OVER = frozenset({"_finalize_join", "join_thread"})
_FEW = 3
"""Of the lines that set a key of the store, so many are named."""

_OF_STORES = frozenset({"get", "wait", "multi_get", "barrier"})
_WAITS = re.compile(r"(?:get|recv\w*|acquire|wait|accept|select|join|read\w*|sleep|communicate)$")
"""What a worker may be held by."""

_STORE = re.compile(r"(?<!re)store", re.IGNORECASE)
_OF_CLOCK = re.compile(r"\b(?:time|time_ns|monotonic|perf_counter|now)\(")
_NUMBER = re.compile(r"None|True|False|-?\d[\d.e+-]*")
_ASKS_FOR_FILES = re.compile(r"(?!not )[\w.()'\" /+,]*\b(?:exists|is_?file|is_?dir|glob|listdir|iterdir)\(")
_OF_DATASETS = frozenset({"__getitem__", "__iter__"})
_IS_THERE = re.compile(r"FileExistsError: \[Errno 17\] [^:]*: '(?P<path>/[^']*)'$")
_RAISED_AT = re.compile(r"\(line (?P<line>\d+)\)$")
_SCRIPT = re.compile(r"[\w./-]+\.py")
_MAKES_GROUP = re.compile(r"\b(?:init_process_group|init_parallel_env|init_distributed|Accelerator)\(")
_LISTENS = frozenset({"accept", "handle_request", "serve_forever"})


def of_held(side: Side, waiting: Sequence[Side], sources: Sources) -> Hint | None:
    """What holds these ranks; ``waiting`` are those that wait for others."""
    call = side.place.what.rpartition(".")[2]
    if side.place.loads:
        if (tries := retrying(side, sources)) is not None:
            return tries
        known = _of_workers(side, sources) or _of_reading(side, waiting, sources)
        return known or hint("hang-loader", who=side.ranks)
    if (there := of_lock_file(side, sources)) is not None:
        return there
    if call == "sleep" and (loop := _poll(side, waiting, sources)) is not None:
        asked = side.had(side.way[-1].file, loop.lineno)
        plain = [f"{name} = {what}" for name, what in asked.items() if _NUMBER.fullmatch(what)]
        if _waits_for_file(loop):
            values: dict[str, object] = {"test": head(loop), "line": loop.lineno}
            names = told_names(dict.fromkeys(call.file for call in reversed(side.way)), sources)
            if waiting and not names.en:
                others = tuple(sorted(rank for other in waiting for rank in other.ranks))
                values |= {"others": others, "call": waiting[0].call}
                return hint("hang-polls-file-past", who=side.ranks, **values)
            return hint("hang-polls-file", who=side.ranks, **values, names=names)
        now = both("diagnosis.now", values=", ".join(plain)) if plain else Both("", "")
        return hint("hang-polls", who=side.ranks, test=head(loop), line=loop.lineno, now=now)
    if side.place.built_in and call in _OF_STORES and _is_of_store(side):
        return _of_store(side, waiting, sources)
    if side.place.within == "file_baton.py":
        own = any("FileBaton(" in sources.text(call.file) for call in side.way)
        name = "hang-file-baton-own" if own else "hang-file-baton"
        return hint(name, who=side.ranks, call=side.place.what)
    if not side.way and side.place.what in _AT_THE_END:
        if any(call.function in _HANDS_OVER for call in side.calls):
            return hint("hang-queue-at-the-end", who=side.ranks)
        if waiting:
            others = tuple(sorted(rank for other in waiting for rank in other.ranks))
            values = {"who": side.ranks, "others": others, "call": waiting[0].call}
            return hint("hang-ended-early", **values, beside=_beside(side))
        return hint("hang-at-the-end", who=side.ranks, beside=_beside(side))
    found = (
        passed_by(side, waiting, sources) or locked(side, waiting, sources) or _by_call(side, call, sources)
    )
    return found or _going_on(side, waiting, sources)


def of_lock_file(side: Side, sources: Sources) -> Hint | None:
    """Of ranks that could not make a file which is there already, and sleep until it is gone."""
    there = _IS_THERE.match(side.handled) if side.place.what.endswith("sleep") else None
    if there is None:
        return None
    try:
        made = os.stat(there["path"]).st_mtime
    except OSError:
        return None
    is_old = sources.begun is not None and made < sources.begun
    name = "hang-lock-file-old" if is_old else "hang-lock-file"
    found, left = kept(side.way, sources), Both("", "")
    if found is not None:
        left = both("diagnosis.left-before", at=found.left.lineno, left=head(found.left), owner=found.owner)
    return hint(name, who=side.ranks, file=sources.name(there["path"]), left=left)


def _tests(loop: ast.stmt) -> list[ast.expr]:
    """What a loop asks for, to go on or to end."""
    tests = [loop.test] if isinstance(loop, ast.While) else []
    return tests + [node.test for node in ways_out(loop) if isinstance(node, ast.If)]


def _waits_for_file(loop: ast.stmt) -> bool:
    """Whether a loop goes on until there is a file: not one that waits for a lock file to be gone."""
    if isinstance(loop, ast.While) and isinstance(loop.test, ast.UnaryOp):
        asked = loop.test.operand
        # a file that is there may be too small yet
        parts = asked.values if isinstance(asked, ast.BoolOp) else [asked]
        return all(_ASKS_FOR_FILES.search(ast.unparse(part)) for part in parts)
    ways = (node for node in ways_out(loop) if isinstance(node, ast.If))
    return any(_ASKS_FOR_FILES.match(ast.unparse(node.test)) for node in ways)


def waits_for_other_file(
    side: Side, waiting: Sequence[Side], raised: Mapping[int, str], sources: Sources
) -> bool:
    """Whether ranks look for a file again and again that the function in which a thread of theirs has raised
    knows nothing of."""
    error = next((raised[rank] for rank in side.ranks if rank in raised), "")
    at = _RAISED_AT.search(error)
    loop = _poll(side, waiting, sources) if side.place.what.endswith("sleep") else None
    if at is None or loop is None or not _waits_for_file(loop):
        return False
    tree = parsed(sources.text(side.way[-1].file)) or ast.Module([], [])
    modules = {
        (one.asname or one.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for one in node.names
    }
    asked = set().union(*map(_words, _tests(loop))) - modules
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    within = [node for node in functions if holds(node, int(at["line"]))]
    return bool(within) and not asked & _words(within[0])


def _words(within: ast.AST) -> set[str]:
    """The names in a part of a program, but for the functions that it calls."""
    nodes = list(ast.walk(within))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    read = [node for node in nodes if id(node) not in called]
    names = {node.id for node in read if isinstance(node, ast.Name)}
    return (names | {node.attr for node in read if isinstance(node, ast.Attribute)}) - {"self"}


def loop_of_reader(side: Side, sources: Sources) -> Hint | None:
    """Of ranks that wait for their DataLoader: the loop in which their dataset was then."""
    readers = [*_ways_of_workers(side, sources), *_ways_of_readers(side)] if side.place.loads else []
    for way in readers:
        if way and (loop := _loop_of_reader(way, sources)) is not None:
            return hint(
                "reads-in-loop", who=side.ranks, test=head(loop), line=loop.lineno, at=_end(way, sources)
            )
    return None


def _ways_of_workers(side: Side, sources: Sources) -> list[tuple[Call, ...]]:
    """The calls of each DataLoader worker in the user's files, outermost first."""
    return [tuple(call for call in reversed(one) if sources.is_own(call.file)) for one in side.workers]


def _ways_of_readers(side: Side) -> list[tuple[Call, ...]]:
    """Those of the threads that read: without workers, paddle reads in one."""
    return [way for way in side.beside if any(call.function in _OF_DATASETS for call in way)]


def _of_workers(side: Side, sources: Sources) -> Hint | None:
    """Where in the program the DataLoader workers of these ranks are."""
    if (child := _child(side, sources)) is not None:
        ways = _ways_of_workers(side, sources) if _WAITS.search(child[0]) is None else []
        loop = next(filter(None, (_loop_of_reader(way, sources) for way in ways)), None)
        if loop is not None:
            return hint("hang-loader-loops", who=side.ranks, test=head(loop), line=loop.lineno, at=child[1])
        return hint("hang-loader-at", who=side.ranks, call=child[0], line=child[1])
    for way in _ways_of_readers(side):
        return hint("hang-loader-in-thread", who=side.ranks, line=_end(way, sources))
    return None


def _of_reading(side: Side, waiting: Sequence[Side], sources: Sources) -> Hint | None:
    """Of ranks that read by themselves."""
    if not has_no_workers(side, sources):
        return None
    if (none := no_batches(side, sources)) is not None:
        return none
    found = _going_on(side, waiting, sources)
    return hint("hang-reads", who=side.ranks) if found is None or found.signature == "hang-busy" else found


def _child(side: Side, sources: Sources) -> tuple[str, str] | None:
    """The call, or else the source, of the line that a forked process is in, and its number."""
    for calls in side.workers:
        own = next((call for call in calls if sources.is_own(call.file)), None)
        if own is not None:
            what = place_of(calls, sources).what or sources.line(own.file, own.line)
            return what, _end((own,), sources)
    return None


def _loop_of_reader(way: Sequence[Call], sources: Sources) -> ast.While | None:
    """The loop without a number of rounds that it is in; none that hands out samples, round by round."""
    calls = reversed(way)
    loops = (node for call in calls for node, part in reversed(around(call, sources)) if part == "body")
    loop = next((node for node in loops if isinstance(node, ast.While)), None)
    if loop is None or counts_to_its_end(loop):
        return None
    return None if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in own_nodes(loop)) else loop


def _end(way: Sequence[Call], sources: Sources) -> str:
    call = way[-1]
    return f"{'' if sources.is_program(call.file) else sources.name(call.file) + ':'}{call.line}"


def _is_of_store(side: Side) -> bool:
    """By its name, or by what that stood for: a PrefixStore may be called anything."""
    owner, at = side.place.what.rpartition(".")[0], side.way[-1] if side.way else None
    kind = side.had(at.file, at.line).get(owner, "") if at is not None else ""
    return _STORE.search(side.place.what) is not None or kind.endswith("Store")


def _of_store(side: Side, waiting: Sequence[Side], sources: Sources) -> Hint:
    """Of ranks that wait for a key, which another one may set only behind where it waits for these."""
    values = {"who": side.ranks, "call": side.place.what}
    asked = first_given(side.way[-1], side.place.what.rpartition(".")[2], sources) if side.way else ""
    for other in waiting:
        for here in other.way:
            for call in calls_of_function("set", here.file, sources):
                behind = call.function == here.function and call.line > here.line
                if behind and asked and first_given(call, "set", sources) == asked:
                    told = {"others": other.ranks, "other": other.call, "line": call.line, "at": here.line}
                    return hint("hang-store-behind", **values, **told)
    return hint("hang-store", **values, keys=_keys(side, sources))


def _keys(side: Side, sources: Sources) -> Both:
    """The key that is waited for, and those that are set in the same file, as they are written."""
    if not side.way:
        return Both("", "")
    asked = first_given(side.way[-1], side.place.what.rpartition(".")[2], sources)
    sets = [
        (call.line, key)
        for call in calls_of_function("set", side.way[-1].file, sources)
        if (key := first_given(call, "set", sources))
    ]
    if not asked or not 0 < len(sets) <= _FEW:
        return Both("", "")
    told = [both("diagnosis.sets", line=line, key=key) for line, key in sets]
    places = Both(", ".join(one.en for one in told), "，".join(one.zh for one in told))
    return both("diagnosis.asked-and-set", line=side.way[-1].line, asked=asked, places=places)


def may_be_fed(side: Side) -> bool:
    """Whether a thread or a process of these ranks is to end what they wait in."""
    call = side.place.what.rpartition(".")[2]
    return side.place.loads or call in _OF_ITS_OWN or call == "sleep" or call.startswith("with ")


def _by_call(side: Side, call: str, sources: Sources) -> Hint | None:
    place, what = side.place, side.place.what
    text = sources.text(side.way[-1].file) if side.way else ""
    if place.on_network or (place.built_in and call in _OF_SOCKETS and "socket" in text):
        return hint("hang-accepts" if call in _LISTENS else "hang-network", who=side.ranks, call=what)
    if call in _OF_SIGNALS:
        return hint("hang-signal", who=side.ranks, call=what)
    if call in _OF_FILES:
        return hint("hang-file-lock", who=side.ranks, call=what)
    if call == "wait" and place.within == "subprocess.py" and (pipes := _pipes(side, sources)):
        return hint("hang-pipes" if "stdin" in pipes else "hang-pipe", who=side.ranks, call=what)
    if place.within == "subprocess.py" or call in _OF_PROGRAMS or _OF_PIPES.search(what):
        if (started := _of_ranks(side, sources)) is not None:
            return hint("hang-program-of-ranks", who=side.ranks, call=what, started=started)
        return hint("hang-program", who=side.ranks, call=what)
    if call == "join" and any(one.function in _HANDS_OVER for calls in side.workers for one in calls):
        return hint("hang-join-queue", who=side.ranks, call=what)
    if call == "join" and place.within in _QUEUES:
        return hint("hang-join-tasks", who=side.ranks, call=what)
    if call == "join" and (found := _of_thread(side, sources)) is not None:
        return found
    if call == "join":
        return hint("hang-join", who=side.ranks, call=what, beside=_beside(side))
    if any("/filelock/" in one.file for one in side.calls):
        return _of_filelock(side, sources)
    if call in _OF_ITS_OWN and (child := _child(side, sources)) is not None:
        return hint("hang-child-at", who=side.ranks, call=what, child=child[0], line=child[1])
    if place.within == "pool.py" and call in _OF_POOLS and (ends := _leaves_pool(side, sources)) is not None:
        return hint("hang-pool-left", who=side.ranks, call=what, **ends)
    if place.within == "pool.py" and call in _OF_POOLS:
        return hint("hang-pool", who=side.ranks, call=what)
    if place.within in _OF_ASYNCIO:
        return hint("hang-await", who=side.ranks, call=what)
    if call in _OF_ITS_OWN and (found := _of_thread(side, sources)) is not None:
        return found
    if call == "result" and (line := _in_one_pool(side, sources)):
        return hint("hang-pool-in-itself", who=side.ranks, call=what, line=line)
    if call == "acquire" and (held := kept(side.way, sources)) is not None:
        values = {"owner": held.owner, "line": held.line, "at": held.left.lineno, "left": head(held.left)}
        return hint("hang-kept", who=side.ranks, call=what, **values)
    if call in _OF_ITS_OWN or what.startswith("with "):
        return hint("hang-inside", who=side.ranks, call=what, beside=_beside(side))
    return None


def _of_filelock(side: Side, sources: Sources) -> Hint:
    """Of a lock of the filelock library: one of the soft kind is a file that is there, also of a process
    that was killed."""
    at = side.way[-1] if side.way else None
    text = sources.text(at.file) if at is not None else ""
    line = _end((at,), sources) if at is not None else "?"
    return hint(
        "hang-soft-lock" if "SoftFileLock(" in text else "hang-lock-of-file", who=side.ranks, line=line
    )


def _leaves_pool(side: Side, sources: Sources) -> dict[str, object] | None:
    """What ends the process in the function that a pool was given in this line: an exit is no error there."""
    at = side.way[-1] if side.way else None
    statement = node_at(at, sources) if at is not None else None
    if at is None or statement is None:
        return None
    calls = [one for one in own_nodes(statement) if isinstance(one, ast.Call) and one.args]
    tasks = {ast.unparse(one.args[0]) for one in calls if ast.unparse(one.func) == side.place.what}
    functions = [
        one
        for one in ast.walk(parsed(sources.text(at.file)) or ast.Module([], []))
        if isinstance(one, ast.FunctionDef) and one.name in tasks
    ]
    for task in functions if len(functions) == 1 else ():
        for one in (one for each in task.body for one in own_nodes(each) if isinstance(one, ast.Call)):
            if ast.unparse(one.func) in _ENDS:
                return {"left": ast.unparse(one), "at": one.lineno, "task": task.name}
    return None


def _in_one_pool(side: Side, sources: Sources) -> str:
    """The line in which all the threads that do something wait for a task, as those of a pool that are in
    tasks: a thread that was free would do it. Empty where one does something else."""
    lines = {_end(way, sources) for way in side.beside}
    waits = (call_on_line(sources.text(way[-1].file), way[-1].line) for way in side.beside)
    is_all = side.place.within == "_base.py" and not side.workers
    return lines.pop() if is_all and len(lines) == 1 and all(one.endswith(".result") for one in waits) else ""


def _of_thread(side: Side, sources: Sources) -> Hint | None:
    """Of ranks one of whose threads waits for other ranks."""
    for way in side.beside:
        inner = call_on_line(sources.text(way[-1].file), way[-1].line)
        if is_collective(inner):
            values = {"call": side.place.what, "inner": inner, "line": _end(way, sources)}
            return hint("hang-thread-waits", who=side.ranks, **values)
    return None


def _pipes(side: Side, sources: Sources) -> set[str]:
    """The pipes that the program has which these ranks wait for, where it writes into one: by the lines that
    start it, where it is known by a name, else by those of the file."""
    file, owner = side.way[-1].file if side.way else "", side.place.what.rpartition(".")[0]
    nodes = ast.walk(parsed(sources.text(file)) or ast.Module([], []))
    sets = [ast.unparse(node) for node in nodes if isinstance(node, ast.Assign | ast.withitem)]
    named = rf"^{re.escape(owner)} = |\bas {re.escape(owner)}$"
    started = [one for one in sets if "Popen(" in one and owner and re.search(named, one)]
    pipes = {pipe for one in started or [sources.text(file)] for pipe in _PIPES.findall(one)}
    return pipes if pipes - {"stdin"} else set()


def _of_ranks(side: Side, sources: Sources) -> str | None:
    """The program beside this one that a file names, and that makes a process group itself: started with the
    environment of a rank, it waits for the other ranks of this run."""
    file = side.way[-1].file if side.way else ""
    nodes = list(ast.walk(parsed(sources.text(file)) or ast.Module([], [])))
    if any(isinstance(node, ast.keyword) and node.arg == "env" for node in nodes):
        return None
    texts = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    for name in (name for text in texts for name in _SCRIPT.findall(text)):
        if _MAKES_GROUP.search(sources.text(os.path.join(os.path.dirname(file), name))):
            return str(name)
    return None


def _going_on(side: Side, waiting: Sequence[Side], sources: Sources) -> Hint | None:
    if (found := endless(side, waiting, sources) or retrying(side, sources)) is not None:
        return found
    if waiting and (over := spent(side, sources)) is not None:
        return over
    loop = _loop_of(side, waiting, sources, (ast.While,))
    # what counts to its end is slow
    if isinstance(loop, ast.While) and waiting and not counts_to_its_end(loop):
        end = loop.end_lineno or loop.lineno
        values = {"who": side.ranks, "test": head(loop), "line": loop.lineno, "end": end}
        yields = [node.lineno for node in own_nodes(loop) if isinstance(node, ast.Yield | ast.YieldFrom)]
        if yields and not any(call.line in yields for call in side.way):
            return hint("hang-yields-nothing", **values, at=yields[0])
        if not isinstance(loop.test, ast.Constant) and not _OF_CLOCK.search(ast.unparse(loop.test)):
            had = side.had(side.way[-1].file, loop.lineno)
            now = both("diagnosis.now", values=", ".join(f"{name} = {what}" for name, what in had.items()))
            return hint("hang-stays-true", **values, now=now if had else Both("", ""))
        return hint("hang-goes-round", **values)
    if waiting and side.place.what:
        others = tuple(sorted(rank for other in waiting for rank in other.ranks))
        return hint("hang-busy", who=side.ranks, others=others, call=side.place.what)
    return None


def _beside(side: Side) -> Both:
    """Where the other threads of the program are, or that there are none."""
    ends = [way[-1] for way in side.beside if way]
    # of a process, threads tell nothing
    if len(side.ranks) > 1 or side.place.within not in _OF_THREADS:
        return Both("", "")
    lines = ", ".join(str(end.line) for end in ends)
    return both("diagnosis.beside", lines=lines) if ends else both("diagnosis.alone")


def _poll(side: Side, waiting: Sequence[Side], sources: Sources) -> ast.stmt | None:
    """The loop that asks again and again for something: it calls what tells, and counts nothing itself."""
    loop = _loop_of(side, waiting, sources, LOOPS)
    if loop is None:
        return None
    tests = [node.test for node in own_nodes(loop) if isinstance(node, ast.If) and node in ways_out(loop)]
    tests += [loop.test] if isinstance(loop, ast.While) else []
    asks = any(isinstance(node, ast.Call | ast.Attribute) for test in tests for node in ast.walk(test))
    counted = {ast.unparse(node.target) for node in own_nodes(loop) if isinstance(node, ast.AugAssign)}
    asked = {ast.unparse(node) for test in tests for node in ast.walk(test) if isinstance(node, ast.Name)}
    return loop if asks or (isinstance(loop, ast.While) and not counted & asked) else None


def _loop_of(
    side: Side, waiting: Sequence[Side], sources: Sources, kinds: tuple[type[ast.stmt], ...]
) -> ast.stmt | None:
    """The innermost loop of these kinds that these ranks are in, and those that wait are not."""
    # slow work in a function is no loop of those who call it
    for here in reversed(side.way) if kinds == (ast.While,) else side.way[-1:]:
        elsewhere = [call for other in waiting for call in other.way if call.file == here.file]
        for node, _ in reversed(around(here, sources)):
            if isinstance(node, kinds) and not any(holds(node, call.line) for call in elsewhere):
                return node
    return None
