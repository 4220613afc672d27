"""The spec of a run and its ranks. Written once as spec.json, never changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Union

from nbdist.model.decoding import build
from nbdist.model.reason import Reason

FORMAT = 1
_PORT = re.compile(r"\{port(?:\+(\d+))?\}")
_HOST = re.compile(r"\{host(\d+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """One process, until this machine restarts: pids are used again. ``start_time`` (Linux: clock ticks
    since boot) means nothing without ``boot_id``; both are compared, never computed with."""

    pid: int
    start_time: int
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """The meeting place of one attempt's ranks. Only ``port`` is ever bound. ``hosts``: several nodes."""

    host: str
    port: int
    hosts: tuple[str, ...] = ()

    def fill(self, template: str, *, run: str = "", restarts: int = 0, retries: int = 0) -> str:
        """Fill in ``template``: ``{host}``, ``{hostN}`` of node N, ``{port}`` and ``{port+K}``, ``{run}``
        (its name for all ranks), ``{restarts}`` and ``{retries}``."""
        text = template.replace("{host}", self.host).replace("{run}", run)
        text = text.replace("{restarts}", str(restarts)).replace("{retries}", str(retries))
        text = _HOST.sub(lambda match: self.hosts[int(match[1])], text)
        return _PORT.sub(lambda match: str(self.port + int(match[1] or 0)), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A rank's CPU, or the GPU with this index in nvidia-smi. ``name`` is its model where known."""

    kind: str = "cpu"
    index: int = 0
    name: str = field(default="", compare=False)

    def __str__(self) -> str:
        return "CPU" if self.kind == "cpu" else f"GPU {self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSpec:
    """One rank of a run. ``rank`` is global; ``environment`` holds templates for Rendezvous.fill."""

    rank: int
    local_rank: int
    node_rank: int = 0
    device: Device = Device()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A name that ranks got from the notebook. ``type`` is "class", "function", "module" or its value's
    type; ``size`` counts bytes, without those shared with names before it. ``asked``: the user named it,
    no other name brought it along. ``value``: a number's value; ``digest`` tells other data apart."""

    name: str
    type: str
    size: int
    asked: bool = True
    value: str = ""
    digest: str = ""

    @property
    def is_definition(self) -> bool:
        """Return whether it is code, and no data."""
        return self.type in ("class", "function", "module")


Value = Union[bool, int, float, str, None]

_WORDS: Mapping[str, Value] = {"true": True, "false": False, "none": None}


def value_of(text: str) -> Value:
    """Parse what was typed: a number, true or false, none, else the text itself."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


RANKS = "-n"
"""The name of the number of ranks among the values of a scale's points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """A run's point of a sweep: ``number`` from 0, ``values`` as typed, and all ``points`` (0: not known).
    One of a scale has ``-n`` among its values; its program does not get that."""

    sweep: str
    number: int
    values: Mapping[str, str]
    points: int = 0

    @property
    def params(self) -> dict[str, Value]:
        """Return the values as its program has them."""
        return {name: value_of(text) for name, text in self.values.items() if name != RANKS}

    @property
    def of_scale(self) -> bool:
        return RANKS in self.values

    @property
    def text(self) -> str:
        """Return ``lr=0.1 width=64``, or ``-n 2``."""
        words = (f"{k} {v}" if k == RANKS else f"{k}={v}" for k, v in self.values.items())
        return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One run, as it was asked for. Times are Unix seconds, durations seconds.

    ``program`` is the file that every rank runs as ``__main__``, ``module`` its name for ``python -m``,
    ``python_flags`` are the options of ``python``;
    ``python_path`` is a rank's ``sys.path`` (empty: the interpreter's). A rank on its way out has ``grace``
    to save its work. At ``until`` the ranks leave: seconds from the start, or Unix time where ``limit``, as
    it was typed, is a time of the day or "auto". After ``hang_after`` without progress the run is called
    stalled; None for never. ``memory``: bytes of each rank; None for no limit.
    ``environment``: the user's variables, with a mask for each value that may be secret (``privacy``): the
    ranks inherit the real ones, never through a file. ``digests`` are those of their secret variables
    (``privacy.digests_of``). ``scrape``: printed numbers become curves. ``log_dir``: a folder for copies of
    the logs. ``inputs``: names from the notebook, whose values are deleted after the run unless
    ``keep_inputs``. ``pull``: variables of rank 0 that become results at its end. ``versions`` of libraries,
    by name. ``checkpoints``: their directory (empty: none that all machines see). ``resumed``: the id of the
    run that this one goes on from. ``debug``: a debugger holds a rank that raises. ``sweep``: its point of
    a sweep. ``session``: the seconds without a cell after which a session ends itself; None for any other
    run.

    Each of several machines has a directory of its own. ``ranks`` are all ranks, ``here`` those of this
    machine, node ``node_rank``; ``master`` is where the ranks meet, ``addresses`` are the nodes' as far as
    given, ``host`` is this machine's own where chosen. Where an ``engine`` places the run, its nodes share
    the directory, and all ranks are here; ``engine_options`` are the user's, ``key=value`` or ``key``."""

    run_id: str
    name: str
    created: float
    program: str
    python: str
    cwd: str
    ranks: tuple[RankSpec, ...]
    framework: str
    backend: str
    args: tuple[str, ...] = ()
    python_flags: tuple[str, ...] = ()
    module: str = ""
    python_path: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    digests: tuple[str, ...] = ()
    detached: bool = False
    debug: bool = False
    timeout: float | None = None
    grace: float = 30.0
    until: float | None = None
    limit: str = ""
    hang_after: float | None = None
    retries: int = 0
    memory: int | None = None
    scrape: bool = True
    log_dir: str = ""
    inputs: tuple[Input, ...] = ()
    keep_inputs: bool = False
    pull: tuple[str, ...] = ()
    checkpoints: str = ""
    resumed: str = ""
    session: float | None = None
    sweep: SweepPoint | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 1
    node_rank: int = 0
    master: str = ""
    addresses: tuple[str, ...] = ()
    host: str = ""
    wait: float = 600.0
    engine: str = ""
    engine_options: tuple[str, ...] = ()
    owner: ProcessId | None = None
    notebook: str = ""
    cell_id: str = ""
    format: int = FORMAT

    @property
    def world_size(self) -> int:
        return len(self.ranks)

    @property
    def resumed_label(self) -> str:
        """Return the label of the run that this one goes on from; empty for none."""
        return self.resumed.split("-", 2)[-1]

    @property
    def here(self) -> tuple[RankSpec, ...]:
        """Return the ranks of this machine."""
        return tuple(rank for rank in self.ranks if self.is_here(rank))

    @property
    def holds(self) -> str:
        """Return what holds a rank for a debugger (``worker.order.HOLDS``)."""
        seen = self.session is not None or not self.detached
        alone = self.nodes == 1 and not self.engine and self.sweep is None
        return "errors" if self.debug else "breakpoints" if seen and alone else "nothing"

    @property
    def is_from_start(self) -> bool:
        """Return whether ``until`` counts from the start of the ranks."""
        return self.limit != "auto" and ":" not in self.limit

    @property
    def timeout_reason(self) -> Reason:
        """Return the reason of an end by the time limit; none without a limit."""
        return Reason() if self.timeout is None else Reason("time-limit", seconds=self.timeout)

    def shown(self) -> RunSpec:
        """Return the spec as it may leave the run's directory, with masks over possible secrets."""
        from nbdist import privacy  # a supervisor starts sooner without it

        return replace(
            self,
            args=privacy.masked_words(self.args),
            environment=privacy.without_values(self.environment),
            digests=(),
            engine_options=privacy.masked_words(self.engine_options),
        )

    def is_here(self, rank: RankSpec) -> bool:
        """Return whether the files of a rank are in this directory."""
        return bool(self.engine) or rank.node_rank == self.node_rank

    def to_dict(self) -> dict[str, Any]:
        """Return it for a file, with the ranks' common environment once: it lists all the ranks."""
        data = asdict(self)
        environments = [rank["environment"].items() for rank in data["ranks"]]
        common = dict(sorted(set.intersection(*map(set, environments)))) if len(environments) > 1 else {}
        for rank in data["ranks"]:
            rank["environment"] = {k: v for k, v in rank["environment"].items() if k not in common}
        return data | {"rank_environment": common}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunSpec:
        """Return the spec in ``data``, without fields of newer versions. Raises KeyError, TypeError,
        ValueError or AttributeError when ``data`` is not a spec."""
        given, common = data["ranks"], data.get("rank_environment", {})
        ranks = [{**rank, "environment": {**common, **rank.get("environment", {})}} for rank in given]
        spec = build(cls, {**data, "ranks": ranks})
        if [rank.rank for rank in spec.ranks] != list(range(spec.world_size)):
            raise ValueError("the ranks are not numbered from 0 on")
        if spec.nodes < 1:
            raise ValueError("a run is on a machine")
        if any(
            "\0" in path for path in (spec.program, spec.python, spec.cwd, spec.log_dir, spec.checkpoints)
        ):
            raise ValueError("no path has a null character")
        if not spec.name.isprintable():
            raise ValueError("the name cannot be printed")
        return spec
