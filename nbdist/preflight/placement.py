"""Devices, addresses, numbers of ranks and variables of the environment that a program fixes, and this run
decides otherwise.

None of it is certain: the run starts, and its report says which rank failed, and where.
"""

from __future__ import annotations

import ast
import difflib
import re
import sys
from collections.abc import Iterator, Sequence

from nbdist.preflight.finding import Finding, Situation, found, words
from nbdist.preflight.modules import own_modules
from nbdist.preflight.program import Call, Place, Program

_HERE = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", ""})
_NUMBERS = {"RANK": "rank", "WORLD_SIZE": "world_size", "LOCAL_RANK": "rank", "PADDLE_TRAINER_ID": "rank"}
_VISIBLE = "CUDA_VISIBLE_DEVICES"
# functions and classes of libraries that may give each rank its device
_SETS_UP = re.compile(
    r"(?!\w*(?:log|seed|weight))(?:init|setup|set_up|launch|\w*(?:ddp|dist)\w*init)"
    r"|\w*(?:Trainer|Runner|Strategy|Plugin|Engine|CLI)$"
)
_MISSPELT = re.compile(r"\bCUDA_VIS(?!IBLE_DEVICES\b)\w*DEV\w*")


def check_environment(program: Program, situation: Situation) -> Iterator[Finding]:
    spawns = any(call.name in words("spawns") for call in program.calls)
    for key, value, node, place in assignments(program):
        line = node.lineno
        if program.switched_off(place, situation.args):
            continue
        if key == _VISIBLE and place.plain and not _keeps(node, key, program):
            if value not in ("", "-1") or situation.gpus:
                shown = value if value and re.fullmatch(r"[\d,]+", value) else "0,1"
                yield found("visible-in-cell", line, said=shown)
        elif value is None or not place.plain:
            continue
        elif key == "MASTER_ADDR" and value not in _HERE:
            yield found("address-elsewhere", line, said=value)
        elif key == "MASTER_PORT" and not (spawns and situation.world_size == 1):
            yield found("address-fixed", line, said=f"port {value}", key=key)
        elif key in _NUMBERS and not spawns:
            wrong = (
                situation.world_size > 1 if _NUMBERS[key] == "rank" else value != str(situation.world_size)
            )
            if wrong:
                yield found(
                    "rank-variable-fixed",
                    line,
                    key=key,
                    said=value,
                    count=situation.world_size,
                )
    yield from _misspelt(program)
    for key in situation.environment:
        if _MISSPELT.fullmatch(key):
            yield found("visible-misspelt", said=f"{key} (environment)")


def _keeps(assignment: ast.stmt, key: str, program: Program) -> bool:
    """Whether ``os.environ[key] = os.environ.get(key, …)``: what the launcher has set stays."""
    return isinstance(assignment, ast.Assign) and any(
        program.value(node) == key for node in ast.walk(assignment.value) if isinstance(node, ast.expr)
    )


def _misspelt(program: Program) -> Iterator[Finding]:
    """The first string, a command among them, with a name that is nearly CUDA_VISIBLE_DEVICES."""
    for node in program.places:
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and (match := _MISSPELT.search(text)) is not None:
            yield found("visible-misspelt", node.lineno, said=match[0])  # type: ignore[attr-defined]
            return


def assignments(program: Program) -> Iterator[tuple[str, str | None, ast.stmt, Place]]:
    """``os.environ["KEY"] = VALUE`` and its like; not ``setdefault``, which lets the launcher decide."""
    for node, place in list(program.places.items()):
        match node:
            case ast.Assign(targets=[ast.Subscript(value=mapping, slice=key)], value=value):
                if program.dotted(mapping) == "os.environ":
                    name, said = program.value(key), program.value(value)
                    if isinstance(name, str):
                        yield name, None if said is None else str(said), node, place
            case ast.Expr(value=ast.Call(func=function, args=[key, value])):
                if program.dotted(function) == "os.putenv" and isinstance(name := program.value(key), str):
                    said = program.value(value)
                    yield name, None if said is None else str(said), node, place
            case ast.Expr(value=ast.Call(func=function, args=[ast.Dict() as table])):
                if program.dotted(function) == "os.environ.update":
                    for entry, given in zip(table.keys, table.values, strict=True):
                        name, said = program.value(entry), program.value(given)
                        if isinstance(name, str):
                            yield name, None if said is None else str(said), node, place


def check_placement(program: Program, situation: Situation, path: Sequence[str] = ()) -> list[Finding]:
    """``path`` is where ranks find modules: one of the user's may choose the device."""
    findings = [
        *_groups(program, situation),
        *_spawns(program, situation),
        *_launches(program, situation),
        *_local_rank(program, situation),
    ]
    if not program.mentions(*words("asks_for_devices")):
        findings += _on_gpus(program, situation, path) if situation.gpus else _on_cpu(program, situation)
    return findings


def _chosen_elsewhere(program: Program, path: Sequence[str]) -> bool:
    """Whether a module of the user's that the program imports may choose the device of each rank, or a
    function or class that sets the ranks up does."""
    foreign = _foreign(program)
    for call in program.calls:
        if "init_dist" in call.method.lower() or "setup_dist" in call.method.lower():
            return True
        if call.name.partition(".")[0] in foreign and _SETS_UP.match(call.method):
            return True
    chooses = re.compile(r"\b(?:" + "|".join(words("chooses_a_device")) + r")\b")
    return any(
        chooses.search(text) is not None if direct else "set_device(" in text
        for text, direct in own_modules(program, path)
    )


def _foreign(program: Program) -> set[str]:
    """The modules that the program imports, but for those that choose no device."""
    imported = {name.partition(".")[0] for name, _ in program.imports()}
    return imported - sys.stdlib_module_names - {*words("known_libraries"), *words("trackers")}


def _called_by_libraries(program: Program) -> set[ast.AST]:
    """What stands in classes derived from a library's, as a LightningModule: it calls them, and may have
    chosen the device before."""
    foreign = _foreign(program)
    return {
        inner
        for node in program.places
        if isinstance(node, ast.ClassDef)
        and any(program.dotted(base).partition(".")[0] in foreign for base in node.bases)
        for inner in ast.walk(node)
    }


def _on_cpu(program: Program, situation: Situation) -> Iterator[Finding]:
    """What needs a GPU, for ranks on the CPU: the first such line."""
    uses_torch, uses_paddle = program.uses("torch"), program.uses("paddle")
    for call in program.calls:
        if not (uses_torch or uses_paddle) or not call.place.plain or not _needs_gpu(call, program):
            continue
        if not program.switched_off(call.place, situation.args):
            fix, fix_zh = _gpu_fix(situation, paddle=uses_paddle and not uses_torch)
            yield found("cuda-on-cpu-ranks", call.line, fix=fix, fix_zh=fix_zh)
            return


def _gpu_fix(situation: Situation, *, paddle: bool) -> tuple[str, str]:
    count = situation.machine_gpus()
    if count:
        ids = ",".join(map(str, range(min(count, situation.world_size))))
        return f"run with  --gpus {ids}", f"用  --gpus {ids}  运行"
    asks = "paddle.is_compiled_with_cuda()" if paddle else "torch.cuda.is_available()"
    return (
        f"this machine has no GPU: choose the device by  {asks}  or leave that out",
        f"这台机器没有 GPU：用  {asks}  选择设备，或去掉它",
    )


def _needs_gpu(call: Call, program: Program) -> bool:
    """Whether a call fails without a GPU, or names one."""
    if _moves_nothing(call, program):
        return False
    if call.method == "cuda" and isinstance(call.node.func, ast.Attribute):
        return True
    if call.name in ("torch.cuda.set_device", "paddle.CUDAPlace"):
        return True
    if call.name in ("paddle.set_device", "paddle.device.set_device"):
        return _text(call.argument("device", 0), program).startswith("gpu")
    if call.method == "to" or call.name == "torch.device":
        return _text(call.argument("device", 0), program).startswith("cuda")
    return call.name.startswith("torch.") and _text(call.argument("device"), program).startswith("cuda")


def _moves_nothing(call: Call, program: Program) -> bool:
    """Whether this is ``nn.CrossEntropyLoss().cuda()``: without weights, it holds nothing to move."""
    match call.node.func:
        case ast.Attribute(value=ast.Call(func=function, args=[], keywords=[])):
            name = program.dotted(function)
            return name.startswith("torch.nn.") and name.endswith("Loss")
    return False


def _text(node: ast.expr | None, program: Program) -> str:
    """The text of a device, as far as it is fixed: "cuda" for f"cuda:{rank}" and torch.device("cuda")."""
    match node:
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            return text
        case ast.Call(args=[first, *_]) if program.dotted(node.func) == "torch.device":
            return _text(first, program)
    value = program.value(node)
    return value if isinstance(value, str) else ""


def _on_gpus(program: Program, situation: Situation, path: Sequence[str]) -> Iterator[Finding]:
    """GPUs that every rank would take alike, or that the run does not have."""
    count = len(situation.gpus)
    for call in program.calls:
        index, what = _fixed_gpu(call, program)
        if index is not None and index >= count and call.place.plain:
            yield found("gpu-beyond", call.line, index=index, last=count - 1)
            return
    if count < 2 or program.mentions(*words("chooses_a_device")):
        return
    if any(call.name in words("spawns") for call in program.calls):
        return  # its own processes would have to choose; the warning about those comes first
    elsewhere = _called_by_libraries(program)
    for call in program.calls:
        index, what = _fixed_gpu(call, program)
        if not what or not call.place.plain or (index is None and call.node in elsewhere):
            continue
        if not program.switched_off(call.place, situation.args) and not _chosen_elsewhere(program, path):
            fix = (
                "model.to(local_rank)"
                if call.method in ("cuda", "to")
                else "torch.cuda.set_device(local_rank)"
            )
            yield found("one-gpu-for-all", call.line, what=what, fix=fix, count=count)
            return


def _fixed_gpu(call: Call, program: Program) -> tuple[int | None, str]:
    """The index of the GPU that a call names, and the call in short; the default GPU has no index."""
    if _moves_nothing(call, program):
        return None, ""
    if call.method == "cuda" and isinstance(call.node.func, ast.Attribute):
        value = program.value(call.argument("device", 0))
        if call.node.args and not isinstance(value, int):
            return None, ""
        return (value, f".cuda({value})") if isinstance(value, int) else (None, ".cuda()")
    if call.name == "torch.device" and (index := call.argument("index", 1)) is not None:
        number = program.value(index)
        return (number, f'"cuda:{number}"') if type(number) is int else (None, "")
    text = _text(call.argument("device", 0), program) if call.method in ("to", "device", "set_device") else ""
    if (match := re.fullmatch(r"(?:cuda|gpu)(?::(\d+))?", text)) is not None:
        return (int(match[1]) if match[1] else None), f'"{text}"'
    if call.name == "torch.cuda.set_device" and isinstance(
        value := program.value(call.argument("device", 0)), int
    ):
        return value, f"torch.cuda.set_device({value})"
    return None, ""


def _groups(program: Program, situation: Situation) -> Iterator[Finding]:
    """What ``init_process_group`` is told that this run decides."""
    for call in program.calls:
        if call.name == "torch.distributed.init_process_group":
            yield from _group(call, program, situation)
        elif call.method == "DistributedDataParallel" and not situation.gpus and call.place.plain:
            ids = call.argument("device_ids", 1)
            if isinstance(ids, (ast.List, ast.Tuple)) and ids.elts and not program.mentions("cuda", "nccl"):
                yield found("device-ids-on-cpu-ranks", call.line)


def _group(call: Call, program: Program, situation: Situation) -> Iterator[Finding]:
    count, spawns = situation.world_size, any(c.name in words("spawns") for c in program.calls)
    backend = program.value(call.argument("backend", 0))
    # torch's "fake" stands for several processes in one
    if backend == "fake" or program.switched_off(call.place, situation.args):
        return
    if backend == "nccl" and not situation.gpus and call.place.plain and not _asked_before(program, call):
        yield found("nccl-on-cpu-ranks", call.line)
    if spawns:
        return
    method = _method(call, program)
    if method.startswith("tcp://"):
        yield found("address-fixed", call.line, said=method, key="init_method")
    size, rank = call.argument("world_size"), call.argument("rank")
    said = program.value(size)
    if isinstance(said, int) and said != count and said > 0 and not isinstance(said, bool):
        yield found("world-size-differs", call.line, said=said, count=_ranks(count))
    elif not situation.gpus and _counts_gpus(size, program):
        yield found("world-size-of-gpus", call.line)
    fixed = program.value(rank)
    numbered = isinstance(fixed, int) and not isinstance(fixed, bool)
    if numbered and count > 1 and call.place.plain:
        yield found("rank-fixed", call.line, said=fixed, count=count)


def _counts_gpus(node: ast.AST | None, program: Program) -> bool:
    return isinstance(node, ast.Call) and program.dotted(node.func) == "torch.cuda.device_count"


def _asked_before(program: Program, call: Call) -> bool:
    """Whether the backend's name was chosen by what is there."""
    named = isinstance(call.argument("backend", 0), ast.Constant)
    return not named and program.mentions(*words("asks_for_devices"))


def _method(call: Call, program: Program) -> str:
    node = call.argument("init_method", 1)
    if isinstance(node, ast.JoinedStr):
        # a port that is computed is not fixed
        if any(isinstance(part, ast.FormattedValue) for part in node.values):
            return ""
        return "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    value = program.value(node)
    return value if isinstance(value, str) and "*" not in value else ""


def _ranks(count: int) -> str:
    return f"{count} ranks" if count > 1 else "1 rank"


_REMOTE = re.compile(r"\b(?:rh|runhouse|modal|sky|ray)\b|remote", re.IGNORECASE)


def _spawns(program: Program, situation: Situation) -> Iterator[Finding]:
    count = situation.world_size
    for call in program.calls:
        if call.name not in words("spawns") or program.switched_off(call.place, situation.args):
            continue
        paddle = call.name.startswith("paddle")
        short = "dist.spawn" if paddle else "mp.spawn"
        if paddle:
            known = (*words("spawn_options"), *words("old_spawn_options"))
            for keyword in call.node.keywords:
                if keyword.arg and keyword.arg not in known:
                    near = difflib.get_close_matches(
                        keyword.arg, ["selected_gpus", *words("spawn_options")], n=1, cutoff=0.5
                    )
                    option = "gpus" if near and near[0] == "selected_gpus" else (near or ["gpus"])[0]
                    yield found("spawn-option", call.line, said=keyword.arg, near=option)
        in_ranks = count > 1 and not _chosen_by_rank(call.place) and not _runs_elsewhere(call.place, program)
        if in_ranks and not _if_several(call.place, program, situation):
            yield found("spawn-in-ranks", call.line, what=short, count=count)
        processes = program.value(call.argument("nprocs", 2))
        if count == 1 and situation.gpus and isinstance(processes, int) and processes > len(situation.gpus):
            yield found(
                "more-processes-than-gpus",
                call.line,
                said=processes,
                count=len(situation.gpus),
            )


def _runs_elsewhere(place: Place, program: Program) -> bool:
    """Whether the program calls the function of a place nowhere, and hands it on to what sends it to another
    machine."""
    calls = [node for node in ast.walk(program.tree) if isinstance(node, ast.Call)]
    if not place.function or any(ast.unparse(node.func) == place.function for node in calls):
        return False
    given = [(node.func, [*node.args, *(one.value for one in node.keywords)]) for node in calls]
    takers = [taker for taker, values in given if place.function in map(ast.unparse, values)]
    return any(_REMOTE.search(ast.unparse(one)) for one in takers)


def _launches(program: Program, situation: Situation) -> Iterator[Finding]:
    """What starts ranks of its own, in each of several."""
    if situation.world_size == 1:
        return
    for call in program.calls:
        if _chosen_by_rank(call.place) or program.switched_off(call.place, situation.args):
            continue
        what, instead = "", ""
        if call.name.rpartition(".")[2] in words("notebook_launchers"):
            function = call.argument("function", 0)
            what, instead = call.name.rpartition(".")[2], program.dotted(function) if function else ""
            instead = f"{instead or 'the function'}(*args)"
        elif call.name == "ignite.distributed.Parallel" and _is_given(
            call.argument("nproc_per_node"), program
        ):
            what, instead = "idist.Parallel(nproc_per_node=…)", "idist.Parallel(backend=…)"
        elif str(program.value(call.argument("strategy"))) in words("notebook_strategies"):
            what, instead = f'strategy="{program.value(call.argument("strategy"))}"', 'strategy="ddp"'
        if what:
            yield found(
                "launches-in-ranks", call.line, what=what, count=situation.world_size, instead=instead
            )


def _is_given(node: ast.expr | None, program: Program) -> bool:
    """Whether something is passed that nothing in the program makes None."""
    if not isinstance(node, ast.Name):
        return node is not None and not (isinstance(node, ast.Constant) and node.value is None)
    given: list[ast.expr | None] = []
    for one in program.places:
        match one:
            case ast.Assign(targets=targets, value=value) if node.id in map(ast.unparse, targets):
                given.append(value)
            case ast.arguments(args=names, defaults=defaults, kwonlyargs=more, kw_defaults=others):
                by_name = [
                    *zip(reversed(names), reversed(defaults), strict=False),
                    *zip(more, others, strict=True),
                ]
                given += [value for name, value in by_name if name.arg == node.id]
    return not any(isinstance(value, ast.Constant) and value.value is None for value in given)


def _chosen_by_rank(place: Place) -> bool:
    text = " ".join(ast.unparse(test) for test in place.conditions).lower()
    return "rank" in text or "world_size" in text


def _if_several(
    place: Place, program: Program, situation: Situation, seen: frozenset[str] = frozenset()
) -> bool:
    """Whether it stands under ``if count > 1``, and the count is not that of the GPUs, which is known: an
    option of the program's decides, and is mostly 1 where ranks come from elsewhere. So does a function that
    is only called there."""
    for test in place.demands:
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=ast.Compare() as compared) | (ast.Compare() as compared):
                pass
            case _:
                continue
        of_gpus = len(situation.gpus) > 1 and _is_number_of_gpus(compared.left, program)
        number = program.value(compared.comparators[0])
        if type(number) is int and number in (0, 1, 2) and not of_gpus:
            return True
    callers = program.callers(place.function) if place.function and place.function not in seen else []
    seen |= {place.function}
    return bool(callers) and all(_if_several(caller, program, situation, seen) for caller in callers)


def _is_number_of_gpus(node: ast.expr, program: Program) -> bool:
    """Whether it is always that number: an option may only be kept below it."""
    if _counts_gpus(node, program):
        return True
    text = ast.unparse(node)
    return any(
        isinstance(one, ast.Assign)
        and not place.attempted
        and all(_asks_for_gpus(test, program) for test in place.demands)
        and text in map(ast.unparse, one.targets)
        and any(_counts_gpus(part, program) for part in ast.walk(one.value))
        for one, place in program.places.items()
    )


def _asks_for_gpus(test: ast.expr, program: Program) -> bool:
    return isinstance(test, ast.Call) and program.dotted(test.func) == "torch.cuda.is_available"


def _local_rank(program: Program, situation: Situation) -> Iterator[Finding]:
    if program.mentions("LOCAL_RANK") or any(arg.startswith("--local") for arg in situation.args):
        return
    uses = [n for n in program.places if isinstance(n, ast.Attribute) and n.attr == "local_rank"]
    # what is never read does no harm, and what is overwritten is not what the command line gave
    if not uses or any(isinstance(use.ctx, ast.Store) for use in uses) or _set_up_elsewhere(program):
        return
    if _replaced(program):
        return
    for call in program.calls:
        if call.method == "add_argument" and program.flags(call) & {"--local_rank", "--local-rank"}:
            yield found("local-rank-argument", call.line)


def _replaced(program: Program) -> bool:
    """Whether what ``args.local_rank`` is assigned to gets another value, too: where none was passed."""
    given: dict[str, list[ast.expr]] = {}
    for node in program.places:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                given.setdefault(ast.unparse(target), []).append(node.value)
    return any(
        len(values) > 1
        and any(isinstance(value, ast.Attribute) and value.attr == "local_rank" for value in values)
        for values in given.values()
    )


def _set_up_elsewhere(program: Program) -> bool:
    """Whether a function sets the ranks up that gets all arguments, and may overwrite one; or gets this one,
    and may look elsewhere where it was not passed."""
    holders = {
        node.value.id
        for node in program.places
        if isinstance(node, ast.Attribute) and node.attr == "local_rank" and isinstance(node.value, ast.Name)
    }
    sets_up = [call for call in program.calls if re.search("init|setup", call.method, re.IGNORECASE)]
    if any(
        isinstance(given, ast.Name) and given.id in holders for call in sets_up for given in call.node.args
    ):
        return True
    return any(
        isinstance(given, ast.Attribute) and given.attr == "local_rank"
        for call in sets_up
        if not re.search("log|seed", call.method) and not call.name.startswith(("torch.", "paddle."))
        for given in (*call.node.args, *(keyword.value for keyword in call.node.keywords))
    )
