"""The template of all pages: `page/` holds its HTML, style and script."""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from string import Template

from wolfhound.markup import escape
from wolfhound.reports.render import list_contents


def import_plotly() -> str:
    """Return the JavaScript that draws; ImportError that says what to install."""
    try:
        from plotly.offline import get_plotlyjs  # noqa: PLC0415 - an extra
    except ImportError:
        raise ImportError('report needs plotly: pip install "wolfhound[report]"') from None
    return str(get_plotlyjs())


def fill_page(title: str, contents: list[tuple[str, str]], body: str) -> str:
    """Return a whole page.

    Parameters
    ----------
    title
        Heading, as text.
    contents
        Anchor and name of the parts.
    body
        HTML of the parts.
    """
    plotly, script = import_plotly(), _read("page.js")
    # A script that is not one of these does not run, wherever it comes from.
    allowed = " ".join(_digest(each) for each in (plotly, script))
    page = Template(_read("page.html"))
    return page.substitute(
        title=escape(title),
        scripts=allowed,
        style=_read("page.css"),
        contents=list_contents(contents),
        body=body,
        plotly=plotly,
        script=script,
    )


def _read(name: str) -> str:
    return (files("wolfhound.reports") / "page" / name).read_text("utf-8")


def _digest(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
