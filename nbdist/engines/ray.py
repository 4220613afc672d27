"""Ray as an engine, by its Jobs API over HTTP: neither this process nor the ranks need a package of Ray.

A job is a process on Ray's side (``ray_driver``) that takes the nodes and starts a supervisor on each. Ray
calls it RUNNING before it has the nodes; its log, read over HTTP, tells more: a line is a kind and a reason
as JSON (``line``).
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import os
import shlex
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, urlsplit

from nbdist import config
from nbdist.engines.engine import JobStatus, Phase
from nbdist.engines.options import ADDRESS, DASHBOARD_PORT, TOKEN, find_token
from nbdist.errors import LaunchError
from nbdist.model import Reason, RunSpec, RunState
from nbdist.model.decoding import loads
from nbdist.store.paths import RunDirectory, write_private

_MOST = 4_000_000
"""Bytes of an answer. A job's log is short: the ranks write elsewhere."""

_NO_AGENT = (b"No available agent", b"Failed to get head node agent")
"""Answers of a dashboard whose head does not run the process that starts jobs yet."""

_GIVE_TOKEN = f"%env {TOKEN}=…  (on the head,  ray get-auth-token  shows it)"

Answer = dict[str, Any]


class RayUnreachable(LaunchError):
    """No answer, though Ray may have received the request. ``reason`` lacks the message's advice."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RayNotReady(LaunchError):
    """A Ray that accepts no jobs yet: it has just started, or is busy."""


class RayApi:
    """Ray at ``address``; requests carry ``token`` (empty: none), and wait ``patience`` seconds."""

    def __init__(self, address: str, token: str, *, patience: float = 20.0) -> None:
        self.address = address
        self._token = token
        self._patience = patience
        handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
        if _is_loopback(urlsplit(address).hostname or ""):
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def version(self) -> str:
        """Return the version of Ray. Raises LaunchError if it is no Ray."""
        answer = self._call("GET", "/api/version")
        if answer is None or "ray_version" not in answer:
            raise LaunchError(
                f"{self.address} answers, and is not the dashboard of a Ray: write  --ray "
                f"http://head:{DASHBOARD_PORT}  as the head's  ray start  says it"
            )
        return str(answer["ray_version"])

    def submit(self, job: str, entrypoint: str) -> None:
        """Submit a shell line as ``job``. Raises LaunchError."""
        body = {"entrypoint": entrypoint, "submission_id": job, "metadata": {"nbdist": job}}
        self._call("POST", "/api/jobs/", body)

    def job(self, job: str, about: str = "", method: str = "GET") -> Answer | None:
        """Return Ray's answer for a job, or its "/logs" or "/stop"; None if unknown. Raises LaunchError."""
        return self._call(method, f"/api/jobs/{quote(job, safe='')}{about}")

    def _call(self, method: str, path: str, body: object = None) -> Answer | None:
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        try:
            request = urllib.request.Request(self.address + path, data=data, headers=headers, method=method)
            with self._opener.open(request, timeout=self._patience) as answer:
                value = loads(answer.read(_MOST))
        except urllib.error.HTTPError as error:
            with error:
                self._check(error)
            return None
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        except ValueError:
            raise LaunchError(f"{self.address} answers, and not as Ray's dashboard does") from None
        return value if isinstance(value, dict) else None

    def _check(self, error: urllib.error.HTTPError) -> None:
        """Raise LaunchError unless the status is 404."""
        match error.code:
            case 404:
                return
            case 401:
                what = f"wants a token: {_GIVE_TOKEN}"
            case 403:
                what = f"does not accept the token: {_GIVE_TOKEN}"
            case 301 | 302 | 303 | 307 | 308:
                to = error.headers.get("Location", "elsewhere")
                what = f"leads on to {to}: write that behind  --ray  if you trust it with the token"
            case _:
                body = error.read(_MOST)
                kind = RayNotReady if any(words in body for words in _NO_AGENT) else LaunchError
                # the last line of a traceback is the cause
                lines = [
                    line.strip() for line in body.decode("utf-8", "replace").splitlines() if line.strip()
                ]
                cause = lines[-1][:300] if lines else "it did not say why"
                raise kind(f"Ray at {self.address} refused it: {cause} (HTTP {error.code})")
        raise LaunchError(f"Ray at {self.address} {what}")

    def _unreachable(self, error: Exception) -> RayUnreachable:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError) or "timed out" in str(reason):
            late = Reason("ray-slow", address=self.address, seconds=self._patience)
            return RayUnreachable(late, f"Ray at {self.address} did not answer in {self._patience:g} s")
        if isinstance(reason, ssl.SSLError):
            why = str(reason.reason or reason)
            what = f"Ray at {self.address} cannot be trusted: {why}: is it  http://  ?"
            return RayUnreachable(Reason("ray-untrusted", address=self.address, error=why), what)
        text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        return RayUnreachable(
            Reason("ray-away", address=self.address, error=text),
            f"no Ray answers at {self.address} ({text}): write the address of its dashboard as this machine "
            f"reaches it:  --ray http://head:{DASHBOARD_PORT}",
        )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refusal of redirects: urllib would send the token along."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


def _is_loopback(host: str) -> bool:
    """Return whether a host is this machine, which no proxy reaches."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


WAITS = "nbdist: waiting: "
STARTS = "nbdist: starting on "
TROUBLE = "nbdist: trouble: "


def status_of(answer: Mapping[str, Any], log: str, job: str) -> JobStatus:
    """Return a job's status by the answer of ``GET /api/jobs/ID`` and its log."""
    message = str(answer.get("message") or "")
    match answer.get("status"):
        case "PENDING":
            return JobStatus(phase=Phase.WAITING, reason=Reason("ray-pending"))
        case "RUNNING":
            kind, words = last_report(log)
            if kind in (STARTS, TROUBLE):
                return JobStatus(phase=Phase.RUNNING, nodes=words if kind == STARTS else "")
            return JobStatus(phase=Phase.WAITING, reason=_reason(words) or Reason("ray-looks"))
        case "STOPPED":
            reason = Reason("ray-stopped", job=job)
            return JobStatus(phase=Phase.OVER, reason=reason, outcome=RunState.STOPPED)
        case "SUCCEEDED":
            return JobStatus(phase=Phase.OVER, reason=Reason("completed"), completed=True)
        case "FAILED":
            return _failed(answer, last_report(log) if log else last_report(message), message)
        case other:
            return JobStatus(phase=Phase.UNKNOWN, reason=Reason("ray-says", state=str(other)))


def last_report(log: str) -> tuple[str, str]:
    """Return kind and rest of the job's last line about its state."""
    for line in reversed(log.splitlines()):
        for beginning in (WAITS, STARTS, TROUBLE):
            if line.startswith(beginning):
                return beginning, line.removeprefix(beginning).strip()
    return "", ""


def line(kind: str, reason: Reason) -> str:
    """Return the job's line about its state."""
    return f"{kind}{json.dumps(reason.encode())}"


def _reason(words: str) -> Reason:
    try:
        return Reason.decode(loads(words))
    except ValueError:
        return Reason.said(words)


def _failed(answer: Mapping[str, Any], report: tuple[str, str], message: str) -> JobStatus:
    kind, words = report
    if kind == TROUBLE:
        return JobStatus(phase=Phase.OVER, reason=_reason(words), outcome=RunState.FAILED)
    last = message.strip().splitlines()[-1:] or ["it did not say why"]
    if answer.get("error_type") not in (None, "JOB_ENTRYPOINT_COMMAND_ERROR"):
        # the job never ran, or what ran it has gone with its machine
        reason = Reason("ray-lost-job", error=last[0][:300])
        return JobStatus(phase=Phase.OVER, reason=reason, outcome=RunState.FAILED)
    return JobStatus(phase=Phase.OVER, reason=Reason.said(last[0][:300]))


def why_it_waits(nodes: int, kind: str, need: float, totals: Collection[Mapping[str, float]]) -> Reason:
    """Return why no ``nodes`` nodes have ``need`` of a ``kind`` each; ``totals`` are those of idle nodes."""
    fit = sum(total.get(kind, 0.0) >= need for total in totals)
    if fit >= nodes:
        return Reason("ray-busy", nodes=nodes, need=need, kind=kind)
    return Reason("ray-too-small", nodes=nodes, need=need, kind=kind, fit=fit, total=len(totals))


DRIVER = Path(__file__).parent / "ray_driver.py"

_READY = 60.0
"""Seconds for a Ray that accepts no jobs yet."""

_AGAIN = 0.5

_CHECK = (
    "import sys,importlib.metadata as m;sys.exit(m.version('ray')!=sys.argv[1] or sys.version_info<(3,10))"
)
_SHARE = "the machines have to share it at the same path, for example  %env NBDIST_HOME=~/nbdist"

# variables of this machine, its user, another engine or a Jupyter
_STAYS = frozenset(
    {"CUDA_VISIBLE_DEVICES", "DISPLAY", "HOME", "HOSTNAME", "LOGNAME", "OLDPWD", "PWD", "SHELL", "SHLVL"}
    | {"TERM", "TMPDIR", "USER", "_"}
)
_STAYS_ALL = ("RAY_", "SLURM", "SBATCH_", "SRUN_", "PMI_", "PMIX_", "JPY_", "JUPYTER", "SSH_", "XDG_")


class Ray:
    """Ray as an ``Engine``. ``options`` have its address."""

    signals = False
    linger = config.INTERRUPT_GRACE + config.TERMINATE_GRACE + config.GRACE + 6.0

    def __init__(self, options: Sequence[str] = ()) -> None:
        address = next((option for option in options if option.startswith(ADDRESS)), "")
        if not address:
            raise LaunchError("the run does not say which Ray it is on")
        self._address = address.removeprefix(ADDRESS)
        self._starts = ""

    def submit(self, directory: RunDirectory, spec: RunSpec, environment: Mapping[str, str]) -> str:
        api = RayApi(self._address, find_token(environment))
        version = api.version()
        job = f"nbdist-{directory.run_id}"
        # all users of Ray's dashboard see a job's environment: the driver reads a file instead
        write_private(directory.job_environment, json.dumps(carried(environment, spec.environment)))
        try:
            _submit(api, job, entrypoint(directory, spec, version))
        except RayUnreachable:
            # it may have received the job
            with contextlib.suppress(LaunchError):
                if api.job(job) is not None:
                    return job
            raise
        return job

    def cluster(self) -> str:
        return ""  # the run has its address

    def status(self, job: str, spec: RunSpec) -> JobStatus:
        try:
            return self._status(job, spec)
        except RayUnreachable as error:
            # without advice: the address was right when the job was submitted
            return JobStatus(phase=Phase.UNKNOWN, reason=error.reason)

    def _status(self, job: str, spec: RunSpec) -> JobStatus:
        api = self._api()
        answer = api.job(job)
        if answer is None:
            return JobStatus(phase=Phase.FORGOTTEN)
        # a job that has its nodes prints no more, unless it may wait for nodes again
        log = self._starts if answer.get("status") == "RUNNING" and not spec.retries else ""
        if not log and answer.get("status") in ("RUNNING", "FAILED"):
            log = str((api.job(job, "/logs") or {}).get("logs", ""))
        status = status_of(answer, log, job)
        if status.phase is Phase.RUNNING:
            self._starts = "".join(last_report(log))
        return status

    def stop(self, job: str, *, gently: bool) -> bool:
        """End the job, which Ray does in three seconds; then the supervisors end by themselves."""
        if gently:
            return False
        return bool((self._api().job(job, "/stop", "POST") or {}).get("stopped", False))

    def _api(self) -> RayApi:
        return RayApi(self._address, find_token(os.environ))


def _submit(api: RayApi, job: str, line: str) -> None:
    """Submit as soon as Ray accepts jobs."""
    deadline = time.monotonic() + _READY
    while True:
        try:
            return api.submit(job, line)
        except RayNotReady:
            if time.monotonic() > deadline:
                raise
        time.sleep(_AGAIN)


def carried(environment: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for the nodes; of this machine's and Ray's own only ``chosen`` ones."""
    return {
        name: value
        for name, value in environment.items()
        if name in chosen or not (name in _STAYS or name.startswith(_STAYS_ALL))
    }


def entrypoint(directory: RunDirectory, spec: RunSpec, version: str) -> str:
    """Return Ray's shell line: the first Python with its Ray runs the driver."""
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
