"""Transcripts: expected behaviour of windows, triggers and refinements as data, for every engine (Dataflow 2.2 to 2.4).

A transcript lists inputs (elements, watermarks, passing time) and the panes that they must produce. The same file is run on
the brute-force model, on the layer's pure logic, in the simulated cluster and on Spark; see docs/reference/transcripts.md.
"""

from headrace_properties.proof.dataflow.transcripts.cluster_runs import (
    LOST,
    PANES,
    PROMPT,
    TOLERANCE_US,
    bare,
    cluster_mismatches,
    committed_panes,
    feed_of,
    in_the_models_order,
    lost_elements,
    pipeline_of,
    received_panes,
    run_cluster,
    until_the_end,
)
from headrace_properties.proof.dataflow.transcripts.format import (
    ExpectedPane,
    PaneLine,
    StepLine,
    Transcript,
    TranscriptError,
    TranscriptFile,
    compiled,
    load_transcript,
    load_transcripts,
)
from headrace_properties.proof.dataflow.transcripts.layer import (
    LayerRun,
    emission_of,
    run_layer,
    run_layer_counting,
)
from headrace_properties.proof.dataflow.transcripts.matching import mismatches, say, say_expected, settles
from headrace_properties.proof.dataflow.transcripts.window_expressions import (
    AtLeast,
    ExpressionError,
    parse_trigger,
    parse_windows,
)
from headrace_properties.settling import Settled, settled

__all__ = [
    "LOST",
    "PANES",
    "PROMPT",
    "TOLERANCE_US",
    "AtLeast",
    "ExpectedPane",
    "ExpressionError",
    "LayerRun",
    "PaneLine",
    "Settled",
    "StepLine",
    "Transcript",
    "TranscriptError",
    "TranscriptFile",
    "bare",
    "cluster_mismatches",
    "committed_panes",
    "compiled",
    "emission_of",
    "feed_of",
    "in_the_models_order",
    "load_transcript",
    "load_transcripts",
    "lost_elements",
    "mismatches",
    "parse_trigger",
    "parse_windows",
    "pipeline_of",
    "received_panes",
    "run_cluster",
    "run_layer",
    "run_layer_counting",
    "say",
    "say_expected",
    "settled",
    "settles",
    "until_the_end",
]
