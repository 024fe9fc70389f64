"""The settings for Kafka, a mixin for `Settings`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator

if TYPE_CHECKING:
    pass

__all__ = ["KafkaSettings"]

_TOPIC = r"^[a-zA-Z0-9._-]{1,249}$"


class KafkaSettings(BaseModel):
    """Topics, login and reading. All names start with `kafka_`, except two."""

    kafka_brokers: str = Field(
        "127.0.0.1:9092", description="Kafka brokers as host:port, separated by commas."
    )
    kafka_topics: str = Field("messages", description="Topics to read, separated by commas.")
    kafka_summaries: str = Field("summaries", pattern=_TOPIC, description="Topic for summaries, compacted.")
    kafka_dead_letters: str = Field(
        "dead-letters", pattern=_TOPIC, description="Topic for dead letters, such as invalid messages."
    )
    kafka_debug: str | None = Field(
        None, pattern=_TOPIC, description="Topic for gaps and memory; by default, they are not sent."
    )
    kafka_group: str | None = Field(
        "backscroll", description="Consumer group to commit offsets to, for lag monitoring."
    )
    kafka_start: str = Field(
        "earliest",
        description="Where to start in a partition not read before: earliest, latest or a time.",
    )
    on_lost_offset: Literal["stop", "earliest"] = Field(
        "stop",
        description="What to do if retention deleted unread messages: stop, or continue from the earliest.",
    )
    scattered_channels: bool = Field(
        False, description="Allow messages of one channel in several partitions."
    )
    kafka_client_id: str = Field(
        "backscroll", min_length=1, description="Client name in the logs of the brokers."
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="Security protocol of the brokers' listener."
    )
    kafka_tls_ca_file: Path | None = Field(
        None, description="CA certificates, PEM; by default, those of the system."
    )
    kafka_tls_cert_file: Path | None = Field(None, description="Client certificate, PEM.")
    kafka_tls_key_file: Path | None = Field(
        None, description="Private key of the client certificate, PEM, unencrypted."
    )
    kafka_tls_check_hostname: bool = Field(True, description="Check that certificates name the broker.")
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = Field(
        None, description="SASL mechanism; required by the SASL protocols."
    )
    kafka_username: str | None = Field(None, description="User name for PLAIN and SCRAM.")
    kafka_password: SecretStr | None = Field(None, description="Password for PLAIN and SCRAM.")
    kafka_token_file: Path | None = Field(
        None, description="Token file for OAUTHBEARER; read again for each login."
    )
    kafka_token_url: str | None = Field(
        None, pattern=r"^https?://", description="Token endpoint for OAUTHBEARER, with client credentials."
    )
    kafka_token_client_id: str | None = Field(None, description="Client id for the token endpoint.")
    kafka_token_client_secret: SecretStr | None = Field(
        None, description="Client secret for the token endpoint."
    )
    kafka_token_scope: str | None = Field(None, description="Scope to request from the token endpoint.")

    @field_validator("kafka_topics", "kafka_brokers")
    @classmethod
    def _named(cls, value: str) -> str:
        if not split_names(value):
            raise ValueError("name at least one")
        return value

    @field_validator("kafka_start")
    @classmethod
    def _a_start(cls, value: str) -> str:
        if value not in ("earliest", "latest"):
            _time(value)
        return value

    @model_validator(mode="after")
    def _login_is_complete(self) -> Self:
        if not self.kafka_security_protocol.startswith("SASL"):
            return self
        if self.kafka_sasl_mechanism is None:
            raise ValueError(
                f"kafka_security_protocol {self.kafka_security_protocol} needs kafka_sasl_mechanism"
            )
        if self.kafka_sasl_mechanism != "OAUTHBEARER":
            if not self.kafka_username or self.kafka_password is None:
                needs = "kafka_username and kafka_password"
                raise ValueError(f"kafka_sasl_mechanism {self.kafka_sasl_mechanism} needs {needs}")
        elif (self.kafka_token_file is None) == (self.kafka_token_url is None):
            raise ValueError("OAUTHBEARER needs either kafka_token_file or kafka_token_url")
        elif self.kafka_token_url and not (self.kafka_token_client_id and self.kafka_token_client_secret):
            raise ValueError("kafka_token_url needs kafka_token_client_id and kafka_token_client_secret")
        return self

    @property
    def kafka_topic_names(self) -> tuple[str, ...]:
        """The topics to read."""
        return split_names(self.kafka_topics)

    @property
    def kafka_start_at(self) -> Literal["earliest", "latest"] | datetime:
        """Where to start in a partition that was not read before."""
        if self.kafka_start == "earliest":
            return "earliest"
        return "latest" if self.kafka_start == "latest" else _time(self.kafka_start)


def split_names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _time(text: str) -> datetime:
    time: datetime | None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ValueError("use earliest, latest or an ISO 8601 time with a zone, like 2026-03-02T09:00:00Z")
    return time
