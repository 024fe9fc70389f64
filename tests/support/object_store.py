"""An S3 server on loopback, with a bucket, for tests of stores that are not directories."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The address of an S3 server."""
    moto = pytest.importorskip("moto.server", reason="needs the S3 server of moto[server]")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def address(endpoint: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A prefix of its own, in a bucket whose credentials and endpoint stand in the environment."""
    boto3 = pytest.importorskip("boto3", reason="needs boto3, to make a bucket")
    for name, value in {
        "AWS_ACCESS_KEY_ID": "backscroll",
        "AWS_SECRET_ACCESS_KEY": "backscroll",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    client = boto3.client("s3", endpoint_url=endpoint)
    client.create_bucket(Bucket="backscroll")
    client.close()
    return f"s3://backscroll/{request.node.name}/store"
