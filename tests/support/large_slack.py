"""A synthetic Slack export of any size, and what it takes to read it.

    PYTHONPATH=tests python -m support.large_slack make export.zip --megabytes 1000
    PYTHONPATH=tests python -m support.large_slack read export.zip

`make` writes days of 40 channels in Slack's layout, as large as asked when unpacked; `read` reads them
as `replay` does, checks every message, and prints messages, seconds, and the peak of the memory.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
import zipfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from backscroll.connectors.files.formats import read_file
from backscroll.operators.messages import MessageError, parse_message
from support.commands import WORDS

_CHANNELS, _PEOPLE, _A_DAY = 40, 200, 150
_FIRST = datetime(2023, 1, 2, tzinfo=UTC)


def make(path: Path, megabytes: int) -> None:
    """Write the export, day by day, until it is large enough."""
    chance, size, day = random.Random(8), 0, 0
    people = [
        {"id": f"U{n:04}", "name": f"user{n}", "profile": {"display_name": f"{chance.choice(WORDS)}{n}"}}
        for n in range(_PEOPLE)
    ]
    channels = [{"id": f"C{n:04}", "name": f"channel-{n}", "members": []} for n in range(_CHANNELS)]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as export:
        export.writestr("users.json", json.dumps(people, indent=4))
        export.writestr("channels.json", json.dumps(channels, indent=4))
        while size < megabytes * 1_000_000:
            start = _FIRST + timedelta(days=day)
            for channel in channels:
                body = json.dumps(_day(start, chance), indent=4).replace("/", "\\/")
                export.writestr(f"{channel['name']}/{start:%Y-%m-%d}.json", body)
                size += len(body)
            day += 1


def _day(start: datetime, chance: random.Random) -> list[dict[str, object]]:
    """A day of a channel: posts, replies to posts of any earlier hour, joins, and an edit."""
    messages: list[dict[str, object]] = []
    roots = list[str]()
    seconds = sorted(chance.sample(range(7 * 3600, 19 * 3600), _A_DAY))
    for number, second in enumerate(seconds):
        ts = f"{int(start.timestamp()) + second}.{number:06}"
        user = f"U{chance.randrange(_PEOPLE):04}"
        text = " ".join(chance.choices(WORDS, k=chance.randrange(3, 40)))
        if number % 12 == 0:
            link = f"<https://example.com/{number}|{chance.choice(WORDS)}>"
            text = f"<@U{chance.randrange(_PEOPLE):04}> {text} {link} &amp; more"
        elements = [{"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}]
        message: dict[str, object] = {
            "client_msg_id": f"00000000-0000-4000-8000-{chance.getrandbits(48):012x}",
            "type": "message",
            "text": text,
            "user": user,
            "ts": ts,
            "team": "T0000",
            "blocks": [{"type": "rich_text", "block_id": "b", "elements": elements}],
        }
        if number % 40 == 0:
            message = {"subtype": "channel_join", "type": "message", "user": user, "ts": ts, "text": "joined"}
        elif roots and number % 4 == 0:
            message |= {"thread_ts": chance.choice(roots), "parent_user_id": "U0001"}
        else:
            roots.append(ts)
        messages.append(message)
    changed = {"ts": roots[-1], "text": "corrected", "type": "message", "user": "U0001"}
    late = f"{int(start.timestamp()) + 20 * 3600}.000000"
    return [*messages, {"type": "message", "subtype": "message_changed", "ts": late, "message": changed}]


def read(path: Path) -> int:
    """Read the export to its end."""
    started, counters = time.monotonic(), Counter[str]()
    for item in read_file(path, counters=counters):
        counters["letters" if isinstance(item.value, MessageError) else "messages"] += 1
        if not isinstance(item.value, MessageError):
            parse_message(item.value)
    seconds = time.monotonic() - started
    with zipfile.ZipFile(path) as export:
        size = sum(member.file_size for member in export.infolist())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(
        f"{size / 1e6:,.0f} MB in {path.stat().st_size / 1e6:,.0f} MB, {counters['messages']:,} messages, "
        f"{counters.total() - counters['messages']:,} skipped or rejected, {seconds:.1f} s "
        f"({time.process_time():.1f} s of a processor), {peak:,.0f} MiB at most\n"
    )
    return counters["letters"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("make", "read"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--megabytes", type=int, default=1000)
    options = parser.parse_args()
    if options.what == "make":
        make(options.path, options.megabytes)
        return 0
    return read(options.path)


if __name__ == "__main__":
    sys.exit(main())
