"""The actions of the verbs on machines: examine them, keep warm ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbdist import runner
from nbdist.errors import UsageMistake
from nbdist.verbs.verb import Frontend

if TYPE_CHECKING:
    from nbdist.doctor import ClusterRequest, Report

_WAIT = 60.0
_MOST_WARM = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The doctor's report, and a line for each thing ``mended``. ``json`` is the format to show."""

    report: Report
    mended: tuple[str, ...]
    json: bool


def doctor(
    frontend: Frontend, *, smoke: bool, fix: bool, json: bool = False, **cluster_options: Any
) -> Examined:
    """Examine this machine or a cluster. Raises UsageMistake, and LaunchError for a failed mending."""
    # imports that only this verb needs
    from nbdist.doctor import examine, examine_cluster, examine_mended, repair

    cluster = _cluster_request(**cluster_options)
    if cluster is not None and (smoke or fix):
        raise UsageMistake("--smoke and --fix are about this machine: leave --on out")
    report = examine(smoke=smoke, tell=frontend.say) if cluster is None else examine_cluster(cluster)
    mended = repair(report) if fix else []
    if mended:
        report = examine_mended(report)
    lines = mended or (["--fix found nothing to mend"] if fix else [])
    return Examined(report=report, mended=tuple(lines), json=json)


def _cluster_request(on: str | None, **given: Any) -> ClusterRequest | None:
    """Return the part of a cluster to examine; None for this machine. Raises UsageMistake."""
    from nbdist.doctor import ENGINES, ClusterRequest

    if on in (None, "local"):
        if option := next((name for name, value in given.items() if value is not None), ""):
            engine = "ray" if option == "ray" else "slurm"
            raise UsageMistake(f"--{option} is about a cluster: add  --on {engine}")
        return None
    if on not in ENGINES:
        raise UsageMistake(f"--on {on} is no engine: write  --on slurm  or  --on ray")
    return ClusterRequest(
        engine=on,
        nodes=given["nodes"] or 2,
        options=given["slurm"] or (),
        address=given["ray"] or "",
        wait=given["wait"] or _WAIT,
    )


def warm(frontend: Frontend, *, count: str | None, framework: str | None) -> runner.WarmState:
    """Keep ``count`` ranks warm, or as many as the last run had; return the state. Raises UsageMistake."""
    count = count or ""
    if count in ("auto", "off"):
        runner.warm_ranks.choose(count)
    elif count.isdigit() and 0 < int(count) <= _MOST_WARM:
        runner.keep_ready(int(count), framework or "")
    elif count or framework:
        raise UsageMistake(f"{frontend.prefix}warm {count}: write  {frontend.usage}")
    return runner.warm_ranks.state()
