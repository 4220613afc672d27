"""What a user may tell sbatch, behind ``--slurm``. Nothing of it ever comes near a shell: each option is a
word of sbatch's own command line."""

from __future__ import annotations

import re

from nbdist.errors import UsageMistake

# options of sbatch that have no value, or need none
_BARE = frozenset({"contiguous", "exclusive", "hold", "no-requeue", "overcommit", "requeue", "spread-job"})
_DECIDED = {
    "nodes": "--nodes 2",
    "gpus": "--gpus 2, as many on each node",
    "gpus-per-node": "--gpus 2",
    "ntasks": "-n 2, or --gpus 2",
    "ntasks-per-node": "-n 2, or --gpus 2",
    "job-name": "--name lenet",
    "export": "--env KEY=VALUE",
    "chdir": "--cwd DIR",
}
_REFUSED = frozenset(
    {"array", "clusters", "error", "get-user-env", "input", "kill-on-invalid-dep", "open-mode", "output"}
    | {"parsable", "quiet", "test-only", "wait", "wait-all-nodes", "wrap", "bb", "bbf", "batch", "verbose"}
    | {"cluster-constraint", "export-file", "help", "usage", "version", "signal", "uid", "gid"}
)


def parse_slurm(text: str) -> tuple[str, ...]:
    """``partition=gpu,nodelist=n1,n2`` as two: a piece that is no option belongs to the value before it.

    Raises UsageMistake.
    """
    given: list[str] = []
    for piece in text.strip("\"'").split(","):
        key, equals, value = piece.strip().partition("=")
        named = re.fullmatch(r"[a-z][a-z-]*[a-z]", key) is not None
        if named and (equals or key in _BARE):
            given.append(f"{key}={value}" if equals else key)
        elif given and "=" in given[-1]:
            given[-1] += f",{piece}"
        else:
            raise UsageMistake(
                f"--slurm {text}: write options of sbatch:  --slurm partition=gpu,time=1:00:00"
            )
    for option in given:
        _check(*option.partition("=")[::2])
    return tuple(given)


def _check(key: str, value: str) -> None:
    if key in _DECIDED:
        raise UsageMistake(f"--slurm {key}: write  {_DECIDED[key]}  instead")
    if key in _REFUSED:
        raise UsageMistake(f"--slurm {key}: nbdist needs to choose that itself: leave it out")
    if not value.isprintable():
        raise UsageMistake(f"--slurm {key}: its value has a character that cannot be printed")
