"""Every setting of the engine: defaults here, then a TOML file, then the environment, then flags."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from flows.chat_settings import ChatSettings
from flows.kafka_settings import KafkaSettings
from flows.time_zones import time_zone
from operators.memory_names import memory_names

__all__ = ["ENV_PREFIX", "Settings", "SettingsError", "load_settings"]

ENV_PREFIX = "BACKSCROLL_"

if TYPE_CHECKING:
    Strategy: TypeAlias = str
else:
    Strategy = Literal[memory_names()]


class SettingsError(ValueError):
    """A setting is unknown or has an impossible value; one line says which, where and what is right."""


class Settings(KafkaSettings, ChatSettings, BaseSettings):
    """The engine's settings. Token counts are `cl100k_base`; defaults are the paper's."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid", frozen=True)

    namespace: str = Field("default", min_length=1, description="namespace of messages that name none")
    tz: str | None = Field(None, description="time zone of files whose times name none, as Europe/Berlin")
    store: str | None = Field(
        None, min_length=1, description="LanceDB history, a directory or s3://bucket/prefix"
    )
    http_host: str = Field("127.0.0.1", min_length=1, description="where `run` serves health and metrics")
    http_port: int = Field(9464, ge=0, le=65535, description="of /livez, /readyz, /metrics; 0 for none")
    stall_seconds: float = Field(
        60, gt=0, description="without progress, while messages wait, before /livez is red"
    )
    maintenance_minutes: float = Field(5, ge=0, description="between clean-ups of the store; 0 for none")
    recovery: Path | None = Field(None, description="state of `run`; inside a local store when not set")
    recovery_partitions: int = Field(8, ge=1, description="most processes there can be; fixed when made")
    reissue: bool = Field(True, description="make summaries again when their messages change")
    lateness_seconds: float = Field(0, ge=0, description="how long messages wait for earlier ones")
    strategy: Strategy = Field("backscroll", description="how a memory is built; part of summary ids")
    budget: int = Field(1024, ge=1, description="most tokens of a memory")
    window_tokens: int = Field(1024, ge=1, description="most tokens of a window")
    window_turns: int = Field(256, ge=1, le=256, description="most turns of a window")
    idle_minutes: float | None = Field(None, gt=0, description="pause that closes a window")
    chunk_tokens: int = Field(128, ge=1, description="tokens of a chunk")
    chunk_overlap: int = Field(32, ge=0, description="tokens shared by neighbouring chunks")
    top_k: int = Field(30, ge=1, description="chunks per retriever and gap")
    rrf_constant: int = Field(60, ge=1, description="constant of reciprocal rank fusion")
    max_gaps: int = Field(8, ge=0, description="most gaps of a window; 0 looks for none")
    summary_tokens: int = Field(200, ge=32, description="most tokens of an extractive summary")
    embedding_model: str = Field(
        "all-MiniLM-L6-v2", min_length=1, description="a hub id, a folder, or `none`"
    )
    embedding_backend: Literal["auto", "onnx", "torch"] = Field(
        "auto", description="what runs the model: ONNX where it can, or as named"
    )
    embedding_precision: Literal["float32", "int8"] = Field(
        "float32", description="of the ONNX backend; int8 is faster and gives other vectors"
    )
    embedding_threads: int | None = Field(
        None, ge=1, description="of the ONNX backend; as many as processors when not set"
    )
    embedding_windows: int = Field(
        1, ge=1, description="most windows embedded at once; above 1 the last bits of vectors may differ"
    )
    embedding_url: str | None = Field(None, description="OpenAI-compatible server of the embedding model")
    embedding_query_task: str | None = Field(None, description="what queries are for; '' for no instruction")
    embedding_api_key: SecretStr | None = Field(None, description="of the embedding server")
    history_mb: int = Field(2048, ge=1, description="MB of hot channels in a process; cold ones are reloaded")
    exact_chunks: int = Field(
        250_000, ge=0, description="of a channel; beyond them search by vectors is the store's, with an index"
    )
    pending_windows: int = Field(256, ge=1, description="windows in flight before the source waits")
    unrecorded_windows: int = Field(
        32, ge=1, description="closed and not recorded before the source waits; of one channel a quarter"
    )
    llm: str | None = Field(None, description="URL of a server, vllm:MODEL or cassette:FILE")
    llm_record: Path | None = Field(None, description="cassette that answers are appended to")
    gap_model: str | None = Field(None, description="model for gaps; the server's only one when not set")
    summary_model: str | None = Field(None, description="model for summaries; as gap_model")
    llm_api_key: SecretStr | None = Field(None, description="of the language model's server")
    llm_api_keys: dict[str, SecretStr] | None = Field(
        None, description="by URL, where several servers are used; the others get none"
    )
    llm_extra_body: dict[str, Any] | None = Field(None, description="fields added to every request")
    llm_concurrency: int = Field(32, ge=1, description="calls at once in one process")
    llm_timeout: float = Field(60, gt=0, description="seconds without a byte before an attempt ends")
    llm_deadline: float = Field(300, gt=0, description="seconds for a call with all its attempts")
    llm_retries: int = Field(3, ge=0, description="further attempts after a failure that may pass")
    breaker_failures: int = Field(5, ge=1, description="failed calls in a row before no more are made")
    breaker_seconds: float = Field(30, gt=0, description="pause before one call tries again")
    on_llm_failure: Literal["extractive", "dead-letter"] = Field(
        "extractive", description="what a window gets when the model fails"
    )
    on_unsupported: Literal["mark", "replace"] = Field(
        "mark", description="what happens to a summary that states what no message says"
    )
    summary_temperature: float = Field(0, ge=0, le=2, description="of the model's sampling")
    max_tokens_per_day: int | None = Field(None, ge=0, description="of the model, all channels")
    max_tokens_per_channel_day: int | None = Field(None, ge=0, description="of the model, one channel")

    web_host: str = Field("127.0.0.1", min_length=1, description="address that `serve` listens on")
    web_port: int = Field(8484, ge=0, le=65535, description="port of `serve`; 0 for any that is free")
    web_access: Path | None = Field(None, description="TOML: who may read which namespaces; see docs/web.md")

    @field_validator("tz")
    @classmethod
    def _is_time_zone(cls, name: str | None) -> str | None:
        if name is not None:
            time_zone(name)
        return name

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.chunk_overlap >= self.chunk_tokens:
            raise ValueError("chunk_overlap must be below chunk_tokens")
        if self.embedding_model == "none" and self.strategy in ("dense", "hybrid", "remember"):
            raise ValueError(f"strategy {self.strategy} needs an embedding_model, not none")
        if self.embedding_precision == "int8" and (self.embedding_backend == "torch" or self.embedding_url):
            raise ValueError("embedding_precision int8 needs the ONNX backend: not torch, not embedding_url")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags before the environment; the TOML file is merged below both by `load_settings`."""
        del settings_cls, dotenv_settings, file_secret_settings
        return init_settings, env_settings


def load_settings(flags: Mapping[str, Any], config: Path | None = None) -> Settings:
    """The settings from flags (None means not given), the environment and an optional TOML file.

    Raises:
        SettingsError: a key is unknown or a value is impossible.
    """
    known = Settings.model_fields
    environment = {
        name.removeprefix(ENV_PREFIX).lower() for name in os.environ if name.startswith(ENV_PREFIX)
    }
    environment -= {"config", "process_id", "addresses"}  # the command line's own
    _refuse_unknown({f"{ENV_PREFIX}{name.upper()}" for name in environment - known.keys()}, "the environment")
    file = {} if config is None else _read_toml(config)
    _refuse_unknown(file.keys() - known.keys(), str(config))
    below = {name: value for name, value in file.items() if name not in environment}
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**{**below, **given})
    except ValidationError as err:
        first = err.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or "settings"
        message = first["msg"].removeprefix("Value error, ")
        secret = any(word in name for word in ("password", "secret", "key", "token"))
        shown = "" if first["loc"] == () or secret else f" (it is {first['input']!r})"
        raise SettingsError(f"{name}: {message}{shown}") from err


def _refuse_unknown(names: set[str], where: str) -> None:
    if names:
        known = ", ".join(Settings.model_fields)
        raise SettingsError(f"unknown setting {sorted(names)[0]!r} in {where}: known are {known}")


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as err:
        raise SettingsError(f"settings file {path}: {err.strerror}") from err
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as err:
        raise SettingsError(f"settings file {path}: not TOML: {err}") from err
