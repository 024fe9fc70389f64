"""Answer slash commands; only the person who gave the command sees the answer.

https://docs.slack.dev/interactivity/implementing-slash-commands
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from backscroll.connectors.files.base.fields import text_in

__all__ = ["CHARACTERS", "send_answer"]

CHARACTERS = 4_000  # per message
_RESPONSES = 5  # messages that a command's `response_url` accepts


async def send_answer(client: AsyncWebClient, command: Mapping[str, Any], parts: Sequence[str]) -> None:
    """Send the parts in order: the first to the command's `response_url`, the rest as ephemeral messages.

    Raises:
        aiohttp.ClientError, SlackApiError: Slack did not accept a part.
    """
    async with aiohttp.ClientSession() as session:
        for part in parts[:_RESPONSES]:
            body = {"response_type": "ephemeral", "text": part}
            async with session.post(text_in(command, "response_url"), json=body) as response:
                response.raise_for_status()
    channel, person = text_in(command, "channel_id"), text_in(command, "user_id")
    for part in parts[_RESPONSES:]:
        await client.chat_postEphemeral(channel=channel, user=person, text=part)
