"""What the options of one cell come to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was typed behind ``%%distributed``, checked for itself (not yet against the machine).

    ``gpus`` is None where the option is left out, "all", or ids. ``timeout``, ``hang_after`` (0: never)
    and ``wait`` are in seconds, ``memory`` is what each rank may have in bytes.
    ``engine`` is where the run is started, ``slurm`` what Slurm is told, each ``key=value`` or ``key``,
    ``ray`` where a Ray is.
    ``master`` is "host:port", either of which may be missing. ``any_device``: as another launcher does,
    ranks get GPUs where there are enough. ``notes`` say what of another launcher's flags has no effect.
    """

    nproc: int | None = None
    gpus: tuple[int, ...] | str | None = None
    framework: str = "auto"
    backend: str = "auto"
    name: str = ""
    detach: bool = False
    timeout: float | None = None
    hang_after: float = 60.0
    retries: int = 0
    memory: int | None = None
    env: tuple[tuple[str, str], ...] = ()
    args: tuple[str, ...] = ()
    cwd: str = ""
    log_dir: str = ""
    nodes: int | None = None
    node_rank: int | None = None
    master: str = ""
    ips: tuple[str, ...] = ()
    host: str = ""
    wait: float = 600.0
    engine: str = "local"
    slurm: tuple[str, ...] = ()
    ray: str = ""
    scrape: bool = True
    panel: bool = True
    check: bool = True
    warm: bool | None = None
    show_ranks: tuple[int, ...] | None = None
    any_device: bool = False
    notes: tuple[str, ...] = ()
