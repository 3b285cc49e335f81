"""`Settings`: every setting of the service in one object. The only module that reads `NEARFIELD_…` variables."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, InitSettingsSource, NoDecode, SettingsConfigDict
from pydantic_settings import PydanticBaseSettingsSource as Source

from gpu.base.backend import BackendName
from gpu.data.param_kinds import Values
from service.base.limits import MAX_RATING
from service.settings import data_sets, environment, secret_files
from service.settings.addresses import check_networks, check_origins, check_redis, is_loopback
from service.settings.data_sets import check_names, parse_names
from service.settings.environment import is_address
from service.settings.errors import InvalidSetting
from service.settings.event_types import DEFAULT as DEFAULT_EVENTS
from service.settings.event_types import EventTypes, check_seen, parse_event_types
from service.settings.half_lives import DEFAULT as DEFAULT_HALF_LIVES
from service.settings.half_lives import parse_half_lives
from service.settings.key_settings import KEY_NAMES, Keys, check_keys_differ
from service.settings.keyspace import Keyspace
from service.settings.model_names import check_model_names
from service.settings.schedules import check_schedules

Scale = tuple[float, float]
AppendFsync = Literal["always", "everysec"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "console", "json"]


def parse_scale(value: Any) -> Any:
    """The two numbers of "MIN,MAX"; any other type as it is. Raises `ValueError` for another text."""
    if not isinstance(value, str):
        return value
    try:
        low, high = map(float, value.split(","))
    except ValueError:
        raise ValueError(f"Invalid rating_scale: expected MIN,MAX, got {value!r}") from None
    return low, high


def check_scale(value: Scale | None) -> Scale | None:
    """The scale, if it is none or has a width; else `ValueError`."""
    if value is not None and not -MAX_RATING <= value[0] < value[1] <= MAX_RATING:
        raise ValueError(
            f"Invalid rating_scale: expected MIN,MAX with {-MAX_RATING:g} <= MIN < MAX <= {MAX_RATING:g},"
            f" got {value[0]:g},{value[1]:g}"
        )
    return value


class Settings(BaseSettings):
    """Settings in order of precedence: keyword, environment variable `NEARFIELD_<NAME>`, default."""

    model_config = SettingsConfigDict(env_prefix=environment.PREFIX, extra="forbid", frozen=True, validate_default=True)

    host: str = Field("127.0.0.1", description="Address to listen on. Anything but loopback needs keys.")
    port: int = Field(8000, ge=0, le=65535, description="TCP port; 0 takes a free port and logs its number.")
    tls_certificate: Path | None = Field(
        None,
        description="Certificate of the service in PEM, followed by those between it and its authority; then it speaks"
        " HTTPS alone. Read again when the file changes. Unset: plain HTTP.",
    )
    tls_key: Path | None = Field(None, description="Private key for tls_certificate, in PEM, without a password.")
    data: Path = Field(Path("nearfield-data"), description="Folder of all state: rating log, snapshots, Redis.")
    data_sets: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Names of further data sets, comma-separated, each with all routes behind /d/NAME/.",
    )
    redis: str | None = Field(None, description="Redis URL (redis://, rediss://, unix://). Unset: an embedded server.")
    store: str | None = Field(
        None, description="URL (s3://…, gs://…, file:///…) of a store that `worker` fills and `serve` follows."
    )
    appendfsync: AppendFsync = Field(
        "always", description="Weakest fsync policy at which a rating is acknowledged; everysec can lose one second."
    )
    backend: BackendName = Field(
        "auto",
        description="Where models train and answer: host, device, or auto (the device if it works).",
    )
    ranking_gpus: PositiveInt = Field(
        1, description="GPUs of this machine that share the items when lists are made; the first one does the rest."
    )
    worker: bool = Field(True, description="Whether this process also starts and supervises trainer processes.")
    trainer_ranks: PositiveInt = Field(
        1,
        description="Processes that train one model together, on this machine or in `cluster`, each with a GPU or a"
        " share of the cores. ease, next and neighbors train in one.",
    )
    cluster: str | None = Field(
        None,
        description="Dask scheduler (tls://HOST:PORT) whose workers hold the ranks of trainings. Unset: this machine.",
    )
    cluster_tls_ca: Path | None = Field(
        None, description="Certificate of the authority that has signed those of all machines of the cluster, in PEM."
    )
    cluster_tls_cert: Path | None = Field(None, description="Certificate of this machine in the cluster, in PEM.")
    cluster_tls_key: Path | None = Field(None, description="Private key for cluster_tls_cert, in PEM.")

    fronts: Annotated[NonNegativeInt, AfterValidator(lambda n: max(n, 1))] | None = Field(
        None,
        description="Processes that speak HTTP, at least 1; 0 counts as 1. Unset: one for four cores, at least 1 and"
        " at most 4.",
    )

    api_key: Keys = Field(
        None,
        description="Key that may read and write. A key has at least 16 characters; two keys may be set, separated by a"
        " comma. If api_key, read_key and write_key are all unset, everything but /admin/* is open.",
    )
    admin_key: Keys = Field(
        None, description="Key for /admin/*, also accepted everywhere else. Unset: api_key opens /admin/* too."
    )
    read_key: Keys = Field(None, description="Key that may only read: lists, neighbors, estimates, ratings.")
    write_key: Keys = Field(None, description="Key that may only write ratings, events and items.")
    model_key: Keys = Field(None, description="Key that signs models in stores, and without which none is taken.")

    rating_scale: Annotated[Scale | None, NoDecode] = Field(
        None,
        description='Lowest and highest rating that POST accepts, "MIN,MAX". Unset: any from -1e6 to 1e6; training then'
        " clips extreme outliers.",
    )
    default_models: Annotated[list[str], NoDecode] = Field(
        ["als-implicit", "ease", "neighbors", "next", "culsh-implicit", "nmf", "culsh", "sgd", "als", "esgd"],
        description="Names of models, algorithms or names of yours, comma-separated; the first live one answers. The"
        " default is by ranking quality.",
    )
    events: str = Field(
        DEFAULT_EVENTS,
        description="Types that POST /events accepts, NAME=WEIGHT, comma-separated. Events of a user and an item add"
        " up, weight times value; a sum below 0 is a dislike. With `seen` for a weight a type only keeps the item out"
        " of lists. At most 32 types; replicas and workers must have the same.",
    )
    half_lives: str = Field(
        DEFAULT_HALF_LIVES,
        description="Half-lives that GET /popular can ask for, comma-separated, in minutes (m), hours (h) or days (d)."
        " The first one is that of fallback=trending.",
    )
    repeat: Literal["auto", "never", "allow"] = Field(
        "auto",
        description="Whether lists show again what users had, unless a request says so: never, allow, or auto, where"
        " the model has learned from events that users come back to what they had.",
    )
    seen_types: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Types of events, and rating, comma-separated: lists leave out only what users have events of these"
        " types with, or have rated, unless a request says so. Empty: all that users had, by `repeat`.",
    )
    values: Values = Field(
        "auto",
        description="How als-implicit, culsh-implicit, ease and neighbors interpret values: ratings (low values on a"
        " scale are dislikes), counts (a higher count means more confidence, one below 0 is a dislike), or auto"
        " (decided from the ratings; events are counts).",
    )
    retrain_share: float = Field(
        0.2,
        ge=0,
        allow_inf_nan=False,
        description="Retrain a live model when new ratings reach this share of its training ratings, and at least"
        " 1,000; 0: never.",
    )
    retrain_every_ratings: NonNegativeInt = Field(0, description="Also retrain after this many new ratings; 0: never.")
    retrain_every_hours: float = Field(
        0,
        ge=0,
        allow_inf_nan=False,
        description="Also retrain after this number of hours if there are new ratings; 0: never.",
    )

    schedules: str | None = Field(
        None,
        description="Trainings and lists at set times: lines of five fields of cron in UTC, then train MODEL or lists"
        " SCENARIO; a semicolon may end a line. Set it where models train and where they answer. Unset: none.",
    )

    trusted_proxies: Annotated[list[str], NoDecode] = Field(
        [],
        description="Networks of proxies (CIDRs, comma-separated) whose X-Forwarded-For names the client. Unset: none.",
    )
    webhook_networks: Annotated[list[str], NoDecode] = Field(
        [],
        description="Networks of yours (CIDRs, comma-separated) that webhooks may reach. Unset: only public addresses.",
    )
    cors_origins: Annotated[list[str], NoDecode] = Field(
        [],
        description="Origins (https://shop.example, comma-separated) whose pages may use the service in a browser, also"
        " while no key is set. *: any, with a key. Unset: none.",
    )
    max_job_hours: PositiveFloat = Field(
        24, allow_inf_nan=False, description="Longest time in hours that a training, or lists of all users, may take."
    )
    rate_limit_per_s: PositiveFloat | None = Field(
        None, allow_inf_nan=False, description="Requests per second and client address; more get 429. Unset: no limit."
    )
    max_new_ids_per_hour: PositiveInt | None = Field(
        None,
        description="New users and items that one key may introduce per hour; more get 429. Unset: no limit.",
    )
    max_names: int = Field(
        1000, ge=0, le=1000, description="Most names of tags and numbers of all items; of all users as many."
    )
    max_new_names_per_hour: PositiveInt = Field(
        300, description="New names of tags and numbers that one key may introduce per hour; more get 429."
    )
    max_body_bytes: PositiveInt = Field(1 << 20, description="Longest request body in bytes; a longer one gets 413.")
    max_ratings: PositiveInt = Field(1000, description="Most ratings or events in one request.")
    max_n: PositiveInt = Field(1000, description="Most results in one answer.")

    quota_ratings: PositiveInt = Field(
        1_000_000_000,
        description="Most pairs of a user and an item with a rating or events; beyond, writes that add get 507.",
    )
    quota_users: PositiveInt = Field(100_000_000, description="Most users; beyond, writes with new ones get 507.")
    quota_items: PositiveInt = Field(100_000_000, description="Most items; beyond, writes with new ones get 507.")
    quota_memory_gb: PositiveFloat = Field(
        1_000,
        allow_inf_nan=False,
        description="Most memory of the engine's process, in 10^9 bytes; beyond, writes that add get 507.",
    )
    quota_disk_gb: PositiveFloat = Field(
        10_000,
        allow_inf_nan=False,
        description="Most bytes of the data set's folder, in 10^9; beyond, writes that add get 507.",
    )
    quota_training_minutes: PositiveFloat = Field(
        1_440,
        allow_inf_nan=False,
        description="Most minutes of trainings within 24 hours; beyond, a new one gets 429 and a running one stops.",
    )

    audit_max_bytes: int = Field(
        256 << 20, ge=1 << 20, description="Most bytes of the audit log of a data set; the oldest entries go first."
    )

    max_batch: PositiveInt = Field(256, description="Most requests that are scored in one batch.")
    max_waiting: PositiveInt = Field(
        1024,
        description="Most requests that wait for each of the engine, Redis and `wait_for`; more get 503. Each front has"
        " an equal share. A client with fewer than a quarter of this number waiting for the engine may go on, up to"
        " twice this number in all.",
    )
    max_connections: PositiveInt = Field(
        4096,
        description="Most open connections, at most a quarter of them from one address; more get 503 and are closed.",
    )
    max_wait_ms: PositiveFloat = Field(
        1000,
        allow_inf_nan=False,
        description="Longest time in milliseconds that a request waits to be scored; then it gets 503.",
    )

    log_level: LogLevel = Field("info", description="Lowest severity that is logged; debug logs every request.")
    log_format: LogFormat = Field(
        "auto", description="console (for people), json (for machines), or auto (console if stderr is a terminal)."
    )

    traces: bool = Field(
        False,
        description="Whether to send traces by OTLP. Variables of OpenTelemetry say where to and how many, such as"
        " OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_TRACES_SAMPLER_ARG. Needs the extra traces.",
    )

    _data_set: tuple[str, Path | None] = PrivateAttr(("", None))  # name and root of one that `each` has made

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: Source, env_settings: Source, *_: Any, **__: Any
    ) -> tuple[Source, ...]:
        """Called by pydantic: arguments count first, then variables, then files of secrets."""
        return init_settings, env_settings, InitSettingsSource(settings_cls, secret_files.values(os.environ))

    @field_validator("port", mode="before")
    @classmethod
    def _own_port(cls, value: Any) -> Any:
        """The default if Kubernetes or Docker put the address of a service called nearfield into the variable."""
        return cls.model_fields["port"].default if is_address(value) else value

    @model_validator(mode="after")
    def _check_seen_types(self) -> Settings:
        check_seen(self.seen_types, self.event_types)
        return self

    @model_validator(mode="after")
    def _check_keys_differ(self) -> Settings:
        check_keys_differ({name: self.keys(name) for name in KEY_NAMES})
        return self

    @model_validator(mode="after")
    def _check_tls(self) -> Settings:
        if (self.tls_certificate is None) != (self.tls_key is None):
            missing, other = ("tls_key", "tls_certificate")[:: 1 if self.tls_key is None else -1]
            raise ValueError(f"Invalid {missing}: expected a file, as {other} is set, got none; set both or neither")
        return self

    @field_validator("data", mode="before")
    @classmethod
    def _check_data(cls, value: Any) -> Any:
        if value == "":  # Path("") is the working directory, where an operator would not look for the data
            raise ValueError("Invalid data: expected a folder, got ''")
        return value

    _check_redis = field_validator("redis")(check_redis)
    _check_models = field_validator("default_models")(check_model_names)
    _check_networks = field_validator("trusted_proxies", "webhook_networks")(check_networks)
    _check_origins = field_validator("cors_origins")(check_origins)
    _check_scale = field_validator("rating_scale")(check_scale)
    _split_scale = field_validator("rating_scale", mode="before")(parse_scale)
    _check_data_sets = field_validator("data_sets")(check_names)
    _split_names = field_validator("data_sets", "seen_types", mode="before")(parse_names)

    @field_validator("events", "half_lives")
    @classmethod
    def _check_parts(cls, value: str, info: ValidationInfo) -> str:
        (parse_event_types if info.field_name == "events" else parse_half_lives)(value)
        return value

    @field_validator("schedules")
    @classmethod
    def _check_schedules(cls, value: str | None, info: ValidationInfo) -> str | None:
        check_schedules(value or "", info.data.get("default_models", ()), has_store=info.data.get("store") is not None)
        return value

    @field_validator("default_models", "trusted_proxies", "webhook_networks", "cors_origins", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return [name.strip() for name in value.split(",")] if isinstance(value, str) else value

    def trace_variables(self) -> dict[str, str] | None:
        """The variables of OpenTelemetry; None if nothing is recorded: `traces` or its own switch is off.

        An empty variable counts as unset, as its specification demands.
        """
        variables = {name: value for name, value in os.environ.items() if name.startswith("OTEL_") and value}
        is_on = self.traces and variables.get("OTEL_SDK_DISABLED", "").lower() != "true"
        return variables if is_on else None

    def check_exposure(self) -> None:
        """Check that the service may listen on `host`.

        Raises:
            InvalidSetting: other machines can reach `host`, and a key that would stop them is unset.
        """
        if not is_loopback(self.host) and (self.admin_key is None or not self.has_client_key):
            raise InvalidSetting(
                f"Invalid host: expected a loopback address while a key is unset, got {self.host!r};"
                " set NEARFIELD_API_KEY and NEARFIELD_ADMIN_KEY to listen on it"
            )

    @property
    def data_set(self) -> str:
        """The data set whose settings these are; empty for the default one."""
        return self._data_set[0]

    @property
    def root(self) -> Path:
        """The folder of all data sets; `data` is that of this one."""
        return self._data_set[1] or self.data

    @property
    def keyspace(self) -> Keyspace:
        """The names of the data set's keys in Redis."""
        return Keyspace.of(self.data_set)

    def each(self) -> list[Settings]:
        """The settings of each data set, of the default one (these) first.

        Raises:
            InvalidSetting: those of a data set cannot be used.
        """
        return [self, *map(self.of, self.data_sets)]

    def of(self, name: str) -> Settings:
        """The settings of a further data set; errors as for `each`."""
        values = {field: getattr(self, field) for field in type(self).model_fields}
        overrides = data_sets.own_values(os.environ, name, values)
        try:
            settings = Settings(**values | overrides | {"data": data_sets.folder_of(self.data, name)})
        except ValidationError as error:  # of its own values: the others have been checked
            raise data_sets.refused(name, error) from None
        settings._data_set = name, self.data
        return settings

    @functools.cached_property
    def event_types(self) -> EventTypes:
        """The weight of each type of `events`."""
        return parse_event_types(self.events)

    @property
    def quotas(self) -> dict[str, float]:
        """How much of each kind a data set may hold, or use; a name is that of its setting after `quota_`."""
        return {field[6:]: getattr(self, field) for field in type(self).model_fields if field.startswith("quota_")}

    def keys(self, name: str) -> list[str]:
        """The keys of a setting, one of `KEY_NAMES`."""
        return [key.get_secret_value() for key in getattr(self, name) or ()]

    @property
    def has_client_key(self) -> bool:
        """Whether a key guards the routes outside /admin/*."""
        return any(map(self.keys, ("api_key", "read_key", "write_key")))

    def own_key(self, name: str) -> str | None:
        """The key that our own client sends to routes that need the key `name`; the first if there are two."""
        return next(iter([*self.keys(name), *self.keys("api_key")]), None)


def unknown_variables(names: Collection[str] = ()) -> list[str]:
    """Environment variables that begin like those of settings but name no setting.

    Raises:
        InvalidSetting: a name is close to the name of a setting.
    """
    return environment.unknown_variables(os.environ, [*Settings.model_fields, *secret_files.names()], names)
