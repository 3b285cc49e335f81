"""Every setting of the service: one object, handed in. The only module that reads the environment (`NEARFIELD_…`)."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from gpu.algorithms import ALGORITHMS
from gpu.backend import BackendName
from gpu.params import Values
from service import environment
from service.environment import is_address
from service.errors import InvalidSetting
from service.limits import MAX_RATING

REDIS_SCHEMES = ("redis", "rediss", "unix")
AppendFsync = Literal["always", "everysec"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "console", "json"]


# Keys that open the same, so that a new one can be given out before the old one goes.
Keys = Annotated[tuple[SecretStr, ...] | None, NoDecode]
KEY_NAMES = ("api_key", "admin_key", "read_key", "write_key")
MIN_KEY_LENGTH, MAX_KEYS = 16, 2


class Settings(BaseSettings):
    """Settings in order of precedence: keyword, environment variable `NEARFIELD_<NAME>`, default."""

    model_config = SettingsConfigDict(env_prefix=environment.PREFIX, extra="forbid", frozen=True, validate_default=True)

    host: str = Field("127.0.0.1", description="Address to listen on. Anything but loopback needs keys.")
    port: int = Field(8000, ge=0, le=65535, description="TCP port; 0 takes a free one and says which.")
    data: Path = Field(Path("nearfield-data"), description="Folder with the whole state: log, snapshots, server.")
    redis: str | None = Field(None, description="Redis URL (redis://, rediss://, unix://). Unset: an embedded server.")
    appendfsync: AppendFsync = Field(
        "always", description="Weakest fsync policy at which a rating is acknowledged; everysec can lose one second."
    )
    backend: BackendName = Field(
        "auto",
        description="Where models are trained and answer: host, device, or auto (device if it works).",
    )
    worker: bool = Field(True, description="Whether this process also supervises trainer processes.")

    api_key: Keys = Field(
        None,
        description="Key to read and to write. A key has 16 characters or more; two keys may stand here, with a comma"
        " between. With neither this nor read_key nor write_key, everything but /admin/* is open.",
    )
    admin_key: Keys = Field(
        None, description="Key of /admin/*, accepted everywhere. Unset: api_key opens /admin/* too."
    )
    read_key: Keys = Field(None, description="Key that may only read: lists, neighbors, estimates, ratings.")
    write_key: Keys = Field(None, description="Key that may only post and delete ratings.")

    rating_scale: Annotated[tuple[float, float] | None, NoDecode] = Field(
        None,
        description='Lowest and highest rating accepted by POST, "MIN,MAX". Unset: any up to 1e6 in size, and in models'
        " those far beyond all others count as the nearest that is not.",
    )
    default_models: Annotated[list[str], NoDecode] = Field(
        ["als-implicit", "ease", "culsh-implicit", "nmf", "culsh", "sgd", "als", "esgd"],
        description="Names of models, comma-separated; the first live one answers. Shipped by ranking quality.",
    )
    values: Values = Field(
        "auto",
        description="How als-implicit, culsh-implicit and ease read values: ratings (on a scale, low ones are"
        " dislikes), counts (the more, the surer), or auto (told from the values).",
    )
    retrain_share: float = Field(
        0.2,
        ge=0,
        allow_inf_nan=False,
        description="Retrain a live model after new ratings of this share of those it was trained on, at least 1,000;"
        " 0: never.",
    )
    retrain_every_ratings: NonNegativeInt = Field(
        0, description="Retrain also after this many new ratings; 0: no such rule."
    )
    retrain_every_hours: float = Field(
        0,
        ge=0,
        allow_inf_nan=False,
        description="Retrain also after this many hours, if there are new ratings; 0: no such rule.",
    )

    trusted_proxies: Annotated[list[str], NoDecode] = Field(
        [],
        description="Networks of proxies (CIDRs, comma-separated) whose X-Forwarded-For names the client. Unset: none.",
    )
    rate_limit_per_s: PositiveFloat | None = Field(
        None, allow_inf_nan=False, description="Requests per second and client address, beyond which 429. Unset: none."
    )
    max_new_ids_per_hour: PositiveInt | None = Field(
        None,
        description="Users and items not known before that one key may bring in in an hour, beyond which 429. Unset:"
        " any number.",
    )
    max_body_bytes: PositiveInt = Field(1 << 20, description="Longest request body in bytes, beyond which 413.")
    max_ratings: PositiveInt = Field(1000, description="Most ratings in one request.")
    max_n: PositiveInt = Field(1000, description="Most results in one answer.")

    max_batch: PositiveInt = Field(256, description="Most requests that are scored together.")
    max_waiting: PositiveInt = Field(
        1024,
        description="Most requests that wait: for the engine, for Redis, for `wait_for`; beyond that 503. For the"
        " engine a client of whom less than a quarter as many wait may go on, up to twice as many in all.",
    )
    max_connections: PositiveInt = Field(
        4096, description="Most open connections, a quarter of them from one address; more get 503 and are closed."
    )
    max_wait_ms: PositiveFloat = Field(
        1000, allow_inf_nan=False, description="Longest time that a request waits to be scored, then 503."
    )

    log_level: LogLevel = Field("info", description="Least severe lines that are written; debug has every request.")
    log_format: LogFormat = Field("auto", description="For people, for machines, or whoever reads stderr.")

    @field_validator("port", mode="before")
    @classmethod
    def _own_port(cls, value: Any) -> Any:
        """The default where Kubernetes or Docker put the address of a service called nearfield into the variable."""
        return cls.model_fields["port"].default if is_address(value) else value

    @field_validator(*KEY_NAMES, mode="before")
    @classmethod
    def _split_keys(cls, value: Any) -> Any:
        return tuple(key.strip() for key in value.split(",")) if isinstance(value, str) else value

    @field_validator(*KEY_NAMES)
    @classmethod
    def _check_keys(cls, value: Keys, known: ValidationInfo) -> Keys:
        if value is not None and not (len(value) <= MAX_KEYS and all(len(key) >= MIN_KEY_LENGTH for key in value)):
            raise ValueError(
                f"Invalid {known.field_name}: expected a key of {MIN_KEY_LENGTH} characters or more,"
                " or two such keys with a comma between"
            )
        return value

    @model_validator(mode="after")
    def _check_keys_differ(self) -> Settings:
        owners: dict[str, str] = {}
        for name in KEY_NAMES:
            for key in self.keys(name):
                if key in owners:
                    raise ValueError(
                        f"Invalid {name}: expected a key that no other is equal to, got one of {owners[key]}"
                    )
                owners[key] = name
        return self

    @field_validator("data", mode="before")
    @classmethod
    def _check_data(cls, value: Any) -> Any:
        if value == "":  # it would be the working directory, where nobody looks for it
            raise ValueError("Invalid data: expected a folder, got ''")
        return value

    @field_validator("redis")
    @classmethod
    def _check_redis(cls, value: str | None) -> str | None:
        if value is not None and not _is_redis_url(value):
            raise ValueError(
                "Invalid redis: expected a URL (redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH), or none at all"
                " for an embedded server"
            )
        return value

    @field_validator("rating_scale", mode="before")
    @classmethod
    def _split_scale(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            low, high = map(float, value.split(","))
        except ValueError:
            raise ValueError(f"Invalid rating_scale: expected MIN,MAX, got {value!r}") from None
        return low, high

    @field_validator("rating_scale")
    @classmethod
    def _check_scale(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not -MAX_RATING <= value[0] < value[1] <= MAX_RATING:
            raise ValueError(
                f"Invalid rating_scale: expected MIN,MAX with {-MAX_RATING:g} <= MIN < MAX <= {MAX_RATING:g},"
                f" got {value[0]:g},{value[1]:g}"
            )
        return value

    @field_validator("default_models", "trusted_proxies", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return [name.strip() for name in value.split(",")] if isinstance(value, str) else value

    @field_validator("trusted_proxies")
    @classmethod
    def _check_networks(cls, value: list[str]) -> list[str]:
        for text in value:
            try:
                ipaddress.ip_network(text)
            except ValueError as error:
                raise ValueError(
                    f"Invalid trusted_proxies: expected networks such as 10.0.0.0/8 or 127.0.0.1, got {text!r}: {error}"
                ) from None
        return value

    @field_validator("default_models")
    @classmethod
    def _check_models(cls, value: list[str]) -> list[str]:
        for name in value:
            if name not in ALGORITHMS:
                raise ValueError(f"Invalid default_models: expected names of {sorted(ALGORITHMS)}, got {name!r}")
        return value

    def check_exposure(self) -> None:
        """Return if the service may listen on `host`.

        Raises:
            InvalidSetting: others can reach it, and without keys they could do everything.
        """
        if not is_loopback(self.host) and (self.admin_key is None or not self.has_client_key):
            raise InvalidSetting(
                f"Invalid host: expected a loopback address while a key is unset, got {self.host!r};"
                " set NEARFIELD_API_KEY and NEARFIELD_ADMIN_KEY to listen on it"
            )

    def keys(self, name: str) -> list[str]:
        """The keys of one of the settings of `KEY_NAMES`."""
        return [key.get_secret_value() for key in getattr(self, name) or ()]

    @property
    def has_client_key(self) -> bool:
        """Whether a key guards what is not /admin/*."""
        return any(map(self.keys, ("api_key", "read_key", "write_key")))

    @property
    def key_to_write_with(self) -> str | None:
        """What a client that posts ratings sends; of two keys the first."""
        return next(iter([*self.keys("write_key"), *self.keys("api_key")]), None)


def unknown_variables() -> list[str]:
    """Variables of the environment that begin like a setting's, and belong to nobody.

    Raises:
        InvalidSetting: a name that is close to that of a setting.
    """
    return environment.unknown_variables(os.environ, Settings.model_fields)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`; a name other than localhost counts as reachable."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_redis_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        has_place = bool(url.path if url.scheme == "unix" else url.hostname and url.port != 0)
    except ValueError:  # a port that is no number, or too high
        return False
    return url.scheme in REDIS_SCHEMES and has_place
