"""Hooks of the documentation site: links that leave `docs`, pages made from the tree.

Pages are written to be read in the repository, so they point at programs, results and
pages beside `docs`. Here such links become links of the site; CHANGELOG, CONTRIBUTING and
SECURITY become pages; the marks ``<!-- claims -->`` and ``<!-- programs -->`` become what they
name; and ``<q, x>`` stays an inner product, which Python-Markdown would take for a tag.
"""

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import posixpath
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs runs hooks by their path

import benchmarks_page

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ROOT_PAGES = {
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}
NOT_SHOWN = ("pyproject.toml", "LICENSE", "NOTICE", "Makefile", "mkdocs.yml")
"""Files that no page of the site shows: only their names stay, as of all code but programs and claims."""

_LINK = re.compile(r"(?<!!)\[([^\]\[]*)\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")
_TAGS = "a|abbr|b|br|code|details|div|em|figcaption|figure|img|kbd|p|span|strong|sub|summary|sup"
_NO_TAG = rf"<(?!!--|https?:|/?(?:{_TAGS})(?:[\s>/]))"


# ---------------------------------------------------------------- links and pages


def turn_links(text: str, place: str) -> str:
    """Make links that leave `docs` links of the site.

    Parameters
    ----------
    text
        A page, in Markdown.
    place
        Its path in the tree, such as ``docs/many.md`` or ``CHANGELOG.md``.
    """

    def turn(link: re.Match[str]) -> str:
        words, to, anchor = link[1], link[2], link[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(place), to))
        if path in NOT_SHOWN or path.startswith(("src/", "tools/", "tests/")):
            return words
        if place.startswith("docs/") and path.startswith("docs/"):
            return link[0]
        found = _page_of(path) + anchor
        here = posixpath.dirname(place.removeprefix("docs/"))
        return f"[{words}]({posixpath.relpath(found, here or '.')})"

    return _LINK.sub(turn, text)


def free_pipes(text: str) -> str:
    r"""Write code in tables as Python-Markdown reads it: a pipe in it needs no backslash.

    Examples
    --------
    >>> free_pipes(r"| `a \| b` | c |")
    '| `a | b` | c |'
    """
    code = re.compile(r"`[^`]*`")
    lines = (
        code.sub(lambda m: m[0].replace("\\|", "|"), line) if line.startswith("|") else line
        for line in text.split("\n")
    )
    return "\n".join(lines)


def _page_of(path: str) -> str:
    """Return where the site shows a file of the tree; itself if nowhere, which mkdocs reports."""
    shown = {source: page for page, source in ROOT_PAGES.items()}
    shown |= {"README.md": "index.md", "examples": "examples.md"}
    shown |= {"benchmarks": "benchmarks.md", "benchmarks/results": "benchmarks.md"}
    shown |= {"benchmarks/README.md": "benchmarks.md"}
    if path in shown:
        return shown[path]
    parent, name = posixpath.split(path)
    stem, ending = posixpath.splitext(name)
    if parent == "examples" and ending == ".py":
        return f"examples.md#{stem}"
    if parent == "benchmarks/results" or (parent == "benchmarks" and stem.startswith("claim_")):
        return f"benchmarks.md#{stem}"
    return path.removeprefix("docs/")


def write_programs(folder: Path) -> str:
    """Return every program of a folder as a section: what it says of itself, and its code."""
    return "\n".join(_write_program(path) for path in sorted(folder.glob("*.py")))


def _write_program(path: Path) -> str:
    code = path.read_text().strip()
    says = (ast.get_docstring(ast.parse(code)) or path.stem).strip()
    title, _, more = says.partition("\n")
    body = code.split('"""', 2)[2].replace("# SPDX-License-Identifier: Apache-2.0", "", 1).strip()
    heading = f"## {title.rstrip('.')} {{#{path.stem}}}"
    return f'{heading}\n\n{more.strip()}\n\n```python title="examples/{path.name}"\n{body}\n```\n'


# ---------------------------------------------------------------- inner products


def _keep_inner_products(config: MkDocsConfig) -> None:
    from markdown.extensions import Extension  # noqa: PLC0415 - the docs extra brings it
    from markdown.inlinepatterns import InlineProcessor  # noqa: PLC0415

    class Sign(InlineProcessor):  # type: ignore[misc] # Markdown has no types
        def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:  # noqa: N802
            return self.md.htmlStash.store("&lt;"), m.start(0), m.end(0)

    class InnerProducts(Extension):  # type: ignore[misc]
        def extendMarkdown(self, md: Any) -> None:  # noqa: N802
            md.inlinePatterns.register(Sign(_NO_TAG, md), "inner_product", 175)  # after code, before tags

    config.markdown_extensions.append(InnerProducts())


# ---------------------------------------------------------------- events of mkdocs


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Teach Markdown what an inner product is."""
    _keep_inner_products(config)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie beside `docs`."""
    from mkdocs.structure.files import File  # noqa: PLC0415

    for page, source in ROOT_PAGES.items():
        text = turn_links((ROOT / source).read_text(), source)
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in what is made from the tree, and turn links inwards."""
    place = page.file.src_uri
    if place in ROOT_PAGES:
        return markdown
    if place == "benchmarks.md":
        markdown = markdown.replace("<!-- claims -->", benchmarks_page.write_claims(ROOT / "benchmarks"))
    if place == "examples.md":
        markdown = markdown.replace("<!-- programs -->", write_programs(ROOT / "examples"))
    return free_pipes(turn_links(markdown, f"docs/{place}"))
