"""Who may read what. Access is granted by namespace: users see the namespaces they are given, nothing else.

A user signs in with a bearer token, with a cookie that holds the token, or through a proxy that sets a
header after it has authenticated them (OIDC). The header is trusted only from the proxy's addresses.

```toml
[proxy]
header = "X-Auth-Request-User"
addresses = ["10.0.0.0/8"]

[readers."ana@example.com"]
namespaces = ["acme"]

[readers.display]
namespaces = ["acme", "lab"]
token = "at least twenty characters"
```
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from backscroll.operators.errors import BackscrollError

__all__ = ["EVERYTHING", "Access", "AccessError", "UnknownUserError", "User", "read_access", "user_of"]

COOKIE = "backscroll_token"


class AccessError(BackscrollError):
    """The access file cannot be used; the message says in one line what is wrong with it."""


class UnknownUserError(Exception):
    """The request carries no token and no user name that the access file lists."""


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may read; `namespaces` is None for access to all of them."""

    name: str
    namespaces: frozenset[str] | None

    def may_read(self, namespace: str) -> bool:
        """Whether the user has access to the namespace."""
        return self.namespaces is None or namespace in self.namespaces


EVERYTHING = User("", None)
"""The user of a server that only this machine can reach and that has no access file."""


@dataclass(frozen=True, slots=True)
class Access:
    """The users by name, their tokens where they have one, and the proxy that authenticates users."""

    users: Mapping[str, User]
    tokens: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    header: str | None = None
    addresses: tuple[IPv4Network | IPv6Network, ...] = ()

    def by_token(self, token: str) -> User | None:
        """The user that a token belongs to, or None; tokens are compared in constant time."""
        given = token.encode()
        found = [name for name, known in self.tokens.items() if compare_digest(known, given)]
        return self.users[found[0]] if found else None

    def is_proxy(self, peer: str) -> bool:
        """Whether requests from this address may name a user in the header."""
        try:
            address = ip_address(peer)
        except ValueError:
            return False
        return any(address in network for network in self.addresses)

    def user(self, request: Request) -> User | None:
        """The user of a request; None if it has no valid token and no trusted header."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.by_token(token.strip())
        if (cookie := request.cookies.get(COOKIE)) and (found := self.by_token(cookie)):
            return found
        named = request.headers.get(self.header) if self.header else None
        if named and request.client and self.is_proxy(request.client.host):
            return self.users.get(named)
        return None


def user_of(request: Request) -> User:
    """The user of a request, as a dependency of every route.

    Raises:
        UnknownUserError: the access file does not list them.
    """
    access: Access | None = request.app.state.access
    found = EVERYTHING if access is None else access.user(request)
    if found is None:
        raise UnknownUserError
    return found


class _Proxy(BaseModel):
    model_config = ConfigDict(extra="forbid")

    header: str = Field(min_length=1)
    addresses: list[str] = Field(default=["127.0.0.1", "::1"], min_length=1)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    namespaces: list[Annotated[str, Field(min_length=1)]] = Field(min_length=1)
    token: SecretStr | None = Field(None, min_length=20)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    readers: dict[str, _Entry] = Field(min_length=1)
    proxy: _Proxy | None = None


def read_access(path: Path) -> Access:
    """Read the access file, in TOML as shown at the top of this module; the namespace `*` means all.

    Raises:
        AccessError: the file cannot be read, or nobody could sign in with it.
    """
    try:
        file = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as err:
        raise AccessError(f"access file {path}: {err.strerror}") from err
    except ValidationError as err:
        first = err.errors(include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise AccessError(
            f"access file {path}: {where}: {first['msg']}"
        ) from None  # keeps tokens out of tracebacks
    except ValueError as err:
        raise AccessError(f"access file {path}: not valid TOML: {err}") from err
    tokens = {name: entry.token.get_secret_value() for name, entry in file.readers.items() if entry.token}
    if len(set(tokens.values())) < len(tokens):
        raise AccessError(f"access file {path}: two readers have the same token: give each their own")
    without = [name for name in file.readers if name not in tokens]
    if without and file.proxy is None:
        raise AccessError(f"access file {path}: readers.{without[0]}: add a token, or a [proxy] section")
    try:
        networks = tuple(map(ip_network, file.proxy.addresses if file.proxy else ()))
    except ValueError as err:
        raise AccessError(f"access file {path}: proxy.addresses: {err}") from err
    return Access(
        {name: User(name, _namespaces(entry.namespaces)) for name, entry in file.readers.items()},
        {name: token.encode() for name, token in tokens.items()},
        file.proxy.header if file.proxy else None,
        networks,
    )


def _namespaces(names: list[str]) -> frozenset[str] | None:
    return None if "*" in names else frozenset(names)
