"""A self-contained page of a document: its story in sentences, whose links move the diagram, the diagram, and an animation.

A document has texts, lanes and numbered events; what ``diagram.js`` gives a default may be left out. A page works without a
network, and of the same document it is the same, byte for byte.
"""

from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any

import msgspec

from headrace_properties.printable import visible

_SCRIPTS = ("diagram", "stage", "chart", "tables", "page")


def page_of(document: Mapping[str, Any]) -> str:
    """Write a document as a page; all its texts are made harmless."""
    package, harmless = files(__package__), harmless_of(document)
    parts = {
        "{{title}}": escape(harmless["title"]),
        "{{css}}": package.joinpath("diagram.css").read_text("utf-8"),
        "{{data}}": msgspec.json.encode(harmless)
        .decode()
        .replace("<", "\\u003c"),  # else a value could end the script
        "{{js}}": "\n".join(package.joinpath(f"{name}.js").read_text("utf-8") for name in _SCRIPTS),
    }
    head, *rest = package.joinpath("template.html").read_text("utf-8").split("{{")
    return head + "".join(
        parts["{{" + part.split("}}", 1)[0] + "}}"] + part.split("}}", 1)[1] for part in rest
    )


def harmless_of(document: Any) -> Any:
    """Return a document with all characters written out that steer a screen or reorder a line."""
    match document:
        case str():
            return visible(document)
        case Mapping():
            return {harmless_of(name): harmless_of(value) for name, value in document.items()}
        case list() | tuple():
            return [harmless_of(value) for value in document]
        case _:
            return document
