"""Catch-ups within the chat itself, from the store's windows and the newer messages in the inbox."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from backscroll.connectors.chat.inbox import Inbox
from backscroll.connectors.chat.listener import ChatRequest
from backscroll.flows.assembly.embedder import packaged_vectors
from backscroll.flows.commands.catchup import digest_channels, make_recalling
from backscroll.flows.commands.catchup_channels import read_channels
from backscroll.flows.settings.settings import Settings
from backscroll.flows.settings.time_zones import shown_zone
from backscroll.flows.terminal.digest_text import Form, nothing_new
from backscroll.flows.terminal.errors import user_error_line
from backscroll.operators.catchup.digest import ChannelRead
from backscroll.operators.catchup.people import Person
from backscroll.operators.catchup.period import PeriodError, parse_period
from backscroll.operators.catchup.split_message import pages
from backscroll.operators.index.embedder import Embedder
from backscroll.operators.language.chat_language import main_book
from backscroll.operators.language.salience import analyse_turns
from backscroll.operators.messages import Author, ChannelKey, Turn, parse_message

__all__ = ["ChatCatchup", "SlackForm"]

_LOG = logging.getLogger(__name__)
_TOKENS = 400  # for all lines together
_LAST = 40  # recent messages that decide the language if none is new
_ELSEWHERE = "1d"  # start of the period for somebody who has never written
_NOTHING = "I have not read any messages here yet: try again later."
_FAILED = "That did not work. The operator of Backscroll can find the reason in its log."


class SlackForm(Form):
    """Writes digests for Slack: links instead of ids, with `&`, `<` and `>` escaped."""

    def _id(self, turn: Turn) -> str:
        link = turn.permalink or ""
        said = self._local(turn.ts)
        shown = f"{said:{'%m-%d %H:%M' if said.year == self._year else '%Y-%m-%d %H:%M'}}"
        return f"<{link}|{shown}>" if link.startswith("https://") else self._text(turn.id)

    def _text(self, text: str) -> str:
        line = super()._text(text)
        return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class ChatCatchup:
    """Answers catch-up requests in the chat, each about the channel it was sent in.

    Args:
        settings: the engine's settings.
        embedder: the embedder of the store.
        inbox: the inbox with the platform's messages.
        form: how digests are written.
    """

    def __init__(
        self, settings: Settings, embedder: Embedder | None, inbox: Path, form: type[Form] = Form
    ) -> None:
        self._settings = settings
        self._embedder = embedder
        self._inbox = inbox
        self._form = form
        self._one_at_a_time = asyncio.Lock()

    async def answer(self, question: ChatRequest, limit: int) -> list[str]:
        """The answer, in parts of at most `limit` characters."""
        async with self._one_at_a_time:
            try:
                text = await asyncio.to_thread(self._answer, question)
            except Exception as err:  # tell the person, and log only what contains no chat text
                _LOG.error("a catch-up failed: %s", user_error_line(err) or type(err).__name__)
                text = _FAILED
        return pages(text, limit)

    def _answer(self, question: ChatRequest) -> str:
        settings, key = self._settings, ChannelKey(self._settings.namespace, question.channel)
        zone, zone_name = shown_zone(settings.tz)
        with closing(Inbox(self._inbox)) as inbox:
            beyond = [
                parse_message(body, namespace=settings.namespace) for body in inbox.messages(question.channel)
            ]
        channels = read_channels(
            settings, [], wanted=key.__eq__, embedder=self._embedder, counters=Counter(), beyond=beyond
        )
        if not channels or not channels[0].turns:
            return _NOTHING
        channel = channels[0]
        try:
            found = parse_period(
                _since(question, channel), None, {key: channel.turns}, now=datetime.now(UTC), zone=zone
            )
            digests = digest_channels(
                channels,
                found,
                settings,
                recalling=make_recalling(settings, self._embedder),
                me=_person(question, channel),
                max_tokens=_TOKENS,
                zone=zone,
                embed=packaged_vectors(settings, self._embedder),
            )
        except PeriodError as err:
            return str(err)
        if digests:
            me = _person(question, channel)
            return self._form(zone, zone_name, me.name, markdown=False).digests(digests, [])
        last = channel.turns[-_LAST:]
        return nothing_new(
            found, main_book(analyse_turns(last)), zone, zone_name, max(turn.ts for turn in last)
        )


def _since(question: ChatRequest, channel: ChannelRead) -> str:
    """The start that the person asked for, or their last message here."""
    said = [turn.id for turn in channel.turns if turn.author.id == question.person and not turn.deleted]
    return question.since or (said[-1] if said else _ELSEWHERE)


def _person(question: ChatRequest, channel: ChannelRead) -> Person:
    authors = {question.person: Author(question.person, question.name)}
    authors |= {turn.author.id: turn.author for turn in channel.turns if not turn.deleted}
    return Person.named(question.person, authors.values())
