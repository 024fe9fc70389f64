"""Format `mbox`: mail in one file, such as a mailing list archive or Gmail's Takeout.

    From ana@example.org Mon Mar  2 09:00:00 2026
    From: Ana Li <ana@example.org>
    Message-ID: <1@example.org>
    References: <0@example.org>

    > what was quoted
    and what was added

A mailing list's channel is its `List-Id`; the channel of other mail is the file's name. A thread's id is
that of its first message. Quoted text, the line that introduces it, and signatures are left out; the
first mail of a thread has its subject before the text. RFC 4155, 5322, 2919.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from functools import partial
from typing import Any

from backscroll.connectors.files.base.content_ids import ContentIds
from backscroll.connectors.files.base.format import (
    EMPTY,
    Format,
    FormatError,
    Head,
    ReadItem,
    Skipped,
    StrPath,
    attempted,
    file_name,
    open_file,
    stem,
)
from backscroll.connectors.files.base.html_text import plain_text
from backscroll.connectors.files.base.time_order import in_time_order
from backscroll.operators.messages import MessageError, Received, format_time

__all__ = ["FORMAT"]

_MOST_BYTES = 64 * 1024 * 1024
_LONGEST_LINE = 1 << 20
_SEPARATOR = re.compile(rb"From \S.*\d\d:\d\d.*\d{4}")
_ESCAPED = re.compile(rb">+From ")
_HEADER = re.compile(rb"[!-9;-~]+:[ \t]|[!-9;-~]+:\r?\n")
_MESSAGE_ID = re.compile(r"<([^<>\s]+)>")
_FORWARDED = re.compile(r"^(-{2,} ?\w[\w ]* ?-{2,}|_{20,})$")  # Outlook's line above a quoted mail
_ANNOUNCES = re.compile(
    r"\d|@|\b(wrote|writes|schrieb|escribió|écrit|scritto|escreveu|schreef|napisał|skrev)\b|написал|さん"
)
_LINK = re.compile(r"https?://[^\s<>]+")


def _read(path: StrPath, tz: tzinfo | None) -> Iterator[ReadItem]:
    """Yield mails by time; `origin` names the file and the mail's number.

    Raises:
        FormatError: the file cannot be read or does not start like an mbox.
    """
    del tz
    made = ContentIds()
    for item in in_time_order(_items(path)):
        if isinstance(item, Received) and isinstance(item.value, dict) and not item.value["id"]:
            item.value["id"] = made.make(item.value["ts"], item.value["author"]["id"], item.value["text"])
        yield item


def _recognises(head: Head) -> bool:
    separator, _, header = head.start.lstrip(b"\r\n").partition(b"\n")
    return bool(_SEPARATOR.match(separator) and _HEADER.match(header))


def _items(path: StrPath) -> Iterator[ReadItem]:
    for number, (mail, too_long) in enumerate(_mails(path), start=1):
        yield attempted(path, f"mail {number}", mail[: 64 * 1024], partial(_message, mail, too_long, path))


def _mails(path: StrPath) -> Iterator[tuple[bytes, bool]]:
    """The mails without their separator lines, and whether each was cut because it is too long."""
    with open_file(path) as file:
        try:
            parts, size, blank = list[bytes](), 0, True
            begun = False
            while line := file.readline(_LONGEST_LINE):
                if blank and _SEPARATOR.match(line):
                    if begun:
                        yield b"".join(parts), size > _MOST_BYTES
                    parts, size, begun = [], 0, True
                elif not begun and line.strip():
                    raise FormatError(
                        f"{file_name(path)}: not an mbox: expected 'From ADDRESS DATE' as the first line"
                    )
                else:
                    size += len(line)
                    if size <= _MOST_BYTES:
                        parts.append(line[1:] if _ESCAPED.match(line) else line)
                blank = not line.strip()
            if begun:
                yield b"".join(parts), size > _MOST_BYTES
        except OSError as err:
            raise FormatError(f"{file_name(path)}: cannot be read: {err.strerror}") from err


def _message(mail: bytes, too_long: bool, path: StrPath) -> dict[str, Any] | Skipped:
    if too_long:
        raise MessageError(f"the mail is longer than {_MOST_BYTES:,} bytes")
    try:
        return _parsed(message_from_bytes(mail), path)
    except MessageError:
        raise
    except Exception as err:  # the header parser fails in many ways on malformed input
        raise MessageError(f"cannot parse the mail: {type(err).__name__}") from err


def _parsed(mail: Message, path: StrPath) -> dict[str, Any] | Skipped:
    text = _new_text(_body(mail))
    references = _MESSAGE_ID.findall(_header(mail, "References"))
    answered = _MESSAGE_ID.findall(_header(mail, "In-Reply-To")) or references[-1:]
    subject = _header(mail, "Subject")
    if subject and not answered:
        text = f"{subject}\n{text}".strip()
    if not text:
        return EMPTY
    name, address = _author(mail)
    listed = re.search(r"<([^<>.\s]+)", _header(mail, "List-Id"))
    value: dict[str, Any] = {
        "channel": listed[1] if listed else stem(path),
        "id": next(iter(_MESSAGE_ID.findall(_header(mail, "Message-ID"))), ""),
        "ts": _time(mail),
        "author": {
            "id": address or name,
            "name": name,
            "bot": _header(mail, "Auto-Submitted").lower() not in ("", "no"),
        },
        "text": text,
    }
    if answered:
        value |= {"thread": (references or answered)[0], "reply_to": answered[0]}
    if archived := _LINK.search(_header(mail, "Archived-At")):
        value["permalink"] = archived[0]
    return value


def _header(mail: Message, name: str) -> str:
    value: object = mail.get(name, "")
    with suppress(HeaderParseError, LookupError, UnicodeError):  # keep it undecoded
        value = make_header(decode_header(mail.get(name, "")))
    return " ".join(str(value).split())


def _author(mail: Message) -> tuple[str, str]:
    """Name and address; some list archives write `ana at example.org (Ana Li)`."""
    sender = _header(mail, "From") or _header(mail, "Sender")
    hidden = re.fullmatch(r"(\S+) at (\S+)(?: \((.*)\))?", sender)
    if hidden:
        return hidden[3] or hidden[1], f"{hidden[1]}@{hidden[2]}"
    name, address = (getaddresses([sender]) or [("", "")])[0]
    return " ".join(name.split()) or address.partition("@")[0] or "unknown", address


def _time(mail: Message) -> str:
    date = _header(mail, "Date")
    if not date:
        raise MessageError("Date is missing")
    try:
        ts: datetime = parsedate_to_datetime(date)
        return format_time(ts if ts.tzinfo else ts.replace(tzinfo=UTC))  # -0000: UTC, zone unknown
    except (ValueError, OverflowError, TypeError):
        raise MessageError(
            f"Date is {date[:40]!r}: expected a date like 'Mon, 2 Mar 2026 09:00:00 +0100'"
        ) from None


def _body(mail: Message) -> str:
    """The plain text of the mail, else the text of its HTML, followed by the names of attached files."""
    text, html, files = list[str](), list[str](), list[str]()
    for part in mail.walk():
        kind = part.get_content_type()
        if part.is_multipart():
            continue
        if part.get_content_disposition() == "attachment" or part.get_filename():
            files.append(f"[file: {part.get_filename() or kind}]")
        elif kind == "text/plain":
            text.append(_decoded(part))
        elif kind == "text/html":
            html.append(plain_text(_decoded(part), without=frozenset({"blockquote"})))
    return "\n".join([*(text or html), *files])


def _decoded(part: Message) -> str:
    """The text of a part; if its declared charset fails, UTF-8 is tried, then Latin-1."""
    payload = part.get_payload(decode=True)
    payload = payload if isinstance(payload, bytes) else b""
    for charset in (part.get_content_charset() or "utf-8", "utf-8"):
        try:
            return payload.decode(charset)
        except (LookupError, UnicodeError):
            continue
    return payload.decode("latin-1")


def _new_text(body: str) -> str:
    """The text without quotations, the lines that introduce them, and the signature."""
    kept = list[str]()
    lines = body.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines):
        stripped = line.strip()
        if line.rstrip("\r") in ("-- ", "--") or _FORWARDED.match(stripped):
            break
        if stripped.startswith(">"):
            if number and not lines[number - 1].lstrip().startswith(">"):
                _drop_announcement(kept)
            continue
        kept.append(line.rstrip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()


def _drop_announcement(kept: list[str]) -> None:
    """Drop a line like `On Monday Ana wrote:`, in any language: one or two lines that end with a colon."""
    while kept and not kept[-1].strip():
        kept.pop()
    if kept and kept[-1].rstrip().endswith((":", "：")) and _ANNOUNCES.search(kept[-1]):
        kept.pop()
        if (
            kept
            and kept[-1].strip()
            and re.search(r"\d", kept[-1])
            and (len(kept) < 2 or not kept[-2].strip())
        ):
            kept.pop()  # the date was on the line before


FORMAT = Format(_read, _recognises)
