"""Ray's Jobs API over plain HTTP, and what its refusals mean. The standard library is enough."""

from __future__ import annotations

import http.client
import ipaddress
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import quote, urlsplit

from nbdist.engines.ray_address import DASHBOARD_PORT, TOKEN
from nbdist.errors import LaunchError
from nbdist.model import Reason

_MOST = 4_000_000
"""Bytes of an answer. The log of a job has some lines: the ranks write elsewhere."""

_NO_AGENT = (b"No available agent", b"Failed to get head node agent")
"""What the dashboard says while the process on the head that is to start the job is not there."""

_GIVE_TOKEN = f"%env {TOKEN}=…  (on the head,  ray get-auth-token  shows it)"

Answer = dict[str, Any]


class RayUnreachable(LaunchError):
    """It gave no answer, and may yet have heard what was asked. ``reason`` is that alone, without advice for
    a person who has just written an address."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RayNotReady(LaunchError):
    """It takes no jobs yet: it has begun a moment ago, or is busy."""


class RayApi:
    """The Ray at ``address``, asked by a holder of ``token`` (empty: of none). ``patience`` is in seconds."""

    def __init__(self, address: str, token: str, *, patience: float = 20.0) -> None:
        self.address = address
        self._token = token
        self._patience = patience
        handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
        if _is_loopback(urlsplit(address).hostname or ""):
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def version(self) -> str:
        """The version of Ray. Raises LaunchError where that is none."""
        answer = self._call("GET", "/api/version")
        if answer is None or "ray_version" not in answer:
            raise LaunchError(
                f"{self.address} answers, and is not the dashboard of a Ray: write  --ray "
                f"http://head:{DASHBOARD_PORT}  as the head's  ray start  says it"
            )
        return str(answer["ray_version"])

    def submit(self, job: str, entrypoint: str, environment: Mapping[str, str]) -> None:
        """Let Ray run a shell line, under a name of ours. Raises LaunchError."""
        body = {
            "entrypoint": entrypoint,
            "submission_id": job,
            "runtime_env": {"env_vars": dict(environment)},
            "metadata": {"nbdist": job},
        }
        self._call("POST", "/api/jobs/", body)

    def job(self, job: str) -> Answer | None:
        """What Ray knows of a job; None where it knows none. Raises LaunchError."""
        return self._call("GET", f"/api/jobs/{quote(job, safe='')}")

    def log(self, job: str) -> str:
        """What the job itself has said. Raises LaunchError."""
        answer = self._call("GET", f"/api/jobs/{quote(job, safe='')}/logs")
        return str((answer or {}).get("logs", ""))

    def stop(self, job: str) -> bool:
        """End a job; whether Ray took it. Raises LaunchError."""
        answer = self._call("POST", f"/api/jobs/{quote(job, safe='')}/stop")
        return bool((answer or {}).get("stopped", False))

    def _call(self, method: str, path: str, body: object = None) -> Answer | None:
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        try:
            request = urllib.request.Request(self.address + path, data=data, headers=headers, method=method)
            with self._opener.open(request, timeout=self._patience) as answer:
                found = json.loads(answer.read(_MOST))
        except urllib.error.HTTPError as error:
            with error:
                self._check(error)
            return None
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        except ValueError:
            raise LaunchError(f"{self.address} answers, and not as Ray's dashboard does") from None
        return found if isinstance(found, dict) else None

    def _check(self, error: urllib.error.HTTPError) -> None:
        """Raises LaunchError, unless all that is wrong is that there is no such thing."""
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
                said = error.read(_MOST)
                kind = RayNotReady if any(words in said for words in _NO_AGENT) else LaunchError
                raise kind(f"Ray at {self.address} refused it: {_cause(said)} (HTTP {error.code})")
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
        said = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        return RayUnreachable(
            Reason("ray-away", address=self.address, error=said),
            f"no Ray answers at {self.address} ({said}): write the address of its dashboard as this machine "
            f"reaches it:  --ray http://head:{DASHBOARD_PORT}",
        )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """urllib would send the token to wherever it is led."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


def _is_loopback(host: str) -> bool:
    """A proxy does not lead to this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _cause(body: bytes) -> str:
    """Ray answers with a traceback: its last line says what is wrong."""
    lines = [line.strip() for line in body.decode("utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it did not say why"
