"""What was asked for: a run and its ranks. Written once as spec.json, never changed."""

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
    """One process, for as long as this machine is up. A pid alone is none: the kernel gives it to another
    process later.

    ``start_time`` is what the system counts it in (Linux: clock ticks since boot), so it means
    nothing without ``boot_id``; both are compared, never computed with.
    """

    pid: int
    start_time: int
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """Where the ranks of one attempt meet. Only ``port`` itself is ever bound.

    ``hosts`` are the addresses of the nodes of a run on several.
    """

    host: str
    port: int
    hosts: tuple[str, ...] = ()

    def fill(self, template: str, *, run: str = "", restarts: int = 0, retries: int = 0) -> str:
        """``template`` with ``{host}``, ``{hostN}`` of node N, ``{port}`` and ``{port+K}`` put in, and with
        ``{run}``, what all ranks call the run, how often it was started again, and how often it may be."""
        text = template.replace("{host}", self.host).replace("{run}", run)
        text = text.replace("{restarts}", str(restarts)).replace("{retries}", str(retries))
        text = _HOST.sub(lambda match: self.hosts[int(match[1])], text)
        return _PORT.sub(lambda match: str(self.port + int(match[1] or 0)), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What a rank computes on: the CPU, or the GPU with this index in nvidia-smi. ``name`` is its model where
    it was looked at."""

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
    """A name that ranks got from the notebook. ``type`` is "class", "function", "module" or the name of its
    value's type; ``size`` counts bytes, without what it shares with names before it. ``asked``: it was named,
    and did not come along because another one uses it. ``value`` is what it is where it is a number;
    ``digest`` tells other data apart."""

    name: str
    type: str
    size: int
    asked: bool = True
    value: str = ""
    digest: str = ""

    @property
    def is_definition(self) -> bool:
        """Whether it is code, and no data."""
        return self.type in ("class", "function", "module")


Value = Union[bool, int, float, str, None]

_WORDS: Mapping[str, Value] = {"true": True, "false": False, "none": None}


def value_of(text: str) -> Value:
    """What a program gets for what was typed: a number, true or false, none, else the text itself."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """Which point of which sweep a run is: its ``number`` from 0, its ``values`` by name, as typed, and how
    many points there are (0: not known)."""

    sweep: str
    number: int
    values: Mapping[str, str]
    points: int = 0

    @property
    def params(self) -> dict[str, Value]:
        """The values as its program has them."""
        return {name: value_of(text) for name, text in self.values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One run, as it was asked for.

    ``program`` is the file that every rank runs as ``__main__``, ``module`` its name where it is run as
    ``python -m`` would; ``python_path`` is what ``sys.path`` is in a rank (empty: what the interpreter
    makes it). Times are Unix seconds, durations seconds.
    ``hang_after`` is how long nothing may happen before the run is called stalled; None for never.
    ``memory`` is how many bytes each rank may have; None for no limit.
    ``environment`` is what the user asked to be set, with a mask for each value that is not known to be
    harmless (``privacy``): the ranks inherit the real ones from process to process, never through a file.
    ``digests`` are those of their secret variables (``privacy.digests_of``).
    ``scrape``: numbers that the ranks print become curves. ``log_dir`` is where each rank's log is written
    besides.
    ``inputs`` are the names that the ranks have from the notebook; their values are deleted when the run has
    ended unless ``keep_inputs``. ``versions`` are those of what the run stands on, by name.
    ``checkpoints`` is the directory of the program's checkpoints (empty: none that all machines are known to
    see), ``resumed`` the id of the run that this one goes on from.
    ``sweep`` says which point of a sweep it is; None for a run by itself.
    Of a session, whose ranks execute cells, ``session`` is after how many seconds without one it ends itself;
    None for any other run.

    Of a run on several machines each has a directory of its own. ``ranks`` are all of its ranks, ``here``
    those of this machine, node ``node_rank``; ``master`` is where the ranks meet, ``addresses`` are the
    nodes' as far as they were given, ``host`` is this machine's own where it was chosen.

    Where an ``engine`` (slurm) places the run, its nodes share the directory, and nothing is elsewhere;
    ``engine_options`` are what the user told the engine, each ``key=value`` or a bare ``key``.
    """

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
    module: str = ""
    python_path: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    digests: tuple[str, ...] = ()
    detached: bool = False
    timeout: float | None = None
    hang_after: float | None = None
    retries: int = 0
    memory: int | None = None
    scrape: bool = True
    log_dir: str = ""
    inputs: tuple[Input, ...] = ()
    keep_inputs: bool = False
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
        """What the run is called that this one goes on from; empty for none."""
        return self.resumed.split("-", 2)[-1]

    @property
    def here(self) -> tuple[RankSpec, ...]:
        """The ranks of this machine."""
        return tuple(rank for rank in self.ranks if self.is_here(rank))

    @property
    def timeout_reason(self) -> Reason:
        """Why a run ended that its time limit has ended; none without a limit."""
        return Reason() if self.timeout is None else Reason("time-limit", seconds=self.timeout)

    def shown(self) -> RunSpec:
        """The spec as it may leave the run's directory: what may be secret in it is masked."""
        from nbdist import privacy  # a supervisor starts sooner without it

        return replace(
            self,
            args=privacy.masked_words(self.args),
            environment=privacy.without_values(self.environment),
            digests=(),
            engine_options=privacy.masked_words(self.engine_options),
        )

    def is_here(self, rank: RankSpec) -> bool:
        """Whether the files of a rank are to be found in this directory."""
        return bool(self.engine) or rank.node_rank == self.node_rank

    def to_dict(self) -> dict[str, Any]:
        """For a file. What all ranks have in their environment is written once: with each rank the list of
        all ranks would make it grow with their square."""
        data = asdict(self)
        environments = [rank["environment"].items() for rank in data["ranks"]]
        common = dict(sorted(set.intersection(*map(set, environments)))) if len(environments) > 1 else {}
        for rank in data["ranks"]:
            rank["environment"] = {k: v for k, v in rank["environment"].items() if k not in common}
        return data | {"rank_environment": common}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunSpec:
        """The spec in ``data``; what a newer version of nbdist added is left out.

        Raises KeyError, TypeError, ValueError or AttributeError when ``data`` is not a spec.
        """
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
