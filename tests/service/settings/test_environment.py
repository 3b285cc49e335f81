"""Variables that look like settings."""

import pytest

from service.settings.environment import unknown_variables
from service.settings.errors import InvalidSetting
from service.settings.settings import Settings


@pytest.mark.parametrize(
    ("variable", "setting"),
    [
        ("NEARFIELD_PROT", "NEARFIELD_PORT"),
        ("NEARFIELD_APIKEY", "NEARFIELD_API_KEY"),
        ("NEARFIELD_RATINGS_SCALE", "NEARFIELD_RATING_SCALE"),
        ("NEARFIELD_REDIS_URL", "NEARFIELD_REDIS"),
        ("NEARFIELD_DATA_DIR", "NEARFIELD_DATA"),
        ("nearfield_hostname", "NEARFIELD_HOST"),
    ],
)
def test_a_name_close_to_a_setting_is_refused_with_the_right_one(variable, setting):
    with pytest.raises(InvalidSetting, match=f"Invalid variable {variable}: .* {setting}$"):
        unknown_variables({variable: "x"}, Settings.model_fields)


def test_every_setting_and_what_others_set_is_left_alone():
    known = {f"NEARFIELD_{name.upper()}": "x" for name in Settings.model_fields}
    injected = {
        "NEARFIELD_PORT": "tcp://10.0.171.239:8000",
        "NEARFIELD_PORT_8000_TCP": "tcp://10.0.171.239:8000",
        "NEARFIELD_PORT_8000_TCP_ADDR": "10.0.171.239",
        "NEARFIELD_SERVICE_HOST": "10.0.171.239",
        "NEARFIELD_SERVICE_PORT_HTTP": "8000",
        "NEARFIELD_REDIS_SERVICE_HOST": "10.0.171.240",
        "NEARFIELD_REDIS_PORT": "tcp://10.0.171.240:6379",
        "NEARFIELD_REDIS_PORT_6379_TCP_PROTO": "tcp",
        "NEARFIELD_NAME": "/web/nearfield",
    }
    own = {"NEARFIELD_GPUS": "2", "NEARFIELD_TEST_DATA": "/data", "PATH": "/bin", "NEARFIELDS": "x"}
    assert unknown_variables(known | injected | own, Settings.model_fields) == []


def test_unknown_names_are_reported():
    given = {"NEARFIELD_BUILD": "7", "NEARFIELD_PORT": "8000"}
    assert unknown_variables(given, Settings.model_fields) == ["NEARFIELD_BUILD"]
