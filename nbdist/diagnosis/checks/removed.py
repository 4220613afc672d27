"""Calls and modules that are no more: what old programs use, since when it is gone, what to write today."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass

from nbdist.diagnosis.checks.finding import Finding
from nbdist.diagnosis.checks.places import Place
from nbdist.diagnosis.checks.program import Program
from nbdist.diagnosis.checks.rules import RULES
from nbdist.diagnosis.checks.situation import Situation


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """``name`` is dotted, as the program resolves to it; gone from ``package`` (a distribution; "python")
    since the version ``since``."""

    name: str
    package: str
    since: str
    instead: str


def _rows(package: str, since: str, rows: dict[str, str]) -> list[Removed]:
    return [Removed(name=name, package=package, since=since, instead=new) for name, new in rows.items()]


TABLE = (
    *_rows(
        "paddlepaddle",
        "2.5",
        {
            "paddle.enable_imperative": "nothing: dynamic graphs are the default",
            "paddle.enable_dygraph": "paddle.disable_static()",
            "paddle.disable_dygraph": "paddle.enable_static()",
            "paddle.in_imperative_mode": "paddle.in_dynamic_mode()",
            "paddle.in_dygraph_mode": "paddle.in_dynamic_mode()",
            "paddle.to_variable": "paddle.to_tensor",
            "paddle.save_dygraph": "paddle.save",
            "paddle.load_dygraph": "paddle.load",
            "paddle.imperative": "paddle",
            "paddle.declarative": "paddle.static",
            "paddle.fleet": "paddle.distributed.fleet",
            "paddle.incubate.hapi": "paddle.Model",
            "paddle.distributed.prepare_context": "paddle.distributed.init_parallel_env()",
            "paddle.elementwise_add": "paddle.add",
            "paddle.fill_constant": "paddle.full",
            "paddle.reduce_mean": "paddle.mean",
            "paddle.reduce_sum": "paddle.sum",
            "paddle.nn.FC": "paddle.nn.Linear",
            "paddle.nn.Pool2D": "paddle.nn.MaxPool2D",
            "paddle.optimizer.SGDOptimizer": "paddle.optimizer.SGD",
            "paddle.optimizer.AdamOptimizer": "paddle.optimizer.Adam",
            "paddle.static.ParallelExecutor": "paddle.distributed.fleet",
        },
    ),
    *_rows(
        "torch",
        "1.13",
        {
            "torch._six": "math.inf, str, collections.abc",
            "torch.rfft": "torch.fft.rfft",
            "torch.irfft": "torch.fft.irfft",
            "torch.gels": "torch.linalg.lstsq",
            "torch.distributed.deprecated": "torch.distributed",
            "torch.distributed.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
        },
    ),
    *_rows(
        "torch",
        "2.6",
        {
            "torch.distributed.all_reduce_multigpu": "torch.distributed.all_reduce",
            "torch.distributed.all_gather_multigpu": "torch.distributed.all_gather",
            "torch.distributed.pipeline": "torch.distributed.pipelining",
        },
    ),
    *_rows(
        "numpy",
        "1.24",
        {f"numpy.{name}": name for name in ("int", "float", "object", "str", "complex")}
        | {"numpy.unicode": "str"},
    ),
    *_rows(
        "numpy",
        "2.0",
        {
            "numpy.float_": "numpy.float64",
            "numpy.Inf": "numpy.inf",
            "numpy.infty": "numpy.inf",
            "numpy.NaN": "numpy.nan",
            "numpy.product": "numpy.prod",
            "numpy.cumproduct": "numpy.cumprod",
            "numpy.asfarray": "numpy.asarray(…, dtype=float)",
            "numpy.sometrue": "numpy.any",
            "numpy.alltrue": "numpy.all",
            "numpy.round_": "numpy.round",
        },
    ),
    *_rows("pillow", "10.0", {"PIL.Image.ANTIALIAS": "PIL.Image.LANCZOS"}),
    *_rows(
        "python",
        "3.10",
        {
            f"collections.{name}": f"collections.abc.{name}"
            for name in ("Callable", "Iterable", "Iterator", "Mapping", "MutableMapping", "Sequence", "Set")
        },
    ),
    *_rows("python", "3.12", {"imp": "importlib", "distutils": "setuptools, shutil, sysconfig"}),
)

# what old programs call of paddle.fluid, and what does it today
FLUID = {
    "dygraph.guard": "(leave it out, with its block moved left)",
    "dygraph.to_variable": "paddle.to_tensor",
    "dygraph.Layer": "paddle.nn.Layer",
    "dygraph.parallel.prepare_context": "paddle.distributed.init_parallel_env()",
    "dygraph.prepare_context": "paddle.distributed.init_parallel_env()",
    "dygraph.parallel.DataParallel": "paddle.DataParallel(model)",
    "dygraph.DataParallel": "paddle.DataParallel(model)",
    "dygraph.parallel.Env": "paddle.distributed.ParallelEnv",
    "dygraph.ParallelEnv": "paddle.distributed.ParallelEnv",
    "dygraph.nn.Conv2D": "paddle.nn.Conv2D",
    "dygraph.nn.Pool2D": "paddle.nn.MaxPool2D",
    "dygraph.nn.FC": "paddle.nn.Linear",
    "dygraph.nn.Linear": "paddle.nn.Linear",
    "dygraph.nn.BatchNorm": "paddle.nn.BatchNorm",
    "dygraph.nn.Embedding": "paddle.nn.Embedding",
    "CUDAPlace": 'paddle.set_device("gpu")',
    "CPUPlace": 'paddle.set_device("cpu")',
    "layers.cross_entropy": "paddle.nn.functional.cross_entropy",
    "layers.square_error_cost": "paddle.nn.functional.mse_loss",
    "layers.mean": "paddle.mean",
    "layers.accuracy": "paddle.metric.accuracy",
    "layers.data": "paddle.static.data",
    "layers.fc": "paddle.nn.Linear",
    "optimizer.SGDOptimizer": "paddle.optimizer.SGD",
    "optimizer.SGD": "paddle.optimizer.SGD",
    "optimizer.MomentumOptimizer": "paddle.optimizer.Momentum",
    "optimizer.AdamOptimizer": "paddle.optimizer.Adam",
    "optimizer.AdagradOptimizer": "paddle.optimizer.Adagrad",
    "save_dygraph": "paddle.save",
    "load_dygraph": "paddle.load",
    "contrib.reader.distributed_batch_reader": "paddle.io.DistributedBatchSampler",
    "Executor": "paddle.static.Executor",
    "default_main_program": "paddle.static.default_main_program",
    "default_startup_program": "paddle.static.default_startup_program",
}
APEX = {
    "amp.initialize": "torch.amp.autocast and torch.amp.GradScaler",
    "amp.scale_loss": "scaler.scale(loss).backward()",
    "parallel.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "parallel.convert_syncbn_model": "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    "amp": "torch.amp",
}
_SHOWN = 4


def check_removed(program: Program, situation: Situation) -> list[Finding]:
    uses = _uses(program)
    findings = _of_module(uses, "paddle.fluid", FLUID, "fluid", situation)
    if any(name.partition(".")[0] == "apex" for name, _, _ in uses) and not situation.installed("apex"):
        findings += _of_module(uses, "apex", APEX, "apex", situation)
    seen: set[str] = set()
    for name, line, place in uses:
        for row in TABLE:
            if (name == row.name or name.startswith(f"{row.name}.")) and row.name not in seen:
                version = _version(row.package, situation)
                if version is None or not at_least(version, row.since):
                    continue
                seen.add(row.name)
                values = {
                    "said": row.name,
                    "package": row.package,
                    "version": version,
                    "instead": row.instead,
                }
                findings.append(
                    Finding(rule=RULES["removed"], line=line, certain=place.always, values=values)
                )
    return findings


def _of_module(
    uses: list[tuple[str, int, Place]], module: str, table: dict[str, str], rule: str, situation: Situation
) -> list[Finding]:
    """One finding for a module that is gone, with what to write for those of its parts that are used."""
    inside = [use for use in uses if use[0] == module or use[0].startswith(f"{module}.")]
    if not inside:
        return []
    version = _version("paddlepaddle", situation) if rule == "fluid" else ""
    if version is None or (rule == "fluid" and not at_least(version, "2.5")):
        return []
    used = {old: table[old] for name, _, _ in inside if (old := _row(name.removeprefix(f"{module}."), table))}
    said = [f"{old} → {new}" for old, new in used.items()]
    left, listed = len(said) - _SHOWN, "; ".join(said[:_SHOWN])
    new = "paddle.nn, paddle.io" if rule == "fluid" else "torch.amp, torch.nn.parallel"
    what = f"{listed}, and {left} more" if left > 0 else listed or f"write it with  {new}"
    what_zh = f"{listed}，另有 {left} 处" if left > 0 else listed or f"改用  {new}"
    _, line, place = inside[0]
    return [
        Finding(
            rule=RULES[rule],
            line=line,
            certain=place.always,
            values={"version": version or "", "instead": what, "instead_zh": what_zh},
        )
    ]


def _row(name: str, table: dict[str, str]) -> str:
    """The entry of a table that ``name`` is, or is a part of."""
    return next((old for old in table if name == old or name.startswith(f"{old}.")), "")


def _uses(program: Program) -> list[tuple[str, int, Place]]:
    """Every dotted name that is imported or used, in the order of the lines; the whole of each chain."""
    found = [
        (name.removesuffix(".*"), statement.lineno, program.places[statement])
        for name, statement in program.imports()
    ]
    inner = {id(node.value) for node in program.places if isinstance(node, ast.Attribute)}
    for node, place in program.places.items():
        if isinstance(node, (ast.Attribute, ast.Name)) and id(node) not in inner:
            name = program.dotted(node)
            if "." in name and isinstance(node.ctx, ast.Load) and not place.attempted:
                found.append((name, node.lineno, place))
    # a condition may ask for the version
    found = [use for use in found if use[2].plain]
    return sorted(found, key=lambda use: (use[1], use[0]))


def _version(package: str, situation: Situation) -> str | None:
    if package == "python":
        return f"{sys.version_info[0]}.{sys.version_info[1]}"
    if package == "paddlepaddle":
        build = situation.build("paddle")
        return build.version if build is not None else None
    return situation.version(package)


def at_least(version: str, wanted: str) -> bool:
    """Whether a version is this one or a later one, by its leading numbers."""
    numbers = [tuple(map(int, re.findall(r"\d+", text)[:3])) for text in (version, wanted)]
    return numbers[0] >= numbers[1]
