"""Bearer tokens for SASL OAUTHBEARER, from a file or an OAuth 2 token endpoint.

    TokenFile      read again for every connection, as the projected tokens of Kubernetes require
    TokenEndpoint  the client-credentials grant (RFC 6749, section 4.4)

kafka-python asks for a token on its network thread each time it connects.
"""

from __future__ import annotations

import base64
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from kafka.net.sasl.oauth import AbstractTokenProvider
from pydantic import SecretStr

__all__ = ["TokenEndpoint", "TokenError", "TokenFile"]

_TIMEOUT = 10.0  # seconds for the endpoint to answer
_SPARE = 30.0  # seconds before its expiry after which a token is no longer used


class TokenError(RuntimeError):
    """No token is available. The message is one line: the source, the problem, the fix."""


@dataclass(frozen=True)
class TokenFile(AbstractTokenProvider):  # type: ignore[misc]
    """A token in a file, which is read again each time."""

    path: Path

    def token(self) -> str:
        """The token, without surrounding white space.

        Raises:
            TokenError: the file cannot be read or is empty.
        """
        try:
            token = self.path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as err:
            why = err.strerror if isinstance(err, OSError) else "not text"
            raise TokenError(f"token file {self.path}: {why}: check kafka_token_file") from err
        if not token:
            raise TokenError(f"token file {self.path} is empty: expected a bearer token")
        return token


@dataclass(frozen=True)
class TokenEndpoint(AbstractTokenProvider):  # type: ignore[misc]
    """The client-credentials grant of an OAuth 2 server; a token is reused until shortly before it expires.

    Args:
        url: the token endpoint.
        client_id, client_secret: credentials, sent with HTTP Basic authentication.
        scope: the scope to request, if any.
    """

    url: str
    client_id: str
    client_secret: SecretStr
    scope: str | None = None
    _kept: dict[str, float] = field(default_factory=dict, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def token(self) -> str:
        """A token that is valid for at least another 30 seconds.

        Raises:
            TokenError: the endpoint does not answer, refuses, or returns no token.
        """
        with self._lock:
            for token, ends in self._kept.items():
                if time.monotonic() < ends:
                    return token
            token, seconds = self._request()
            self._kept.clear()
            self._kept[token] = time.monotonic() + seconds - _SPARE
            return token

    def _request(self) -> tuple[str, float]:
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        names = (self.client_id, self.client_secret.get_secret_value())
        login = ":".join(urllib.parse.quote(name, safe="") for name in names)
        request = urllib.request.Request(
            self.url,
            data=urllib.parse.urlencode(form).encode(),
            headers={
                "Authorization": f"Basic {base64.b64encode(login.encode()).decode()}",
                "Accept": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
                answer = orjson.loads(response.read())
            return str(answer["access_token"]), float(answer.get("expires_in", 60))
        except urllib.error.HTTPError as err:
            err.close()
            msg = f"token endpoint {self.url} returned {err.code}: check the client id, secret and scope"
            raise TokenError(msg) from None
        except OSError as err:
            reason = getattr(err, "reason", None) or err
            msg = f"token endpoint {self.url} cannot be reached ({reason}): check kafka_token_url"
            raise TokenError(msg) from None
        except (KeyError, TypeError, AttributeError, ValueError) as err:
            msg = f"token endpoint {self.url} returned no access_token: check kafka_token_url"
            raise TokenError(msg) from err
