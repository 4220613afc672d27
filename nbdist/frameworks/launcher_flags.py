"""The flags of other launchers: what each of them is here, or what to use instead.

torchrun (torch.distributed.run), ``paddle.distributed.launch`` (fleetrun is the same program) and the
launcher that fleetrun was before paddle 2.3. A test holds this table against the installed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nbdist.devices import cpu_count
from nbdist.errors import UsageMistake

TORCHRUN, PADDLE, FLEETRUN = "torchrun", "paddle.distributed.launch", "fleetrun"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag of another launcher. ``name`` is spelt with dashes; underscores mean the same.

    ``becomes`` gives the options of nbdist for a value ("" where the flag takes none), and raises
    UsageMistake where there are none. ``no_effect`` says why nothing has to be done for it.
    """

    name: str
    of: tuple[str, ...]
    becomes: Callable[[str], Sequence[str]]
    valued: bool = True
    short: str = ""
    no_effect: str = ""


def _to(option: str) -> Callable[[str], Sequence[str]]:
    return lambda value: [option, value]


def _nothing(_: str) -> Sequence[str]:
    return []


def _never(name: str, instead: str) -> Callable[[str], Sequence[str]]:
    def refuse(_: str) -> Sequence[str]:
        raise UsageMistake(f"{name}: {instead}")

    return refuse


def _only(name: str, allowed: Sequence[str], instead: str) -> Callable[[str], Sequence[str]]:
    """Nothing to do for the values in ``allowed``; every other one is refused."""

    def check(value: str) -> Sequence[str]:
        if value.lower() not in allowed:
            raise UsageMistake(f"{name} {value}: {instead}")
        return []

    return check


def _nodes(value: str) -> Sequence[str]:
    least, colon, most = value.partition(":")
    if colon and least != most:
        raise UsageMistake(
            f"--nnodes {value}: a run here has the same nodes from its beginning to its end: "
            f"write  --nodes {most or least}"
        )
    return ["--nodes", least]


def _ranks_per_node(value: str) -> Sequence[str]:
    match value:
        case "gpu":
            return ["--gpus", "all"]
        case "cpu":
            return ["-n", str(cpu_count())]
        case "auto":
            return []
        case "xpu":
            raise UsageMistake("--nproc_per_node xpu: nbdist knows GPUs of NVIDIA and the CPU: write  -n 2")
    return ["-n", value]


def _master(value: str) -> Sequence[str]:
    if value.startswith("etcd"):
        raise UsageMistake(f"--master {value}: nbdist needs no etcd: write  --master HOST:PORT  of node 0")
    return ["--master", value.removeprefix("http://")]


def _rdzv_conf(value: str) -> Sequence[str]:
    pairs = dict(pair.partition("=")[::2] for pair in value.split(",") if pair)
    seconds = pairs.get("join_timeout") or pairs.get("timeout")
    return ["--wait", seconds] if seconds else []


_BOTH = (TORCHRUN, PADDLE)
_SERVERS = (
    "nbdist runs collective training, where every process is a rank; parameter servers are processes of "
    "another kind. Make the program collective (fleet.init(is_collective=True)) and write  -n 2 , or start "
    "the servers with  python -m paddle.distributed.launch"
)
_ACCELERATORS = "nbdist knows GPUs of NVIDIA and the CPU: write  --gpus 0,1  or  -n 2"
_ELASTIC = (
    "a run here has the same ranks from its beginning to its end: leave it out; "
    "--retries 3  starts all of them again after a failure"
)
_AUTO = "nbdist starts the ranks and tunes nothing: use  python -m paddle.distributed.launch  for it"
_OFF = ("false", "0", "no", "off", "n", "f")
_LOGS = "every rank's output is complete in its log, and shown"


def _refused(name: str, of: str, instead: str, *, valued: bool = True) -> Flag:
    return Flag(name=name, of=(of,), becomes=_never(name, instead), valued=valued)


def _idle(name: str, of: str, reason: str, *, valued: bool = True, short: str = "") -> Flag:
    return Flag(name=name, of=(of,), becomes=_nothing, valued=valued, short=short, no_effect=reason)


FLAGS: tuple[Flag, ...] = (
    Flag(name="--nnodes", of=_BOTH, becomes=_nodes),
    Flag(name="--nproc-per-node", of=(*_BOTH, FLEETRUN), becomes=_ranks_per_node),
    Flag(name="--rank", of=(PADDLE,), becomes=_to("--node-rank")),
    Flag(name="--master", of=(PADDLE,), becomes=_master),
    Flag(name="--master-addr", of=(TORCHRUN,), becomes=_to("--master")),
    Flag(name="--master-port", of=(TORCHRUN,), becomes=lambda value: ["--master", f":{value}"]),
    Flag(name="--start-port", of=(PADDLE,), becomes=lambda value: ["--master", f":{value}"]),
    Flag(name="--local-addr", of=(TORCHRUN,), becomes=_to("--host")),
    Flag(name="--rdzv-endpoint", of=(TORCHRUN,), becomes=_to("--master")),
    Flag(
        name="--rdzv-backend",
        of=(TORCHRUN,),
        becomes=_only(
            "--rdzv-backend", ("c10d", "static"), "nodes meet at node 0: write  --master HOST:PORT"
        ),
    ),
    Flag(name="--rdzv-conf", of=(TORCHRUN,), becomes=_rdzv_conf),
    Flag(name="--standalone", of=(TORCHRUN,), becomes=lambda _: ["--master", "-"], valued=False),
    _idle("--rdzv-id", TORCHRUN, "a run has an id of its own; --name gives it a name"),
    Flag(
        name="--job-id",
        of=(PADDLE, FLEETRUN),
        becomes=lambda value: [] if value == "default" else ["--name", value],
    ),
    Flag(name="--max-restarts", of=(TORCHRUN,), becomes=_to("--retries")),
    Flag(name="--max-restart", of=(PADDLE,), becomes=_to("--retries")),
    Flag(name="--local-ranks-filter", of=(TORCHRUN,), becomes=_to("--show-ranks")),
    _idle("--monitor-interval", TORCHRUN, "nbdist sees at once that a rank has ended"),
    _idle("--start-method", TORCHRUN, "each rank is a process of its own, forked from nothing that has run"),
    _idle("--redirects", TORCHRUN, _LOGS, short="-r"),
    _idle("--tee", TORCHRUN, _LOGS, short="-t"),
    _idle("--role", TORCHRUN, "all ranks have one role"),
    _idle("--run-path", TORCHRUN, "a script runs so anyway", valued=False),
    _idle("--use-env", TORCHRUN, "LOCAL_RANK is in the environment anyway", valued=False),
    _idle("--signals-to-handle", TORCHRUN, "a run is stopped by Ctrl-C, Stop, %dist_stop or nbdist stop"),
    _idle("--shutdown-timeout", TORCHRUN, "ranks have seconds between SIGINT, SIGTERM and SIGKILL"),
    Flag(
        name="--event-log-handler",
        of=(TORCHRUN,),
        becomes=_only(
            "--event-log-handler", ("null", "console"), "events are in events.jsonl of the run's directory"
        ),
        no_effect="events are in events.jsonl of the run's directory",
    ),
    _refused("--logs-specs", TORCHRUN, "logs are files of the run: %dist_logs RUN shows them"),
    _refused("--duplicate-stdout-filters", TORCHRUN, "filter the logs:  %dist_logs RUN --grep PATTERN"),
    _refused("--duplicate-stderr-filters", TORCHRUN, "filter the logs:  %dist_logs RUN --grep PATTERN"),
    _refused(
        "--numa-binding",
        TORCHRUN,
        "nbdist binds no CPUs: call  os.sched_setaffinity(0, cpus)  at the head of the program",
    ),
    _refused(
        "--virtual-local-rank",
        TORCHRUN,
        "every rank sees all GPUs of the run: use  torch.device('cuda', int(os.environ['LOCAL_RANK']))",
        valued=False,
    ),
    Flag(
        name="--run-mode",
        of=(PADDLE, FLEETRUN),
        becomes=_only("--run_mode", ("collective",), _SERVERS),
    ),
    _idle("--log-level", PADDLE, "nbdist itself says little; the ranks' logs are complete"),
    _idle("--log-overwrite", PADDLE, "each run has logs of its own; --log-dir is appended to"),
    _idle("--enable-gpu-log", PADDLE, "what each GPU does is recorded anyway"),
    Flag(name="--legacy", of=(PADDLE,), becomes=_only("--legacy", _OFF, "leave it out")),
    Flag(
        name="--sort-ip",
        of=(PADDLE,),
        becomes=_only("--sort_ip", _OFF, "number the machines yourself:  --node-rank 0, 1, …"),
    ),
    _refused("--npus", PADDLE, _ACCELERATORS),
    _refused("--xpus", PADDLE, _ACCELERATORS),
    _refused("--selected-xpus", FLEETRUN, _ACCELERATORS),
    _refused("--auto-parallel-config", PADDLE, _AUTO),
    _refused("--auto-tuner-json", PADDLE, _AUTO),
    Flag(
        name="--auto-cluster-config", of=(PADDLE,), becomes=_only("--auto_cluster_config", _OFF, _AUTO)
    ),
    Flag(name="--elastic-level", of=(PADDLE,), becomes=_only("--elastic_level", ("-1",), _ELASTIC)),
    _idle("--elastic-timeout", PADDLE, "--wait is how long other nodes are awaited"),
    _refused("--servers", PADDLE, _SERVERS),
    _refused("--trainers", PADDLE, _SERVERS),
    _refused("--trainer-num", PADDLE, _SERVERS),
    _refused("--server-num", PADDLE, _SERVERS),
    _refused("--gloo-port", PADDLE, _SERVERS),
    _refused("--with-gloo", PADDLE, _SERVERS),
    _refused("--workers", FLEETRUN, _SERVERS),
    _refused("--worker-num", FLEETRUN, _SERVERS),
    _refused("--coordinators", FLEETRUN, _SERVERS),
    _refused("--coordinator-num", FLEETRUN, _SERVERS),
    _refused("--heter-workers", FLEETRUN, _SERVERS),
    _refused("--heter-worker-num", FLEETRUN, _SERVERS),
    _refused("--heter-devices", FLEETRUN, _SERVERS),
    _refused("--http-port", FLEETRUN, _SERVERS),
    _refused("--cluster-topo-path", FLEETRUN, _AUTO),
    _refused("--rank-mapping-path", FLEETRUN, _AUTO),
    _refused("--enable-auto-mapping", FLEETRUN, _AUTO),
    _refused("--elastic-server", FLEETRUN, _ELASTIC),
    _refused("--elastic-pre-hook", FLEETRUN, _ELASTIC),
    _refused("--np", FLEETRUN, _ELASTIC),
    _refused("--scale", FLEETRUN, _ELASTIC),
    _refused("--force", FLEETRUN, _ELASTIC),
)  # fmt: skip
