"""Formulas as MathML, which Chromium, Firefox and Safari draw themselves: no script. Their font is part of the site, as
not every machine has one for mathematics."""

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

log = logging.getLogger(__name__)


def _written(node: nodes.math | nodes.math_block, block: bool) -> str:
    """The formula; a warning where it has a command that cannot be written."""
    try:
        return tex2mathml(node.astext(), as_block=block)
    except MathError as error:
        log.warning("%s: %s", node.astext(), error, location=node)
        return node.astext()


def _inline(writer, node: nodes.math) -> None:
    writer.body.append(_written(node, block=False))
    raise nodes.SkipNode


def _display(writer, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="formula" tabindex="0">{_written(node, block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True}
