"""The masking of secrets, and the variables that nbdist records."""

from __future__ import annotations

import html
import time
from dataclasses import dataclass

import pytest

from nbdist.privacy import (
    MASK,
    Privacy,
    digests_of,
    masked_text,
    masked_words,
    may_be_written,
    without_values,
)


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


AK = "3fDk29LmQp0Zx81VbN5tYw7R"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("password=hunter2", f"password={MASK}", id="a password"),
        pytest.param("PGPASSWORD=hunter2 psql", f"PGPASSWORD={MASK} psql", id="a variable of a shell"),
        pytest.param("{'api_key': 'a b', 'lr': 1}", f"{{'api_key': '{MASK}', 'lr': 1}}", id="a dict"),
        pytest.param(r'"{\"api_key\": \"ab\"}"', rf'"{{\"api_key\": \"{MASK}\"}}"', id="JSON within JSON"),
        pytest.param(
            "{&#x27;api_key&#x27;: &#x27;ab&#x27;}", f"{{&#x27;api_key&#x27;: &#x27;{MASK}&#x27;}}", id="HTML"
        ),
        pytest.param("密码 password：hunter2，步数 3", f"密码 password：{MASK}，步数 3", id="in Chinese"),
        pytest.param("<td>password=hunter2</td>", f"<td>password={MASK}</td>", id="in an element"),
        pytest.param("Db.Password: hunter2", f"Db.Password: {MASK}", id="a setting"),
        pytest.param("loss 0.1 password_new=48291734", f"loss 0.1 password_new={MASK}", id="digits"),
        pytest.param("run --password hunter2 -v", f"run --password {MASK} -v", id="a command"),
        pytest.param("stripe sk_live_51HxQ2abcdEFGH", f"stripe {MASK}", id="a key of Stripe's"),
        pytest.param("QIANFAN_AK=abcdefg", f"QIANFAN_AK={MASK}", id="an access key of Baidu's"),
        pytest.param(
            "environ({'QIANFAN_SK': 'abcdefg'})", f"environ({{'QIANFAN_SK': '{MASK}'}})", id="an environ"
        ),
        pytest.param(f"qianfan_ak: {AK}", f"qianfan_ak: {MASK}", id="a setting with a key of Baidu's"),
        pytest.param(f"Authorization: Bearer {AK}", f"Authorization: Bearer {MASK}", id="a header"),
        pytest.param("token=hf_abcdefghijklmnopqrstuvwx", f"token={MASK}", id="a token of Hugging Face's"),
        pytest.param(
            "clone https://ann:pass@host/x.git", f"clone https://{MASK}@host/x.git", id="an address"
        ),
        pytest.param(f"clientSecret=a, key={AK}", f"clientSecret={MASK}, key={MASK}", id="two of them"),
    ],
)
def test_what_a_secrets_name_introduces_in_a_text_is_masked(text: str, shown: str) -> None:
    assert Privacy(environ={}).clean(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "tok/sec: 1360.5 password_rate: 0.1 passwords=17 secret_loss: 2.5e-05 token_accuracy: 0.71",
        "tokens=512 num_tokens: 4096 max_new_tokens=20 tokens/s: 1024.5 token=17 token: 1234567890123456",
        "tokenizer=bert-base-uncased-2024 pad_token_id=0 eos_token: '</s>' next_token=151643",
        "loss: 0.123456789012345678 key: 0.5 keys: ['fc.weight', 'fc.bias'] key=3",
        "Unexpected key: model.layers.10.self_attn.q_proj.weight key=encoder/layer_12/output",
        "forward pass: 1.234567s  backward_pass=0.5 pass 2: 3/10 pin_memory=True",
        "cache_key=3f2ab94c1d0e7785aabbccdd pwd: /home/ann/project-2024/run_17",
        "api_key = os.environ['API_KEY']; login(token=token, password=args.password)",
        "def login(password: str, api_key: Optional[str] = None, secret=None) -> None:",
        "password = getpass.getpass('Password: ')\nepoch 1",
        "usage: train.py [--api-key API_KEY] [--password PASSWORD]",
        "key = jax.random.PRNGKey(0); keys = jax.random.split(key, 3)",
        'DATA_KEY = "train-images"; SORT_KEY=length; NUM_TOKEN=123456',
        f"print(f'password={{password}}') PGPASSWORD=$PGPASSWORD api_key=... token={MASK}",
    ],
)
def test_what_a_training_prints_stays_as_it_is(text: str) -> None:
    privacy = Privacy(environ={})

    assert privacy.clean(text) == text
    assert privacy.masked == 0


def test_a_home_is_shortened_and_a_longer_name_is_not() -> None:
    privacy = Privacy(homes=[("/home/ann", "~ann")], environ={})

    assert privacy.clean("see /home/ann/x and /home/annette/x") == "see ~ann/x and /home/annette/x"


@dataclass(frozen=True)
class Spec:
    args: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()


def test_the_value_of_a_variable_of_the_run_is_masked_wherever_it_stands() -> None:
    digests = digests_of({"WANDB_KEY": "swordfish-of-ann", "DB_PASS": "a&b/c=1", "LR": "learning-rate"})

    clean = Privacy(Spec(digests=digests), environ={}).clean

    assert len(digests) == 2
    assert "swordfish" not in "".join(digests)
    assert clean("key swordfish-of-ann, a&b/c=1: learning-rate swordfish-of-bob") == (
        f"key {MASK}, {MASK}: learning-rate swordfish-of-bob"
    )
    assert clean("https://h/swordfish-of-ann/x") == f"https://h/{MASK}/x"


def test_a_secret_argument_is_masked_in_a_page_too() -> None:
    clean = Privacy(Spec(args=("--api-key", "a&b<c>d")), environ={}).clean

    assert clean(html.escape("it was a&b<c>d")) == f"it was {MASK}"


def test_a_key_that_is_never_ended_takes_nothing_else_along() -> None:
    text = "-----BEGIN PRIVATE KEY-----</td><td>-----END PRIVATE KEY-----"

    assert Privacy(environ={}).clean(text) == text


@pytest.mark.parametrize(
    "piece",
    ["-----BEGIN PRIVATE KEY-----\n", "eyJaaaaaaaaaa-", "token-", "://", "password:", "a", "-----BEGIN "],
)
def test_no_text_takes_long(piece: str) -> None:
    text = piece * (400_000 // len(piece))

    began = time.process_time()
    Privacy(environ={}).clean(text)

    assert time.process_time() - began < 10
