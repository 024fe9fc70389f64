"""All settings of the engine. Flags override the environment, which overrides the settings file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from backscroll.flows.settings.chat import ChatSettings
from backscroll.flows.settings.kafka import KafkaSettings
from backscroll.flows.settings.one_of import OneOf
from backscroll.flows.settings.time_zones import time_zone
from backscroll.operators.errors import BackscrollError
from backscroll.operators.memory import registry

__all__ = ["ENV_PREFIX", "Settings", "SettingsError", "load_settings"]

ENV_PREFIX = "BACKSCROLL_"


class SettingsError(BackscrollError):
    """A setting is unknown or invalid; the message says in one line which, where and what to use."""


class Settings(KafkaSettings, ChatSettings, BaseSettings):
    """The engine's settings. Token counts are in `cl100k_base`; the defaults come from the paper."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid", frozen=True)

    namespace: str = Field(
        "default", min_length=1, description="Namespace of messages and channels that do not name one."
    )
    tz: str | None = Field(
        None,
        description="Time zone of times shown and of files whose times have none, such as Europe/Berlin.",
    )
    store: str | None = Field(
        None, min_length=1, description="LanceDB history: a directory or s3://bucket/prefix."
    )
    http_host: str = Field(
        "127.0.0.1", min_length=1, description="Address on which `run` serves health and metrics."
    )
    http_port: int = Field(
        9464, ge=0, le=65535, description="Port for /livez, /readyz and /metrics; 0 turns them off."
    )
    stall_seconds: float = Field(
        60, gt=0, description="Seconds without progress, while messages wait, before /livez fails."
    )
    maintenance_minutes: float = Field(
        5, ge=0, description="Minutes between clean-ups of the store; 0 turns them off."
    )
    recovery: Path | None = Field(
        None, description="Directory for the state of `run`; by default, recovery in a local store."
    )
    recovery_partitions: int = Field(
        8,
        ge=1,
        description="Maximum number of processes; cannot be changed once the recovery directory exists.",
    )
    reissue: bool = Field(True, description="Rewrite a summary when its messages change.")
    lateness_seconds: float = Field(0, ge=0, description="Seconds to wait for messages that arrive late.")
    strategy: Annotated[str, OneOf(registry.names)] = Field(
        "backscroll", description="How memory is built; part of every summary id."
    )
    budget: int = Field(1024, ge=1, description="Maximum tokens of a memory.")
    window_tokens: int = Field(1024, ge=1, description="Maximum tokens of a window.")
    window_turns: int = Field(256, ge=1, le=256, description="Maximum turns of a window.")
    idle_minutes: float | None = Field(
        None,
        gt=0,
        description="Minutes without a message that close a window; by default, pauses close none.",
    )
    chunk_tokens: int = Field(128, ge=1, description="Tokens of a chunk.")
    chunk_overlap: int = Field(32, ge=0, description="Tokens that neighbouring chunks share.")
    top_k: int = Field(30, ge=1, description="Chunks that each retriever returns for a gap.")
    rrf_constant: int = Field(60, ge=1, description="Constant of reciprocal rank fusion.")
    max_gaps: int = Field(8, ge=0, description="Maximum gaps of a window; 0 turns gap detection off.")
    summary_tokens: int = Field(200, ge=32, description="Maximum tokens of a summary.")
    embedding_model: str = Field(
        "all-MiniLM-L6-v2",
        min_length=1,
        description="Embedding model: a Hugging Face id, a folder, a model of embedding_url, or none.",
    )
    embedding_backend: Literal["auto", "onnx", "torch"] = Field(
        "auto", description="Backend that runs the model; auto prefers ONNX."
    )
    embedding_precision: Literal["float32", "int8"] = Field(
        "float32", description="Precision of the ONNX backend; int8 is faster but gives different vectors."
    )
    embedding_threads: int | None = Field(
        None, ge=1, description="Threads of the ONNX backend; by default, one for each processor."
    )
    embedding_windows: int = Field(
        1, ge=1, description="Maximum windows to embed at once; above 1, the last bits of vectors may differ."
    )
    embedding_url: str | None = Field(None, description="URL of an OpenAI-compatible embedding server.")
    embedding_query_task: str | None = Field(
        None,
        description="Instruction that the embedding server gets with queries; '' for none.",
    )
    embedding_api_key: SecretStr | None = Field(None, description="API key of the embedding server.")
    history_mb: int = Field(
        2048,
        ge=1,
        description="Memory for active channels in each process, in MB; others are loaded when needed.",
    )
    exact_chunks: int = Field(
        250_000,
        ge=0,
        description="Chunks of a channel above which vector search uses the index of the store.",
    )
    pending_windows: int = Field(256, ge=1, description="Windows in progress before the source pauses.")
    unrecorded_windows: int = Field(
        32,
        ge=1,
        description="Closed windows not yet stored before the source pauses; one channel may have a quarter.",
    )
    llm: str | None = Field(
        None,
        description="Language model: a server URL, vllm:MODEL or cassette:FILE; by default, none is used.",
    )
    llm_record: Path | None = Field(
        None, description="Cassette file to append the answers of the language model to."
    )
    gap_model: str | None = Field(
        None, description="Model that finds gaps; by default, the only model of the server."
    )
    summary_model: str | None = Field(
        None, description="Model that writes summaries; by default, the only model of the server."
    )
    llm_api_key: SecretStr | None = Field(None, description="API key of the language model server.")
    llm_api_keys: dict[str, SecretStr] | None = Field(
        None, description="API keys by server URL, if you use several; servers not listed get no key."
    )
    llm_extra_body: dict[str, Any] | None = Field(None, description="Extra fields for every request.")
    llm_concurrency: int = Field(
        32, ge=1, description="Maximum concurrent calls to a language model in each process."
    )
    llm_timeout: float = Field(60, gt=0, description="Seconds without data before an attempt fails.")
    llm_deadline: float = Field(300, gt=0, description="Maximum seconds for a call, including retries.")
    llm_retries: int = Field(3, ge=0, description="Retries after a temporary failure.")
    breaker_failures: int = Field(5, ge=1, description="Failed calls in a row before calls pause.")
    breaker_seconds: float = Field(
        30, gt=0, description="Seconds that calls pause before one is tried again."
    )
    on_llm_failure: Literal["extractive", "dead-letter"] = Field(
        "extractive",
        description="What a window gets if the language model fails: an extractive summary or a dead letter.",
    )
    on_unsupported: Literal["mark", "replace"] = Field(
        "mark", description="What happens to a summary with a statement that no message supports."
    )
    summary_temperature: float = Field(0, ge=0, le=2, description="Sampling temperature for summaries.")
    max_tokens_per_day: int | None = Field(
        None, ge=0, description="Daily limit of language model tokens for all channels; by default, no limit."
    )
    max_tokens_per_channel_day: int | None = Field(
        None, ge=0, description="Daily limit of language model tokens for each channel; by default, no limit."
    )

    web_host: str = Field("127.0.0.1", min_length=1, description="Address on which `serve` listens.")
    web_port: int = Field(8484, ge=0, le=65535, description="Port of `serve`; 0 picks a free one.")
    web_access: Path | None = Field(
        None,
        description="TOML file that says who may read which namespaces; required to serve other machines.",
    )

    @field_validator("tz")
    @classmethod
    def _is_time_zone(cls, name: str | None) -> str | None:
        if name is not None:
            time_zone(name)
        return name

    @field_validator("strategy")
    @classmethod
    def _is_verbatim_memory(cls, name: str) -> str:
        if name in registry.OWN:  # all verbatim; loading them would take longer than most commands
            return name
        from backscroll.operators.memory.verbatim import check_verbatim

        try:
            check_verbatim(registry.get(name))
        except registry.MemoryStrategyError as err:
            raise ValueError(str(err)) from err
        return name

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.chunk_overlap >= self.chunk_tokens:
            raise ValueError("chunk_overlap must be below chunk_tokens")
        if self.embedding_model == "none" and registry.get(self.strategy).needs.vectors:
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
        """Flags take precedence over the environment; `load_settings` adds the TOML file below both."""
        del settings_cls, dotenv_settings, file_secret_settings
        return init_settings, env_settings


def load_settings(flags: Mapping[str, Any], config: Path | None = None) -> Settings:
    """Load the settings from flags (None means not given), the environment and an optional TOML file.

    Raises:
        SettingsError: a setting is unknown or invalid.
    """
    known = Settings.model_fields
    environment = {
        name.removeprefix(ENV_PREFIX).lower() for name in os.environ if name.startswith(ENV_PREFIX)
    }
    environment -= {"config", "process_id", "addresses"}  # used by the command line itself
    variables = {f"{ENV_PREFIX}{name.upper()}" for name in environment - known.keys()}
    _refuse_unknown(variables, [f"{ENV_PREFIX}{name.upper()}" for name in known], "the environment")
    file = {} if config is None else _read_toml(config)
    _refuse_unknown(file.keys() - known.keys(), known, str(config))
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


def _refuse_unknown(names: set[str], known: Iterable[str], where: str) -> None:
    if names:
        name = min(names)
        close = get_close_matches(name, known)
        advice = f"did you mean {' or '.join(close)}?" if close else "docs/settings.md lists all settings"
        raise SettingsError(f"unknown setting {name!r} in {where}: {advice}")


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as err:
        raise SettingsError(f"settings file {path}: {err.strerror}") from err
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as err:
        raise SettingsError(f"settings file {path}: not valid TOML: {err}") from err
