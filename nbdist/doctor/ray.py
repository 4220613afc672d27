"""What can be asked of a Ray: whether it answers, and by a small job, how its nodes are."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nbdist.doctor import node_probe, ray_probe
from nbdist.doctor.node_checks import JobResult, ProbeResult
from nbdist.doctor.node_job import FILES, clear, prepare, within
from nbdist.doctor.report import Entry, Level
from nbdist.engines.options import find_address, find_token
from nbdist.engines.ray import RayApi
from nbdist.errors import LaunchError, UsageMistake

_PERIOD = 0.5
_STARTED = 60.0
_LOOKED = 90.0
_CHECK = "import ray"
_RUN = "import os;exec(compile(os.environ['NBDIST_DOCTOR_PROGRAM'],'nbdist','exec'))"


def find_ray(asked: str, environ: Mapping[str, str] = os.environ) -> tuple[list[Entry], RayApi | None]:
    """What is to be said of its address, token and version; a way to ask it where it answers."""
    try:
        address = find_address(asked, environ)
    except UsageMistake as mistake:
        return [_wrong("address", str(mistake))], None
    token = find_token(environ)
    api = RayApi(address, token, patience=10.0)
    try:
        version = api.version()
    except LaunchError as error:
        return [_wrong("token" if "token" in str(error) else "address", str(error))], None
    said, said_zh = ("a token is sent", "已发送令牌") if token else ("none is asked for", "无需令牌")
    return [
        Entry(
            section="ray",
            title="address",
            level=Level.OK,
            what=f"{address} answers",
            what_zh=f"{address} 有响应",
        ),
        Entry(section="ray", title="token", level=Level.OK, what=said, what_zh=said_zh),
        Entry(section="ray", title="version", level=Level.OK, what=f"Ray {version}"),
    ], api


def _wrong(title: str, said: str) -> Entry:
    """``what is wrong: what to type``."""
    what, _, fix = said.rpartition(": ")
    return Entry(section="ray", title=title, level=Level.ERROR, what=what or said, fix=fix if what else "")


class RayJob:
    """The look at the nodes. ``gpus`` are those that Ray believes in, once it has run."""

    def __init__(self, api: RayApi, *, nodes: int, home: Path, wait: float) -> None:
        self._api = api
        self._nodes = nodes
        self._wait = wait
        self._token = secrets.token_hex(16)
        self._shared = home / "doctor" / self._token[:8]
        self._result = JobResult(job=f"nbdist-doctor-{self._token[:8]}")
        self._read = 0
        self._done = False
        self.gpus: dict[str, int] = {}

    def run(self, clock: Callable[[], float] = time.monotonic) -> JobResult:
        result = self._result
        problem = within(FILES, lambda: prepare(self._shared, self._token))
        if problem != "":
            result.unwritable = problem or f"it did not answer in {FILES:g} s"
            return result
        begun = clock()
        try:
            self._api.submit(result.job, self._line(), self._environment())
            self._follow(clock, begun)
            within(FILES, self._see)
        except LaunchError as error:
            result.refused = str(error)
        finally:
            result.seconds = clock() - begun
            with contextlib.suppress(LaunchError):
                self._api.stop(result.job)
            within(FILES, lambda: clear(self._shared))
        return result

    def _line(self) -> str:
        """The shell line that Ray runs: the first Python that has Ray."""
        run, check = shlex.quote(_RUN), shlex.quote(_CHECK)
        return (
            f"for python in python3 python {shlex.quote(sys.executable)}; do "
            f'if "$python" -c {check} 2>/dev/null; then exec "$python" -u -c {run}; fi; done; exit 1'
        )

    def _environment(self) -> dict[str, str]:
        mine = str(self._shared).replace("{", "{{").replace("}", "}}") + "/from-{node}"
        look = {"here": str(self._shared / "here"), "shared": str(self._shared), "mine": mine}
        told = {
            "nodes": self._nodes,
            "wait": self._wait,
            "python": sys.executable,
            "token": self._token,
            "program": _text(node_probe.__file__),
            "environment": {key: os.environ[key] for key in ("PYTHONPATH",) if key in os.environ},
            "look": look | {"token": self._token, "folder": os.getcwd()},
        }
        return {"NBDIST_DOCTOR": json.dumps(told), "NBDIST_DOCTOR_PROGRAM": _text(ray_probe.__file__)}

    def _follow(self, clock: Callable[[], float], begun: float) -> None:
        """Read what it says until it is done, has ended, or takes too long."""
        result = self._result
        while not self._done and not result.waits:
            time.sleep(_PERIOD)
            about = self._api.job(result.job) or {}
            self._take(self._api.log(result.job))
            if result.nodes and not result.queued:
                result.queued = clock() - begun
            if about.get("status") in ("FAILED", "STOPPED", "SUCCEEDED"):
                result.noise = "" if result.nodes else str(about.get("message") or "")[-300:]
                return
            if clock() - begun > self._wait + _STARTED + (_LOOKED if result.nodes else 0.0):
                result.silent = True
                return

    def _take(self, log: str) -> None:
        new, self._read = log[self._read :], log.rfind("\n") + 1
        for line in new[: new.rfind("\n") + 1].splitlines():
            if line.startswith("nbdist-no-python "):
                name = line.split(" ", 1)[1]
                self._result.nodes[name] = ProbeResult(name=name)
            elif line.startswith(node_probe.MARK):
                with contextlib.suppress(ValueError, KeyError):
                    self._heard(json.loads(line[len(node_probe.MARK) :]))

    def _heard(self, said: Mapping[str, Any]) -> None:
        match said["say"]:
            case "cluster":
                self.gpus = dict(said["gpus"])
            case "waits":
                self._result.waits = str(said["reason"])
            case "done":
                self._done = True
            case _:
                self._result.heard(said)

    def _see(self) -> None:
        for node in self._result.nodes.values():
            if node.looked and not node.looked["wrote"]:
                path = self._shared / f"from-{node.hello['number']}"
                node.late = node_probe.wait_for(str(path), self._token, FILES / 2)


def _text(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


def ray_entries(
    asked: str,
    judged: Callable[[JobResult, Mapping[str, int]], Iterator[Entry]],
    job: Callable[[RayApi], RayJob],
) -> list[Entry]:
    """All there is to say: of the Ray, and of its nodes where it answers."""
    entries, api = find_ray(asked)
    if api is None:
        return entries
    look = job(api)
    return [*entries, *judged(look.run(), look.gpus)]
