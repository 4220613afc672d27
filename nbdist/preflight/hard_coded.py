"""Devices, addresses, rank numbers and variables that a program fixes, and this run sets otherwise.

None is certain: the run starts, and its report names the failing rank and line.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence

from nbdist.preflight.finding import Finding, Situation, finding_of, words
from nbdist.preflight.modules import own_modules
from nbdist.preflight.program import Call, Place, Program

_HERE = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", ""})
_NUMBERS = {"RANK": "rank", "WORLD_SIZE": "world_size", "LOCAL_RANK": "rank", "PADDLE_TRAINER_ID": "rank"}
_TEXTS = frozenset({*_NUMBERS, "LOCAL_WORLD_SIZE", "PADDLE_TRAINERS_NUM"})
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
        if not place.plain or program.switched_off(place, situation.args):
            continue
        if key == _VISIBLE:
            if not _keeps(node, key, program) and (value not in ("", "-1") or situation.gpus):
                shown = value if value and re.fullmatch(r"[\d,]+", value) else "0,1"
                yield finding_of("visible-in-cell", line, said=shown)
        elif value is None:
            continue
        elif key == "MASTER_ADDR" and value not in _HERE:
            yield finding_of("address-elsewhere", line, said=value)
        elif key == "MASTER_PORT" and not (spawns and situation.world_size == 1):
            yield finding_of("address-fixed", line, said=f"port {value}", key=key)
        elif key in _NUMBERS and not spawns:
            of_rank = _NUMBERS[key] == "rank"
            if situation.world_size > 1 if of_rank else value != str(situation.world_size):
                yield finding_of("rank-variable-fixed", line, key=key, said=value, count=situation.world_size)
    yield from _misspelt(program, situation)
    yield from _compared(program)


def _keeps(assignment: ast.stmt, key: str, program: Program) -> bool:
    """Return whether ``os.environ[key] = os.environ.get(key, …)`` keeps the launcher's value."""
    return isinstance(assignment, ast.Assign) and any(
        program.value(node) == key for node in ast.walk(assignment.value) if isinstance(node, ast.expr)
    )


def _misspelt(program: Program, situation: Situation) -> Iterator[Finding]:
    """Yield the first string, or command, that nearly contains CUDA_VISIBLE_DEVICES."""
    texts = (
        node for node in program.places if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    for node in texts:
        if (match := _MISSPELT.search(str(node.value))) is not None:
            yield finding_of("visible-misspelt", node.lineno, said=match[0])
            break
    for key in filter(_MISSPELT.fullmatch, situation.environment):
        yield finding_of("visible-misspelt", said=f"{key} (environment)")


def _compared(program: Program) -> Iterator[Finding]:
    """Yield comparisons of a launcher's variable, which is a string, with a number."""
    names = set()
    for node in program.places:
        if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], (ast.Eq, ast.NotEq, ast.In)):
            continue
        for text, number in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
            key, name = program.variable(text), ast.unparse(text)
            if key in _TEXTS and _is_number(number) and name not in names:
                names.add(name)
                yield finding_of("rank-is-text", node.lineno, name=name, key=key, number=ast.unparse(number))


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return bool(node.elts) and all(map(_is_number, node.elts))
    return isinstance(node, ast.Constant) and type(node.value) is int


def assignments(program: Program) -> Iterator[tuple[str, str | None, ast.stmt, Place]]:
    """Yield ``os.environ["KEY"] = VALUE`` and the like, but not ``setdefault``."""
    for node, place in list(program.places.items()):
        pairs: list[tuple[ast.expr | None, ast.expr]] = []
        match node:
            case ast.Assign(targets=[ast.Subscript(value=mapping, slice=key)], value=value):
                pairs = [(key, value)] if program.dotted(mapping) == "os.environ" else []
            case ast.Expr(value=ast.Call(func=function, args=[key, value])):
                pairs = [(key, value)] if program.dotted(function) == "os.putenv" else []
            case ast.Expr(value=ast.Call(func=function, args=[ast.Dict() as table])):
                if program.dotted(function) == "os.environ.update":
                    pairs = [*zip(table.keys, table.values, strict=True)]
        for variable, assigned in pairs:
            name, text = program.value(variable), program.value(assigned)
            if isinstance(name, str) and isinstance(node, ast.stmt):
                yield name, None if text is None else str(text), node, place


def check_placement(program: Program, situation: Situation, path: Sequence[str] = ()) -> Iterator[Finding]:
    """Yield mistakes with devices and ranks; a module on ``path`` may choose the device."""
    yield from _groups(program, situation)
    yield from _spawns(program, situation)
    yield from _launches(program, situation)
    yield from _local_rank(program, situation)
    if not program.mentions(*words("asks_for_devices")):
        yield from _on_gpus(program, situation, path) if situation.gpus else _on_cpu(program, situation)


def _device(call: Call, program: Program) -> str:
    """Return the GPU that a call needs: ``cuda``, ``cuda:1``, ``cuda:?`` (computed); empty for none."""
    if _moves_nothing(call, program):
        return ""
    chosen = call.argument("device", 0)
    by_index = call.method == "cuda" and isinstance(call.node.func, ast.Attribute)
    if by_index or call.name in ("torch.cuda.set_device", "paddle.CUDAPlace"):
        index = program.value(chosen)
        if isinstance(index, str):
            return index
        return "cuda" if chosen is None else f"cuda:{index if type(index) is int else '?'}"
    if call.method not in ("to", "device", "set_device"):
        chosen = call.argument("device") if call.name.startswith("torch.") else None
    text = _text(chosen, program)
    if not text.startswith(("cuda", "gpu")):
        return ""
    if call.name == "torch.device" and (second := call.argument("index", 1)) is not None:
        number = program.value(second)
        return f"cuda:{number if type(number) is int else '?'}"
    return text if re.fullmatch(r"(?:cuda|gpu)(?::\d+)?", text) else "cuda:?"


def _moves_nothing(call: Call, program: Program) -> bool:
    """Return whether this is ``nn.CrossEntropyLoss().cuda()``: without weights, it moves nothing."""
    match call.node.func:
        case ast.Attribute(value=ast.Call(func=function, args=[], keywords=[])):
            name = program.dotted(function)
            return name.startswith("torch.nn.") and name.endswith("Loss")
    return False


def _text(node: ast.expr | None, program: Program) -> str:
    """Return the fixed part of a device: "cuda:" for f"cuda:{rank}"."""
    match node:
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            return text
        case ast.Call(args=[first, *_]) if program.dotted(node.func) == "torch.device":
            return _text(first, program)
    value = program.value(node)
    return value if isinstance(value, str) else ""


def _on_cpu(program: Program, situation: Situation) -> Iterator[Finding]:
    """Yield the first call that needs a GPU, for ranks on the CPU."""
    uses_torch, uses_paddle = program.uses("torch"), program.uses("paddle")
    for call in program.calls if uses_torch or uses_paddle else ():
        place = call.place
        if place.plain and _device(call, program) and not program.switched_off(place, situation.args):
            fix, fix_zh = _gpu_fix(situation, paddle=uses_paddle and not uses_torch)
            yield finding_of("cuda-on-cpu-ranks", call.line, fix=fix, fix_zh=fix_zh)
            return


def _gpu_fix(situation: Situation, *, paddle: bool) -> tuple[str, str]:
    count = situation.machine_gpus()
    if count:
        ids = ",".join(map(str, range(min(count, situation.world_size))))
        return f"run with  --gpus {ids}", f"用  --gpus {ids}  运行"
    asks = "paddle.is_compiled_with_cuda()" if paddle else "torch.cuda.is_available()"
    return f"choose the device by  {asks}", f"用  {asks}  选择设备"


def _on_gpus(program: Program, situation: Situation, path: Sequence[str]) -> Iterator[Finding]:
    """Yield the first GPU that the run lacks, or that every rank would use."""
    count = len(situation.gpus)
    ways = ("cuda", "to", "device", "set_device")
    named = [(call, _device(call, program)) for call in program.calls if call.method in ways]
    named = [(call, device) for call, device in named if call.place.plain and device not in ("", "cuda:?")]
    for call, device in named:
        index = device.partition(":")[2]
        if index and int(index) >= count:
            yield finding_of("gpu-beyond", call.line, index=index, last=count - 1)
            return
    if count < 2 or program.mentions(*words("chooses_a_device")):
        return
    if any(call.name in words("spawns") for call in program.calls):
        return  # its own processes would have to choose; the warning about those comes first
    elsewhere = _called_by_libraries(program)
    for call, device in named:
        if (":" not in device and call.node in elsewhere) or program.switched_off(call.place, situation.args):
            continue
        if not _chosen_elsewhere(program, path):
            moves = call.method in ("cuda", "to")
            fix = "model.to(local_rank)" if moves else "torch.cuda.set_device(local_rank)"
            yield finding_of("one-gpu-for-all", call.line, what=device, fix=fix, count=count)
        return


def _chosen_elsewhere(program: Program, path: Sequence[str]) -> bool:
    """Return whether a module of the user's, or a set-up function, may choose devices."""
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
    """Return the imported modules, except those that choose no device."""
    imported = {name.partition(".")[0] for name, _ in program.imports()}
    return imported - sys.stdlib_module_names - {*words("known_libraries"), *words("trackers")}


def _called_by_libraries(program: Program) -> set[ast.AST]:
    """Return the nodes of classes that a library calls, with the device chosen before."""
    foreign = _foreign(program)
    return {
        inner
        for node in program.places
        if isinstance(node, ast.ClassDef)
        and any(program.dotted(base).partition(".")[0] in foreign for base in node.bases)
        for inner in ast.walk(node)
    }


def _groups(program: Program, situation: Situation) -> Iterator[Finding]:
    """Yield arguments of ``init_process_group`` that this run decides."""
    for call in program.calls:
        if call.name == "torch.distributed.init_process_group":
            yield from _group(call, program, situation)
        elif call.method == "DistributedDataParallel" and not situation.gpus and call.place.plain:
            ids = call.argument("device_ids", 1)
            if isinstance(ids, (ast.List, ast.Tuple)) and ids.elts and not program.mentions("cuda", "nccl"):
                yield finding_of("device-ids-on-cpu-ranks", call.line)


def _group(call: Call, program: Program, situation: Situation) -> Iterator[Finding]:
    count, named = situation.world_size, call.argument("backend", 0)
    backend = program.value(named)
    # torch's "fake" stands for several processes in one
    if backend == "fake" or program.switched_off(call.place, situation.args):
        return
    chosen = not isinstance(named, ast.Constant) and program.mentions(*words("asks_for_devices"))
    if backend == "nccl" and not situation.gpus and call.place.plain and not chosen:
        yield finding_of("nccl-on-cpu-ranks", call.line)
    if any(call.name in words("spawns") for call in program.calls):
        return
    method = _method(call, program)
    if method.startswith("tcp://"):
        yield finding_of("address-fixed", call.line, said=method, key="init_method")
    size, rank = call.argument("world_size"), program.value(call.argument("rank"))
    number = program.value(size)
    if type(number) is int and number != count and number > 0:
        ranks = f"{count} ranks" if count > 1 else "1 rank"
        yield finding_of("world-size-differs", call.line, said=number, count=ranks)
    elif not situation.gpus and _counts_gpus(size, program):
        yield finding_of("world-size-of-gpus", call.line)
    if type(rank) is int and count > 1 and call.place.plain:
        yield finding_of("rank-fixed", call.line, said=rank, count=count)


def _counts_gpus(node: ast.AST | None, program: Program) -> bool:
    return isinstance(node, ast.Call) and program.dotted(node.func) == "torch.cuda.device_count"


def _method(call: Call, program: Program) -> str:
    node = call.argument("init_method", 1)
    if isinstance(node, ast.JoinedStr):
        # a computed port is not fixed
        if any(isinstance(part, ast.FormattedValue) for part in node.values):
            return ""
        return "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    value = program.value(node)
    return value if isinstance(value, str) and "*" not in value else ""


def _spawns(program: Program, situation: Situation) -> Iterator[Finding]:
    count, gpus = situation.world_size, len(situation.gpus)
    for call in program.calls:
        if call.name not in words("spawns") or program.switched_off(call.place, situation.args):
            continue
        processes = program.value(call.argument("nprocs", 2))
        if count > 1:
            if not _chosen_by_rank(call.place) and not _if_several(call.place, program, situation):
                short = "dist.spawn" if call.name.startswith("paddle") else "mp.spawn"
                yield finding_of("spawn-in-ranks", call.line, what=short, count=count)
        elif gpus and isinstance(processes, int) and processes > gpus:
            yield finding_of("more-processes-than-gpus", call.line, said=processes, count=gpus)


def _launches(program: Program, situation: Situation) -> Iterator[Finding]:
    """Yield calls that start ranks of their own, in each of several."""
    for call in program.calls if situation.world_size > 1 else ():
        if _chosen_by_rank(call.place) or program.switched_off(call.place, situation.args):
            continue
        what, instead = "", ""
        strategy = str(program.value(call.argument("strategy")))
        if call.name.rpartition(".")[2] in words("notebook_launchers"):
            function = call.argument("function", 0)
            name = program.dotted(function) if function is not None else ""
            what, instead = call.name.rpartition(".")[2], f"{name or 'the function'}(*args)"
        elif call.name in words("commands"):
            texts = [part.value for part in ast.walk(call.node) if isinstance(part, ast.Constant)]
            typed = {
                word.rpartition("/")[2] for text in texts if isinstance(text, str) for word in text.split()
            }
            what, instead = ", ".join(typed & set(words("launchers"))), "-n 1  in the line of this run"
        elif call.name == "ignite.distributed.Parallel":
            several = isinstance(program.value(call.argument("nproc_per_node")), int)
            what = "idist.Parallel(nproc_per_node=…)" if several else ""
            instead = "idist.Parallel(backend=…)"
        elif strategy in words("notebook_strategies"):
            what, instead = f'strategy="{strategy}"', 'strategy="ddp"'
        if what:
            values = {"what": what, "count": situation.world_size, "instead": instead}
            yield finding_of("launches-in-ranks", call.line, **values)


def _chosen_by_rank(place: Place) -> bool:
    text = " ".join(ast.unparse(test) for test in place.conditions).lower()
    return "rank" in text or "world_size" in text


def _if_several(
    place: Place, program: Program, situation: Situation, seen: frozenset[str] = frozenset()
) -> bool:
    """Return whether it stands, or is only called, under ``if count > 1`` with another count than the GPUs':
    an option decides that, and is mostly 1 under a launcher."""
    for test in place.conditions:
        compared = test.operand if isinstance(test, ast.UnaryOp) else test
        if isinstance(compared, ast.Compare):
            of_gpus = len(situation.gpus) > 1 and _is_number_of_gpus(compared.left, program)
            if program.value(compared.comparators[0]) in (0, 1, 2) and not of_gpus:
                return True
    callers = program.callers(place.function) if place.function and place.function not in seen else []
    seen |= {place.function}
    return bool(callers) and all(_if_several(caller, program, situation, seen) for caller in callers)


def _is_number_of_gpus(node: ast.expr, program: Program) -> bool:
    """Return whether it always equals that number: an option may only be limited to it."""
    text = ast.unparse(node)
    return _counts_gpus(node, program) or any(
        _counts_gpus(other.value, program) and text in map(ast.unparse, other.targets)
        for other in program.places
        if isinstance(other, ast.Assign)
    )


def _local_rank(program: Program, situation: Situation) -> Iterator[Finding]:
    if program.mentions("LOCAL_RANK") or any(arg.startswith("--local") for arg in situation.args):
        return
    uses = [n for n in program.places if isinstance(n, ast.Attribute) and n.attr == "local_rank"]
    # an unread option is harmless, and an overwritten one is not the command line's
    if not uses or any(isinstance(use.ctx, ast.Store) for use in uses) or _is_completed(program, uses):
        return
    for call in program.calls:
        if call.method == "add_argument" and program.flags(call) & {"--local_rank", "--local-rank"}:
            yield finding_of("local-rank-argument", call.line)


def _is_completed(program: Program, uses: Sequence[ast.Attribute]) -> bool:
    """Return whether the program handles a missing local rank: it rebinds it, or sets ranks up."""
    for node in program.places:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if value in uses:
                if name not in program.once:
                    return True
    holders = {ast.unparse(use.value) for use in uses}
    for call in program.calls:
        given = (*call.node.args, *(keyword.value for keyword in call.node.keywords))
        if re.search("init|setup", call.method, re.IGNORECASE) and not re.search("log|seed", call.method):
            of_framework = call.name.startswith(("torch.", "paddle."))
            if any(ast.unparse(v) in holders or (v in uses and not of_framework) for v in given):
                return True
    return False
