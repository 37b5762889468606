"""Errors of the command line's parser, in the words of the house: what is wrong with which value, and what was meant."""

from typing import Any

from headrace.api.errors import did_you_mean

_NUMBERS = {"int": "a whole number", "float": "a number"}
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "above"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "below"),
}


def reword(error: Any) -> None:
    """Replace the message of a parser's error, if it speaks of a framework or could suggest a name.

    Args:
        error: of Click's, or of Typer's copy of Click: the two have the same attributes.
    """
    if (option := getattr(error, "option_name", None)) is not None and getattr(
        error, "ctx", None
    ) is not None:
        known = [name for parameter in error.ctx.command.params for name in parameter.opts]
        error.message = f"There is no option {option}. {did_you_mean(option, known)}".rstrip()
        error.possibilities = None
        return
    details = getattr(error.__cause__, "errors", None)
    if details is not None:
        error.message = _words(details()[0]) or error.message.removeprefix("Value error, ")


def _words(detail: dict[str, Any]) -> str:
    """Return what is wrong with a value, from what pydantic says of it; ``""`` if its own words will do."""
    kind, value, context = detail["type"], detail.get("input"), detail.get("ctx") or {}
    number, is_unreadable, _ = kind.partition("_parsing")
    if is_unreadable and number in _NUMBERS:
        return f"{value!r} is not {_NUMBERS[number]}"
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"{value!r} is not {words} {context[name]:g}"
    _, is_choice, choices = str(context.get("error", "")).partition(" is not one of ")
    known = [choice.strip(" .'") for choice in choices.split(",")]
    return (
        f"{value!r} is not one of {', '.join(known)}. {did_you_mean(str(value), known)}".rstrip()
        if is_choice
        else ""
    )
