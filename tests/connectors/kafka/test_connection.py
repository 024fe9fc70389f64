from __future__ import annotations

import base64
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, errors
from pydantic import SecretStr, ValidationError

from backscroll.connectors.kafka import connection as module
from backscroll.connectors.kafka.connection import (
    AuthenticationError,
    KafkaConnection,
    KafkaError,
    Sasl,
    Tls,
    TopicError,
    UnreachableError,
)
from backscroll.connectors.kafka.oauth import TokenEndpoint, TokenError, TokenFile
from backscroll.flows.assembly.kafka import kafka_connection
from backscroll.flows.settings.kafka import KafkaSettings
from backscroll.flows.settings.settings import Settings
from support.brokers import Broker, free_port, refused_sockets, running
from support.pace import slowness
from support.tls import make_certificate, tls_proxy, token_server

pytestmark = refused_sockets

SECRET = "hunter2"


@pytest.fixture
def one_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait only one second for a broker instead of ten."""
    monkeypatch.setattr(module, "START_SECONDS", 1.0)


def settings(**fields: Any) -> KafkaSettings:
    return KafkaSettings(**{f"kafka_{name}": value for name, value in fields.items()})


def test_the_default_broker_is_on_this_machine() -> None:
    connection = kafka_connection(KafkaSettings())
    assert connection == KafkaConnection(("127.0.0.1:9092",))
    options = connection.client_options()
    assert options["bootstrap_servers"] == ["127.0.0.1:9092"]
    assert (options["security_protocol"], options["client_id"]) == ("PLAINTEXT", "backscroll")
    assert not [name for name in options if name.startswith(("ssl_", "sasl_"))]


def test_lists_in_the_settings_are_comma_separated() -> None:
    given = settings(brokers=" a:1, b:2,", topics="x , y,x")
    assert kafka_connection(given).brokers == ("a:1", "b:2")
    assert given.kafka_topic_names == ("x", "y")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password_login_is_passed_to_the_client(mechanism: str) -> None:
    given = settings(security_protocol="SASL_SSL", sasl_mechanism=mechanism, username="ana", password=SECRET)
    options = kafka_connection(given).client_options()
    assert options["sasl_mechanism"] == mechanism
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("ana", SECRET)
    assert options["ssl_check_hostname"] is True
    for client in (KafkaConsumer, KafkaProducer):
        assert options.keys() <= client.DEFAULT_CONFIG.keys()


def test_tls_files_are_passed_to_the_client() -> None:
    given = settings(
        security_protocol="SSL",
        tls_ca_file="ca.pem",
        tls_cert_file="me.pem",
        tls_key_file="me.key",
        tls_check_hostname=False,
    )
    options = kafka_connection(given).client_options()
    named = {name: options[name] for name in options if name.startswith("ssl_")}
    assert named == {
        "ssl_cafile": "ca.pem",
        "ssl_certfile": "me.pem",
        "ssl_keyfile": "me.key",
        "ssl_check_hostname": False,
    }


def test_a_token_file_is_read_again_each_time(tmp_path: Path) -> None:
    path = tmp_path / "token"
    given = settings(security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", token_file=path)
    provider = kafka_connection(given).client_options()["sasl_oauth_token_provider"]
    path.write_text("t1\n")
    assert provider.token() == "t1"
    path.write_text("t2")
    assert provider.token() == "t2"
    path.write_text("")
    with pytest.raises(TokenError, match="is empty"):
        provider.token()
    path.unlink()
    with pytest.raises(TokenError, match="No such file or directory: check kafka_token_file"):
        provider.token()


def test_a_token_is_requested_with_the_client_credentials_and_reused() -> None:
    with token_server() as server:
        given = settings(
            security_protocol="SASL_SSL",
            sasl_mechanism="OAUTHBEARER",
            token_url=server.url,
            token_client_id="an id",
            token_client_secret=SECRET,
            token_scope="kafka",
        )
        provider = kafka_connection(given).client_options()["sasl_oauth_token_provider"]
        assert [provider.token(), provider.token()] == ["t1", "t1"]
    login = base64.b64encode(f"an%20id:{SECRET}".encode()).decode()
    assert server.requests == [(f"Basic {login}", {"grant_type": ["client_credentials"], "scope": ["kafka"]})]


def test_a_token_that_expires_soon_is_requested_again() -> None:
    with token_server() as server:
        provider = TokenEndpoint(server.url, "id", SecretStr(SECRET))
        server.answer = {"access_token": "t1", "expires_in": 20}
        assert provider.token() == "t1"
        server.answer = {"access_token": "t2", "expires_in": 20}
        assert provider.token() == "t2"


def test_the_error_of_a_token_endpoint_does_not_contain_the_secret() -> None:
    with token_server() as server:
        provider = TokenEndpoint(server.url, "id", SecretStr(SECRET))
        server.status = 401
        with pytest.raises(TokenError, match="returned 401: check the client id, secret and scope") as caught:
            provider.token()
        server.status, server.answer = 200, {"error": "no"}
        with pytest.raises(TokenError, match="returned no access_token"):
            provider.token()
    assert SECRET not in str(caught.value)
    with pytest.raises(TokenError, match=r"cannot be reached \(.*refused"):
        provider.token()


def test_secrets_never_appear_in_a_repr_or_error() -> None:
    login = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "username": "ana"}
    given = settings(**login, password=SECRET, token_client_secret=SECRET)
    endpoint = TokenEndpoint("http://x", "id", SecretStr(SECRET))
    shown = [given, kafka_connection(given), kafka_connection(given).sasl, endpoint]
    assert not [value for value in shown if SECRET in repr(value) or SECRET in str(value)]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"security_protocol": "SASL_SSL"}, "needs kafka_sasl_mechanism"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "password": SECRET},
            "PLAIN needs kafka_username and kafka_password",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"},
            "either kafka_token_file or kafka_token_url",
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "OAUTHBEARER",
                "token_url": "https://x",
                "token_client_secret": SECRET,
            },
            "needs kafka_token_client_id",
        ),
        ({"brokers": " , "}, "name at least one"),
        ({"start": "yesterday"}, "use earliest, latest or an ISO 8601 time with a zone"),
        ({"start": "2026-03-02T09:00:00"}, "with a zone"),
        ({"summaries": "a b"}, "pattern"),
    ],
)
def test_the_error_for_inconsistent_settings_says_what_is_missing(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(**fields)
    (error,) = caught.value.errors(include_input=False)
    assert says in error["msg"]


def test_the_start_is_a_word_or_a_time() -> None:
    assert settings(start="latest").kafka_start_at == "latest"
    start = settings(start="2026-03-02T09:00:00+01:00").kafka_start_at
    assert str(start) == "2026-03-02 09:00:00+01:00"


def test_the_settings_include_those_of_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSCROLL_KAFKA_BROKERS", "kafka:9092")
    assert kafka_connection(Settings()).brokers == ("kafka:9092",)


@pytest.mark.parametrize("broker", ["nowhere", "host:", ":1", "host:x", "host:70000", "host:²"])
def test_a_broker_without_a_valid_host_and_port_is_refused(broker: str) -> None:
    with pytest.raises(UnreachableError, match="expected host:port"):
        KafkaConnection(brokers=(broker,))


def test_an_incomplete_login_is_refused() -> None:
    with pytest.raises(AuthenticationError, match="PLAIN needs a user name and a password"):
        Sasl("PLAIN", "ana")
    with pytest.raises(AuthenticationError, match="needs a SASL mechanism"):
        KafkaConnection(security_protocol="SASL_SSL")


@pytest.mark.usefixtures("one_second")
def test_a_missing_broker_is_reported_within_a_few_seconds() -> None:
    connection = KafkaConnection(brokers=(f"127.0.0.1:{free_port()}",))
    began = time.monotonic()
    with pytest.raises(UnreachableError) as caught:
        connection.partitions(["messages"])
    assert time.monotonic() - began < 5 * slowness()
    expected = f"no Kafka broker at {connection} (Connection refused): start one or set kafka_brokers"
    assert str(caught.value) == expected


@pytest.mark.usefixtures("one_second")
def test_a_server_that_is_not_kafka_has_its_own_error(silent: int) -> None:
    with pytest.raises(UnreachableError, match="is reachable, but no Kafka session was set up"):
        KafkaConnection(brokers=(f"127.0.0.1:{silent}",)).partitions(["messages"])


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.usefixtures("one_second")
def test_the_error_gives_a_missing_token_as_the_reason(tmp_path: Path, broker: Broker) -> None:
    login = Sasl("OAUTHBEARER", tokens=TokenFile(tmp_path / "none"))
    connection = KafkaConnection((broker.address,), security_protocol="SASL_PLAINTEXT", sasl=login)
    with pytest.raises(AuthenticationError, match="none: No such file or directory: check kafka_token_file"):
        connection.partitions(["messages"])


@pytest.mark.usefixtures("one_second")
def test_a_broker_that_hangs_up_on_a_login_is_distinguished_from_an_unreachable_one(tmp_path: Path) -> None:
    """Tansu, if it requires logins, does not support PLAIN and closes the connection."""
    with running("tansu", tmp_path, options=["--authentication"]) as broker:
        for sasl in (None, Sasl("PLAIN", "ana", SecretStr(SECRET))):
            connection = KafkaConnection(
                (broker.address,),
                security_protocol="SASL_PLAINTEXT" if sasl else "PLAINTEXT",
                sasl=sasl,
            )
            with pytest.raises(UnreachableError, match="check kafka_security_protocol, the login") as caught:
                connection.partitions(["messages"])
            assert SECRET not in str(caught.value)


def test_the_error_for_a_rejected_login_names_the_user_but_not_the_password() -> None:
    login = Sasl("PLAIN", "ana", SecretStr(SECRET))
    connection = KafkaConnection(("kafka:9092",), security_protocol="SASL_SSL", sasl=login)
    error = connection.explain(errors.SaslAuthenticationFailedError(f"bad {SECRET}"))
    assert isinstance(error, AuthenticationError)
    assert str(error).startswith("kafka:9092 rejected the login of 'ana' with PLAIN")
    assert SECRET not in str(error)


def test_the_error_for_denied_access_to_a_topic_asks_for_an_acl() -> None:
    error = KafkaConnection(("kafka:9092",)).explain(errors.TopicAuthorizationFailedError({"messages"}))
    assert isinstance(error, TopicError)
    assert "ask for an ACL" in str(error)


def test_the_partitions_of_topics_are_counted(broker: Broker, topic: str) -> None:
    broker.create(topic, 3)
    assert broker.connection.partitions([topic]) == {topic: 3}


def test_records_are_written_over_real_tls(tmp_path: Path) -> None:
    """Tansu behind a proxy: its own TLS cannot be switched on, as `--cert` excludes `--key`."""
    cert_file, key_file = make_certificate(tmp_path)
    port = free_port()
    with (
        running("tansu", tmp_path, advertised=f"127.0.0.1:{port}") as broker,
        tls_proxy(port, broker.port, cert_file, key_file),
    ):
        connection = KafkaConnection(
            (f"127.0.0.1:{port}",), security_protocol="SSL", tls=Tls(cafile=cert_file)
        )
        broker_admin, _ = connection.connect(module.KafkaAdminClient)
        broker_admin.create_topics({"t": {"num_partitions": 2, "replication_factor": 1}})
        broker_admin.close()
        assert connection.partitions(["t"]) == {"t": 2}
        producer, _ = connection.connect(KafkaProducer)
        assert producer.send("t", b"x", partition=1).get(10).offset == 0
        producer.close()


@pytest.mark.usefixtures("one_second")
def test_the_error_for_an_untrusted_certificate_asks_for_its_ca(tmp_path: Path, broker: Broker) -> None:
    cert_file, key_file = make_certificate(tmp_path)
    port = free_port()
    with tls_proxy(port, broker.port, cert_file, key_file):
        stranger = KafkaConnection((f"127.0.0.1:{port}",), security_protocol="SSL")
        with pytest.raises(AuthenticationError, match=r"not trusted \(self.signed.* in kafka_tls_ca_file"):
            stranger.partitions(["t"])


@pytest.mark.usefixtures("one_second")
def test_a_broker_without_tls_is_distinguished_from_an_unreachable_one(broker: Broker) -> None:
    connection = KafkaConnection((broker.address,), security_protocol="SSL")
    with pytest.raises(KafkaError, match="does not use TLS"):
        connection.partitions(["t"])


def test_the_error_for_missing_or_invalid_tls_files_names_them(tmp_path: Path) -> None:
    missing = KafkaConnection(security_protocol="SSL", tls=Tls(cafile=tmp_path / "ca.pem"))
    with pytest.raises(AuthenticationError, match=r"ca\.pem: no such file"):
        missing.partitions(["t"])
    (tmp_path / "ca.pem").write_text("not a certificate")
    with pytest.raises(
        AuthenticationError, match=r"ca\.pem: expected a certificate and its key in PEM format"
    ):
        missing.partitions(["t"])
