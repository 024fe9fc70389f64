"""A client for Slack's Web API: people, channels, and the history of a channel.

If Slack limits the rate (429 with `Retry-After`), the client waits.
https://docs.slack.dev/apis/web-api/rate-limits
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_async_handlers import (
    AsyncConnectionErrorRetryHandler,
    AsyncRateLimitErrorRetryHandler,
    AsyncServerErrorRetryHandler,
)
from slack_sdk.web.async_client import AsyncWebClient

from backscroll.connectors.chat.errors import ChatError
from backscroll.connectors.chat.slack.messages import SlackWorkspace
from backscroll.connectors.files.base.fields import object_in, objects_in, text_in

__all__ = ["SlackWeb", "api_error", "refused"]

_PAGE = 200  # messages, people or channels per request
_PEOPLE = re.compile(r"<@([A-Z0-9]+)")
_DOMAIN = re.compile(r"https://([a-z0-9-]+)\.slack\.com")
_REFUSED = (
    "invalid_auth",
    "not_authed",
    "account_inactive",
    "token_revoked",
    "token_expired",
    "not_allowed_token_type",
)
_GONE = ("channel_not_found", "not_in_channel", "is_archived")


def api_error(err: SlackApiError) -> str:
    """Slack's code for an error."""
    return str(err.response.get("error"))


def refused(err: SlackApiError) -> ChatError | None:
    """The error to raise if retrying would not help; None otherwise."""
    code = api_error(err)
    if code in _REFUSED:
        return ChatError(f"slack: a token was rejected ({code}): check the app token and the bot token")
    if code == "missing_scope":
        needed = err.response.get("needed")
        return ChatError(f"slack: the app is missing the scope {needed}: add it and reinstall the app")
    return None


class SlackWeb:
    """The Web API, used with a bot token.

    Args:
        token: the bot token, `xoxb-...`.
        url: the URL of the API.
    """

    def __init__(self, token: str, url: str) -> None:
        retries = [
            AsyncRateLimitErrorRetryHandler(max_retry_count=1000),
            AsyncConnectionErrorRetryHandler(max_retry_count=3),
            AsyncServerErrorRetryHandler(max_retry_count=3),
        ]
        self.client = AsyncWebClient(token, base_url=url, retry_handlers=retries)
        self.workspace = SlackWorkspace()
        self.me = ""

    async def introduce(self, app_token: str) -> None:
        """Check both tokens, and load the names of people."""
        auth = _data(await self.client.auth_test())
        self.me = text_in(auth, "user_id")
        found = _DOMAIN.match(text_in(auth, "url"))
        self.workspace.domain = found[1] if found else ""
        await self.client.apps_connections_open(app_token=app_token)
        async for page in _pages(self.client.users_list):
            for user in objects_in(page, "members"):
                self.workspace.learn_user(user)

    async def channels(self) -> AsyncIterator[tuple[str, str]]:
        """Id and name of each channel that the app is in."""
        kinds = "public_channel,private_channel"
        async for page in _pages(self.client.users_conversations, types=kinds, exclude_archived=True):
            for channel in objects_in(page, "channels"):
                yield self._channel(channel)

    async def channel(self, identity: str) -> tuple[str, str]:
        """Id and name of a channel."""
        try:
            info = _data(await self.client.conversations_info(channel=identity))
        except SlackApiError as err:
            if api_error(err) not in _GONE:
                raise
            info = {}
        return self._channel({"id": identity, **object_in(info, "channel")})

    async def history(
        self, channel: str, *, listed: str, oldest: str, roots: Iterable[str]
    ) -> dict[str, dict[str, Any]] | None:
        """The messages of a channel by `ts`, including replies from `oldest` on.

        Args:
            channel: the channel's id.
            listed: the `ts` from which to list messages.
            oldest: the `ts` from which to list replies.
            roots: more threads whose replies to list.

        Returns:
            The messages, or None if the app may no longer read the channel.
        """
        found, threads = dict[str, dict[str, Any]](), set(roots)
        try:
            async for message in self._messages(
                self.client.conversations_history, channel=channel, oldest=listed
            ):
                found[text_in(message, "ts")] = message
                if text_in(message, "latest_reply") >= oldest:
                    threads.add(text_in(message, "ts"))
            for root in sorted(threads):
                found |= await self._replies(channel, root, oldest)
        except SlackApiError as err:
            if api_error(err) not in _GONE:
                raise
            return None
        await self.learn_people(found.values())
        return found

    async def learn_people(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Look up the names of authors and mentioned people that are not known yet."""
        wanted, users = set[str](), self.workspace.names.users
        for message in messages:
            wanted.update(_PEOPLE.findall(str(message.get("text") or "")))
            wanted.add(text_in(message, "user"))
        for identity in sorted(wanted - users.keys() - {""}):
            try:
                info = _data(await self.client.users_info(user=identity))
            except SlackApiError as err:
                if api_error(err) not in ("user_not_found", "user_not_visible"):
                    raise
                users[identity] = identity
            else:
                self.workspace.learn_user({"id": identity, **object_in(info, "user")})

    def _channel(self, channel: Mapping[str, Any]) -> tuple[str, str]:
        identity = text_in(channel, "id")
        name = text_in(channel, "name") or identity
        self.workspace.names.channels[identity] = name
        return identity, name

    async def _replies(self, channel: str, root: str, oldest: str) -> dict[str, dict[str, Any]]:
        method = self.client.conversations_replies
        try:
            replies = self._messages(method, channel=channel, ts=root, oldest=oldest)
            return {text_in(message, "ts"): message async for message in replies}
        except SlackApiError as err:
            if api_error(err) != "thread_not_found":  # the thread was deleted with all its replies
                raise
            return {}

    @staticmethod
    async def _messages(method: Any, **arguments: Any) -> AsyncIterator[dict[str, Any]]:
        async for page in _pages(method, inclusive=True, **arguments):
            for message in objects_in(page, "messages"):
                if text_in(message, "ts"):
                    yield message


async def _pages(method: Any, **arguments: Any) -> AsyncIterator[dict[str, Any]]:
    """All pages of a method's results."""
    cursor = ""
    while True:
        page = _data(await method(limit=_PAGE, **arguments, **({"cursor": cursor} if cursor else {})))
        yield page
        cursor = text_in(object_in(page, "response_metadata"), "next_cursor")
        if not cursor:
            return


def _data(response: Any) -> dict[str, Any]:
    return response.data if isinstance(response.data, dict) else {}
