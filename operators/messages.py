"""Messages as received, turns as admitted, and channel keys.

>>> message = parse_message({"channel": "general", "id": "m1", "ts": "2026-03-02T10:00:00+01:00",
...                          "author": "Ana", "text": "hello"})
>>> message.op, str(message.key), message.ts.isoformat()
('post', 'default/general', '2026-03-02T09:00:00+00:00')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import quote, unquote

import orjson

__all__ = [
    "DEFAULT_NAMESPACE",
    "NOBODY",
    "Author",
    "ChannelKey",
    "DeadLetter",
    "Message",
    "MessageError",
    "Op",
    "Received",
    "Turn",
    "channels_called",
    "format_time",
    "parse_message",
]

DEFAULT_NAMESPACE = "default"
Op = Literal["post", "edit", "delete", "flush"]
_LONGEST_NAME, _LONGEST_LINK = 512, 4096  # characters of ids and names, and of links
_LONGEST_ID = 512  # bytes as JSON, because a summary record lists the ids of a whole window
_SEPARATORS = re.compile(r"[/:%\x00-\x1f\x7f-\x9f]")
_OPS = ("post", "edit", "delete", "flush")


class MessageError(ValueError):
    """A message does not match the schema; the text names the field and says what is expected."""


class ChannelKey(NamedTuple):
    """A channel in a namespace (a tenant or source); `str()` gives the routing key `namespace/channel`."""

    namespace: str
    channel: str

    def __str__(self) -> str:
        return f"{_escape(self.namespace)}/{_escape(self.channel)}"

    @classmethod
    def parse(cls, text: str) -> ChannelKey:
        """Parse the output of `str()`; text without a separator is a channel in the default namespace."""
        namespace, separator, channel = text.partition("/")
        if not separator:
            namespace, channel = DEFAULT_NAMESPACE, text
        return cls(unquote(namespace), unquote(channel))

    def _is_called(self, name: str) -> bool:
        """Whether a name is exactly this channel's, with or without its namespace."""
        return name in (str(self), self.channel) or ("/" in name and ChannelKey.parse(name) == self)


def channels_called(keys: Iterable[ChannelKey], name: str) -> list[ChannelKey]:
    """The channels that a typed name means, with or without a namespace and a leading `#`.

    `dock` and `#dock` both find a channel that is called either; where both exist, the exact name wins.
    Several are returned if the name exists in several namespaces.

    >>> harbor = [ChannelKey("acme", "dock"), ChannelKey("acme", "#dock"), ChannelKey("acme", "#crane")]
    >>> [str(key) for name in ("#dock", "acme/dock", "crane") for key in channels_called(harbor, name)]
    ['acme/#dock', 'acme/dock', 'acme/#crane']
    """
    keys = list(keys)
    plain = name.removeprefix("#").replace("/#", "/")
    return (
        [key for key in keys if str(key) == name]
        or [key for key in keys if key._is_called(name)]
        or [key for key in keys if key._replace(channel=key.channel.removeprefix("#"))._is_called(plain)]
    )


@dataclass(frozen=True, slots=True)
class Author:
    """Who wrote a message; `name` is never empty and contains no line break."""

    id: str
    name: str
    bot: bool = False


NOBODY = Author("", "-")


@dataclass(frozen=True, slots=True)
class Message:
    """One chat event as received. `ts` is aware UTC; a `flush` has no author and no text."""

    op: Op
    key: ChannelKey
    id: str
    ts: datetime
    author: Author
    text: str
    thread: str | None = None
    reply_to: str | None = None
    permalink: str | None = None

    @property
    def digest(self) -> int:
        """A signed 64-bit digest of the content, to tell duplicates of an id from conflicting messages."""
        content = (self.ts.isoformat(), self.author.name, self.text, self.thread, self.reply_to)
        return int.from_bytes(blake2b(repr(content).encode(), digest_size=8).digest(), signed=True)


@dataclass(frozen=True, slots=True)
class Turn:
    """A posted message admitted to its channel, with its position `seq` and token count.

    `tokens` counts the `cl100k_base` tokens of `author: text` and a line break. `late` is true for a turn
    older than one admitted before it. When a message is deleted, its turn stays as a tombstone without
    author, text and tokens. `edited` is the time of the last edit or of the deletion.
    """

    seq: int
    id: str
    ts: datetime
    author: Author
    text: str
    tokens: int
    digest: int
    thread: str | None = None
    reply_to: str | None = None
    permalink: str | None = None
    late: bool = False
    edited: datetime | None = None
    deleted: bool = False

    @property
    def rendered(self) -> str:
        """The turn as it is counted, indexed and displayed: `author: text` and a line break."""
        return "" if self.deleted else f"{self.author.name}: {self.text}\n"


@dataclass(frozen=True, slots=True)
class Received:
    """What a source emits: raw JSON or a decoded object, and where it came from.

    `origin` is the location for people and dead letters (`{"file": "a.jsonl", "line": 3}`). A source with
    partitions names the partition in `part` and its event time so far in `watermark`; messages before the
    watermark are late. `key` and `headers` are those of a Kafka record.
    """

    value: bytes | Mapping[str, Any] | MessageError
    origin: tuple[tuple[str, str | int], ...]
    raw: bytes = b""
    part: str = ""
    watermark: datetime | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()

    @classmethod
    def of(cls, item: Received | bytes | Mapping[str, Any]) -> Received:
        """What a source emitted; JSON or an object alone has no known place."""
        if isinstance(item, Received):
            return item
        raw = item if isinstance(item, bytes) else orjson.dumps(dict(item), default=repr)
        return cls(item, (), raw)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Input that could not become a turn: where it was, why, and its original bytes.

    For a window that could not be summarised, the origin is its id and there are no bytes.
    """

    origin: tuple[tuple[str, str | int], ...]
    reason: str
    raw: bytes
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()

    def to_json(self) -> bytes:
        """One JSON object; bytes that are not UTF-8 are shown with backslash escapes."""
        raw = self.raw.decode("utf-8", "backslashreplace")
        return orjson.dumps({**dict(self.origin), "reason": self.reason, "raw": raw})


def parse_message(value: bytes | Mapping[str, Any], *, namespace: str = DEFAULT_NAMESPACE) -> Message:
    """Parse and validate one message, given as JSON bytes or a decoded object.

    Args:
        value: the message; unknown fields are ignored.
        namespace: the namespace of messages that name none.

    Raises:
        MessageError: the message is invalid; the text names the field and says what is expected.
    """
    fields = _decode(value)
    op = fields.get("op", "post")
    if op not in _OPS:
        raise MessageError(f"op is {op!r}: use one of {', '.join(_OPS)}")
    key = ChannelKey(_text(fields, "namespace", default=namespace), _text(fields, "channel"))
    ts = _time(fields.get("ts"))
    if op == "flush":
        return Message("flush", key, "", ts, NOBODY, "")
    # An edit keeps the author of its message; a deletion has no author and no text.
    anonymous = op != "post" and "author" not in fields
    return Message(
        op=cast(Op, op),
        key=key,
        id=_id(fields, op),
        ts=ts,
        author=NOBODY if anonymous else _author(fields.get("author")),
        text="" if op == "delete" else _text(fields, "text", empty=True, most=None),
        thread=_optional(fields, "thread"),
        reply_to=_optional(fields, "reply_to"),
        permalink=_optional(fields, "permalink"),
    )


def _escape(name: str) -> str:
    """Percent-encode the separators `/` and `:`, the percent sign and control characters."""
    return _SEPARATORS.sub(lambda match: quote(match.group(), safe=""), name)


def format_time(ts: datetime) -> str:
    """Format a time as ISO 8601 in UTC with a `Z`, without a zero fraction."""
    return ts.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _decode(value: bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(value, bytes):
        return value
    try:
        decoded = orjson.loads(value)
    except orjson.JSONDecodeError as err:
        raise MessageError(f"not JSON: {err}") from err
    if not isinstance(decoded, dict):
        raise MessageError(f"a message must be a JSON object, not {type(decoded).__name__}")
    return decoded


def _text(
    fields: Mapping[str, Any],
    name: str,
    *,
    default: str | None = None,
    empty: bool = False,
    most: int | None = _LONGEST_NAME,
) -> str:
    value = fields.get(name, default)
    if value is None:
        raise MessageError(f"{name} is missing")
    if not isinstance(value, str):
        raise MessageError(f"{name} must be a string, not {type(value).__name__}")
    if "\0" in value:
        raise MessageError(f"{name} contains a NUL character")
    if not empty and not value.strip():
        raise MessageError(f"{name} is empty")
    if most is not None and len(value) > most:
        raise MessageError(f"{name} has {len(value):,} characters: at most {most:,} are allowed")
    return value


def _id(fields: Mapping[str, Any], op: str) -> str:
    identity = _text(fields, "id")
    if op != "post":  # must still match messages admitted by earlier versions
        return identity
    try:
        size = len(orjson.dumps(identity)) - 2
    except TypeError as err:  # a lone surrogate
        raise MessageError("id is not valid Unicode") from err
    if size > _LONGEST_ID:
        raise MessageError(f"id takes {size:,} bytes as JSON: at most {_LONGEST_ID:,} are allowed")
    return identity


def _optional(fields: Mapping[str, Any], name: str) -> str | None:
    most = _LONGEST_LINK if name == "permalink" else _LONGEST_NAME
    return None if fields.get(name) is None else _text(fields, name, most=most)


def _author(value: Any) -> Author:
    """An author as `"Ana"` or `{"id": "u1", "name": "Ana", "bot": false}`."""
    if isinstance(value, str):
        value = {"name": value}
    if value is None:
        raise MessageError("author is missing")
    if not isinstance(value, Mapping):
        raise MessageError(f"author must be a string or an object, not {type(value).__name__}")
    try:
        name = " ".join(_text(value, "name").split())  # a line break would forge a turn
        identity = _optional(value, "id") or name
    except MessageError as err:
        raise MessageError(f"author {err}") from err
    bot = value.get("bot", False)
    if not isinstance(bot, bool):
        raise MessageError(f"author bot must be true or false, not {type(bot).__name__}")
    return Author(identity, name, bot)


def _time(value: Any) -> datetime:
    if value is None:
        raise MessageError("ts is missing")
    if not isinstance(value, str):
        raise MessageError(f"ts must be an ISO 8601 string, not {type(value).__name__}")
    try:
        ts = datetime.fromisoformat(value)
        if ts.tzinfo is None:
            raise MessageError(f"ts {value!r} has no time zone: end it with Z or an offset like +01:00")
        return ts.astimezone(UTC)
    except (ValueError, OverflowError) as err:
        if isinstance(err, MessageError):
            raise
        raise MessageError(
            f"ts {value!r} is not a valid ISO 8601 time: use one such as 2026-03-02T09:00:00Z"
        ) from err
