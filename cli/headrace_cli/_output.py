"""What a run sent outside, as files: JSON lines, one record each, that ``--input`` and ``--compare`` read again.

A line is ``{"stream": ..., "key": ..., "timestamp": ..., "value": ...}``, with the value's bytes as they went out where the
stream's codec writes JSON, and as ``"value_base64"`` where not. Rule of this file: lines are sorted, so that the same output
makes the same files, whichever host made it.
"""

import base64
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from headrace import JsonCodec, Pipeline, TypedCodec
from headrace_cli._exit import UnwritableFileError
from headrace_cli._input import InputError
from headrace_properties.reference import Emitted
from headrace_properties.user_code.comparison import output_order

SUFFIX = ".jsonl"


_NOTHING = msgspec.Raw(b"")


class _OutputLine(msgspec.Struct, omit_defaults=True):
    stream: str
    key: str
    timestamp: int
    value: msgspec.Raw = _NOTHING
    value_base64: str | None = None


def output_lines(outputs: Counter[Emitted], pipeline: Pipeline) -> list[bytes]:
    """Write each record as a line, without its end."""
    is_json = {
        stream: isinstance(pipeline.codec(stream), JsonCodec | TypedCodec)
        for stream in pipeline.output_streams
    }
    records = sorted(outputs.elements(), key=output_order)
    return [msgspec.json.encode(_line(record, is_json=is_json[record.stream])) for record in records]


def write_outputs(path: Path, outputs: Counter[Emitted], pipeline: Pipeline) -> list[Path]:
    """Write an output; returns the files.

    Args:
        path: a file, if its name ends with ``.jsonl``; else a directory, in which each stream gets a file of its name.
        outputs: how often each record went outside.
        pipeline: names the streams and their codecs.

    Raises:
        UnwritableFileError: it can not be written.
    """
    files = {path: outputs}
    if path.suffix != SUFFIX:
        files = {path / f"{stream}{SUFFIX}": Counter() for stream in pipeline.output_streams}
        for one, count in outputs.items():
            files[path / f"{one.stream}{SUFFIX}"][one] = count
    for file, records in files.items():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"".join(line + b"\n" for line in output_lines(records, pipeline)))
        except OSError as error:
            raise UnwritableFileError(str(file), error.strerror or str(error), "--output") from error
    return list(files)


def read_outputs(path: Path) -> Counter[Emitted]:
    """Read what `write_outputs` wrote.

    Raises:
        InputError: there is nothing, or a line is not one of an output.
    """
    files = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not files:
        raise InputError(str(path), 0, f"there is no file *{SUFFIX} in this directory")
    return Counter(record for file in files for record in _records(file))


def _records(file: Path) -> Iterable[Emitted]:
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise InputError(str(file), 0, f"can not be read: {error.strerror or error}") from error
    for number, text in enumerate(lines, 1):
        try:
            line = msgspec.json.decode(text, type=_OutputLine)
            value = _value(line)
        except ValueError as error:  # msgspec's and base64's errors are such
            raise InputError(str(file), number, f"this is no record of an output: {error}") from error
        yield Emitted(line.stream, line.key, value, line.timestamp)


def _value(line: _OutputLine) -> bytes:
    if line.value_base64 is not None:
        return base64.b64decode(line.value_base64, validate=True)
    if not bytes(line.value):
        raise ValueError("it has no value")
    return bytes(line.value)


def _line(record: Emitted, *, is_json: bool) -> _OutputLine:
    if is_json:
        return _OutputLine(record.stream, record.key, record.timestamp, msgspec.Raw(record.value))
    return _OutputLine(
        record.stream, record.key, record.timestamp, value_base64=base64.b64encode(record.value).decode()
    )
