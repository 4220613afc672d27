"""What Ray runs on each node of a run: starts the supervisor there, and ends when that has ended.

Ray is sent this as it is, in case the node does not see the file; so it imports what it needs where it needs
it, and nothing of nbdist's.
"""

from __future__ import annotations


class Node:
    """One node of a run, in a process of Ray's own."""

    def address(self) -> str:
        """Where the other nodes reach this one."""
        return str(__import__("ray").util.get_node_ip_address())

    def problem(self, needed: list[str], python: str) -> str:
        """Why this node cannot take part; empty where it can."""
        import os

        for path in needed:
            if not os.path.exists(path):
                return f"does not see {path}"
            if not os.access(path, os.R_OK):
                return f"may not read {path}: it runs as user {os.getuid()}"
        folder = os.path.dirname(needed[0])
        if os.stat(folder).st_uid != os.geteuid():
            return f"runs as user {os.getuid()}, and {folder} belongs to user {os.stat(folder).st_uid}"
        if not os.access(folder, os.W_OK | os.X_OK):
            return f"may not write into {folder}: it runs as user {os.getuid()}"
        if not os.access(python, os.X_OK):
            return f"has no {python}, which is the Python of the ranks"
        return ""

    def ports(self, address: str) -> int:
        """A port that is free there, and so is the next: the ranks' and the supervisors'."""
        import random
        import socket

        for _ in range(500):
            port = random.randrange(20_000, 30_000, 2)
            with socket.socket() as one, socket.socket() as other:
                try:
                    one.bind((address, port))
                    other.bind((address, port + 1))
                except OSError:
                    continue
                return port
        return 0

    def supervise(self, words: list[str], environment: dict[str, str], log: str) -> int:
        """Start the supervisor, and wait until it and the process above it have gone."""
        import os
        import socket
        import subprocess

        mine = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "NBDIST_"))}
        if mine.get("PYTHONBREAKPOINT", "").startswith("ray."):
            del mine["PYTHONBREAKPOINT"]
        both = mine | environment
        for name in ("PATH", "LD_LIBRARY_PATH"):  # where a node has its drivers only it knows
            parts = [environment.get(name), mine.get(name)]
            both[name] = os.pathsep.join(part for part in dict.fromkeys(parts) if part)
            if not both[name]:
                del both[name]
        ours, theirs = socket.socketpair()
        both["NBDIST_LIFELINE"] = str(theirs.fileno())
        written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        # Ray kills the children of a process that it ends: so the supervisor leaves it
        # (``node``), and sees by the line that this process has gone
        with theirs, open(written, "ab") as file:
            started = subprocess.run(
                words,
                env=both,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        with ours:
            ours.recv(1)
        return started.returncode
