"""The codec of the recovery store: states as tagged JSON, so that code can be renamed and moved freely.

An object is written as an array: its type's tag, then its field values in order. No class or module
path is stored. Within one version of the format you may

- rename a class or a field, or move a class to another module;
- add a field with a default after the others (older states get the default);
- add a type under a new tag.

Anything else, such as removing a field, changing the order or the type of fields, or reusing a tag,
needs a new version. States of other versions are refused without being read.

>>> from backscroll.operators.messages import Author
>>> codec = Codec({"author": Author})
>>> state = codec.encode((Author("u1", "Ana"), None))
>>> state[0], zlib.decompress(state[1])
(3, b'["",["author","u1","Ana",false],null]')
>>> codec.decode(state)
(Author(id='u1', name='Ana', bot=False), None)
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from math import isfinite
from types import MappingProxyType
from typing import Any, TypeAlias

import orjson

from backscroll.operators.errors import BackscrollError

__all__ = ["Codec", "Stamped", "StateError", "field_names"]

_VERSION = 3
_FASTEST = 1
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_PLAIN = (str, int, bool, type(None))
_START_EMPTY = "use an empty one and read from before the oldest open window (repeated messages are skipped)"
Stamped: TypeAlias = tuple[int, bytes]
"""The version of the format, and a state in that format, compressed."""


class StateError(BackscrollError):
    """Another version of the program wrote the recovery store, or it is damaged."""


class Codec:
    """Encodes states for the recovery store and decodes them to equal values of the same types.

    A state may hold None, booleans, strings, 64-bit integers, floats, bytes, tuples, dictionaries, aware
    datetimes (decoded in UTC), timedeltas, and the types that have a tag. A `Counter` is decoded to a
    plain dictionary.

    Args:
        types: dataclasses and named tuples by tag.
    """

    def __init__(self, types: Mapping[str, type]) -> None:
        self.types = MappingProxyType(dict(types))
        write = self._write
        self._writers: dict[type, Callable[[Any], Any]] = {
            **dict.fromkeys(_PLAIN, lambda value: value),
            float: lambda value: value if isfinite(value) else ["float", str(value)],
            bytes: lambda value: ["bytes", value.decode("latin-1")],
            tuple: lambda value: ["", *map(write, value)],
            dict: lambda value: ["dict", *map(write, value.items())],
            Counter: lambda value: ["dict", *map(write, value.items())],
            datetime: lambda value: ["time", (value - _EPOCH) // _MICROSECOND],
            timedelta: lambda value: ["duration", value.days, value.seconds, value.microseconds],
            **{kind: self._writer(tag, kind) for tag, kind in types.items()},
        }
        self._makers: dict[str, Callable[..., Any]] = {
            "": lambda *values: values,
            "float": float,
            "bytes": lambda text: text.encode("latin-1"),
            "text": lambda code: bytes.fromhex(code).decode("utf-8", "surrogatepass"),
            "dict": lambda *items: dict(items),
            "time": lambda microseconds: _EPOCH + microseconds * _MICROSECOND,
            "duration": timedelta,
        }
        if reused := self._makers.keys() & types.keys():
            raise ValueError(f"tags reserved by the codec: {', '.join(sorted(reused))}")
        self._makers.update(types)

    def encode(self, state: Any) -> Stamped:
        """Encode a state for the recovery store.

        Raises:
            TypeError: the state holds a value of a type without a tag.
        """
        tree = self._write(state)
        try:
            text = orjson.dumps(tree)
        except orjson.JSONEncodeError:
            text = orjson.dumps(_escape_surrogates(tree))
        return _VERSION, zlib.compress(text, _FASTEST)

    def decode(self, state: Stamped | None) -> Any:
        """Decode a state from the recovery store; None when there is none.

        Raises:
            StateError: another version of the program wrote it, or it is damaged.
        """
        if state is None:
            return None
        version, packed = state
        if version != _VERSION:
            raise StateError(
                f"the recovery directory holds state of version {version}, but this program reads only "
                f"{_VERSION}: {_START_EMPTY}"
            )
        try:
            tree = orjson.loads(zlib.decompress(packed))
        except (zlib.error, orjson.JSONDecodeError) as err:
            raise StateError(
                f"the recovery directory is damaged: restore it as a whole, or {_START_EMPTY}"
            ) from err
        return self._read(tree)

    def _write(self, value: Any) -> Any:
        try:
            writer = self._writers[type(value)]
        except KeyError:
            raise TypeError(f"{type(value).__name__} has no tag: a state cannot hold it") from None
        return writer(value)

    def _writer(self, tag: str, kind: type) -> Callable[[Any], Any]:
        names, write = field_names(kind), self._write
        return lambda value: [tag, *[write(getattr(value, name)) for name in names]]

    def _read(self, node: Any) -> Any:
        if type(node) is not list:
            return node
        tag, *values = map(self._read, node)
        try:
            return self._makers[tag](*values)
        except (KeyError, TypeError) as err:
            raise StateError(
                f"the recovery directory holds a {tag!r} with {len(values)} fields, which this program "
                f"cannot read: go back to the version that wrote it, or {_START_EMPTY}"
            ) from err


def field_names(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass or named tuple, in the order they are encoded."""
    named: tuple[str, ...] | None = getattr(kind, "_fields", None)
    return tuple(field.name for field in fields(kind)) if named is None else named


def _escape_surrogates(tree: Any) -> Any:
    """Tag strings with lone surrogates, which some clients send and UTF-8 cannot hold."""
    if isinstance(tree, list):
        return [_escape_surrogates(node) for node in tree]
    if isinstance(tree, str) and any("\ud800" <= character <= "\udfff" for character in tree):
        return ["text", tree.encode("utf-8", "surrogatepass").hex()]
    return tree
