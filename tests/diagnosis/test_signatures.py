"""Every row of the table, against the software's real output; none matches healthy output."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import nbdist.diagnosis.known as signature_tables
from nbdist.diagnosis.complaints import complaint_of
from nbdist.diagnosis.exits import exit_kind
from nbdist.diagnosis.known import Signature, Source, hint, in_paddle, match, match_in, signatures, variant
from nbdist.diagnosis.tracebacks import last_words, parse
from nbdist.store import ErrorReport
from nbdist.tables import read_table

HERE = Path(__file__).parent
TABLES = str(signature_tables.__file__)
SAMPLES = HERE / "samples"
HEALTHY = sorted((HERE / "healthy").glob("*.txt"))
ORIGINS = ("# produced here: ", "# from a public report: ", "# as the software words it: ", "# made up: ")
SIGNATURES = tuple(signatures().values())
WITH_SAMPLES = [
    signature for signature in SIGNATURES if signature.source not in (Source.SITUATION, Source.PROGRAM)
]


def sample_of(signature: Signature) -> str:
    """Return the sample without the line that names its source."""
    origin, _, text = (SAMPLES / f"{signature.name}.txt").read_text().partition("\n")
    assert origin.startswith(ORIGINS)
    return text


def recognised(text: str) -> str | None:
    """Return the signature that matches the text as the end of one rank."""
    if (exit_code := re.fullmatch(r"exit (-?\d+)( oom| limit)?\n", text)) is not None:
        kind = exit_kind(
            int(exit_code[1]), oom=exit_code[2] == " oom", limit=1 if exit_code[2] == " limit" else 0
        )
        known = match(kind, Source.EXIT)
        return known[0].name if known is not None else None
    chain = parse(text)
    if not chain:
        complaint = complaint_of(None, text.splitlines(), -6)
    else:
        last = [raised for raised in chain if raised.link != "inside"][-1]
        report = ErrorReport(type=last.type, message=last.message, frames=last.frames, text=text, time=1.0)
        complaint = complaint_of(report, [], 1)
    return complaint.signature.name if complaint.signature is not None else None


def test_each_signature_knows_what_the_software_prints() -> None:
    known = {signature.name: recognised(sample_of(signature)) for signature in WITH_SAMPLES}

    assert {name: other for name, other in known.items() if other != name} == {}


def test_each_sample_belongs_to_a_signature() -> None:
    assert {path.stem for path in SAMPLES.glob("*.txt")} == {signature.name for signature in WITH_SAMPLES}


def test_names_are_unique() -> None:
    names = Counter(name for table in signature_tables._TABLES for name in read_table(TABLES, table))

    # of two rows with one name the later one would take the place of the other, in silence
    assert [name for name, times in names.items() if times > 1] == []


def test_a_program_of_paddle_is_told_no_call_of_torch() -> None:
    called = re.compile(r"torch\.\w+\.|\bDistributedSampler")
    others = (signature for signature in SIGNATURES if signature.framework != "torch")

    assert [
        signature.name for signature in others if called.search(in_paddle(signature.fix + signature.fix_zh))
    ] == []


def test_cause_and_fix_are_one_line_each_in_both_languages() -> None:
    assert [signature.name for signature in SIGNATURES if not is_in_both_languages(signature)] == []


def test_a_cause_has_at_most_120_characters_and_one_colon_and_a_fix_100() -> None:
    causes = [text for signature in SIGNATURES for text in (signature.cause, signature.cause_zh)]
    fixes = [text for signature in SIGNATURES for text in (signature.fix, signature.fix_zh)]

    assert [text for text in causes if len(text) > 120 or len(re.findall("[:：]", text)) > 1] == []
    assert [text for text in fixes if len(text) > 100] == []
    assert [text for text in causes + fixes if re.search("[;；]", text)] == []


def is_in_both_languages(signature: Signature) -> bool:
    english, chinese = (signature.cause, signature.fix), (signature.cause_zh, signature.fix_zh)
    lines = all(text and "\n" not in text and len(text) <= 130 for text in (*english, *chinese))
    written = re.compile("[\u4e00-\u9fff]")
    return lines and bool(written.search("".join(chinese))) and not written.search("".join(english))


def test_what_a_hint_quotes_is_in_the_pattern() -> None:
    for signature in WITH_SAMPLES:
        groups = dict.fromkeys(re.compile(signature.pattern).groupindex, "7")

        filled = hint(signature, **groups)

        assert "?" not in filled.cause.en.replace("?:", ""), signature.name


@pytest.mark.parametrize("log", HEALTHY, ids=lambda path: path.stem)
def test_no_signature_matches_the_log_of_a_healthy_run(log: Path) -> None:
    lines = log.read_text().splitlines()

    # stricter than what is searched in a failure: each line, and all of them
    assert [(match(line), line) for line in lines if match(line) is not None] == []
    assert match("\n".join(lines)) is None
    assert last_words(lines) is None


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", ["x", "7", "[", " ", "a.b/", "1, ", "'a', ", "Error: ", "shape is [1, 2] "])
def test_no_pattern_gets_lost_in_a_long_text(part: str) -> None:
    text = part * 20_000

    assert match(text) is None
    assert match_in(text, text) is None
    assert [
        row.name for row in SIGNATURES if row.where and variant(row, text) is not row and not row.of
    ] == []


def test_there_are_logs_of_healthy_runs() -> None:
    assert len(HEALTHY) >= 8


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("KeyError: 'learning_rate'", id="a key"),
        pytest.param("ValueError: image 3 is no picture", id="a message of the program's own"),
        pytest.param("AssertionError", id="a bare assertion"),
        pytest.param("RuntimeError: the model did not converge after 30 epochs", id="a run-time error"),
        pytest.param("TimeoutError: no answer from the annotation service", id="a time-out of its own"),
        pytest.param("TypeError: train() missing 1 required positional argument: 'epochs'", id="arguments"),
        pytest.param("ValueError: connection string is empty", id="a connection of its own"),
    ],
)
def test_an_unknown_error_has_no_hint(text: str) -> None:
    assert match(text) is None


@pytest.mark.parametrize(
    ("row", "program", "shown"),
    [
        pytest.param("store-port-in-use", "store = TCPStore('a', 1, 2)", "store-of-its-own", id="a store"),
        pytest.param("store-port-in-use", "os.environ['RANK'] = '0'", "rank-overwritten", id="RANK set"),
        pytest.param(
            "store-port-in-use", "mp.spawn(train, nprocs=2)", "started-twice", id="ranks that start ranks"
        ),
        pytest.param("store-port-in-use", "init_process_group()", "store-port-in-use", id="nothing else"),
        pytest.param(
            "store-not-reached",
            "os.environ['MASTER_PORT'] = str(free_port())",
            "store-port-by-rank",
            id="a port of each rank's own",
        ),
        pytest.param(
            "group-not-initialized",
            "import lightning\ntrainer = Trainer(devices=2)",
            "group-made-by-trainer",
            id="before Lightning's fit()",
        ),
        pytest.param(
            "checkpoint-corrupt",
            "/v/site-packages/torch/distributed/distributed_c10d.py",
            "objects-garbled",
            id="an object that a collective gave",
        ),
        pytest.param(
            "paddle-not-initialized",
            "dist.destroy_process_group()\ndist.all_reduce(x)",
            "paddle-group-destroyed",
            id="after destroy_process_group()",
        ),
    ],
)
def test_the_program_chooses_between_two_causes_of_one_error(row: str, program: str, shown: str) -> None:
    assert variant(signatures()[row], program).name == shown


def test_a_collective_s_return_value_is_nothing() -> None:
    error = "TypeError: unsupported operand type(s) for /: 'NoneType' object and int"

    known = match_in(error, "total = dist.all_reduce(loss)")

    assert known[0].name == "none-of-collective"
    assert match_in(error, "dist.all_reduce(loss)") is None


@pytest.mark.parametrize(
    ("program", "name"),
    [
        pytest.param('os.environ.get("SLURM_PROCID", 0)', "send-to-itself-by-launcher", id="of Slurm"),
        pytest.param("os.environ['OMPI_COMM_WORLD_RANK']", "send-to-itself-by-launcher", id="of MPI"),
        pytest.param("os.environ['RANK']", "send-to-itself", id="its own"),
    ],
)
def test_a_rank_that_is_read_from_another_launcher_is_named(program: str, name: str) -> None:
    assert variant(signatures()["send-to-itself"], program).name == name
    assert (variant(signatures()["list-for-one-rank"], program).name == name) is (name != "send-to-itself")


def test_the_conditions_of_rows_are_expressions() -> None:
    for row in SIGNATURES:
        re.compile(re.sub(r"\\g<\w+>", "x", row.where))


def test_the_tables_stay_small() -> None:
    lines = sum(
        len(Path(TABLES).with_name(f"{table}.toml").read_text().splitlines())
        for table in (*signature_tables._TABLES, "in_paddle")
    )

    # a row needs a reason: would the program fail alike as one process, then it gets none
    assert len(SIGNATURES) <= 340
    assert lines <= 2_900
