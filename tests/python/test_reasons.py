"""Each code of a reason has one sentence, and the names of its arguments are in it."""

import re

from tests.project import REPO
from tidemark.reasons import Why, replay_is_next


def test_a_reason_is_a_sentence_with_its_arguments() -> None:
    reason = Why.REPEATED_KEYS("id 1; id 2", keys=2)
    assert reason.code is Why.REPEATED_KEYS
    assert str(reason).startswith("2 keys are in the extract more than once")
    # A log may show the sentence, and must not show keys.
    assert reason.value == "id 1; id 2"
    assert "id 1" not in str(reason)


def test_arguments_may_hold_anything() -> None:
    assert str(Why.OTHER_FILE_REFUSED(other="a{b}%s.csv")).startswith("a{b}%s.csv of the same")


def test_replay_is_next_unless_the_sentence_says_what_is() -> None:
    # Dead letters of older and newer versions have no known code.
    for code in ("BAD_RECORDS", "REPEATED_KEYS", "NOT_OF_TYPE", "UNHEARD_OF", None):
        assert replay_is_next(code)
    assert not replay_is_next("MISNAMED")
    assert not replay_is_next("BEFORE_CUT")
    for why in Why:
        assert not replay_is_next(why.name) or "tidemark " not in why.value


def test_names_of_others_cannot_move_a_terminal_s_cursor() -> None:
    assert str(Why.REPEATS_COLUMNS(columns="a\x1b[2J\ud800")).endswith(r": a\x1b[2J\ud800")


def test_each_code_is_used() -> None:
    files = [each for each in (REPO / "python").rglob("*.py") if each.name != "reasons.py"]
    used = {name for each in files for name in re.findall(r"\bWhy\.(\w+)", each.read_text())}
    assert used == {why.name for why in Why}


def test_no_two_codes_have_one_sentence() -> None:
    # Python would make one code of them.
    assert len(Why.__members__) == len(list(Why))
