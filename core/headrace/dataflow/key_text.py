"""Keys of any type (Dataflow 2.2: an element is a (key, value) pair), as the text by which the engine routes and orders them.

A key that is text stands for itself. Any other is written as ``=`` and its JSON, with tuples as arrays; so is text that would be
read as such a key.

>>> key_text("cats"), key_text(7), key_text(("cats", 7)), key_text("=7")
('cats', '=7', '=["cats",7]', '="=7"')
>>> key_of('=["cats",7]')
('cats', 7)
"""

import datetime as dt
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from headrace import Record
from headrace.dataflow.elements import Element
from headrace.dataflow.value_codecs import ValueCodec

KEYS = "a str, int, bool, None, bytes or date, or a plain tuple or frozenset of these"
"""The valid keys, as text for error messages."""

_MARK = "="
_SIMPLE = frozenset({str, int, bool, type(None), bytes, dt.date})
_MOST_BITS = 63
"""JSON's integers are read as 64 bits."""
_KNOWN = 1 << 14
_CODEC = ValueCodec()


def key_text(key: Hashable) -> str:
    """Return a key's text. Keys have the same text if they are equal and of the same types: 1 and True differ.

    Raises:
        TypeError: it is none of `KEYS`, or text that cannot be written as UTF-8.
    """
    if type(key) is str and key[:1] != _MARK:
        if not key.isascii():
            _check(key)
        return key
    _check(key)
    if type(key) is str and key_of(key) == key:
        return key
    return _MARK + _CODEC.encode(_arrays(key)).decode()


@lru_cache(maxsize=_KNOWN)
def _decoded(text: str) -> Any:
    try:
        key = _keys(_CODEC.decode(text[1:].encode()))
        return key if key_text(key) == text else text
    except (TypeError, ValueError, msgspec.MsgspecError):
        return text


def key_of(text: str) -> Any:
    """Return the key that a text stands for: the text itself, unless `key_text` wrote another key so."""
    return _decoded(text) if text[:1] == _MARK else text


def shown(element: Element) -> Element:
    """Return an element as user code sees it, with its own key in place of the text."""
    key = key_of(element.key)
    return element if key is element.key else replace(element, key=key)


@dataclass(frozen=True, slots=True)
class TextKey:
    """A key extractor of records, as the engine wants it: one that returns text.

    Attributes:
        function: the user's, which returns any key.
    """

    function: Callable[[Record], Any]

    def __call__(self, record: Record) -> Any:
        """Return the key's text; what is no key is returned as it is, for the engine to refuse."""
        key = self.function(record)
        try:
            return key_text(key)
        except (TypeError, UnicodeEncodeError):
            return key


def _check(key: Any) -> None:
    kind = type(key)
    if kind is tuple or kind is frozenset:
        for part in key:
            _check(part)
    elif kind not in _SIMPLE or (kind is int and key.bit_length() > _MOST_BITS):
        raise TypeError(f"{key!r:.80} is no key")
    elif kind is str:
        key.encode()


def _arrays(key: Any) -> Any:
    return [_arrays(part) for part in key] if type(key) is tuple else key


def _keys(value: Any) -> Any:
    return tuple([_keys(part) for part in value]) if type(value) is list else value
