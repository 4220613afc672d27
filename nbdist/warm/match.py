"""Whether ranks that wait are those that a run asks for, and whether importing again would bring the same
modules; where that is not sure they are not."""

from __future__ import annotations

import os
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

_INTERPRETER_AND_C_LIBRARY = (
    "PYTHON LD_ LC_ LANG LOCPATH TZ TMP TEMP HOME PATH GLIBC_ MALLOC_ VIRTUAL_ENV CONDA_"
)
_THREADS_AND_MATHS = (
    "OMP_ GOMP_ KMP_ LIBOMP MKL_ OPENBLAS_ GOTO_ BLIS_ TBB_ DNNL_ ONEDNN_ NUMEXPR_ NUMPY_ NPY_"
)
_FRAMEWORKS = (
    "TORCH PYTORCH_ ATEN_ AT_ AOT C10 CAFFE2_ KINETO_ INDUCTOR_ TRITON_ FLAGS_ PADDLE_ GLOG_ GFLAGS "
    "CPU_NUM JIT_ XLA_ JAX_ TF_"
)
_DEVICES = "CUDA CUDNN_ CUBLAS_ NVIDIA_ NCCL_ HIP_ HSA_ ROCR_ GPU_ XPU_ ZE_ GLOO_ TP_ UCX_"
READ_UNSEEN = tuple(f"{_INTERPRETER_AND_C_LIBRARY} {_THREADS_AND_MATHS} {_FRAMEWORKS} {_DEVICES}".split())
"""Native code reads its variables unseen; so these beginnings stand for all that it may have read."""


def read_at_import(name: str, seen: frozenset[str]) -> bool:
    """Whether a variable may have been read by an import; ``seen`` are those that Python code asked for."""
    return name in seen or name.startswith(READ_UNSEEN)


def read_when_loaded(name: str) -> bool:
    """Whether a library reads a variable when it is imported, and never again: those for CUDA and for the
    connections are read later."""
    return name.startswith(tuple(f"{_THREADS_AND_MATHS} {_FRAMEWORKS}".split()))


def changed_early(plan: Plan, packages: Collection[str] = ()) -> list[str]:
    """The variables to which the text gives other values than the ranks have, before the first line that
    surely imports the framework, or one of the ``packages``. What is not written out in the text is not seen
    here: the rank itself notices it (``worker.deferred_imports``)."""
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
    """Name and value (None: the text does not tell), and whether it is set only where there is none."""
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
    """What a rank is made from before its program is known. ``first`` is where sys.path begins for a
    script; ``surroundings`` is what a process gets from the one that starts it, besides its environment."""

    framework: str
    python: str
    cwd: str
    python_path: tuple[str, ...]
    first: str
    environment: Mapping[str, str]
    ranks: tuple[RankSpec, ...]
    surroundings: Mapping[str, str]


def shape_of(plan: Plan) -> RankShape:
    """The shape that the ranks of this run have."""
    spec = plan.spec
    own = spec.cwd if spec.module else os.path.dirname(spec.program)
    return RankShape(
        framework=spec.framework,
        python=spec.python,
        cwd=spec.cwd,
        python_path=spec.python_path,
        first="" if spec.python_path else own,
        environment=plan.environment,
        ranks=spec.ranks,
        surroundings=surroundings(),
    )


def surroundings(proc: Path = Path("/proc/self")) -> dict[str, str]:
    """What a process started now would inherit besides its environment (proc(5)), by name."""
    found = {"priority": str(os.getpriority(os.PRIO_PROCESS, 0)), "CPUs": str(os.sched_getaffinity(0))}
    for name, file in {"limits": "limits", "control group": "cgroup", "OOM score": "oom_score_adj"}.items():
        found[name] = (proc / file).read_text()
    for line in (proc / "status").read_text().splitlines():
        name, _, value = line.partition(":\t")
        if name in _STATUS:
            found[name] = value.strip()
    found["SigIgn"] = f"{int(found['SigIgn'], 16) & ~_RESET:x}"
    return found


def difference(waiting: RankShape, wanted: RankShape, reads: frozenset[str]) -> str:
    """Why ranks of one shape cannot be used for another, in words; empty when they can.

    ``reads`` are the variables that Python code has asked for while the framework was imported.
    """
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
        if name := _read(
            {**waiting.environment, **then.environment}, {**wanted.environment, **now.environment}, reads
        ):
            return f"{name} is not what it was when {waiting.framework} was imported, which may read it"
    for name, value in wanted.surroundings.items():
        if waiting.surroundings.get(name) != value:
            return f"this process has other {name}"
    return ""


def _read(then: Mapping[str, str], now: Mapping[str, str], reads: frozenset[str]) -> str:
    """A variable that differs, and that the imports may have read."""
    changed = (name for name in sorted(then.keys() | now.keys()) if then.get(name) != now.get(name))
    return next((name for name in changed if read_at_import(name, reads)), "")


class Staleness:
    """Looks at imported modules once when it is made, and again when it is asked.

    ``files`` are those that modules were imported from, with time (ns) and size, ``path`` is the sys.path
    of the import, and ``cwd`` the directory that an empty entry of it stands for.
    """

    def __init__(self, files: Mapping[str, Sequence[int]], path: Sequence[str], cwd: str) -> None:
        self._files = {file: tuple(stamp) for file, stamp in files.items()}
        places = [entry or cwd for entry in path]
        self._names = {_top(file, places) for file in files}
        self._installed = {place: _installed(place) for place in places}
        self._then = self._seen()

    def changed(self) -> str:
        """Say what has changed; empty when nothing has."""
        for file, stamp in self._files.items():
            if _stamp(file) != stamp:
                return f"{file} has changed since it was imported"
        places = (place for place, now in self._seen().items() if now != self._then[place])
        return next(map(self._news, places), "")

    def changed_since(self, begun: int) -> str:
        """Say the same when this was made only after the imports, which began at ``begun`` (Unix time in
        ns)."""
        places = (place for place in self._installed if self._latest(place) >= begun)
        return next(map(self._news, places), "") or self.changed()

    def _news(self, place: str) -> str:
        return (
            f"{'packages were installed or removed' if self._installed[place] else 'new modules'} in {place}"
        )

    def _latest(self, place: str) -> int:
        """Return when what counts there came or changed at the latest, in ns."""
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
        """What in a directory of the user's has the name of something that was imported."""
        try:
            names = os.listdir(place)
        except NotADirectoryError:
            return _stamp(place)
        except OSError:
            return None
        named = (name for name in names if name.partition(".")[0] in self._names)
        return sorted(name for name in named if name.endswith((".py", ".pyc", ".so")) or "." not in name)


def _top(file: str, places: Sequence[str]) -> str:
    """The name by which what is in the file is imported, up to the first dot."""
    inside = [os.path.relpath(file, place) for place in places if file.startswith(os.path.join(place, ""))]
    below = min(inside, key=len, default=os.path.basename(file))
    return below.partition(os.sep)[0].partition(".")[0]


def _installed(place: str) -> bool:
    """Whether a directory belongs to the interpreter, and is written to by installers alone."""
    inside = any(
        os.path.abspath(place).startswith(os.path.join(prefix, ""))
        for prefix in (sys.prefix, sys.base_prefix)
    )
    return inside or os.path.basename(place) in ("site-packages", "dist-packages")


def _content(place: str) -> object:
    """When something came or went there, and the files that name further places."""
    try:
        files = sorted(name for name in os.listdir(place) if name.endswith(".pth"))
    except OSError:
        files = []
    return (_stamp(place), [(name, _stamp(os.path.join(place, name))) for name in files])


def _made(module: str) -> int:
    """When a file came or changed at the latest, in ns; of a directory, the file that makes it a package:
    others come and go, and what has none gives way to any other module of its name."""
    try:
        status = os.stat(os.path.join(module, "__init__.py") if os.path.isdir(module) else module)
    except OSError:
        return 0
    # what is moved there keeps its time
    return max(status.st_mtime_ns, status.st_ctime_ns)


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size)
