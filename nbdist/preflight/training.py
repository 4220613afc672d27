"""The process group, collectives under conditions, and data that ranks do not divide: only where sure."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from nbdist.preflight.dealing import may_deal_data, rank_names
from nbdist.preflight.finding import Finding, Situation, found, words
from nbdist.preflight.machine import at_least
from nbdist.preflight.program import Call, Program

_TORCH = "torch.distributed."
_DIVIDES = re.compile(
    r"sampler|subset|random_split|iterable|shard|distributed_?batch|split_dataset|partition|rank::|num_replicas",
    re.IGNORECASE,
)

_OF_KEYBOARDS = {
    "input": "input",
    "breakpoint": "debugger",
    "pdb.set_trace": "debugger",
    "ipdb.set_trace": "debugger",
}


def check_training(program: Program, situation: Situation) -> list[Finding]:
    findings = [
        *_input(program, situation),
        *_loaders(program),
        *_fleet(program, situation),
        *_legacy(program),
    ]
    known = sys.stdlib_module_names.union(words("known_libraries"))
    known_imports = all(name.partition(".")[0] in known for name, _ in program.imports())
    if known_imports:
        findings += _no_group(program, situation)
    if situation.world_size > 1:
        findings += _on_one_rank(program)
        if known_imports:
            findings += _undivided(program, situation)
    return findings


def _input(program: Program, situation: Situation) -> Iterator[Finding]:
    for call in program.calls:
        rule = _OF_KEYBOARDS.get(call.name)
        if rule is None or program.switched_off(call.place, situation.args):
            continue
        if not call.place.attempted and call.place.plain:
            # PYTHONBREAKPOINT may name another debugger, or none
            yield found(rule, call.line, call.place.always and rule == "input")
            return


def _loaders(program: Program) -> Iterator[Finding]:
    for call in program.calls:
        if call.name.startswith("torch.") and call.method == "DataLoader":
            sampler = call.argument("sampler")
            given = sampler is not None and not isinstance(sampler, (ast.Constant, ast.IfExp, ast.Name))
            # a name may hold None
            named = isinstance(sampler, ast.Name) and _is_sampler(program, sampler.id)
            if program.value(call.argument("shuffle")) is True and (given or named):
                yield found("shuffle-and-sampler", call.line)


def _is_sampler(program: Program, name: str) -> bool:
    """Whether the only thing that ``name`` is ever given is a sampler."""
    given = [
        node.value
        for node in program.places
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
    return (
        len(given) == 1
        and isinstance(given[0], ast.Call)
        and program.dotted(given[0].func).endswith("Sampler")
    )


def _fleet(program: Program, situation: Situation) -> Iterator[Finding]:
    build = situation.build("paddle")
    if situation.world_size > 1 or build is None or not at_least(build.version, "3.0"):
        return
    for call in program.calls:
        if call.name == "paddle.distributed.fleet.distributed_model" and call.place.plain:
            yield found("fleet-with-one-rank", call.line)
            return


def _legacy(program: Program) -> Iterator[Finding]:
    """Calls that only paddle.DataParallel has, on models that are none."""
    if not program.uses("paddle") or program.mentions("DataParallel", "distributed_model", "fluid"):
        return
    own = {node.name for node in ast.walk(program.tree) if isinstance(node, ast.FunctionDef)}
    for call in program.calls:
        if call.method in ("scale_loss", "apply_collective_grads") and call.method not in own:
            values = {"said": call.method}
            yield found("legacy-data-parallel", call.line, **values)
            return


def _no_group(program: Program, situation: Situation) -> Iterator[Finding]:
    """Parallel models and collectives where nothing starts a group."""
    if program.mentions(*words("starts_on_all_ranks"), *words("starts_the_group")):
        return
    if any(call.name.endswith("fleet.init") for call in program.calls):
        return
    for call in program.calls:
        torch_needs = call.name.startswith("torch.") and (
            call.method in ("DistributedDataParallel", "FullyShardedDataParallel", "fully_shard")
            or (call.name.startswith(_TORCH) and call.method in words("collectives"))
        )
        paddle_needs = call.name.startswith("paddle.distributed.") and call.method in words("collectives")
        parallel = call.name == "paddle.DataParallel" and situation.world_size > 1
        if not (torch_needs or paddle_needs or parallel) or not call.place.plain:
            continue
        if not program.switched_off(call.place, situation.args):
            fix = "dist.init_process_group()" if torch_needs else "paddle.distributed.init_parallel_env()"
            values = {"said": call.method, "fix": fix}
            yield found("no-group", call.line, **values)
            return


def _on_one_rank(program: Program) -> Iterator[Finding]:
    """A collective, or the group's start, that stands nowhere but under a condition on the rank."""
    if program.mentions(*words("parts_of_the_group")):
        return
    ranks = rank_names(program)
    by_method: dict[str, list[Call]] = {}
    for call in program.calls:
        of_framework = call.name.startswith((_TORCH, "paddle.distributed."))
        if of_framework and call.method in (*words("collectives"), *words("starts_on_all_ranks")):
            by_method.setdefault(call.method, []).append(call)
    for method, calls in by_method.items():
        conditions = [_rank_condition(call, ranks) for call in calls]
        if (
            all(conditions)
            and len(set(conditions)) == 1
            and not any(call.argument("group") for call in calls)
        ):
            rule = "group-on-one-rank" if method in words("starts_on_all_ranks") else "collective-on-one-rank"
            values = {"said": method, "condition": conditions[0]}
            yield found(rule, calls[0].line, **values)


def _rank_condition(call: Call, ranks: set[str]) -> str:
    """The condition on the rank that a call stands under, as ``if rank == 0``; empty where there is none.

    Only what compares a rank with a number, and is the only condition, is understood.
    """
    if len(call.place.conditions) != 1:
        return ""
    test = call.place.conditions[0]
    match test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=int())]):
            compared = left
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            compared = operand
        case _:
            return ""
    text = ast.unparse(compared)
    named = isinstance(compared, ast.Name) and compared.id in ranks
    return f"if {ast.unparse(test)}" if named or text.endswith("get_rank()") else ""


def _undivided(program: Program, situation: Situation) -> Iterator[Finding]:
    """A parallel model that is fed by a loader which shuffles everything on every rank."""
    called = {call.method for call in program.calls}
    parallel = not called.isdisjoint({"DistributedDataParallel", "distributed_model", "fully_shard"})
    # torch's DataParallel works in one process, which has no group to divide anything by
    parallel = parallel or (program.uses("paddle") and "DataParallel" in called)
    if not parallel or any(_DIVIDES.search(word) for word in program.words):
        return
    if _differs_by_chance(program):
        return
    for call in program.calls:
        if call.method != "DataLoader" or not call.name.startswith(("torch.", "paddle.")):
            continue
        if program.value(call.argument("shuffle")) is not True or may_deal_data(program, call):
            continue
        if call.name.startswith("paddle."):
            fix = "batch_sampler=paddle.io.DistributedBatchSampler(dataset, batch_size, shuffle=True)"
        else:
            fix = "sampler=DistributedSampler(dataset, shuffle=True)"
        values = {"count": str(situation.world_size), "fix": fix}
        yield found("data-not-divided", call.line, **values)
        return


def _differs_by_chance(program: Program) -> bool:
    """Whether the data are drawn at random, and no seed makes them the same on every rank."""
    seeded = any(
        call.method in ("manual_seed", "seed", "default_rng", "RandomState") for call in program.calls
    )
    return program.mentions(*words("draws_at_random")) and not seeded and not program.mentions("random_state")
