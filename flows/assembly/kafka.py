"""Builds the Kafka connection from the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from backscroll.flows.settings.kafka import KafkaSettings, split_names

if TYPE_CHECKING:
    from backscroll.connectors.kafka.connection import KafkaConnection

__all__ = ["kafka_connection"]


def kafka_connection(settings: KafkaSettings) -> KafkaConnection:
    """The connection that the settings describe; no connection is opened yet.

    Raises:
        KafkaError: a broker is not written as host:port.
    """
    from backscroll.connectors.kafka.connection import KafkaConnection, Sasl, Tls

    mechanism = settings.kafka_sasl_mechanism
    login = mechanism is not None and settings.kafka_security_protocol.startswith("SASL")
    return KafkaConnection(
        brokers=split_names(settings.kafka_brokers),
        security_protocol=settings.kafka_security_protocol,
        tls=Tls(
            cafile=settings.kafka_tls_ca_file,
            certfile=settings.kafka_tls_cert_file,
            keyfile=settings.kafka_tls_key_file,
            check_hostname=settings.kafka_tls_check_hostname,
        ),
        sasl=Sasl(mechanism, settings.kafka_username, settings.kafka_password, _tokens(settings))
        if login and mechanism is not None
        else None,
        client_id=settings.kafka_client_id,
    )


def _tokens(settings: KafkaSettings) -> Any:
    from backscroll.connectors.kafka.oauth import TokenEndpoint, TokenFile

    if settings.kafka_token_file is not None:
        return TokenFile(settings.kafka_token_file)
    if settings.kafka_token_url is None:
        return None
    return TokenEndpoint(
        settings.kafka_token_url,
        settings.kafka_token_client_id or "",
        settings.kafka_token_client_secret or SecretStr(""),
        settings.kafka_token_scope,
    )
