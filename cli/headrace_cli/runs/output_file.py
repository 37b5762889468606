"""The output of a run as files of JSON lines, one record each, which ``--input`` and ``--compare`` can read.

A line is ``{"stream": ..., "key": ..., "timestamp": ..., "value": ...}``, with the value's bytes as they went out where the
stream's codec writes JSON, and as ``"value_base64"`` otherwise. Rule of this file: lines are sorted, so that the same output
makes the same files on every host.
"""

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

import msgspec

from headrace import Pipeline
from headrace.api.codecs import writes_json
from headrace.api.json_text import read_json
from headrace_cli.runs.input_file import InputError
from headrace_cli.terminal.files import OutputFiles, write_bytes
from headrace_properties.reference import Emitted
from headrace_properties.user_code.comparison import output_order

SUFFIX = ".jsonl"


_NOTHING = msgspec.Raw(b"")

_LONGEST_NAME = 200
"""Bytes of a stream's name in a file's name, of which file systems take 255, with endings; the rest becomes a hash."""


class _OutputLine(msgspec.Struct, omit_defaults=True):
    stream: str
    key: str
    timestamp: int
    value: msgspec.Raw = _NOTHING
    value_base64: str | None = None


_DECODER = msgspec.json.Decoder(_OutputLine)


def output_lines(outputs: Counter[Emitted], pipeline: Pipeline) -> list[bytes]:
    """Write each record as a line, without its end."""
    is_json = {
        stream: writes_json(pipeline.codec(stream)) for stream in {record.stream for record in outputs}
    }
    records = sorted(outputs.elements(), key=output_order)
    return [msgspec.json.encode(_line(record, is_json=is_json[record.stream])) for record in records]


def output_files(path: Path, pipeline: Pipeline) -> dict[str, Path]:
    """Return the file of each stream.

    Args:
        path: one file for all, if its name ends with ``.jsonl``; else a directory with a file for each stream.
        pipeline: names the streams.
    """
    if path.suffix == SUFFIX:
        return dict.fromkeys(pipeline.output_streams, path)
    return {stream: path / f"{_file_name(stream)}{SUFFIX}" for stream in pipeline.output_streams}


def write_outputs(path: Path, outputs: Counter[Emitted], pipeline: Pipeline, files: OutputFiles) -> None:
    """Write an output; see `output_files`.

    Args:
        path: where to.
        outputs: how often each record went outside.
        pipeline: names the streams and their codecs.
        files: writes them.
    """
    file_of = output_files(path, pipeline)
    contents: dict[Path, Counter[Emitted]] = {file: Counter() for file in file_of.values()}
    for output, count in outputs.items():
        contents[file_of[output.stream]][output] = count
    for file, records in contents.items():
        data = b"".join(line + b"\n" for line in output_lines(records, pipeline))
        files.write(file, "--output", write_bytes(data))


def _file_name(stream: str) -> str:
    """Turn a stream's name, which may be any text, into a file's name that stays in its directory."""
    name = re.sub(r"[/\\:%\x00-\x1f\x7f]", lambda match: quote(match[0], safe=""), stream)
    data = name.encode()
    if len(data) <= _LONGEST_NAME:
        return name
    return (
        f"{data[:_LONGEST_NAME].decode(errors='ignore')}-{hashlib.sha256(stream.encode()).hexdigest()[:16]}"
    )


def read_outputs(path: Path) -> Counter[Emitted]:
    """Read what `write_outputs` wrote.

    Raises:
        InputError: there is no such file, or a line is not a record of an output.
    """
    files = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not files:
        raise InputError(str(path), 0, f"there is no file *{SUFFIX} in this directory")
    return Counter(record for file in files for record in _records(file))


def _records(file: Path) -> Iterable[Emitted]:
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise InputError(str(file), 0, f"cannot be read: {error.strerror or error}") from error
    for number, text in enumerate(lines, 1):
        try:
            line = read_json(text, _DECODER.decode)
            value = _value(line)
        except ValueError as error:  # base64's errors are such, too
            raise InputError(str(file), number, f"not a record of an output: {error}") from error
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
