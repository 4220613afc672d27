"""Messages of every screen: each code has one, in both languages."""

from __future__ import annotations

import ast
import json
import re
import string
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import nbdist
from nbdist.model import NO_REASON, Reason
from nbdist.text import messages, reason_text, say

PACKAGE = Path(nbdist.__file__).parent
FILES = sorted(path.stem for path in (PACKAGE / "text").glob("*.toml"))
PLACE = re.compile(r"\{(\w+)")
SHOWN = re.compile(r"\{(\w+)[:}]")
OPTIONAL = re.compile(r"\[\[.*?\]\]", re.DOTALL)
# Chinese has its own comma, colon, semicolon, parentheses, quotes, and marks of questions and exclamations
HALF = re.compile(r"[\u4e00-\u9fff][,:;()?!\"']|[,:;(?!\"'][\u4e00-\u9fff]")
PLAIN = ("compare", "options", "panel", "reasons", "report", "runs")
# neither a colon in a value ({host}:{port}, http://, 2:00:00) nor one before a command, which has two spaces
COLON = re.compile(r":(?: (?! )|$)|：(?!  )")
BANNED = (
    re.compile(
        r"\b(succeeded|cancell?ed|ended early|without a word|is over|by itself|its owner|reaper|keeper"
        r"|standby|anew|has gone|ranks that wait|kept ready)\b"
    ),
    re.compile("成功结束|无声|取消|上级进程|秩|notebook"),
)


def calls(*functions: str) -> Iterator[tuple[str, str, set[str | None]]]:
    """Yield place, code and fields of each call of these functions with a literal code."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
                match node.args:
                    case [ast.Constant(value=str(code)), *_]:
                        yield f"{path.name}:{node.lineno}", code, {word.arg for word in node.keywords}


def lacking(code: str, fields: set[str | None]) -> set[str]:
    """Return the fields that the message lacks. None stands for a mapping of fields."""
    name, _, key = code.partition(".")
    if key not in messages(name):
        return {"a message"}
    return set() if None in fields else set(PLACE.findall(OPTIONAL.sub("", messages(name)[key].en))) - fields


def test_every_reason_that_is_made_has_words_and_the_fields_that_they_need() -> None:
    made = list(calls("Reason"))

    assert len(made) > 90
    assert [(where, code) for where, code, fields in made if lacking(f"reasons.{code}", fields)] == []


def test_everything_that_is_said_has_words_and_the_fields_that_they_need() -> None:
    # there are other functions of that name
    made = [call for call in calls("say", "both") if re.fullmatch(r"[a-z]+\.[A-Za-z-]+", call[1])]

    assert len(made) > 90
    assert [(where, code) for where, code, fields in made if lacking(code, fields)] == []


@pytest.mark.parametrize("name", FILES)
def test_both_languages_say_the_same_of_the_same_fields(name: str) -> None:
    for code, (english, chinese) in messages(name).items():
        assert set(SHOWN.findall(english)) == set(SHOWN.findall(chinese)), code
        assert set(PLACE.findall(chinese)) <= set(PLACE.findall(english)), code  # it has no plural


@pytest.mark.parametrize("name", FILES)
def test_every_message_is_there_in_both_languages(name: str) -> None:
    for code, (english, chinese) in messages(name).items():
        words = PLACE.sub("", OPTIONAL.sub("", chinese))
        assert set(english) - set(string.printable) <= set("…→·—▸×"), code
        assert re.search(r"[\u4e00-\u9fff；：（]", chinese) or not re.search(r"[a-z]{4}", words), code


@pytest.mark.parametrize("name", FILES)
def test_chinese_has_chinese_punctuation_and_one_word_for_a_rank(name: str) -> None:
    texts = {code: message.zh for code, message in messages(name).items()}

    assert [text for text in texts.values() if HALF.search(text)] == []
    assert [text for text in texts.values() if re.search(r"(?<![\w{-])ranks?(?![\w}|-])", text)] == []


@pytest.mark.parametrize("name", PLAIN)
def test_a_text_is_one_sentence_in_plain_words(name: str) -> None:
    texts = [text for message in messages(name).values() for text in message]

    assert [text for text in texts if re.search("[;；]", text)] == []
    assert [text for text in texts if len(COLON.findall(text)) > 1] == []
    assert [
        text
        for message in messages(name).values()
        for text, banned in zip(message, BANNED, strict=True)
        if banned.search(text)
    ] == []


@pytest.mark.parametrize(
    ("reason", "english", "chinese"),
    [
        (Reason("kernel-interrupted"), "the kernel was interrupted", "内核被中断"),
        (Reason("stopped-by", command="%dist_stop"), "stopped by %dist_stop", "由 %dist_stop 停止"),
        (Reason("ranks-failed", ranks=(3,)), "rank 3 failed", "进程 3 失败"),
        (Reason("ranks-failed", ranks=(0, 3)), "ranks 0, 3 failed", "进程 0, 3 失败"),
        (Reason("time-limit", seconds=5.0), "the time limit of 5 s was reached", "已达到 5 秒的时限"),
        (
            Reason("reaper-ended-stuck", why=Reason("kernel-interrupted"), pid=77),
            "the kernel was interrupted (its supervisor, pid 77, did not respond)",
            "内核被中断（其监督进程 pid 77 没有响应）",
        ),
        (
            Reason("from-outside", why=Reason("engine-process-ended")),
            "ended from outside nbdist: the job's process on this node ended",
            "被 nbdist 之外的操作结束：作业在此节点上的进程已结束",
        ),
        (
            Reason("rank-failed-on-node", rank=0, node=1, host="10.0.0.2", error="ValueError: {x} [[y]]"),
            "rank 0 on node 1 (10.0.0.2) failed: ValueError: {x} [[y]]",
            "进程 0（节点 1，10.0.0.2）失败：ValueError: {x} [[y]]",
        ),
        (
            Reason("rank-failed-on-node", rank=0, node=0, host=""),
            "rank 0 on node 0 failed",
            "进程 0（节点 0）失败",
        ),
        (
            Reason("slurm-nodes-down", nodes=""),
            "nodes that it needs are down, drained or reserved",
            "所需节点已宕机、被排空或被预留",
        ),
        (Reason.said("because I say so"), "because I say so", "because I say so"),
        (NO_REASON, "", ""),
    ],
)
def test_a_reason_is_read_in_both_languages(reason: Reason, english: str, chinese: str) -> None:
    assert [reason_text(reason, language) for language in ("en", "zh")] == [english, chinese]
    assert Reason.decode(json.loads(json.dumps(reason.encode()))) == reason


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (Reason("of-a-newer-nbdist", ranks=(0, 1)), "of-a-newer-nbdist (ranks=0, 1)"),
        (Reason("time-limit"), "time-limit"),
    ],
    ids=["another code", "a field is missing"],
)
def test_what_another_nbdist_has_written_is_shown_as_it_is(reason: Reason, shown: str) -> None:
    assert reason_text(reason) == reason_text(reason, "zh") == shown


def test_a_message_that_is_not_there_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        say("reasons.no-such-code", "en")


def test_a_space_parts_chinese_from_digits_and_not_from_chinese() -> None:
    fields = {"behind": (0,), "waiting": (1,), "least": 3, "most": 4}
    texts = [
        say("diagnosis.behind-waiting", "zh", who=who, others="进程 1", **fields)
        for who in ("其他进程", "进程 0")
    ]

    assert [text.partition("第")[0] for text in texts] == ["其他进程在等待", "进程 0 在等待"]


def test_the_processes_of_a_run_never_read_a_catalogue() -> None:
    modules = ["launch.supervisor", "engines.watch", "launch.watchdog", "launch.machines.coordinator"]
    modules += ["warm.standby", "engines.ray_driver", "worker.bootstrap"]
    program = "".join(f"import nbdist.{name}\n" for name in modules)
    program += "import sys; print([name for name in ('tomllib', 'nbdist.text') if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
