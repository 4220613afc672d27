"""Probes on machines that a test makes up: levels and fixes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from nbdist.devices.gpus import other_cards
from nbdist.doctor.examination_report import Entry, Level
from nbdist.doctor.installed import (
    examine_board,
    examine_framework,
    examine_notebook,
    examine_page,
    examine_python,
    examine_server,
)
from nbdist.doctor.probes import (
    examine_gpus,
    examine_host,
    examine_host_name,
    examine_loopback,
    examine_machine,
    examine_settings,
)
from nbdist.labextension_install import WIDGETS as EXTENSIONS_OF_WIDGETS
from tests.fakes.nvml import FakeGpu, FakeNvml, FakeProcess

GB = 1 << 30


def levels(entries: Iterable[Entry]) -> dict[str, str]:
    return {entry.title: entry.level.value for entry in entries}


@pytest.mark.parametrize(
    ("variables", "files", "expected"),
    [
        pytest.param({"COLAB_RELEASE_TAG": "1"}, (), ["Colab"], id="Colab"),
        pytest.param({"KAGGLE_KERNEL_RUN_TYPE": "Interactive"}, (), ["Kaggle"], id="Kaggle"),
        pytest.param({"VSCODE_PID": "1"}, (), ["VS Code"], id="VS Code"),
        pytest.param({"SLURM_JOB_ID": "7"}, (), ["Slurm job"], id="Slurm"),
        pytest.param({}, ("home/aistudio", ".dockerenv"), ["AI Studio", "container"], id="AI Studio"),
        pytest.param(
            {"JUPYTERHUB_SERVICE_PREFIX": "/user/eva/"},
            ("run/.containerenv",),
            ["JupyterHub", "container"],
            id="hub",
        ),
        pytest.param({}, (), [], id="a machine of one's own"),
    ],
)
def test_the_host_is_known_by_its_variables_and_files(
    tmp_path: Path, variables: dict[str, str], files: tuple[str, ...], expected: list[str]
) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()

    entries = list(examine_host(variables, tmp_path))

    assert [entry.title for entry in entries[1:]] == expected
    assert all(entry.what and entry.what_zh for entry in entries[1:])


def test_this_python_has_what_nbdist_needs() -> None:
    assert set(levels(examine_python()).values()) == {"ok"}


def with_framework(folder: Path, cuda: str) -> list[str]:
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").touch()
    (folder / "torch" / "version.py").write_text(f"__version__ = '2.13.0'\ncuda: str = {cuda!r}\n")
    return [str(folder)]


@pytest.mark.parametrize(
    ("cuda", "gpus", "answer", "expected"),
    [
        pytest.param(None, 0, {"gpus": 0, "distributed": True}, ["ok", "ok"], id="CPU build without GPUs"),
        pytest.param(None, 2, {"gpus": 0, "distributed": True}, ["warning", "ok"], id="CPU build with GPUs"),
        pytest.param(
            "12.4", 2, {"gpus": 2, "distributed": True, "nccl": "2.21"}, ["ok", "ok"], id="GPU build"
        ),
        pytest.param("12.4", 2, {"gpus": 0, "distributed": True}, ["ok", "error"], id="it sees no GPU"),
        pytest.param(None, 0, {"gpus": 0, "distributed": False}, ["ok", "error"], id="not distributed"),
        pytest.param(None, 0, "import torch failed: ImportError: libc", ["ok", "error"], id="does not start"),
    ],
)
def test_a_framework_is_judged_by_its_build_and_its_answer(
    tmp_path: Path, cuda: str | None, gpus: int, answer: object, expected: list[str]
) -> None:
    path = with_framework(tmp_path, cuda)

    entries = list(examine_framework("torch", path=path, question=lambda _: answer, gpus=gpus))

    assert [entry.level.value for entry in entries] == expected
    assert all(entry.fix for entry in entries if entry.level is Level.ERROR)


def test_a_framework_that_is_not_there_is_a_fact(tmp_path: Path) -> None:
    [entry] = examine_framework("paddle", path=[str(tmp_path)])

    assert entry.level is Level.INFO
    assert "paddlepaddle" in entry.fix


def test_without_a_driver_ranks_run_on_the_cpu(tmp_path: Path) -> None:
    (tmp_path / "davinci0").touch()
    entries = list(examine_gpus({"ASCEND_RT_VISIBLE_DEVICES": "0"}, bindings=FakeNvml(driver=False)))

    assert levels(entries) == {"driver": "info"}
    assert entries[0].what.endswith("ranks run on the CPU, not on the NPUs here")
    assert other_cards({"ZE_AFFINITY_MASK": "-1"}, tmp_path) == "NPU"


def test_a_full_gpu_names_who_holds_it() -> None:
    full = FakeGpu("GPU-a", used=145_000_000_000, processes=(FakeProcess(1, 145_000_000_000),))
    nvml = FakeNvml([full, FakeGpu("GPU-b", lost=False)])

    entries = list(examine_gpus({}, bindings=nvml))

    assert levels(entries)["GPU 0"] == "warning"
    assert levels(entries)["GPU 1"] == "ok"
    assert "pid 1" in next(entry.what for entry in entries if entry.title == "GPU 0")
    assert nvml.open == 0


def test_hidden_gpus_and_missing_peer_access_are_named() -> None:
    nvml = FakeNvml([FakeGpu(f"GPU-{letter}") for letter in "abc"], apart=frozenset({(0, 1)}))

    entries = list(examine_gpus({"CUDA_VISIBLE_DEVICES": "0,1"}, bindings=nvml))

    assert levels(entries)["visible"] == "warning"
    assert "0-1" in next(entry.what for entry in entries if entry.title == "P2P")


@pytest.mark.parametrize(
    ("shared", "disk", "files", "expected"),
    [
        pytest.param(8 * GB, 50 * GB, 65536, ("ok", "ok", "ok"), id="all is well"),
        pytest.param(64 << 20, 50 * GB, 65536, ("error", "ok", "ok"), id="a container's /dev/shm"),
        pytest.param(512 << 20, 50 * GB, 65536, ("warning", "ok", "ok"), id="a small /dev/shm"),
        pytest.param(8 * GB, 1 << 20, 65536, ("ok", "error", "ok"), id="a full disk"),
        pytest.param(8 * GB, GB, 256, ("ok", "warning", "warning"), id="a nearly full disk, few files"),
    ],
)
def test_what_a_run_uses_up_is_measured(
    tmp_path: Path, shared: int, disk: int, files: int, expected: tuple[str, ...]
) -> None:
    place = tmp_path / "shm"
    place.mkdir()

    results = levels(
        examine_machine(
            shared=place,
            home=tmp_path / "home",
            size_of=lambda path: (shared, shared) if path == place else (disk, disk),
            file_limit=files,
        )
    )

    assert (results["/dev/shm"], results["runs"], results["open files"]) == expected


@pytest.mark.parametrize(
    ("problem", "level", "words"),
    [
        pytest.param("", "ok", "each run has a control group", id="can be made"),
        pytest.param("cgroup v2 is not mounted here", "info", "(cgroup v2 is not mounted here)", id="cannot"),
    ],
)
def test_the_machine_says_whether_a_run_has_a_control_group(
    tmp_path: Path, problem: str, level: str, words: str
) -> None:
    entries = list(examine_machine(home=tmp_path, size_of=lambda _: (GB, GB), no_group=problem))

    entry = next(entry for entry in entries if entry.title == "control groups")
    assert (entry.level.value, words in entry.what, bool(entry.fix)) == (level, True, bool(problem))
    assert entry.what_zh


def test_a_loopback_that_refuses_is_an_error() -> None:
    def refuse() -> None:
        raise OSError("Permission denied")

    assert levels(examine_loopback()) == {"loopback": "ok"}
    assert levels(examine_loopback(refuse)) == {"loopback": "error"}


def test_a_host_name_without_an_address_of_this_machine_is_a_warning() -> None:
    def fail(_: str) -> str:
        raise OSError("Name or service not known")

    def elsewhere(_: str) -> None:
        raise OSError("Cannot assign requested address")

    assert levels(examine_host_name("vm", lambda _: "127.0.0.1")) == {"host name": "ok"}
    assert levels(examine_host_name("vm", fail)) == {"host name": "warning"}
    assert levels(examine_host_name("vm", lambda _: "10.0.0.9", elsewhere)) == {"host name": "warning"}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        pytest.param({}, {}, id="nothing set"),
        pytest.param({"GLOO_SOCKET_IFNAME": "eth0"}, {"GLOO_SOCKET_IFNAME": "ok"}, id="there"),
        pytest.param({"GLOO_SOCKET_IFNAME": "ib0"}, {"GLOO_SOCKET_IFNAME": "error"}, id="not there"),
        pytest.param({"NCCL_SOCKET_IFNAME": "^docker"}, {"NCCL_SOCKET_IFNAME": "ok"}, id="all but one"),
        pytest.param({"http_proxy": "http://p"}, {"proxy": "warning"}, id="proxy for everything"),
        pytest.param(
            {"http_proxy": "http://p", "no_proxy": "localhost,127.0.0.1"},
            {"proxy": "ok"},
            id="not for this machine",
        ),
    ],
)
def test_variables_that_lead_ranks_astray_are_named(
    variables: dict[str, str], expected: dict[str, str]
) -> None:
    assert levels(examine_settings(variables, ["lo", "eth0"])) == expected


def installed(folder: Path, *, version: str = "", server: bool | None = None) -> tuple[list[str], list[str]]:
    """Write the extensions into Jupyter's data and configuration paths."""
    data, config = folder / "data", folder / "config"
    if version:
        (data / "labextensions/nbdist").mkdir(parents=True)
        (data / "labextensions/nbdist/package.json").write_text(json.dumps({"version": version}))
    if server is not None:
        (config / "jupyter_server_config.d").mkdir(parents=True)
        text = json.dumps({"ServerApp": {"jpserver_extensions": {"nbdist": server}}})
        (config / "jupyter_server_config.d/nbdist.json").write_text(text)
    return [str(data)], [str(config)]


@pytest.mark.parametrize(
    ("version", "server", "expected"),
    [
        pytest.param("0.1.0", True, ("ok", "ok"), id="both"),
        pytest.param("", None, ("warning", "warning"), id="neither"),
        pytest.param("0.0.1", True, ("warning", "ok"), id="an old one"),
        pytest.param("0.1.0", False, ("ok", "warning"), id="switched off"),
    ],
)
def test_the_extensions_are_found_where_jupyter_looks(
    tmp_path: Path, version: str, server: bool | None, expected: tuple[str, str]
) -> None:
    data, config = installed(tmp_path, version=version, server=server)

    entries = list(examine_notebook(data_paths=data, config_paths=config))

    results = levels(entries)
    assert (results["JupyterLab extension"], results["server extension"]) == expected
    fixes = [entry.fix for entry in entries if entry.title == "JupyterLab extension"]
    assert ("--fix" in fixes[0]) is (expected[0] == "warning")


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of Jupyter's server files."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def a_server(runtime: Path, **facts: object) -> None:
    """Write the file of a running server."""
    text = json.dumps({"url": "http://127.0.0.1/"} | facts)
    (runtime / f"jpserver-{facts['pid']}.json").write_text(text)


@pytest.mark.parametrize(
    ("status", "level"),
    [
        pytest.param(200, "ok", id="loaded"),
        pytest.param(404, "warning", id="not loaded"),
        pytest.param(0, "info", id="no answer"),
    ],
)
def test_the_server_of_this_kernel_is_asked_and_its_token_not_shown(
    runtime: Path, status: int, level: str
) -> None:
    for pid, port in ((os.getpid(), 8888), (os.getppid(), 9999)):
        a_server(runtime, pid=pid, port=port, base_url="/user/eva/", token="t0k3n")

    [entry] = examine_server({"JPY_PARENT_PID": str(os.getpid())}, ask=lambda *_: status)

    assert entry.level.value == level
    assert "/user/eva/, port 8888" in entry.what
    assert "t0k3n" not in repr(entry)


@pytest.mark.parametrize(
    ("extensions", "repairs"),
    [
        pytest.param({"nbdist", *EXTENSIONS_OF_WIDGETS}, [], id="everything"),
        pytest.param(set(EXTENSIONS_OF_WIDGETS), ["labextension"], id="no nbdist"),
        pytest.param({"nbdist", "anywidget"}, ["widgets"], id="half of what draws widgets"),
        pytest.param(None, [], id="a server without JupyterLab"),
    ],
)
def test_what_the_server_s_jupyterlab_lacks_can_be_mended(
    runtime: Path, extensions: set[str] | None, repairs: list[str]
) -> None:
    a_server(runtime, pid=os.getpid(), port=8888, base_url="/", token="")

    def ask(url: str, token: str) -> int:
        assert token == "of-the-hub"
        path = url.removeprefix("http://127.0.0.1:8888/")
        known = {f"lab/extensions/{name}/package.json" for name in extensions or ()} | {"lab"}
        return 200 if extensions is not None and path in known else 404

    variables = {"JPY_PARENT_PID": str(os.getpid()), "JUPYTERHUB_API_TOKEN": "of-the-hub"}
    entries = list(examine_page(variables, ask=ask))

    assert [entry.repair for entry in entries] == repairs


@pytest.mark.parametrize(
    ("version", "variables", "expected"),
    [
        pytest.param("2.5.3", {}, ["ok"], id="known"),
        pytest.param("2.4.0", {}, ["error"], id="too old"),
        pytest.param("2.6.0", {}, ["error"], id="too new"),
        pytest.param("2.5.3", {"NBDIST_PROXY_URL": "/p/"}, ["ok", "error"], id="proxy without a port"),
    ],
)
def test_visualdl_is_one_that_the_server_knows(
    version: str, variables: dict[str, str], expected: list[str]
) -> None:
    assert [e.level.value for e in examine_board(variables, version=version)] == expected
