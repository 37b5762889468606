"""Values in a picture: harmless wherever it is shown."""

from typing import Any

from headrace_properties.printable import visible


def harmless(document: Any) -> Any:
    """Write out the characters of a document's texts that steer a screen or reorder a line."""
    match document:
        case str():
            return visible(document)
        case dict():
            return {harmless(name): harmless(value) for name, value in document.items()}
        case list() | tuple():
            return [harmless(value) for value in document]
        case _:
            return document
