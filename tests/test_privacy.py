"""What is masked, and which variables are written down."""

from __future__ import annotations

import pytest

from nbdist.privacy import MASK, masked_text, masked_words, may_be_written, without_values


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        pytest.param(["--api-key", "y"], ["--api-key", MASK], id="the word behind a flag"),
        pytest.param(["--api-key=y", "x"], [f"--api-key={MASK}", "x"], id="behind an equals sign"),
        pytest.param(["--password", "two words"], ["--password", MASK], id="a password of two words"),
        pytest.param(["--dbPassword=a=b"], [f"--dbPassword={MASK}"], id="a name in camel case"),
        pytest.param(["token=a,b"], [f"token={MASK}"], id="a setting"),
        pytest.param(["+wandb.key=y", "lr=1"], [f"+wandb.key={MASK}", "lr=1"], id="a setting of hydra's"),
        pytest.param(["--set=db.password=y"], [f"--set=db.password={MASK}"], id="a setting in an option"),
        pytest.param(["-c", "a=1,token=y,b=2"], ["-c", f"a=1,token={MASK},b=2"], id="one of several"),
        pytest.param(["env", "DB_PASS=y", "run"], ["env", f"DB_PASS={MASK}", "run"], id="a variable"),
        pytest.param(['{"api_key": "a b"}'], [f'{{"api_key": "{MASK}"}}'], id="in JSON"),
        pytest.param(["-H", "X-Api-Key: 12"], ["-H", f"X-Api-Key: {MASK}"], id="in a header"),
        pytest.param(["sh", "-c", "x --token y -v"], ["sh", "-c", f"x --token {MASK} -v"], id="in a command"),
        pytest.param(["pg://a:p@w@h:1/d"], [f"pg://{MASK}@h:1/d"], id="a password in an address"),
        pytest.param(["https://y@h/x"], [f"https://{MASK}@h/x"], id="a token in an address"),
        pytest.param(["https://h/?sig=y&a=1"], [f"https://h/?sig={MASK}&a=1"], id="in a query"),
        pytest.param(["ghp_0123456789abcdef"], [MASK], id="a shape of GitHub's"),
        pytest.param(["--x", "AKIA0123456789ABCDEF"], ["--x", MASK], id="a shape of AWS's"),
        pytest.param(["eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.c2ln"], [MASK], id="a signed token"),
    ],
)
def test_an_argument_that_looks_like_a_secret_is_masked(words: list[str], shown: list[str]) -> None:
    assert masked_words(words) == tuple(shown)


@pytest.mark.parametrize(
    "line",
    [
        "--lr 0.1 --epochs 3",
        "--max-tokens 512 --tokenizer bert --pad-token <pad> --sort-key size",
        "--use-auth-token --epochs 3",
        "-p 3 --passes 2",
        "git@github.com:ann/x --image repo:tag",
        "https://host/a?b=c model.hidden=4",
    ],
)
def test_other_arguments_are_shown_as_they_are(line: str) -> None:
    assert masked_words(line.split()) == tuple(line.split())
    assert masked_text(line) == line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_DEBUG", "INFO"),
        ("OMP_NUM_THREADS", "4"),
        ("CUDA_LAUNCH_BLOCKING", "1"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),
        ("FLAGS_allocator_strategy", "auto_growth"),
        ("PYTHONPATH", "/home/ada/src"),
    ],
)
def test_a_variable_that_is_known_to_be_harmless_is_written_down(name: str, value: str) -> None:
    assert may_be_written(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, "y") for name in ("DB_PASS", "WANDB_KEY", "PASSPHRASE", "SIGNING_KEY", "AUTH", "X")),
        ("DATABASE_URL", "pg://h/d"),
        ("LR", "0.1"),
        ("TORCH_HUB_TOKEN", "y"),
        ("NCCL_PROXY", "y"),
        ("PYTHON_KEYRING", "y"),
        ("TORCH_HOME", "https://ann:y@host/x"),
    ],
)
def test_the_value_of_any_other_variable_is_not(name: str, value: str) -> None:
    assert without_values({name: value}) == {name: MASK}


def test_a_value_that_was_masked_before_is_still_unknown() -> None:
    assert not may_be_written("TORCH_HOME", MASK)
