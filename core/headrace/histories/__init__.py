"""Histories as files: the public format, for every engine (docs/reference/history.md)."""

from headrace.histories.header import (
    Graph,
    Header,
    Source,
    SourceWatermark,
    Stage,
    Tells,
    header_of,
    pipelines_of,
)
from headrace.histories.history_files import (
    HistoryReader,
    HistoryWriter,
    history_schema,
    load_history,
    save_history,
)
from headrace.histories.lines import End, In, Line, Out, Owns, RecordLine, State, Watermark

__all__ = [
    "End",
    "Graph",
    "Header",
    "HistoryReader",
    "HistoryWriter",
    "In",
    "Line",
    "Out",
    "Owns",
    "RecordLine",
    "Source",
    "SourceWatermark",
    "Stage",
    "State",
    "Tells",
    "Watermark",
    "header_of",
    "history_schema",
    "load_history",
    "pipelines_of",
    "save_history",
]
