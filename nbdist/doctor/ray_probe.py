"""What the doctor's job is on Ray's side: on each node it starts the program of ``node_probe``, and hands its
words on. A program of its own, sent as text: the nodes may not see this file.

``NBDIST_DOCTOR`` says in JSON what is wanted. What the nodes say is printed, and read over HTTP.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from typing import Any

MARK = "nbdist-doctor "


class Node:
    """A process of Ray's on one node."""

    def host(self) -> str:
        import socket

        return socket.gethostname()

    def address(self) -> str:
        return str(importlib.import_module("ray").util.get_node_ip_address())

    def start(self, words: list[str], more: dict[str, str]) -> str:
        """The first word of the node's own Python; empty where there is none."""
        if not os.access(words[0], os.X_OK):
            return ""
        pipe = subprocess.PIPE
        environment = dict(os.environ, **more)
        self._process = subprocess.Popen(words, env=environment, cwd="/", stdin=pipe, stdout=pipe, text=True)
        return self._next()

    def ask(self, line: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._next()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)

    def _next(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def main() -> int:
    told = json.loads(os.environ["NBDIST_DOCTOR"])
    ray: Any = importlib.import_module("ray")
    ray.init(log_to_driver=False, logging_level="error")
    placement = importlib.import_module("ray.util.placement_group")
    scheduling = importlib.import_module("ray.util.scheduling_strategies")
    group = placement.placement_group([{"CPU": 1.0}] * told["nodes"], strategy="STRICT_SPREAD")
    begun = time.monotonic()
    while not group.wait(1):
        if time.monotonic() - begun > told["wait"]:
            alive = sum(bool(node["Alive"]) for node in ray.nodes())
            say("waits", reason=f"asks for a core on each of {told['nodes']} nodes, and Ray has {alive}")
            return 0
    remote = ray.remote(Node)
    nodes = [
        remote.options(
            num_cpus=1,
            scheduling_strategy=scheduling.PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=at
            ),
        ).remote()
        for at in range(told["nodes"])
    ]
    look(ray, nodes, told)
    return 0


def look(ray: Any, nodes: list[Any], told: dict[str, Any]) -> None:
    hosts = ray.get([node.host.remote() for node in nodes])
    addresses = ray.get([node.address.remote() for node in nodes])
    # several of one machine's
    names = hosts if len(set(hosts)) == len(hosts) else addresses
    known = {node["NodeManagerAddress"]: node["Resources"].get("GPU", 0) for node in ray.nodes()}
    gpus = {name: int(known.get(address, 0)) for name, address in zip(names, addresses)}  # noqa: B905 - old
    say("cluster", gpus=gpus)
    words = [told["python"], "-c", told["program"], told["token"]]
    firsts = ray.get(
        [
            node.start.remote(
                words, dict(told["environment"], NBDIST_NODE=str(at), NBDIST_NODE_NAME=names[at])
            )
            for at, node in enumerate(nodes)
        ]
    )
    there = [at for at, first in enumerate(firsts) if first]
    for at, first in enumerate(firsts):
        hand_on(first or f"nbdist-no-python {names[at]}\n")
    ports = {at: json.loads(firsts[at][len(MARK) :])["port"] for at in there}
    peers = [{"name": names[at], "address": addresses[at], "port": ports[at]} for at in there]
    line = json.dumps(dict(told["look"], peers=peers))
    for answer in ray.get([nodes[at].ask.remote(line) for at in there]):
        hand_on(answer)
    say("done")
    ray.get([nodes[at].close.remote() for at in there])


def say(what: str, **found: Any) -> None:
    hand_on(MARK + json.dumps(dict(found, say=what)) + "\n")


def hand_on(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
