"""The results of a run's ranks (``run.results``), and its metrics in one table (``run.history()``)."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbdist.errors import NbdistError, UnknownResult, UsageMistake
from nbdist.model import Run
from nbdist.store import LogStream, MetricPoint, MetricsReader, RunDirectory
from nbdist.store.paths import check_private
from nbdist.store.results import Result, read_index, read_value
from nbdist.store.scraped.log import merge_points, printed_points
from nbdist.text import size_text
from nbdist.worker.result_files import LAST, RETURNED

if TYPE_CHECKING:
    import pandas

_COLUMNS = ("name", "type", "shape", "size", "format", "value")
_MOST_VALUE = 60
_OWN = frozenset({LAST, RETURNED})


def check_rank(run: Run, rank: int) -> None:
    """Raise UsageMistake when the run has no such rank."""
    if not 0 <= rank < run.spec.world_size:
        raise UsageMistake(f"run {run.label} has no rank {rank}: it has 0 to {run.spec.world_size - 1}")


def check_here(run: Run, rank: int, what: str) -> None:
    """Raise UsageMistake when the run has no such rank here. ``what``: ``its log is``."""
    check_rank(run, rank)
    node = run.spec.ranks[rank].node_rank
    if not run.spec.is_here(run.spec.ranks[rank]):
        address = f" ({run.hosts[node]})" if run.hosts else ""
        raise UsageMistake(f"rank {rank} of {run.label} ran on node {node}{address}, and {what} there")


class Results(Mapping[str, Any]):
    """The results of one rank by their names. Only ``[…]``, ``get`` and ``items`` read values; everything
    else reads the index alone.

    A value that is no JSON, array or tensor is a pickle, and reading it executes what the rank's program put
    into it; ``safe`` refuses those.

    Two are equal when they are of the same rank and attempt of the same run. To compare values, write
    ``dict(run.results) == {…}``.
    """

    def __init__(self, directory: RunDirectory, run: Run, rank: int = 0, *, pickles: bool = True) -> None:
        self._directory = directory
        self._run = run
        self._rank = rank
        self._files = directory.rank(rank, run.attempt)
        self._pickles = pickles

    def of(self, rank: int) -> Results:
        """Return the results of another rank. Raises UsageMistake when the run has no such rank here."""
        check_here(self._run, rank, "its results are")
        return Results(self._directory, self._run, rank, pickles=self._pickles)

    def gather(self, name: str) -> list[Any]:
        """Return the values of this name by rank. Raises UnknownResult when a rank has none."""
        return [self.of(rank)[name] for rank in range(self._run.spec.world_size)]

    @property
    def safe(self) -> Results:
        """Return the same results, which refuse pickles."""
        return Results(self._directory, self._run, self._rank, pickles=False)

    @property
    def index(self) -> dict[str, Result]:
        """Return the entry of each result, without its value."""
        return {name: result for name, result in read_index(self._files).items() if name not in _OWN}

    @property
    def last_text(self) -> str:
        """Return the printed value of the cell's last expression; empty where there is none."""
        result = read_index(self._files).get(LAST)
        # the rank may replace it meanwhile
        text = self.safe[LAST] if result is not None and result.format == "json" else ""
        return text if isinstance(text, str) else ""

    def returned(self) -> Any:
        """Return the value of a function of ``nbdist.run``. Raises as ``[…]`` does."""
        if RETURNED not in read_index(self._files):
            raise UnknownResult(
                f"run {self._run.label} ran no function that returns a value: write  "
                'nbdist.result(acc=acc)  in its program, and read  run.results["acc"]'
            )
        return self[RETURNED]

    def __getitem__(self, name: str) -> Any:
        """Raise UnknownResult, NotPrivate, or UsageMistake for a value that cannot be read."""
        result = self._result(name)
        while True:
            try:
                return self._read(result)
            except FileNotFoundError:
                # the rank has replaced it since
                again = self._result(name)
                if again.file == result.file:
                    raise UnknownResult(f"the file of result {name} of rank {self._rank} is gone") from None
                result = again

    def _result(self, name: str) -> Result:
        index = read_index(self._files)
        rank = f"rank {self._rank} of {self._run.label}"
        if (result := index.get(name)) is None:
            names = ", ".join(known for known in index if known not in _OWN)
            hint = f"it gave {names}" if names else f"write  nbdist.result({name}={name})  in its program"
            raise UnknownResult(f"{rank} gave no result {name}: {hint}")
        if result.problem:
            raise UnknownResult(f"{rank} could not store the result {name} ({result.type}): {result.problem}")
        return result

    def _read(self, result: Result) -> Any:
        try:
            check_private(self._directory.path)
            return read_value(self._files, result, pickles=self._pickles)
        except (FileNotFoundError, NbdistError):
            raise
        except Exception as error:
            raise UsageMistake(
                f"result {result.name} ({result.type}) of rank {self._rank} cannot be read here: "
                f"{type(error).__name__}: {error}"
            ) from error

    def __iter__(self) -> Iterator[str]:
        return (name for name, result in self.index.items() if not result.problem)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    # a Mapping would read values for these two

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __eq__(self, other: object) -> bool:
        return self._files.path == other._files.path if isinstance(other, Results) else NotImplemented

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __repr__(self) -> str:
        rows = [_COLUMNS, *map(_row, self.index.values())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        head = f"results of rank {self._rank} of {self._run.label}"
        if len(rows) == 1:
            return f"{head}: none"
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return "\n".join([head, *lines])

    def _repr_html_(self) -> str:
        rows = list(map(_row, self.index.values()))
        head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        title = html.escape(f"results of rank {self._rank} of {self._run.label}")
        return f"<table><caption>{title}</caption><tr>{head}</tr>{body}</table>"


def _row(result: Result) -> tuple[str, ...]:
    shape = " × ".join(map(str, result.shape))
    dtype = f" {result.dtype}" if result.dtype else ""
    text = result.problem or result.repr
    value = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    short = value if len(value) <= _MOST_VALUE else f"{value[: _MOST_VALUE - 1]}…"
    kind = f"state_dict ({result.type})" if result.kind == "state_dict" else result.type
    form = "not stored" if result.problem else result.format
    return (result.name, kind + dtype, shape, size_text(result.bytes), form, short)


_TYPES = {"run": "str", "rank": "int64", "step": "int64", "tag": "str", "value": "float64", "time": "float64"}


def read_history(runs: Sequence[tuple[Run, RunDirectory]], tags: tuple[str, ...]) -> pandas.DataFrame:
    """Return a row for each point of these tags (none: all), in order for each rank, with the label of its
    run in the column ``run``. Raises UsageMistake without pandas."""
    try:
        import pandas
    except ImportError:
        raise UsageMistake(
            "run.history() makes a DataFrame, and pandas is not installed here:  %pip install pandas"
        ) from None
    rows = [(run.label, *row) for run, directory in runs for row in _points(run, directory, tags)]
    columns = zip(*rows, strict=True) if rows else [()] * len(_TYPES)
    return pandas.DataFrame(dict(zip(_TYPES, columns, strict=True))).astype(_TYPES)


def _points(run: Run, directory: RunDirectory, tags: tuple[str, ...]) -> Iterator[tuple[object, ...]]:
    for rank in run.ranks:
        files = directory.rank(rank.rank, run.attempt)
        reader = MetricsReader(files.metrics)
        points: list[MetricPoint] = []
        while recorded := reader.read():
            points += recorded
        if run.spec.scrape:
            tags_of_points = {tag for point in points for tag in point.values}
            points += merge_points([], printed_points(files, LogStream(files.log).size), tags=tags_of_points)
        counted: dict[str, int] = {}
        for point in points:
            for tag, value in point.values.items():
                # as in the charts, a tag without a step counts on from its last
                step = counted.get(tag, -1) + 1 if point.step is None else point.step
                counted[tag] = step
                if not tags or tag in tags:
                    yield rank.rank, step, tag, value, point.time
