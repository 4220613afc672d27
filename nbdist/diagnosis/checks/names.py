"""Names that the program uses and does not define: what they are, and what to do about each."""

from __future__ import annotations

import ast
import difflib
import importlib.machinery
import os
from collections.abc import Iterable, Sequence

from nbdist.diagnosis.checks.bindings import bound_names
from nbdist.diagnosis.checks.finding import Finding, found
from nbdist.diagnosis.checks.program import Program
from nbdist.diagnosis.checks.scopes import GIVEN, NOTEBOOK_BUILTINS, Missing, missing_names
from nbdist.diagnosis.checks.situation import Origin, Situation

_KERNEL = NOTEBOOK_BUILTINS | {"In", "Out", "_", "__", "___", "_ih", "_oh", "_dh"}
_BIG = 100_000
_SHORT = 4
# what people call these everywhere
_IMPORTS = {
    "np": "import numpy as np",
    "pd": "import pandas as pd",
    "plt": "import matplotlib.pyplot as plt",
    "tqdm": "from tqdm import tqdm",
    "nbdist": "import nbdist",
    "rank": 'rank = int(os.environ["RANK"])',
    "local_rank": 'local_rank = int(os.environ["LOCAL_RANK"])',
    "world_size": 'world_size = int(os.environ["WORLD_SIZE"])',
    **{name: f"import {name}" for name in ("argparse", "json", "math", "os", "random", "re", "sys", "time")},
    **{name: f"import {name}" for name in ("torch", "paddle", "torchvision")},
}
_TORCH = {
    "nn": "from torch import nn",
    "F": "import torch.nn.functional as F",
    "optim": "from torch import optim",
    "dist": "import torch.distributed as dist",
    "mp": "import torch.multiprocessing as mp",
    "DDP": "from torch.nn.parallel import DistributedDataParallel as DDP",
    "DistributedDataParallel": "from torch.nn.parallel import DistributedDataParallel",
    "DataLoader": "from torch.utils.data import DataLoader",
    "Dataset": "from torch.utils.data import Dataset",
    "DistributedSampler": "from torch.utils.data.distributed import DistributedSampler",
    "transforms": "from torchvision import transforms",
}
_PADDLE = {
    "nn": "import paddle.nn as nn",
    "F": "import paddle.nn.functional as F",
    "dist": "import paddle.distributed as dist",
    "fleet": "from paddle.distributed import fleet",
    "DataLoader": "from paddle.io import DataLoader",
    "Dataset": "from paddle.io import Dataset",
    "DistributedBatchSampler": "from paddle.io import DistributedBatchSampler",
}


def check_names(program: Program, situation: Situation, path: Sequence[str] = ()) -> list[Finding]:
    """A finding for each name, in the order of the lines. ``path`` is where ranks find modules."""
    first: dict[str, Missing] = {}
    uses: dict[str, int] = {}
    for missing in missing_names(program, _from_stars(program, path)):
        if missing.name == "fluid" and situation.build("paddle") is not None:
            continue  # said with what to write today
        uses[missing.name] = uses.get(missing.name, 0) + 1
        known = first.get(missing.name)
        if known is None or (missing.place.always, -missing.line) > (known.place.always, -known.line):
            first[missing.name] = missing
    return [_finding(missing, program, situation) for missing in first.values()]


def _finding(missing: Missing, program: Program, situation: Situation) -> Finding:
    values = {"name": missing.name, "line": str(missing.later or "")}
    if missing.deleted:
        rule = "name-deleted"
    elif missing.name in _KERNEL:
        rule = "name-display" if missing.name == "display" else "name-of-the-kernel"
    elif (origin := situation.origin(missing.name)) is not None:
        rule = _rule_of(origin)
        values |= {"code": origin.code, "type": origin.type, **_cell_values(origin)}
    elif missing.later is not None and missing.later > missing.line:
        rule = "name-too-early"
    else:
        rule, more = _unknown(missing.name, program)
        values |= more
    return found(rule, missing.line, missing.place.always, **values)


def _rule_of(origin: Origin) -> str:
    if origin.kind == "data":
        return "name-of-short-data" if origin.code else "name-of-data"
    return {"import": "name-imported", "definition": "name-defined", "ranks": "name-of-ranks"}[origin.kind]


def _cell_values(origin: Origin) -> dict[str, str]:
    if origin.cell is None:
        return {"cell": "the notebook", "cell_zh": "笔记本"}
    return {"cell": f"cell [{origin.cell}] of the notebook", "cell_zh": f"笔记本的单元 [{origin.cell}]"}


def _unknown(name: str, program: Program) -> tuple[str, dict[str, str]]:
    common = _IMPORTS | (_PADDLE if program.uses("paddle") and not program.uses("torch") else _TORCH)
    if (code := common.get(name)) is not None:
        return "name-not-imported", {"code": code}
    own = {bound for bound, _ in bound_names(program.tree.body)} - {name}
    # a short name is near to many builtins
    own |= GIVEN if len(name) > _SHORT else set()
    near = difflib.get_close_matches(name, own, n=1, cutoff=0.8) if len(name) > 2 else []
    return ("name-misspelt", {"near": near[0]}) if near else ("name-unknown", {})


def _from_stars(program: Program, path: Sequence[str]) -> Iterable[str] | None:
    """The names that star imports bring, read from the modules' files; None when one cannot be read."""
    found: set[str] = set()
    for node in ast.walk(program.tree):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            names = _public_names(node.module or "", path) if not node.level else None
            if names is None:
                return None
            found |= names
    return found


def _public_names(module: str, path: Sequence[str]) -> set[str] | None:
    """What a small Python file offers; None for everything else, which would have to be imported."""
    if "." in module:
        return None
    try:
        spec = importlib.machinery.PathFinder.find_spec(module, list(path) or None)
        if spec is None or not spec.origin or not spec.origin.endswith(".py"):
            return None
        if os.path.getsize(spec.origin) > _BIG:
            return None
        with open(spec.origin, "rb") as file:
            inner = Program.of(file.read().decode())
    except (OSError, SyntaxError, ValueError, ImportError):
        return None
    if inner.mentions("__all__", "__getattr__", "globals", "exec", "*"):
        return None
    stars = any(isinstance(n, ast.ImportFrom) and n.names[0].name == "*" for n in inner.tree.body)
    names = {name for name, _ in bound_names(inner.tree.body)}
    return None if stars else {name for name in names if not name.startswith("_")}
