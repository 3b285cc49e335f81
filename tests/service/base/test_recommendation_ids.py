"""Recommendation ids: only those of this service and for this user are taken. They do not expire."""

import pytest

from service.base.errors import NotReady
from service.base.recommendation_ids import MAX_LENGTH, RecommendationIds, ShownList, content_of
from service.base.signing import Signer

SHOWN = ShownList("summer", "1700000000000-0", "als", "als-20260101T000000-0000", "1700000000001-3")


def ids_with(key: bytes) -> RecommendationIds:
    return RecommendationIds(Signer(lambda: key))


IDS = ids_with(b"k" * 32)


@pytest.mark.parametrize("user", ["ann", "", "ü" * 128, "ann.b"])
def test_an_id_brings_back_what_was_shown(user: str) -> None:
    text = IDS.of(SHOWN, user)
    assert IDS.verified(text, user) == content_of(text) == SHOWN
    assert ids_with(b"k" * 32).of(SHOWN, user) == text  # another replica, or after a restart
    assert len(text) <= MAX_LENGTH


def test_every_altered_character_is_noticed() -> None:
    text = IDS.of(SHOWN, "ann")
    for n, was in enumerate(text):
        for altered in (text[:n] + ("A" if was != "A" else "B") + text[n + 1 :], text[:n] + text[n + 1 :]):
            with pytest.raises(ValueError, match="Invalid recommendation_id"):
                IDS.verified(altered, "ann")
        with pytest.raises(ValueError, match="Invalid recommendation_id"):
            IDS.verified(f"{text[:n]}!{text[n:]}", "ann")


@pytest.mark.parametrize("text", ["", ".", "a", "a.b", "ü.ü", "=.=", f"{'A' * 99}.{'A' * 16}"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected one that this service has given in an answer for this user"):
        IDS.verified(text, "ann")


def test_ids_of_others_are_refused() -> None:
    with pytest.raises(ValueError, match="Invalid recommendation_id"):
        IDS.verified(IDS.of(SHOWN, "ann"), "bob")
    with pytest.raises(ValueError, match="Invalid recommendation_id"):
        IDS.verified(ids_with(b"o" * 32).of(SHOWN, "ann"), "ann")
    other = IDS.of(SHOWN._replace(arm="sgd"), "ann")
    mixed = f"{other.partition('.')[0]}.{IDS.of(SHOWN, 'ann').partition('.')[2]}"
    with pytest.raises(ValueError, match="Invalid recommendation_id"):
        IDS.verified(mixed, "ann")


def test_a_signature_of_another_kind_is_none() -> None:
    signer = Signer(lambda: b"k" * 32)
    assert not signer.has_signed("recommendation", b"content", signer.signature("cursor", b"content"))


def test_without_a_key_nothing_is_signed() -> None:
    with pytest.raises(NotReady, match="the signing key is not known yet"):
        RecommendationIds(Signer()).check()
