"""HTML by which notebooks show models, runs and studies, and matplotlib axes for their plots."""
import html
from typing import Any, Mapping


def table(title: str, entries: Mapping[str, Any]) -> str:
    """An HTML table of two columns, name and value. Entries that are None are left out."""
    rows = "".join(f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
                   f"<td style='text-align:left'>{html.escape(str(value))}</td></tr>"
                   for name, value in entries.items() if value is not None)
    return f"<table><caption>{html.escape(title)}</caption>{rows}</table>"


def preformatted(text: str) -> str:
    """The text as HTML that keeps its spaces and does not break its lines."""
    return f"<pre style='white-space:pre'>{html.escape(text)}</pre>"


def axes(given: Any, width: float = 7.0, height: float = 4.0) -> Any:
    """The given axes, or the axes of a new figure. Raises ImportError if matplotlib is missing."""
    if given is not None:
        return given
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plots need matplotlib, which is not installed (Debian: python3-matplotlib)") from error
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
