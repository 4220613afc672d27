"""Comparison of waiting ranks with a run's, and of imported modules with their files, strict if in doubt."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nbdist.model import RankSpec

if TYPE_CHECKING:
    from nbdist.model.plan import Plan


PRELOADED: dict[str, tuple[str, ...]] = {
    "torch": (
        "torch",
        "torch.distributed",
        "torch.nn.parallel",
        "torch.utils.data",
        "torch.utils.data.distributed",
        "torch.optim",
        # the first optimizer imports it, with some 800 more
        "torch._dynamo",
    ),
    "paddle": ("paddle", "paddle.distributed", "paddle.distributed.fleet"),
    "jax": ("jax", "jax.numpy", "jax.distributed", "jax.experimental.multihost_utils"),
}

_INTERPRETER = "PYTHON LD_ LC_ LANG LOCPATH TZ TMP TEMP HOME PATH GLIBC_ MALLOC_ VIRTUAL_ENV CONDA_"
_MATHS = "OMP_ GOMP_ KMP_ LIBOMP MKL_ OPENBLAS_ GOTO_ BLIS_ TBB_ DNNL_ ONEDNN_ NUMEXPR_ NUMPY_ NPY_"
_FRAMEWORKS = (
    "TORCH PYTORCH_ ATEN_ AT_ AOT C10 CAFFE2_ KINETO_ INDUCTOR_ TRITON_ FLAGS_ PADDLE_ GLOG_ GFLAGS "
    "CPU_NUM JIT_ XLA_ JAX_ TF_"
)
_DEVICES = "CUDA CUDNN_ CUBLAS_ NVIDIA_ NCCL_ HIP_ HSA_ ROCR_ GPU_ XPU_ ZE_ ASCEND_ NPU_ GLOO_ TP_ UCX_"
READ_UNSEEN = tuple(f"{_INTERPRETER} {_MATHS} {_FRAMEWORKS} {_DEVICES}".split())
"""Beginnings of the variables that native code may read, unseen by Python."""


def read_at_import(name: str, seen: frozenset[str]) -> bool:
    """Return whether an import may have read a variable; ``seen`` are those that Python code read."""
    return name in seen or name.startswith(READ_UNSEEN)


def read_when_loaded(name: str) -> bool:
    """Return whether a library reads a variable only at import; CUDA and connections read theirs later."""
    return name.startswith(tuple(f"{_MATHS} {_FRAMEWORKS}".split()))


def changed_early(plan: Plan, packages: Collection[str] = ()) -> list[str]:
    """Return the variables that the program sets to other values than the ranks have, before the first line
    that surely imports the framework or one of the ``packages``. The rank itself notices settings that are
    not written out in the text (``worker.deferred_imports``)."""
    if "environ" not in plan.program.text and "putenv" not in plan.program.text:
        return []
    try:
        settings = list(_settings(plan, {plan.spec.framework, *packages}))
    except RecursionError:
        return []
    given = [{**plan.environment, **rank.environment} for rank in plan.spec.ranks]
    return [
        name
        for name, value, default in settings
        if any((name not in own) if default else (value is None or own.get(name) != value) for own in given)
    ]


def _settings(plan: Plan, packages: Collection[str]) -> Iterator[tuple[str, str | None, bool]]:
    """Yield name, value (None: not in the text), and whether only a missing variable is set."""
    # the checks take a while to import, and this module is imported with nbdist
    from nbdist import preflight

    program = preflight.Program.of(plan.program.tree)
    imports = (
        node.lineno
        for name, node in program.imports()
        if name.partition(".")[0] in packages and node in program.tree.body
    )
    first = min(imports, default=float("inf"))
    for key, value, node, _ in preflight.assignments(program):
        if node.lineno < first:
            yield key, value, False
    for call in program.calls:
        name = program.value(call.argument("key", 0))
        if call.name == "os.environ.setdefault" and call.line < first and isinstance(name, str):
            yield name, None, True


_STATUS = ("Umask", "Groups", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "SigIgn")
_RESET = 1 << 0 | 1 << 1 | 1 << 12 | 1 << 14 | 1 << 16
"""SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGCHLD as bits: a rank never inherits that they are ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankShape:
    """Settings that a rank starts with before its program is known. ``first`` is the first entry of a
    script's sys.path; a process inherits ``surroundings`` besides its environment."""

    framework: str
    python: str
    cwd: str
    python_path: tuple[str, ...]
    first: str
    environment: Mapping[str, str]
    ranks: tuple[RankSpec, ...]
    surroundings: Mapping[str, str]


def shape_of(plan: Plan) -> RankShape:
    spec = plan.spec
    own = spec.cwd if spec.module else os.path.dirname(os.path.realpath(spec.program))
    return RankShape(
        framework=spec.framework,
        python=shlex.join([spec.python, *spec.python_flags]),
        cwd=spec.cwd,
        python_path=spec.python_path,
        first="" if spec.python_path else own,
        environment=plan.environment,
        ranks=spec.ranks,
        surroundings=surroundings(),
    )


def surroundings(proc: Path = Path("/proc/self")) -> dict[str, str]:
    """Return what a process started now would inherit besides its environment (proc(5)), by name."""
    inherited = {"priority": str(os.getpriority(os.PRIO_PROCESS, 0)), "CPUs": str(os.sched_getaffinity(0))}
    for name, file in {"limits": "limits", "control group": "cgroup", "OOM score": "oom_score_adj"}.items():
        inherited[name] = (proc / file).read_text()
    for line in (proc / "status").read_text().splitlines():
        name, _, value = line.partition(":\t")
        if name in _STATUS:
            inherited[name] = value.strip()
    inherited["SigIgn"] = f"{int(inherited['SigIgn'], 16) & ~_RESET:x}"
    return inherited


def difference(waiting: RankShape, wanted: RankShape, reads: frozenset[str]) -> str:
    """Return why ranks of one shape do not serve another; empty when they do. ``reads`` are the variables
    that Python code read while it imported the framework."""
    if waiting.framework != wanted.framework:
        imports = wanted.framework or "no framework"
        return f"the warm ranks have imported {waiting.framework}, and this program imports {imports}"
    if len(waiting.ranks) != len(wanted.ranks):
        return f"the warm ranks were started with -n {len(waiting.ranks)}"
    if waiting.python != wanted.python:
        return f"the warm ranks were started with {waiting.python}"
    if waiting.cwd != wanted.cwd:
        return f"the working directory was {waiting.cwd}"
    if (waiting.python_path, waiting.first) != (wanted.python_path, wanted.first):
        return "sys.path has changed"
    for then, now in zip(waiting.ranks, wanted.ranks, strict=True):
        if then.device != now.device:
            return f"rank {now.rank} was on {then.device}"
        old = {**waiting.environment, **then.environment}
        new = {**wanted.environment, **now.environment}
        changed = (name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name))
        if name := next((name for name in changed if read_at_import(name, reads)), ""):
            return f"{name} has changed since {waiting.framework} was imported, which may read it"
    for name, value in wanted.surroundings.items():
        if waiting.surroundings.get(name) != value:
            return f"this process has other {name}"
    return ""


class Staleness:
    """Comparison of imported modules with their files. ``files`` have time (ns) and size, ``path`` is the
    sys.path of the import, ``cwd`` the directory of its empty entry."""

    def __init__(self, files: Mapping[str, Sequence[int]], path: Sequence[str], cwd: str) -> None:
        self._files = {file: tuple(stamp) for file, stamp in files.items()}
        places = [entry or cwd for entry in path]
        self._names = {_top(file, places) for file in files}
        self._installed = {place: _installed(place) for place in places}
        self._then = self._seen()

    def changed(self) -> str:
        """Return the first change since this was made; empty without one."""
        for file, stamp in self._files.items():
            if _stamp(file) != stamp:
                return f"{file} has changed since it was imported"
        places = (place for place, now in self._seen().items() if now != self._then[place])
        return next(map(self._news, places), "")

    def changed_since(self, begun: int) -> str:
        """Return the first change since ``begun`` (Unix time in ns), before this was made."""
        places = (place for place in self._installed if self._latest(place) >= begun)
        return next(map(self._news, places), "") or self.changed()

    def _news(self, place: str) -> str:
        return (
            f"{'packages were installed or removed' if self._installed[place] else 'new modules'} in {place}"
        )

    def _latest(self, place: str) -> int:
        """Return the time of the latest change that counts, in ns."""
        if self._installed[place]:
            return (_stamp(place) or (0, 0))[0]
        shadows = self._shadows(place)
        names = shadows if isinstance(shadows, list) else []
        return max((_made(os.path.join(place, name)) for name in names), default=0)

    def _seen(self) -> dict[str, object]:
        return {
            place: _content(place) if installed else self._shadows(place)
            for place, installed in self._installed.items()
        }

    def _shadows(self, place: str) -> object:
        """Return the files in a directory of the user's that have the name of an imported module."""
        try:
            names = os.listdir(place)
        except NotADirectoryError:
            return _stamp(place)
        except OSError:
            return None
        named = (name for name in names if name.partition(".")[0] in self._names)
        return sorted(name for name in named if name.endswith((".py", ".pyc", ".so")) or "." not in name)


def _top(file: str, places: Sequence[str]) -> str:
    """Return the top-level module of a file."""
    inside = [os.path.relpath(file, place) for place in places if file.startswith(os.path.join(place, ""))]
    below = min(inside, key=len, default=os.path.basename(file))
    return below.partition(os.sep)[0].partition(".")[0]


def _installed(place: str) -> bool:
    """Return whether a directory belongs to the interpreter: only installers write there."""
    prefixes = (os.path.join(prefix, "") for prefix in (sys.prefix, sys.base_prefix))
    return os.path.abspath(place).startswith(tuple(prefixes)) or os.path.basename(place) in (
        "site-packages",
        "dist-packages",
    )


def _content(place: str) -> object:
    """Return the stamps of a directory and of its .pth files, which name further ones."""
    try:
        files = sorted(name for name in os.listdir(place) if name.endswith(".pth"))
    except OSError:
        files = []
    return (_stamp(place), [(name, _stamp(os.path.join(place, name))) for name in files])


def _made(module: str) -> int:
    """Return the time of a file's last change or move, in ns; for a directory, that of ``__init__.py``:
    without one it gives way to any module of its name."""
    try:
        status = os.stat(os.path.join(module, "__init__.py") if os.path.isdir(module) else module)
    except OSError:
        return 0
    # a moved file keeps its mtime
    return max(status.st_mtime_ns, status.st_ctime_ns)


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size)
