"""Each code of a reason has one sentence, and the names of its arguments are in it."""

from tidemark.ingest.reasons import Why


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
    assert Why.BAD_RECORDS.replay_is_next
    assert Why.REPEATED_KEYS.replay_is_next
    for code in (Why.FILE_AHEAD, Why.LACKS_KEYS, Why.WISH_WITHOUT_FILE, Why.MISNAMED):
        assert not code.replay_is_next


def test_no_two_codes_have_one_sentence() -> None:
    # Python would make one code of them.
    assert len(Why.__members__) == len(list(Why))
