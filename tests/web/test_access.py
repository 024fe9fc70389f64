"""Access: tokens, the proxy's header, and nothing from another namespace on any page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from backscroll.web.access import AccessError, read_access
from backscroll.web.dependencies import channel_path
from support.reading import HARBOR, MARKUP, SECRET, Chat, app_over, chat_of_two_namespaces

TOKEN, EVERY = "ana-reads-of-acme-only-1", "the-auditor-reads-it-all"
FILE = f"""
[proxy]
header = "X-Auth-Request-User"
addresses = ["10.1.0.0/16"]

[readers.ana]
namespaces = ["acme"]
token = "{TOKEN}"

[readers.auditor]
namespaces = ["*"]
token = "{EVERY}"

[readers."gus@example.com"]
namespaces = ["other"]
"""


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chat]:
    with chat_of_two_namespaces(tmp_path_factory.mktemp("store")) as chat:
        yield chat


@pytest.fixture(scope="module")
def access_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("access") / "access.toml"
    path.write_text(FILE)
    return path


@pytest.fixture
def client(chat: Chat, access_file: Path) -> Iterator[TestClient]:
    app = app_over(chat.path, read_access(access_file))
    with TestClient(app, base_url="https://chat.example.com", follow_redirects=False) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def addresses(client: TestClient) -> list[str]:
    """Every URL of a channel, for pages and the API, with the query it needs."""
    paths = client.get("/openapi.json").json()["paths"]
    api = [path.split("{channel}")[1] for path in paths if "{channel}" in path]
    pages = ["", "/search?q=pump", "/w/0", "/at/0", "/w/0/rests?on=0", "/w/0/gap/0", "/events"]
    query = {"/message": "?id=p0", "/search": "?q=pump"}
    here = [f"/api/channels/{{}}{path.replace('{seq}', '0')}{query.get(path, '')}" for path in api]
    return [*here, *(f"/c/{{}}{page}" for page in pages)]


def test_a_channel_in_a_forbidden_namespace_looks_like_a_missing_channel(client: TestClient) -> None:
    client.headers = bearer(TOKEN)
    for address in addresses(client):
        strange = client.get(address.format(channel_path(SECRET)))
        nowhere = client.get(address.format("nowhere/plans"))
        assert strange.status_code == 404, address
        assert strange.content == nowhere.content


@pytest.mark.parametrize("channel", ["other/plans", "plans", "#plans", "Other/plans"])
def test_a_catch_up_reveals_nothing_from_a_forbidden_namespace(client: TestClient, channel: str) -> None:
    client.headers = bearer(TOKEN)
    for page in ("/api/catchup", "/catchup"):
        strange = client.get(page, params={"since": "2026-03-01", "channel": channel})
        nowhere = client.get(page, params={"since": "2026-03-01", "channel": "nowhere"})
        assert (strange.status_code, strange.content) == (404, nowhere.content)
        whole = client.get(page, params={"since": "2026-03-01", "until": "latest", "me": "Gus"})
        assert whole.status_code == 200
        assert "harbor" in whole.text
        assert "plans" not in whole.text
        assert "tell nobody" not in whole.text
        # A message of another namespace gets the same answer as one that never existed.
        theirs, no_ones = (client.get(page, params={"since": id_}) for id_ in ("p0", "x9"))
        assert (theirs.status_code, theirs.text) == (400, no_ones.text.replace("x9", "p0"))
    client.headers = bearer(EVERY)
    assert "tell nobody" in client.get("/api/catchup?since=2026-03-01&channel=plans").text


def test_lists_and_search_show_only_the_namespaces_of_the_user(client: TestClient) -> None:
    client.headers = bearer(TOKEN)
    assert {one["namespace"] for one in client.get("/api/channels").json()} == {"acme"}
    for address in ("/", "/search?q=pump+harbor+nobody", f"/c/{channel_path(HARBOR)}"):
        page = client.get(address)
        assert page.status_code == 200
        assert "harbor" in page.text
        for hidden in ("plans", "Gus", "tell nobody"):
            assert hidden not in page.text
    client.headers = bearer(EVERY)
    assert "plans" in client.get("/").text
    assert "tell nobody" in client.get("/search?q=pump").text


@pytest.mark.parametrize("header", [{}, bearer("not-a-token-of-anybody"), {"Authorization": "Basic YTpi"}])
def test_nothing_is_shown_without_a_known_token(client: TestClient, header: dict[str, str]) -> None:
    refused = client.get("/api/channels", headers=header)
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
    sent = client.get(f"/c/{channel_path(HARBOR)}?on=2026-03-02", headers=header)
    assert sent.status_code == 303
    assert sent.headers["Location"] == "/login?next=%2Fc%2Facme%2Fharbor%3Fon%3D2026-03-02"


def test_signing_in_sets_a_cookie_that_scripts_cannot_read(client: TestClient) -> None:
    wrong = client.post("/login", data={"token": "wrong", "next": "/"})
    assert (wrong.status_code, "This token is not valid." in wrong.text) == (401, True)
    entered = client.post("/login", data={"token": TOKEN, "next": "/search?q=pump"})
    assert (entered.status_code, entered.headers["Location"]) == (303, "/search?q=pump")
    cookie = entered.headers["Set-Cookie"]
    assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Secure"))
    assert client.get("/").status_code == 200
    client.post("/logout")
    assert client.get("/").status_code == 303


@pytest.mark.parametrize("address", ["https://evil.example", "//evil.example", "/\\evil.example", "x"])
def test_signing_in_never_redirects_to_another_site(client: TestClient, address: str) -> None:
    assert client.post("/login", data={"token": TOKEN, "next": address}).headers["Location"] == "/"


@pytest.mark.parametrize(("peer", "namespaces"), [("10.1.2.3", ["other"]), ("10.2.0.1", None)])
def test_the_user_header_is_trusted_only_from_the_proxy(
    chat: Chat, access_file: Path, peer: str, namespaces: list[str] | None
) -> None:
    app = app_over(chat.path, read_access(access_file))
    with TestClient(app, client=(peer, 5000)) as client:
        answer = client.get("/api/channels", headers={"X-Auth-Request-User": "gus@example.com"})
        unknown = client.get("/api/channels", headers={"X-Auth-Request-User": "mallory"})
    assert unknown.status_code == 401
    if namespaces is None:
        assert answer.status_code == 401
    else:
        assert [one["namespace"] for one in answer.json()] == namespaces


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("readers = 3", "readers: Input should be a valid dictionary"),
        ("[readers.ana]\nnamespaces = []", "readers.ana.namespaces: List should have at least 1 item"),
        ('[readers.ana]\nnamespaces = ["a"]', "readers.ana: add a token, or a [proxy] section"),
        (
            '[readers.ana]\nnamespaces = ["a"]\ntoken = "short"',
            "readers.ana.token: Value should have at least",
        ),
        ('[readers.ana]\nnamespaces = ["a"]\nrole = "x"', "readers.ana.role: Extra inputs are not permitted"),
        ("[readers", "not valid TOML"),
        ('[proxy]\nheader="X"\naddresses=["home"]\n[readers.a]\nnamespaces=["a"]', "proxy.addresses: 'home'"),
    ],
)
def test_an_invalid_access_file_gives_a_one_line_error_without_its_tokens(
    tmp_path: Path, text: str, wrong: str
) -> None:
    path = tmp_path / "access.toml"
    path.write_text(text)
    with pytest.raises(AccessError) as caught:
        read_access(path)
    assert wrong in str(caught.value)
    assert str(caught.value).startswith(f"access file {path}: ")
    assert "\n" not in str(caught.value)
    assert "short" not in str(caught.value)


def test_two_users_with_the_same_token_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "access.toml"
    path.write_text("".join(f'[readers.{n}]\nnamespaces = ["{n}"]\ntoken = "{TOKEN}"\n' for n in "ab"))
    with pytest.raises(AccessError, match="two readers have the same token"):
        read_access(path)


def test_without_an_access_file_only_local_host_names_are_served(chat: Chat) -> None:
    with TestClient(app_over(chat.path), base_url="http://rebound.example") as client:
        assert client.get("/api/channels").status_code == 400
        assert client.get("/api/channels", headers={"Host": "127.0.0.1:8484"}).status_code == 200


def test_every_page_escapes_message_markup_and_has_a_strict_content_policy(client: TestClient) -> None:
    client.headers = bearer(TOKEN)
    base = f"/c/{channel_path(HARBOR)}"
    for address in (base, f"{base}/w/3", f"{base}/at/4", f"{base}/w/3/gap/0", f"{base}/search?q=quoted"):
        page = client.get(address)
        assert page.status_code == 200
        assert "<script>document" not in page.text
        assert "<img src=x" not in page.text
        policy = page.headers["Content-Security-Policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert page.headers["Cache-Control"] == "no-store"
        assert " style=" not in page.text
        assert " onclick=" not in page.text
    assert "&lt;script&gt;document.title" in client.get(f"{base}/at/4").text
    assert MARKUP not in client.get(f"{base}/search?q={'%3Cscript%3E'}").text


def test_the_channel_list_counts_what_is_new_since_the_last_visit(chat: Chat) -> None:
    with TestClient(app_over(chat.path), base_url="http://localhost") as client:
        assert client.get("/").text.count("unread") == 3
        client.get(f"/c/{channel_path(SECRET)}")
        assert client.get("/").text.count("nothing new") == 1
        chat.window(SECRET, ("Gus", "June, then."))
        assert "1 new" in client.get("/").text
        client.post(f"/c/{channel_path(SECRET)}/seen")
        assert client.get("/").text.count("nothing new") == 1
        client.cookies.set("backscroll_seen", "x" * 4000)
        assert client.get("/").status_code == 200


@pytest.mark.parametrize("path", ["/catchup", "/api/catchup?since=2d"])
def test_another_site_cannot_request_a_catch_up(client: TestClient, path: str) -> None:
    asked = {site: bearer(EVERY) | {"Sec-Fetch-Site": site} for site in ("none", "same-origin", "cross-site")}
    assert [client.get(path, headers=headers).status_code for headers in asked.values()] == [200, 200, 403]
