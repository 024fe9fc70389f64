"""The engine is killed at random moments, and every message is in exactly one window afterwards."""

from __future__ import annotations

from pathlib import Path

from support.brokers import Broker, refused_sockets
from support.crashes import crash_run

pytestmark = refused_sockets


def test_kills_at_random_moments_lose_nothing_and_change_nothing(own_broker: Broker, tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    folder.mkdir()
    found = crash_run(own_broker, folder, messages=400, kills=3, stops=1, channels=10, processes=(1, 2))
    assert (found.kills, found.stops, found.messages) == (3, 1, 400)
    assert found.wrong == []
    assert (found.lost, found.twice, found.differing) == (0, 0, 0)
    assert found.ids == found.windows
    assert found.records == found.ids + found.duplicates + found.reissues
    assert found.changes == 10
    assert found.reissues > 0
