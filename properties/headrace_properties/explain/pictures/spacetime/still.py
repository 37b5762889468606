"""A run as a still picture: one SVG file without scripts or style sheets, for a README or a paper.

It is the page's figure (`figure` in diagram.js), drawn without a browser: what led to the violation; for a run without
violations, every record, step, write and change of ownership.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from types import MappingProxyType

import msgspec

from headrace import Pipeline
from headrace.history import Event
from headrace_properties.explain.pictures.spacetime import document_of
from headrace_properties.search.inevitability import FailureRates
from headrace_properties.verdict import Verdict


def spacetime_svg(
    history: Sequence[Event],
    verdicts: Mapping[str, Verdict],
    *,
    title: str,
    subtitle: str = "",
    rates: FailureRates | None = None,
    pipelines: Sequence[Pipeline] = (),
    names: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Draw a run as a still picture; for the arguments see `spacetime_html`."""
    import dukpy  # noqa: PLC0415  an engine of some megabytes, which only pictures need

    data = document_of(history, verdicts, title, subtitle, rates, pipelines, names)
    scripts = [files(__package__).joinpath(name).read_text("utf-8") for name in ("still.js", "diagram.js")]
    drawing = "state = STILL(); figure();"
    return f"{dukpy.evaljs([*scripts, drawing], data=msgspec.json.encode(data).decode())}\n"
