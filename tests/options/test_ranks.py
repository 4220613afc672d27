"""The line of ``%%ranks``."""

from __future__ import annotations

import pytest

from nbdist import options
from nbdist.errors import UsageMistake


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        pytest.param("", None, id="all of them"),
        pytest.param("-n 2", None, id="options alone"),
        pytest.param("all --pull x", None, id="all by name"),
        pytest.param("0", (0,), id="one"),
        pytest.param("2,0,2", (0, 2), id="some, each once"),
        pytest.param("1-3 --push x", (1, 2, 3), id="a range"),
        pytest.param("0,2-3", (0, 2, 3), id="both"),
        pytest.param("[0, 1]", (0, 1), id="as nbdistributed writes them"),
        pytest.param("1  # the second", (1,), id="before a comment"),
    ],
)
def test_a_line_says_which_ranks(line: str, ranks: tuple[int, ...] | None) -> None:
    assert options.parse_ranks(line).ranks == ranks


def test_a_line_says_what_a_session_is_started_with() -> None:
    parsed = options.parse_ranks("0 -n 2 --idle 5m --push a,b")

    assert (parsed.options.nproc, parsed.idle, parsed.options.push) == (2, 300.0, ("a", "b"))
    assert parsed.starts
    assert options.parse_ranks("--idle=90s").starts
    assert not options.parse_ranks("1 --push a --pull b").starts


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        pytest.param("two", "write ranks without spaces, as in  %%ranks 0", id="no ranks"),
        pytest.param("-n 2 --retries 3", "--retries does not work with %%ranks", id="another attempt"),
        pytest.param("-n 2 -d", "--detach does not work with %%ranks", id="in the background"),
        pytest.param("--on slurm -n 2", "--on does not work with %%ranks", id="an engine"),
        pytest.param("--idle soon", "--idle soon: write a time such as", id="no time"),
        pytest.param("--push auto", "as in  --push df", id="names that the ranks may have"),
    ],
)
def test_what_makes_no_sense_for_live_ranks_is_refused(line: str, hint: str) -> None:
    with pytest.raises(UsageMistake, match=hint):
        options.parse_ranks(line)


def test_the_help_has_the_options_of_a_session_alone() -> None:
    text = options.ranks_help()

    assert "--gpus" in text
    assert "--idle TIME" in text
    assert "--retries" not in text
