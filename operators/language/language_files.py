"""Language data for the rules: one TOML file per language, named by its ISO 639-1 code.

A file is read into a frozen dataclass whose fields are the allowed keys; `code` comes from the file
name. Words are one string, separated by spaces; phrases are a list of strings.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from backscroll.operators.errors import BackscrollError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["LanguageFileError", "read_languages"]

Language = TypeVar("Language", bound="DataclassInstance")


class LanguageFileError(BackscrollError):
    """A language file is invalid; the message names the file and the key."""


_READ: dict[tuple[Path, type], tuple[Any, ...]] = {}
_READING = Lock()


def read_languages(folder: Path, kind: type[Language]) -> tuple[Language, ...]:
    """The languages in a folder, one per file, sorted by code.

    A folder is read once per process: every caller, on any thread, gets the same objects.

    Raises:
        LanguageFileError: a file is not valid TOML, lacks a key, or has an unknown key or an invalid value.
    """
    with _READING:
        if (folder, kind) not in _READ:
            _READ[folder, kind] = tuple(_read(path, kind) for path in sorted(folder.glob("*.toml")))
        return _READ[folder, kind]


def _read(path: Path, kind: type[Language]) -> Language:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as err:
        raise LanguageFileError(f"{path}: not valid TOML: {err}") from err
    known = {field.name: field for field in fields(kind) if field.name != "code"}
    for key in data:
        if key not in known:
            raise LanguageFileError(f"{path}: unknown key {key!r}: use one of {', '.join(known)}")
    for key, field in known.items():
        if key not in data and field.default is MISSING and field.default_factory is MISSING:
            raise LanguageFileError(f"{path}: the key {key!r} is missing")
    try:
        values = {key: _value(known[key], value) for key, value in data.items()}
        return kind(**{"code": path.stem}, **values)
    except ValueError as err:
        raise LanguageFileError(f"{path}: {err}") from err


def _value(field: Field[Any], value: object) -> object:
    """A TOML value converted to the type of the dataclass field."""
    expected, fits, frozen = _TYPES[str(field.type)]
    if not fits(value):
        raise ValueError(f"{field.name}: must be {expected}, not {value!r:.60}")
    return frozen(value)


def _is(kind: type) -> Callable[[object], bool]:
    return lambda value: type(value) is kind  # `true` is not a whole number


def _are(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(type(one) is kind for one in value)


def _table_of(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, dict) and all(type(one) is kind for one in value.values())


# For each field type: the expected value in words, a check, and the conversion.
_TYPES: dict[str, tuple[str, Callable[[object], bool], Callable[[Any], object]]] = {
    "str": ("a string", _is(str), str),
    "bool": ("true or false", _is(bool), bool),
    "int": ("a whole number", _is(int), int),
    "frozenset[str]": (
        "a string of words separated by spaces",
        _is(str),
        lambda value: frozenset(value.split()),
    ),
    "tuple[str, ...]": ("a list of strings", _are(str), tuple),
    "Mapping[str, str]": ("a table of strings", _table_of(str), MappingProxyType),
    "Mapping[str, int]": ("a table of whole numbers", _table_of(int), MappingProxyType),
}
