"""A run as a row of the list."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from nbdist.feed.curves import Spark, spark_of
from nbdist.feed.formatting import number_text
from nbdist.feed.measures import FailureWatch
from nbdist.feed.progress import Progress
from nbdist.feed.snapshot import glance
from nbdist.model import Run, RunState
from nbdist.store import RunDirectory
from nbdist.text import reason_text

_HEADLINE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """``RunRow`` in openapi.yaml says what each field is."""

    run_id: str
    name: str
    label: str
    state: str
    live: bool
    stalled: bool
    reason: str
    reason_zh: str
    stopped_as_asked: bool
    created: float
    started: float | None
    ended: float | None
    world_size: int
    devices: tuple[str, ...]
    framework: str
    notebook: str
    cell_id: str
    progress: Progress | None
    headline: str
    headline_zh: str
    spark: Spark | None
    detached: bool

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def row_of(run: Run, directory: RunDirectory, now: float) -> RunRow:
    """The row at the moment ``now`` (Unix seconds). Reads a little of the run's files."""
    spec, live = run.spec, not run.state.terminal
    (spark, stands), reason = spark_of(run, directory), run.reason or run.stop_reason
    headline, headline_zh = _headline(run, directory, spark, stands)
    return RunRow(
        run_id=run.run_id,
        name=spec.name,
        label=run.label,
        state=run.state.value,
        live=live,
        stalled=live and run.stalled is not None,
        reason=reason_text(reason),
        reason_zh=reason_text(reason, "zh"),
        stopped_as_asked=run.stopped_as_asked,
        created=spec.created,
        started=run.started,
        ended=run.ended,
        world_size=spec.world_size,
        devices=tuple(dict.fromkeys(str(rank.device) for rank in spec.ranks)),
        framework=spec.framework,
        notebook=spec.notebook,
        cell_id=spec.cell_id,
        progress=glance(run, directory, now).progress if live else None,
        headline=headline[:_HEADLINE],
        headline_zh=headline_zh[:_HEADLINE],
        spark=spark,
        detached=spec.detached,
    )


def _headline(run: Run, directory: RunDirectory, spark: Spark | None, stands: float) -> tuple[str, str]:
    """In English and Chinese."""
    if run.state in (RunState.FAILED, RunState.LOST):
        failure = FailureWatch(directory).look(run)
        if failure is None:
            return reason_text(run.reason), reason_text(run.reason, "zh")
        return failure.headline, failure.headline_zh
    if spark is None:
        return "", ""
    said = f"{spark.tag} {number_text(stands)}"
    return said, said
