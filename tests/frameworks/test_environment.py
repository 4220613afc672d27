"""The environment of a rank: complete tables, since one wrong variable stops a framework."""

from __future__ import annotations

import pytest

from nbdist.errors import UsageMistake
from nbdist.frameworks.environment import Placement, check_framework, inherited, rank_environment


def place(rank: int, *, gpus: tuple[int, ...] = ()) -> Placement:
    """Return the place of one of two ranks on one machine."""
    return Placement(
        rank=rank, world_size=2, local_rank=rank, local_world_size=2, node_rank=0, nodes=1, gpus=gpus
    )


FIRST_ON_CPU = {
    "RANK": "0",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "0",
    "GROUP_WORLD_SIZE": "1",
    "ROLE_RANK": "0",
    "ROLE_WORLD_SIZE": "2",
    "MASTER_ADDR": "{host}",
    "MASTER_PORT": "{port}",
    "TORCHELASTIC_RUN_ID": "{run}",
    "TORCHELASTIC_RESTART_COUNT": "{restarts}",
    "TORCHELASTIC_MAX_RESTARTS": "{retries}",
    "TORCHELASTIC_USE_AGENT_STORE": "False",
    "PADDLE_TRAINER_ID": "0",
    "PADDLE_TRAINERS_NUM": "2",
    "PADDLE_CURRENT_ENDPOINT": "{host}:{port+1}",
    "PADDLE_TRAINER_ENDPOINTS": "{host}:{port+1},{host}:{port+2}",
    "PADDLE_MASTER": "{host}:{port}",
    "PADDLE_GLOBAL_RANK": "0",
    "PADDLE_GLOBAL_SIZE": "2",
    "PADDLE_LOCAL_RANK": "0",
    "PADDLE_LOCAL_SIZE": "2",
    "PADDLE_NNODES": "1",
    "PADDLE_RANK_IN_NODE": "0",
    "PADDLE_DISTRI_BACKEND": "gloo",
    "JAX_COORDINATOR_ADDRESS": "{host}:{port}",
    "CUDA_VISIBLE_DEVICES": "",
}
SECOND_ON_CPU = FIRST_ON_CPU | {
    "RANK": "1",
    "ROLE_RANK": "1",
    "LOCAL_RANK": "1",
    "PADDLE_TRAINER_ID": "1",
    "PADDLE_CURRENT_ENDPOINT": "{host}:{port+2}",
    "PADDLE_GLOBAL_RANK": "1",
    "PADDLE_LOCAL_RANK": "1",
    "PADDLE_RANK_IN_NODE": "1",
}
ON_GPUS_3_AND_5 = {"CUDA_VISIBLE_DEVICES": "3,5", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def on_gpu(environment: dict[str, str], index: int) -> dict[str, str]:
    kept = {key: value for key, value in environment.items() if key != "PADDLE_DISTRI_BACKEND"}
    return kept | ON_GPUS_3_AND_5 | {"FLAGS_selected_gpus": str(index)}


@pytest.mark.parametrize(
    ("placement", "backend", "environment"),
    [
        pytest.param(place(0), "auto", FIRST_ON_CPU, id="the first of two on the CPU"),
        pytest.param(place(1), "auto", SECOND_ON_CPU, id="the second of two on the CPU"),
        pytest.param(place(1), "gloo", SECOND_ON_CPU, id="gloo by choice"),
        pytest.param(place(0, gpus=(3, 5)), "auto", on_gpu(FIRST_ON_CPU, 0), id="the first of two GPUs"),
        pytest.param(place(1, gpus=(3, 5)), "auto", on_gpu(SECOND_ON_CPU, 1), id="the second of two GPUs"),
        pytest.param(
            place(1, gpus=(3, 5)),
            "gloo",
            on_gpu(SECOND_ON_CPU, 1) | {"PADDLE_DISTRI_BACKEND": "gloo"},
            id="gloo on GPUs",
        ),
        pytest.param(
            Placement(rank=5, world_size=6, local_rank=1, local_world_size=2, node_rank=2, nodes=3, gpus=()),
            "auto",
            FIRST_ON_CPU
            | {
                "RANK": "5",
                "WORLD_SIZE": "6",
                "LOCAL_RANK": "1",
                "GROUP_RANK": "2",
                "GROUP_WORLD_SIZE": "3",
                "ROLE_RANK": "5",
                "ROLE_WORLD_SIZE": "6",
                "PADDLE_TRAINER_ID": "5",
                "PADDLE_TRAINERS_NUM": "6",
                "PADDLE_CURRENT_ENDPOINT": "{host2}:{port+3}",
                "PADDLE_TRAINER_ENDPOINTS": ",".join(
                    f"{{host{node}}}:{{port+{n}}}" for node in range(3) for n in (2, 3)
                ),
                "PADDLE_GLOBAL_RANK": "5",
                "PADDLE_GLOBAL_SIZE": "6",
                "PADDLE_LOCAL_RANK": "1",
                "PADDLE_NNODES": "3",
                "PADDLE_RANK_IN_NODE": "1",
            },
            id="the last of six on three machines",
        ),
    ],
)
def test_a_rank_is_told_where_it_stands(
    placement: Placement, backend: str, environment: dict[str, str]
) -> None:
    assert rank_environment(placement, backend) == environment


OTHERS = """RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK MASTER_ADDR MASTER_PORT
PADDLE_TRAINER_ID PADDLE_ANYTHING FLAGS_selected_gpus TORCHELASTIC_USE_AGENT_STORE TRAINING_ROLE
JPY_PARENT_PID JUPYTERHUB_API_TOKEN PYDEVD_USE_FRAME_EVAL"""
USERS = """PATH HOME LD_LIBRARY_PATH NCCL_DEBUG FLAGS_cudnn_deterministic HF_TOKEN SLURM_JOB_ID
RANKING TORCH_HOME"""


def test_what_was_meant_for_somebody_else_is_dropped_and_the_users_own_kept() -> None:
    environ = dict.fromkeys(f"{OTHERS} {USERS}".split(), "7")

    kept = inherited(environ, world_size=1)

    assert environ.keys() & kept.keys() == set(USERS.split())
    assert {kept[name] for name in USERS.split()} == {"7"}
    assert environ == dict.fromkeys(f"{OTHERS} {USERS}".split(), "7"), "it is a copy"


@pytest.mark.parametrize(
    ("before", "world_size", "after"),
    [
        pytest.param({}, 1, None, id="one rank has the machine to itself"),
        pytest.param({}, 2, "1", id="two ranks share it"),
        pytest.param({"OMP_NUM_THREADS": "4"}, 2, "4", id="the user has chosen"),
        pytest.param({"OMP_NUM_THREADS": "4"}, 1, "4", id="for one rank, too"),
    ],
)
def test_ranks_that_share_a_machine_get_one_thread_each(
    before: dict[str, str], world_size: int, after: str | None
) -> None:
    assert inherited(before, world_size).get("OMP_NUM_THREADS") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("module://matplotlib_inline.backend_inline", "agg", id="the notebook's"),
        pytest.param("module://ipykernel.pylab.backend_inline", "agg", id="an older notebook's"),
        pytest.param("pdf", "pdf", id="the user's"),
        pytest.param("module://my_backend", "module://my_backend", id="a module of the user's"),
    ],
)
def test_plots_do_not_go_to_a_notebook_that_a_rank_does_not_have(before: str, after: str) -> None:
    assert inherited({"MPLBACKEND": before}, world_size=1)["MPLBACKEND"] == after


@pytest.mark.parametrize(
    ("before", "gpus", "after"),
    [
        pytest.param({}, False, "true", id="on the CPU"),
        pytest.param({"ACCELERATE_USE_CPU": "false"}, False, "false", id="the user has chosen"),
        pytest.param({}, True, None, id="on GPUs"),
    ],
)
def test_hugging_face_is_told_that_the_cpu_is_meant(
    before: dict[str, str], gpus: bool, after: str | None
) -> None:
    assert inherited(before, world_size=2, gpus=gpus).get("ACCELERATE_USE_CPU") == after


def test_an_unknown_framework_names_the_known_ones() -> None:
    with pytest.raises(UsageMistake, match="no framework mxnet: write --framework auto, none, torch, paddle"):
        check_framework("mxnet")


def test_what_a_kernel_forces_on_its_children_does_not_reach_ranks() -> None:
    kernel = {"JPY_PARENT_PID": "7", "FORCE_COLOR": "1", "CLICOLOR": "1", "CLICOLOR_FORCE": "1"}

    assert not inherited(kernel, 1).keys() & kernel.keys()


def test_a_shell_s_wish_for_colours_does_reach_them() -> None:
    shell = {"FORCE_COLOR": "1", "TTY_COMPATIBLE": "0"}

    assert inherited(shell, 1).items() >= shell.items()
