"""What can be asked of a Ray: whether it answers, and by a small job, how its nodes are."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbdist.doctor import node_probe, ray_probe
from nbdist.doctor.node_job import NodeJob
from nbdist.doctor.report import Entry, find
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
    sent = find("ray.token") if token else find("ray.no-token")
    return [find("ray.address", address=address), sent, find("ray.version", version=version)], api


def _wrong(title: str, said: str) -> Entry:
    """``what is wrong: what to type``."""
    what, _, fix = said.rpartition(": ")
    return find("ray.unreachable", title=title, what=what or said, fix=fix if what else "")


class RayJob(NodeJob):
    """The look at the nodes. ``gpus`` are those that Ray believes in, once it has run."""

    def __init__(self, api: RayApi, *, nodes: int, home: Path, wait: float) -> None:
        super().__init__(nodes=nodes, home=home, wait=wait)
        self._api = api
        self._result.job = self._name
        self._read = 0
        self._done = False
        self.gpus: dict[str, int] = {}

    def _look(self, begun: float) -> None:
        try:
            self._api.submit(self._name, self._line(), self._environment())
            self._follow(begun)
            self.see()
        except LaunchError as error:
            self._result.refused = str(error)

    def _end(self) -> None:
        with contextlib.suppress(LaunchError):
            self._api.stop(self._name)

    def _line(self) -> str:
        """The shell line that Ray runs: the first Python that has Ray."""
        run, check = shlex.quote(_RUN), shlex.quote(_CHECK)
        return (
            f"for python in python3 python {shlex.quote(sys.executable)}; do "
            f'if "$python" -c {check} 2>/dev/null; then exec "$python" -u -c {run}; fi; done; exit 1'
        )

    def _environment(self) -> dict[str, str]:
        told = {
            "nodes": self._count,
            "wait": self._wait,
            "python": sys.executable,
            "token": self._token,
            "program": _text(node_probe.__file__),
            "environment": {key: os.environ[key] for key in ("PYTHONPATH",) if key in os.environ},
            "look": self._told(),
        }
        return {"NBDIST_DOCTOR": json.dumps(told), "NBDIST_DOCTOR_PROGRAM": _text(ray_probe.__file__)}

    def _follow(self, begun: float) -> None:
        """Read what it says until it is done, has ended, or takes too long."""
        result = self._result
        while not self._done and not result.waits:
            time.sleep(_PERIOD)
            about = self._api.job(self._name) or {}
            self._take(self._api.log(self._name))
            if result.nodes and not result.queued:
                result.queued = time.monotonic() - begun
            if about.get("status") in ("FAILED", "STOPPED", "SUCCEEDED"):
                result.noise = "" if result.nodes else str(about.get("message") or "")[-300:]
                return
            if time.monotonic() - begun > self._wait + _STARTED + (_LOOKED if result.nodes else 0.0):
                result.silent = True
                return

    def _take(self, log: str) -> None:
        new, self._read = log[self._read :], log.rfind("\n") + 1
        for line in new[: new.rfind("\n") + 1].splitlines():
            self.take(line)

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


def _text(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")
