"""Connect to a Kafka cluster, and turn failures into the errors of `backscroll.connectors.kafka.errors`."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from kafka import KafkaAdminClient, errors
from kafka.net.compat import KafkaNetClient
from pydantic import SecretStr

from backscroll.connectors.kafka.errors import (
    AuthenticationError,
    BatchError,
    KafkaError,
    OffsetError,
    RecordTooLargeError,
    TopicError,
    UndeliveredError,
    UnreachableError,
)
from backscroll.connectors.kafka.oauth import TokenEndpoint, TokenError, TokenFile

__all__ = [
    "AuthenticationError",
    "BatchError",
    "KafkaConnection",
    "KafkaError",
    "OffsetError",
    "RecordTooLargeError",
    "Sasl",
    "Tls",
    "TopicError",
    "UndeliveredError",
    "UnreachableError",
]

C = TypeVar("C")
Mechanism: TypeAlias = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
Protocol: TypeAlias = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
START_SECONDS = 10.0
_PROBE_SECONDS = 2.0
_RETRY_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS files in PEM format.

    Args:
        cafile: the certificate authorities to trust; None for the system's.
        certfile: the client's own certificate.
        keyfile: the key of that certificate.
        check_hostname: whether a broker's certificate must match its host name.
    """

    cafile: Path | None = None
    certfile: Path | None = None
    keyfile: Path | None = None
    check_hostname: bool = True

    def context(self) -> ssl.SSLContext:
        """The same SSL context that kafka-python will create.

        Raises:
            AuthenticationError: a file is missing, or contains no certificate or key.
        """
        context = ssl.create_default_context()
        context.check_hostname = self.check_hostname
        named = [path for path in (self.cafile, self.certfile, self.keyfile) if path is not None]
        for path in named:
            if not path.is_file():
                raise AuthenticationError(f"TLS file {path}: no such file")
        try:
            if self.cafile is not None:
                context.load_verify_locations(self.cafile)
            if self.certfile is not None:
                context.load_cert_chain(self.certfile, self.keyfile)
        except (OSError, ssl.SSLError) as err:
            shown = " or ".join(map(str, named))
            raise AuthenticationError(
                f"TLS file {shown}: expected a certificate and its key in PEM format"
            ) from err
        return context


@dataclass(frozen=True, slots=True)
class Sasl:
    """A SASL login: user name and password, or for OAUTHBEARER the source of tokens."""

    mechanism: Mechanism
    username: str | None = None
    password: SecretStr | None = None
    tokens: TokenFile | TokenEndpoint | None = None

    def __post_init__(self) -> None:
        if self.mechanism == "OAUTHBEARER" and self.tokens is None:
            raise AuthenticationError("OAUTHBEARER needs a token file or a token endpoint")
        if self.mechanism != "OAUTHBEARER" and (not self.username or self.password is None):
            raise AuthenticationError(f"SASL {self.mechanism} needs a user name and a password")

    def options(self) -> dict[str, Any]:
        """Keyword arguments for kafka-python's clients."""
        options: dict[str, Any] = {"sasl_mechanism": self.mechanism}
        if self.mechanism == "OAUTHBEARER":
            return {**options, "sasl_oauth_token_provider": self.tokens}
        secret = self.password.get_secret_value() if self.password else ""
        return {**options, "sasl_plain_username": self.username, "sasl_plain_password": secret}


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """How to connect to a Kafka cluster: its bootstrap brokers (`host:port`), TLS, and the login."""

    brokers: tuple[str, ...] = ("127.0.0.1:9092",)
    security_protocol: Protocol = "PLAINTEXT"
    tls: Tls = field(default_factory=Tls)
    sasl: Sasl | None = None
    client_id: str = "backscroll"

    def __post_init__(self) -> None:
        if not self.brokers:
            raise UnreachableError("no Kafka broker given: expected host:port")
        for broker in self.brokers:
            host, _, port = broker.rpartition(":")
            if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
                raise UnreachableError(f"Kafka broker {broker!r}: expected host:port")
        if self.security_protocol.startswith("SASL") and self.sasl is None:
            raise AuthenticationError(f"{self.security_protocol} needs a SASL mechanism and a login")

    def __str__(self) -> str:
        return ",".join(self.brokers)

    @property
    def encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    def client_options(self) -> dict[str, Any]:
        """Keyword arguments for kafka-python's consumer, producer and admin client.

        They contain the password in plain text: do not log them.
        """
        options: dict[str, Any] = {
            "bootstrap_servers": list(self.brokers),
            "client_id": self.client_id,
            "security_protocol": self.security_protocol,
            "bootstrap_timeout_ms": int(START_SECONDS * 1000),
            "reconnect_backoff_max_ms": 1000,
        }
        if self.encrypted:
            options["ssl_check_hostname"] = self.tls.check_hostname
            for name in ("cafile", "certfile", "keyfile"):
                if (path := getattr(self.tls, name)) is not None:
                    options[f"ssl_{name}"] = str(path)
        if self.sasl is not None and self.security_protocol.startswith("SASL"):
            options |= self.sasl.options()
        return options

    def connect(self, client: Callable[..., C], **options: Any) -> tuple[C, KafkaNetClient]:
        """Create a kafka-python client that has reached the cluster; returns it and its network client.

        Raises:
            KafkaError: no broker answered within ten seconds, or the login was rejected.
        """
        if self.encrypted:
            self._check_tls()
        nets = list[KafkaNetClient]()

        def keep(**configs: Any) -> KafkaNetClient:
            nets.append(KafkaNetClient(**configs))
            return nets[-1]

        try:
            made = client(**{**self.client_options(), "kafka_client": keep, **options})
        except errors.KafkaError as err:
            for net in nets:  # a failed client would leave its thread and sockets open
                with suppress(Exception):
                    net.close()
            raise self.explain(err) from err
        return made, nets[0]

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """How many partitions each topic has.

        Raises:
            TopicError: a topic does not exist, or the login may not describe it.
            KafkaError: as `connect`.
        """
        names = list(topics)
        admin, _ = self.connect(KafkaAdminClient)
        try:
            described = {topic["name"]: topic for topic in admin.describe_topics(names)}
        except errors.KafkaError as err:
            raise self.explain(err) from err
        finally:
            admin.close()
        for name in names:
            code = described[name]["error_code"] if name in described else 3
            if code == errors.TopicAuthorizationFailedError.errno:
                raise TopicError(f"topic {name!r} on {self}: access denied: ask for an ACL for this login")
            if code != 0:
                msg = f"topic {name!r} does not exist on {self}: create it with `backscroll topics create`"
                raise TopicError(msg)
        return {name: len(described[name]["partitions"]) for name in names}

    def explain(self, err: Exception) -> KafkaError:
        """Translate an error of kafka-python; if no broker answers, probe them again to find out why."""
        if isinstance(err, KafkaError):
            return err
        if isinstance(err, errors.TopicAuthorizationFailedError):
            return TopicError(f"{self}: access to the topic denied: ask for an ACL for this login")
        if isinstance(err, errors.SaslAuthenticationFailedError | errors.AuthorizationError):
            who = f" of {self.sasl.username!r}" if self.sasl and self.sasl.username else ""
            how = f" with {self.sasl.mechanism}" if self.sasl else ""
            return AuthenticationError(f"{self} rejected the login{who}{how}: check the kafka_ settings")
        if isinstance(err, errors.RetriableError):
            return self._why_unreachable()
        return KafkaError(f"{self}: {type(err).__name__}: see the broker's log")

    def _check_tls(self) -> None:
        """Do one TLS handshake first: kafka-python would wait forever for it and give no reason."""
        self.tls.context()
        deadline = time.monotonic() + START_SECONDS
        while True:
            failures = [self._probe(broker) for broker in self.brokers]
            if None in failures:
                return
            mistake = next((err for err in failures if isinstance(err, KafkaError)), None)
            if mistake is not None or time.monotonic() > deadline:
                raise mistake or self._why_unreachable()
            time.sleep(_RETRY_SECONDS)

    def _why_unreachable(self) -> KafkaError:
        if self.sasl is not None and self.sasl.tokens is not None:
            try:
                self.sasl.tokens.token()
            except TokenError as err:
                return AuthenticationError(str(err))
        reasons = []
        for broker in self.brokers:
            failure = self._probe(broker)
            if failure is None:
                msg = f"{broker} is reachable, but no Kafka session was set up within {START_SECONDS:.0f} s"
                check = "kafka_security_protocol, the login and the advertised listeners"
                return UnreachableError(f"{msg}: check {check}")
            if isinstance(failure, KafkaError):
                return failure
            reasons.append(failure.strerror or str(failure) or type(failure).__name__)
        why = ", ".join(dict.fromkeys(reasons))
        return UnreachableError(f"no Kafka broker at {self} ({why}): start one or set kafka_brokers")

    def _probe(self, broker: str) -> KafkaError | OSError | None:
        """Connect, including the TLS handshake if enabled; returns the failure, or None."""
        host, _, port = broker.rpartition(":")
        host = host.strip("[]")
        try:
            with socket.create_connection((host, int(port)), _PROBE_SECONDS) as plain:
                if self.encrypted:
                    try:
                        self.tls.context().wrap_socket(plain, server_hostname=host).close()
                    except TimeoutError as err:
                        raise ssl.SSLError("no answer to the handshake") from err
        except ssl.SSLCertVerificationError as err:
            msg = f"{broker}: its certificate is not trusted ({err.verify_message}): set its CA"
            return AuthenticationError(f"{msg} in kafka_tls_ca_file")
        except ssl.SSLError:
            msg = f"{broker} does not use TLS, or rejected this client's certificate"
            return UnreachableError(f"{msg}: check kafka_security_protocol and kafka_tls_cert_file")
        except OSError as err:
            return err
        return None
