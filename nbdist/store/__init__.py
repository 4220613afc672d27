"""The directory of a run on disk, and its readers and writers. A supervisor starts sooner without
``store.scraped``: its users import that module themselves."""

from nbdist.store.journal import read_events
from nbdist.store.logs import LogLines, LogStream, LogTimes, moves_up, moves_within
from nbdist.store.metrics import MetricPoint, MetricsReader
from nbdist.store.paths import RankDirectory, RunDirectory
from nbdist.store.recovery import RunReader, look
from nbdist.store.reports import ErrorFrame, ErrorReport, read_error
from nbdist.store.run_store import RunStore, snapshot

__all__ = [
    "ErrorFrame",
    "ErrorReport",
    "LogLines",
    "LogStream",
    "LogTimes",
    "MetricPoint",
    "MetricsReader",
    "RankDirectory",
    "RunDirectory",
    "RunReader",
    "RunStore",
    "look",
    "moves_up",
    "moves_within",
    "read_error",
    "read_events",
    "snapshot",
]
