"""What Ray says of a job, and what the job says of itself, as reasons. Pure.

A job is RUNNING for Ray as soon as its first process is; whether it has the nodes that it asks for, that
process says in its log, which is read over HTTP: line by line, each kind with a beginning of its own, and
behind it the reason as JSON (``line``). What has been read may be text: the shell has no JSON.

Ray, by its Jobs API alone: no package of Ray's is needed here, nor in the Python of the ranks.

A job is one process on Ray's side (``ray_driver``) that takes the nodes and starts a supervisor on each. What
it is asked to do stands in a shell line, as Ray wants it; every word of that is quoted.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from nbdist import config
from nbdist.engines.engine import JobStatus, Phase
from nbdist.engines.ray_address import find_token
from nbdist.engines.ray_api import RayApi, RayNotReady, RayUnreachable
from nbdist.engines.ray_sealing import fresh_key, seal
from nbdist.errors import LaunchError
from nbdist.model import Reason, RunSpec, RunState
from nbdist.model.decoding import loads
from nbdist.store.paths import RunDirectory, write_private

WAITS = "nbdist: waiting: "
STARTS = "nbdist: starting on "
TROUBLE = "nbdist: trouble: "


def status_of(answer: Mapping[str, Any], log: str, job: str) -> JobStatus:
    """How a job stands, from the answer of ``GET /api/jobs/ID`` and its log."""
    message = str(answer.get("message") or "")
    match answer.get("status"):
        case "PENDING":
            return JobStatus(phase=Phase.WAITING, reason=Reason("ray-pending"))
        case "RUNNING":
            kind, words = last_said(log)
            if kind in (STARTS, TROUBLE):
                return JobStatus(phase=Phase.RUNNING, nodes=words if kind == STARTS else "")
            return JobStatus(phase=Phase.WAITING, reason=_reason(words) or Reason("ray-looks"))
        case "STOPPED":
            reason = Reason("ray-stopped", job=job)
            return JobStatus(phase=Phase.OVER, reason=reason, outcome=RunState.CANCELLED)
        case "SUCCEEDED":
            return JobStatus(phase=Phase.OVER, reason=Reason("completed"), completed=True)
        case "FAILED":
            return _failed(answer, last_said(log) if log else last_said(message), message)
        case other:
            return JobStatus(phase=Phase.UNKNOWN, reason=Reason("ray-says", state=str(other)))


def last_said(log: str) -> tuple[str, str]:
    """The last line by which the job said how it stands: its beginning, and the rest."""
    for line in reversed(log.splitlines()):
        for beginning in (WAITS, STARTS, TROUBLE):
            if line.startswith(beginning):
                return beginning, line.removeprefix(beginning).strip()
    return "", ""


def line(kind: str, reason: Reason) -> str:
    """How the job says it."""
    return f"{kind}{json.dumps(reason.encode())}"


def _reason(words: str) -> Reason:
    try:
        return Reason.decode(loads(words))
    except ValueError:
        return Reason.said(words)


def _failed(answer: Mapping[str, Any], said: tuple[str, str], message: str) -> JobStatus:
    kind, words = said
    if kind == TROUBLE:
        return JobStatus(phase=Phase.OVER, reason=_reason(words), outcome=RunState.FAILED)
    last = message.strip().splitlines()[-1:] or ["it did not say why"]
    if answer.get("error_type") not in (None, "JOB_ENTRYPOINT_COMMAND_ERROR"):
        # the job never ran, or what ran it has gone with its machine
        reason = Reason("ray-lost-job", error=last[0][:300])
        return JobStatus(phase=Phase.OVER, reason=reason, outcome=RunState.FAILED)
    return JobStatus(phase=Phase.OVER, reason=Reason.said(last[0][:300]))


def why_it_waits(nodes: int, kind: str, need: float, totals: Collection[Mapping[str, float]]) -> Reason:
    """Why ``nodes`` nodes do not give ``need`` each of a ``kind``, "CPU" or "GPU"; ``totals`` is what the
    nodes of Ray have when idle."""
    fit = sum(total.get(kind, 0.0) >= need for total in totals)
    if fit >= nodes:
        return Reason("ray-busy", nodes=nodes, need=need, kind=kind)
    return Reason("ray-too-small", nodes=nodes, need=need, kind=kind, fit=fit, total=len(totals))


DRIVER = Path(__file__).parent / "ray_driver.py"
SEAL = "NBDIST_SEAL"

_READY = 60.0
"""Seconds that a Ray has which takes no jobs yet."""

_AGAIN = 0.5

_ADDRESS = "address="
_CHECK = (
    "import sys,importlib.metadata as m;sys.exit(m.version('ray')!=sys.argv[1] or sys.version_info<(3,10))"
)
_SHARE = "the machines have to share it at the same path, for example  %env NBDIST_HOME=~/nbdist"

# what tells of this machine or of who works at it, and what another engine or a Jupyter has set here
_STAYS = frozenset(
    {"CUDA_VISIBLE_DEVICES", "DISPLAY", "HOME", "HOSTNAME", "LOGNAME", "OLDPWD", "PWD", "SHELL", "SHLVL"}
    | {"TERM", "TMPDIR", "USER", "_"}
)
_STAYS_ALL = ("RAY_", "SLURM", "SBATCH_", "SRUN_", "PMI_", "PMIX_", "JPY_", "JUPYTER", "SSH_", "XDG_")


class Ray:
    """An engine (``Engine``). ``options`` hold its address."""

    name = "ray"
    signals = False
    linger = config.INTERRUPT_GRACE + config.TERMINATE_GRACE + 6.0

    def __init__(self, options: Sequence[str] = ()) -> None:
        found = [option for option in options if option.startswith(_ADDRESS)]
        if not found:
            raise LaunchError("the run does not say which Ray it is on")
        self._address = found[0].removeprefix(_ADDRESS)
        self._starts = ""

    def submit(self, directory: RunDirectory, spec: RunSpec, environment: Mapping[str, str]) -> str:
        api = RayApi(self._address, find_token(environment))
        version = api.version()
        job, key = f"nbdist-{directory.run_id}", fresh_key()
        # Ray shows everybody on its dashboard what a job is given: what may be secret goes another way
        write_private(directory.job_environment, seal(carried(environment, spec.environment), key))
        try:
            _submit(api, job, entrypoint(directory, spec, version), {SEAL: key})
        except RayUnreachable:
            # it may have heard all of it
            with contextlib.suppress(LaunchError):
                if api.job(job) is not None:
                    return job
            raise
        return job

    def status(self, job: str, spec: RunSpec) -> JobStatus:
        try:
            return self._ask(job, spec)
        except RayUnreachable as error:
            # the address is right: it was, when the job was submitted
            return JobStatus(phase=Phase.UNKNOWN, reason=error.reason)

    def _ask(self, job: str, spec: RunSpec) -> JobStatus:
        api = self._api()
        answer = api.job(job)
        if answer is None:
            return JobStatus(phase=Phase.FORGOTTEN)
        # a job that has its nodes has no more to say, unless it may wait for nodes again
        log = self._starts if answer.get("status") == "RUNNING" and not spec.retries else ""
        if not log and answer.get("status") in ("RUNNING", "FAILED"):
            log = api.log(job)
        status = status_of(answer, log, job)
        if status.phase is Phase.RUNNING:
            self._starts = "".join(last_said(log))
        return status

    def stop(self, job: str, *, gently: bool) -> bool:
        """Ray ends a job within three seconds; the supervisors then end by themselves."""
        return not gently and self._api().stop(job)

    def _api(self) -> RayApi:
        return RayApi(self._address, find_token(os.environ))


def _submit(api: RayApi, job: str, line: str, environment: Mapping[str, str]) -> None:
    """As soon as Ray takes jobs."""
    deadline = time.monotonic() + _READY
    while True:
        try:
            return api.submit(job, line, environment)
        except RayNotReady:
            if time.monotonic() > deadline:
                raise
        time.sleep(_AGAIN)


def address_option(address: str) -> str:
    """How a run's spec keeps where its Ray is."""
    return f"{_ADDRESS}{address}"


def carried(environment: Mapping[str, str], asked: Mapping[str, str]) -> dict[str, str]:
    """What goes to the nodes of the environment here: not what belongs to this machine, nor what lets one in
    at Ray's, unless the user ``asked`` for it."""
    return {
        name: value
        for name, value in environment.items()
        if name in asked or not (name in _STAYS or name.startswith(_STAYS_ALL))
    }


def entrypoint(directory: RunDirectory, spec: RunSpec, version: str) -> str:
    """The shell line that Ray runs: the first Python that has its own Ray runs the driver."""
    return "; ".join(
        [
            _need(directory.spec, f"Ray's head does not see the run's directory, {directory.path}: {_SHARE}"),
            _need(DRIVER, f"Ray's head does not see nbdist, {DRIVER.parents[1]}: {_SHARE}"),
            f"for python in python3 python {shlex.quote(spec.python)}",
            f'do if "$python" -c {shlex.quote(_CHECK)} {shlex.quote(version)} 2>/dev/null',
            f'then exec "$python" -u {shlex.quote(str(DRIVER))} {shlex.quote(str(directory.path))}',
            "fi",
            "done",
            _say(f"no python3 or python on Ray's head has ray {version}, nor has {spec.python}"),
            "exit 1",
        ]
    )


def _need(path: Path, words: str) -> str:
    return f"[ -r {shlex.quote(str(path))} ] || {{ {_say(words)}; exit 1; }}"


def _say(words: str) -> str:
    return f"echo {shlex.quote(TROUBLE + words)}"
