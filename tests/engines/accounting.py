"""A Slurm that writes its jobs down: with a database of its own, and the daemon between the two."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.engines.cluster import Cluster, NoSlurm, host_name, program, user_name
from tests.engines.ports import free_ports

NEEDED = ("slurmdbd", "sacct", "sacctmgr", "mariadbd", "mariadb-install-db", "mariadb")


class AccountedCluster(Cluster):
    """As ``Cluster``; ``forget`` lets the controller forget every job."""

    def __init__(self, folder: Path, **sizes: int) -> None:
        super().__init__(folder, **sizes)
        self._recorded = False

    def start_controller(self, *words: str) -> None:
        if not self._recorded:
            self._recorded = True
            self._start_database()
            self._start_recorder()
        super().start_controller(*words)

    def forget(self) -> None:
        """As after the time for which it remembers a job."""
        self.kill("slurmctld")
        self.start_controller("-c")
        self.wait_for_nodes()

    def _start_database(self) -> None:
        for name in NEEDED:
            try:
                program(name)
            except NoSlurm:
                raise NoSlurm(
                    f"no {name}: install slurmdbd, mariadb-server-core and mariadb-client-core"
                ) from None
        data, socket = self.folder / "db", self.folder / "run" / "db.sock"
        user = f"--user={user_name()}"
        words = [program("mariadb-install-db"), "--no-defaults", f"--datadir={data}", "--skip-test-db", user]
        words.append("--auth-root-authentication-method=normal")
        made = subprocess.run(words, capture_output=True, text=True)
        if made.returncode:
            raise NoSlurm(f"no database: {made.stderr[-300:] or made.stdout[-300:]}")
        self._start(
            *("mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={socket}", "--skip-networking"),
            *(user, "--innodb-buffer-pool-size=32M", f"--pid-file={self.folder}/run/mariadbd.pid"),
        )
        self._until(socket.exists, "mariadbd did not start")
        orders = "create database slurm; create user slurm@localhost identified by 'x'; "
        orders += "grant all on slurm.* to slurm@localhost"
        ask = [program("mariadb"), "--no-defaults", "-S", str(socket), "-u", "root", "-e"]
        self._until(
            lambda: subprocess.run([*ask, orders], capture_output=True).returncode == 0, "no database"
        )

    def _start_recorder(self) -> None:
        folder, host, (port,) = self.folder, host_name(), free_ports(1)
        path = folder / "slurmdbd.conf"
        path.write_text(
            f"""AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user_name()}
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=x
StorageLoc=slurm
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/run/slurmdbd.pid
"""
        )
        path.chmod(0o600)
        with open(self.configuration, "a") as file:
            file.write(
                f"""AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/run/munge.sock
"""
            )
        text = self.configuration.read_text()
        self.configuration.write_text(text.replace("accounting_storage/none", "accounting_storage/slurmdbd"))
        os.environ["MYSQL_UNIX_PORT"] = f"{folder}/run/db.sock"
        try:
            self._start("slurmdbd", "-D")
        finally:
            del os.environ["MYSQL_UNIX_PORT"]
        self._until(lambda: "nbdist" in self._add(), "slurmdbd did not start")

    def _add(self) -> str:
        self.call("sacctmgr", "-i", "add", "cluster", "nbdist")
        return self.call("sacctmgr", "-nP", "show", "cluster", "format=cluster")
