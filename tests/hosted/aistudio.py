"""Sessions of Baidu AI Studio, as far as this machine can have them: a container with ``/home/aistudio``, an
environment that its user cannot change, a GPU, and a proxy that passes on any port without its prefix."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.browser.lab import TOKEN, write_settings
from tests.engines.ports import free_ports
from tests.hosted.services import Host, nginx, running, until

DRIVER = Path(__file__).parents[1] / "fakes/nvml_driver.c"
PREFIX = "/bd-gpu-01/user/71/42/"

UNSHARE = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
if os.geteuid():
    UNSHARE += ["--user", "--map-root-user"]

# $1 becomes /home: what is there now stays in it, since Python or the checkout may lie below
ENTER = """
for place in /home/*/; do
  name=$(basename "$place")
  case $name in aistudio|'*') continue;; esac
  mkdir -p "$1/$name"
  mount --rbind "$place" "$1/$name"
done
mount --rbind "$1" /home
cd /home/aistudio
shift
exec "$@"
"""
_FOREIGN = ("IPYTHON", "JPY_", "JUPYTER", "NBDIST_", "PLAYWRIGHT", "PYTEST", "PYTHON", "VIRTUAL_ENV", "XDG_")


def may_unshare() -> bool:
    return subprocess.run([*UNSHARE, "true"], capture_output=True).returncode == 0


class AiStudio:
    """A user's files, which stay from one session to the next, and the ``environment`` of all sessions."""

    def __init__(self, environment: Path, root: Path) -> None:
        self._environment = environment
        self._root = root
        self.home = root / "homes/aistudio"
        self.home.mkdir(parents=True)
        news = {"fetchNews": "false", "checkForUpdates": False}
        write_settings(self.home / ".jupyter", "notification", news)
        (root / "driver").mkdir()
        library = root / "driver/libnvidia-ml.so.1"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, DRIVER], check=True)

    @contextlib.contextmanager
    def session(self) -> Iterator[Host]:
        """Yield a container whose first process is a Jupyter server; both end with the block."""
        inner, outer = free_ports(2)
        server = [str(self._environment / "bin/python"), "-m", "jupyterlab", "--no-browser", "--allow-root"]
        server += ["--ip=127.0.0.1", f"--port={inner}", "--ServerApp.port_retries=0"]
        server += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.base_url={PREFIX}"]
        server += ["--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None"]
        server += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
        command = [*UNSHARE, "sh", "-euc", ENTER, "sh", str(self.home.parent), *server]
        with (
            running(command, self._root / "server.log", self._variables()),
            nginx(self._root, PREFIX, inner, outer) as origin,
        ):
            host = Host(f"{origin}{PREFIX}", TOKEN, self.home)
            until(lambda: host.ask("api/status")[0] == 200)
            yield host
            # unshare blocks the signal that would end it
            host.ask("api/shutdown", "POST")

    def _variables(self) -> dict[str, str]:
        """Return this process's variables for the network and for pip; pip's downloads and settings stay in
        the home, which the container does not see."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        pip = {"PIP_CACHE_DIR": str(Path.home() / ".cache/pip")}
        if (settings := Path.home() / ".config/pip/pip.conf").exists():
            pip["PIP_CONFIG_FILE"] = str(settings)
        own = {"HOME": "/home/aistudio", "USER": "aistudio", "LANG": "C.UTF-8"}
        path = f"{self._environment / 'bin'}:{os.environ['PATH']}"
        return {**kept, **pip, **own, "PATH": path, "LD_LIBRARY_PATH": str(self._root / "driver")}
