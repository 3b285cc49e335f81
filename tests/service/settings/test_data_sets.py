"""The setting `data_sets`, and the settings that a data set has for itself."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from service.cli.complaints import message
from service.settings import data_sets
from service.settings.environment import unknown_variables
from service.settings.errors import InvalidSetting
from service.settings.settings import Settings


def test_each_data_set_has_a_folder_keys_and_settings_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("NEARFIELD_MAX_N", "50")
    monkeypatch.setenv("NEARFIELD_MY_SHOP__MAX_N", "7")
    monkeypatch.setenv("NEARFIELD_MY_SHOP__RATING_SCALE", "1,5")
    monkeypatch.setenv("NEARFIELD_MUSIC__DEFAULT_MODELS", "ease,als")
    whole = Settings(data=tmp_path, data_sets="my-shop, music", max_connections=99)
    default, shop, music = whole.each()
    assert default is whole
    assert [one.data_set for one in (default, shop, music)] == ["", "my-shop", "music"]
    assert [one.data for one in (shop, music)] == [tmp_path / "sets" / "my-shop", tmp_path / "sets" / "music"]
    assert [one.root for one in (default, shop, music)] == [tmp_path] * 3
    assert [one.max_n for one in (default, shop, music)] == [50, 7, 50]
    assert [one.max_connections for one in (default, shop, music)] == [99] * 3
    assert (default.rating_scale, shop.rating_scale, music.default_models) == (None, (1.0, 5.0), ["ease", "als"])
    assert len({one.keyspace.ratings for one in (default, shop, music)}) == 3
    copied = shop.model_copy(update={"max_connections": 3})
    assert (copied.data_set, copied.root, copied.keyspace) == ("my-shop", tmp_path, shop.keyspace)


@pytest.mark.parametrize(
    "names", ["Shop", "1shop", "-", "a" * 33, "a.b", "../up", "shop,shop", "a_b", "default", "shop\n"]
)
def test_a_bad_name_is_refused(names):
    with pytest.raises(ValidationError) as refused:
        Settings(data_sets=names if "\n" not in names else (names,))
    assert message(refused.value).startswith("Invalid data_sets: expected")


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("MAX_M", "1", "expected the name of a setting after NEARFIELD_SHOP__"),
        (
            "PORT",
            "1",
            "expected a setting that a data set may have for itself, got one that all share; set NEARFIELD_PORT",
        ),
        ("MAX_N", "0", "expected more than 0, got '0'"),
        ("RATING_SCALE", "5,1", "expected MIN,MAX with"),
        ("EVENTS", "view", "expected"),
    ],
)
def test_a_bad_setting_of_a_data_set_is_refused_by_its_variable(monkeypatch, setting, value, reason):
    monkeypatch.setenv(f"NEARFIELD_SHOP__{setting}", value)
    with pytest.raises(InvalidSetting, match=f"Invalid variable NEARFIELD_SHOP__{setting}: .*{reason}"):
        Settings(data_sets="shop").each()


def test_variables_of_a_data_set_that_is_gone_are_ignored_with_a_message():
    given = {"NEARFIELD_SHOP__MAX_RATINGS": "1", "NEARFIELD_MUSIC__MAX_N": "2"}
    assert unknown_variables(given, Settings.model_fields, ["music"]) == ["NEARFIELD_SHOP__MAX_RATINGS"]


def test_only_names_of_settings_are_shared():
    assert set(Settings.model_fields) >= data_sets.SHARED
    assert data_sets.folder_of(Path("data"), "") == Path("data")
