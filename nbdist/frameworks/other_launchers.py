"""Launchers with flags of their own: accelerate, deepspeed, fabric, composer, MPI's and Slurm's.

Each is read up to its program. What it says becomes words of nbdist (or of torchrun, which ``launchers``
knows); what nbdist does not do is refused, with what to write instead. Sources: ``accelerate launch -h``,
``deepspeed -h``, ``fabric run --help``, ``composer -h`` of the versions of 2026.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from nbdist.errors import UsageMistake

Becomes = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of one launcher: what it becomes, given its value ("" where it takes none)."""

    becomes: Becomes
    valued: bool = True


@dataclass(frozen=True, slots=True)
class Launcher:
    """``name`` is what a command line begins with. ``finish`` puts together what several flags say, and
    ``unknown`` says what to do about a flag that is not in ``flags``."""

    name: tuple[str, ...]
    flags: Mapping[str, Flag]
    unknown: str
    finish: Callable[[list[str]], list[str]] = list


def _to(option: str) -> Flag:
    return Flag(lambda value: [option, value])


def _set(name: str) -> Flag:
    return Flag(lambda value: ["--env", f"{name}={value}"])


def _on(name: str, value: str = "true") -> Flag:
    return Flag(lambda _: ["--env", f"{name}={value}"], valued=False)


def _refuse(reason: str, *, valued: bool = True) -> Flag:
    def refuse(_: str) -> Sequence[str]:
        raise UsageMistake(reason)

    return Flag(refuse, valued)


_IDLE = Flag(lambda _: [])
_SWITCH = Flag(lambda _: [], valued=False)
_PLUGIN = "write it into the program ({0}(…) given to Accelerator), and leave the flag out"
_EACH = "run the same line on each machine, with  --nodes 2 --node-rank 0 --master HOST:PORT"
_ADDRESS = {"host": "--master-addr", "port": "--master-port"}


def _among_nodes(words: list[str]) -> list[str]:
    """accelerate counts the processes of all machines, and nbdist those of one."""
    at = words.index("--nproc-per-node") + 1 if "--nproc-per-node" in words else 0
    nodes = int(words[words.index("--nodes") + 1]) if "--nodes" in words else 1
    if at:
        words[at] = str(max(1, int(words[at]) // nodes))
    if "--cpu" in words:
        words.remove("--cpu")
        at = words.index("--nproc-per-node") + 1 if at else 0
        words[max(at - 1, 0) : at] = ["-n"] if at else ["-n", "2"]
    return words


_ACCELERATE = Launcher(
    name=("accelerate", "launch"),
    flags={
        "--num-processes": _to("--nproc-per-node"),
        "--num-machines": _to("--nodes"),
        "--machine-rank": _to("--node-rank"),
        "--main-process-ip": _to(_ADDRESS["host"]),
        "--main-process-port": _to(_ADDRESS["port"]),
        "--gpu-ids": _to("--gpus"),
        "--cpu": Flag(lambda _: ["--cpu"], valued=False),
        "--use-cpu": Flag(lambda _: ["--cpu"], valued=False),
        "--mixed-precision": _set("ACCELERATE_MIXED_PRECISION"),
        "--gradient-accumulation-steps": _set("ACCELERATE_GRADIENT_ACCUMULATION_STEPS"),
        "--dynamo-backend": Flag(lambda value: ["--env", f"ACCELERATE_DYNAMO_BACKEND={value.upper()}"]),
        "--num-cpu-threads-per-process": _set("OMP_NUM_THREADS"),
        "--debug": _on("ACCELERATE_DEBUG_MODE"),
        "--max-restarts": _to("--retries"),
        "--module": Flag(lambda _: ["-m"], valued=False),
        "-m": Flag(lambda _: ["-m"], valued=False),
        "--no-python": Flag(lambda _: ["--no-python"], valued=False),
        "--multi-gpu": _SWITCH,
        "--same-network": _SWITCH,
        "--quiet": _SWITCH,
        "-q": _SWITCH,
        "--rdzv-backend": _IDLE,
        "--monitor-interval": _IDLE,
        "--role": _IDLE,
        "--config-file": _refuse(
            "accelerate launch --config_file: nbdist reads no such file: write what it says as options, for "
            "example  --num_processes 2 --mixed_precision bf16"
        ),
        "--use-fsdp": _refuse(
            f"accelerate launch --use_fsdp: {_PLUGIN.format('FullyShardedDataParallelPlugin')}", valued=False
        ),
        "--use-deepspeed": _refuse(
            f"accelerate launch --use_deepspeed: {_PLUGIN.format('DeepSpeedPlugin')}", valued=False
        ),
        "--tpu": _refuse("accelerate launch --tpu: nbdist knows no TPU: leave it out", valued=False),
    },
    unknown="nbdist sets no option of accelerate: write it into the program, and leave it out here",
    finish=_among_nodes,
)


def _included(value: str) -> Sequence[str]:
    host, colon, gpus = value.partition(":")
    if "@" in value or not colon or host not in ("localhost", "127.0.0.1"):
        raise UsageMistake(
            f"deepspeed --include {value}: the GPUs are those of this machine: write  --gpus 0,1"
        )
    return ["--gpus", gpus]


_DEEPSPEED = Launcher(
    name=("deepspeed",),
    flags={
        "--num-gpus": _to("--nproc-per-node"),
        "--num-nodes": _to("--nodes"),
        "--node-rank": _to("--node-rank"),
        "--master-addr": _to(_ADDRESS["host"]),
        "--master-port": _to(_ADDRESS["port"]),
        "--include": Flag(_included),
        "-i": Flag(_included),
        "--module": Flag(lambda _: ["-m"], valued=False),
        "--no-python": Flag(lambda _: ["--no-python"], valued=False),
        "--no-local-rank": _SWITCH,
        "--no-ssh": _SWITCH,
        "--bind-cores-to-rank": _SWITCH,
        "--hostfile": _refuse(f"deepspeed --hostfile: {_EACH}"),
        "-H": _refuse(f"deepspeed -H: {_EACH}"),
        "--exclude": _refuse("deepspeed --exclude: name the GPUs that are to be used: write  --gpus 0,1"),
        "--launcher": _refuse("deepspeed --launcher: on Slurm write  --on slurm --nodes 2 --gpus 4"),
        "--autotuning": _refuse("deepspeed --autotuning: nbdist tunes nothing: use deepspeed itself for it"),
    },
    unknown="nbdist starts ranks only: leave it out, or give it behind the script, where the script reads it",
)


def _fabric_devices(words: list[str]) -> list[str]:
    """``--accelerator`` and ``--devices`` of fabric as ranks on GPUs or on the CPU; the rest as given."""
    kept: list[str] = []
    said = {"--accelerator": "auto", "--devices": "1"}
    rest = iter(words)
    for word in rest:
        if word in said:
            said[word] = next(rest)
        else:
            kept.append(word)
    accelerator, devices = said["--accelerator"], said["--devices"]
    kept += ["--env", "LT_CLI_USED=1", "--env", f"LT_ACCELERATOR={accelerator}"]
    if "," in devices or devices == "-1":
        ids = "all" if devices == "-1" else devices
        return [*kept, "--env", f"LT_DEVICES={devices}", "--gpus", ids]
    if devices == "auto":
        return [*kept, "--env", "LT_DEVICES=auto"]
    ranks = ["-n", devices] if accelerator == "cpu" else ["--nproc-per-node", devices]
    return [*kept, "--env", f"LT_DEVICES={devices}", *ranks]


_FABRIC = Launcher(
    name=("fabric", "run"),
    flags={
        "--accelerator": _to("--accelerator"),
        "--devices": _to("--devices"),
        "--strategy": _set("LT_STRATEGY"),
        "--precision": _set("LT_PRECISION"),
        "--num-nodes": Flag(lambda value: ["--nodes", value, "--env", f"LT_NUM_NODES={value}"]),
        "--node-rank": _to("--node-rank"),
        "--main-address": _to(_ADDRESS["host"]),
        "--main-port": _to(_ADDRESS["port"]),
    },
    unknown="nbdist starts ranks only: give it to Fabric(…) in the program, and leave it out here",
    finish=_fabric_devices,
)
_COMPOSER = Launcher(
    name=("composer",),
    flags={
        "-n": _to("--nproc-per-node"),
        "--nproc": _to("--nproc-per-node"),
        "--node-rank": _to("--node-rank"),
        "--master-addr": _to(_ADDRESS["host"]),
        "--master-port": _to(_ADDRESS["port"]),
        "-m": Flag(lambda _: ["-m"], valued=False),
        "--module-mode": Flag(lambda _: ["-m"], valued=False),
        "--stdout": _IDLE,
        "--stderr": _IDLE,
        "-v": _SWITCH,
        "--verbose": _SWITCH,
        "--world-size": _refuse("composer --world_size: write how many machines there are: --nodes 2"),
        "--base-rank": _refuse("composer --base_rank: write which machine this is: --node-rank 1"),
    },
    unknown="nbdist starts ranks only: leave it out",
)
_READ = (_ACCELERATE, _DEEPSPEED, _FABRIC, _COMPOSER)

_COUNTS = ("-n", "-np", "--np", "--ntasks", "-c", "--num-proc")
_REFUSED = {
    "mpirun": "MPI finds its ranks by its own variables, which nbdist does not set; a program that meets by "
    "torch, paddle or JAX runs with",
    "horovodrun": "Horovod meets by a service of horovodrun, which nbdist does not start; a program that "
    "meets by torch, paddle or JAX runs with",
    "srun": "nbdist submits the job itself; here or in an allocation the program runs with",
}
_REFUSED |= {"mpiexec": _REFUSED["mpirun"], "orterun": _REFUSED["mpirun"]}

# they run what stands behind them, in an environment that they have chosen
_RUNNERS = {"uv": "run", "poetry": "run", "pipenv": "run", "pdm": "run", "hatch": "run", "rye": "run"}


def without_prefix(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The variables that stand in front of a command (``A=b``, ``env A=b``), and the command without what
    only surrounds it (``uv run``). Raises UsageMistake for options of those, which nbdist does not know."""
    variables: list[str] = []
    rest = list(words)
    while rest:
        runner = _RUNNERS.get(rest[0]) if len(rest) > 1 and rest[1] == _RUNNERS.get(rest[0]) else None
        if re.fullmatch(r"[A-Za-z_]\w*=.*", rest[0], re.DOTALL):
            variables.append(rest.pop(0))
        elif rest[0] == "nohup":
            del rest[:1]
        elif rest[0] == "env" or runner:
            surrounding = " ".join(rest[: 1 + bool(runner)])
            del rest[: 1 + bool(runner)]
            if rest[:1] == ["--"]:
                del rest[:1]
            if rest and rest[0].startswith("-"):
                raise UsageMistake(
                    f"{surrounding} {rest[0]}: the ranks use {sys.executable}: leave out  {surrounding}"
                )
        else:
            break
    return variables, rest


def read(words: Sequence[str]) -> tuple[str, list[str]]:
    """Which launcher begins the line ("" for none of these), and the line in words of nbdist.

    Raises UsageMistake for what nbdist does not do.
    """
    if not words:
        return "", list(words)
    program = PurePath(words[0]).name
    if program in _REFUSED:
        raise UsageMistake(f"{program}: {_REFUSED[program]}  {_instead(program, words[1:])}")
    for launcher in _READ:
        length = len(launcher.name)
        if (program, *words[1:length]) == launcher.name:
            return " ".join(launcher.name), _translated(launcher, words[length:])
    return "", list(words)


def _translated(launcher: Launcher, words: Sequence[str]) -> list[str]:
    own: list[str] = []
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        written, equals, value = word.partition("=")
        name = "--" + written[2:].replace("_", "-") if written.startswith("--") else written
        flag = launcher.flags.get(name)
        if flag is None:
            raise UsageMistake(f"{' '.join(launcher.name)} {written}: {launcher.unknown}")
        if flag.valued and not equals:
            if not rest:
                raise UsageMistake(f"{written} needs a value: write  {written} VALUE")
            value = rest.pop(0)
        own += flag.becomes(value)
    return [*launcher.finish(own), *rest]


def _instead(program: str, words: Sequence[str]) -> str:
    """The line to type in place of one of MPI's or Slurm's."""
    count, script, rest = "2", ["train.py"], list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name in _COUNTS and (equals or rest):
            count = value if equals else rest.pop(0)
        elif word.endswith(".py"):
            script = [word, *rest]
            break
    line = " ".join(["nbdist run -n", count, *script])
    return f"{line} , on other machines with  --on slurm --nodes 2" if program == "srun" else line
