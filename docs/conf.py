"""The configuration of the site: ``sphinx-build -W docs build/site`` makes it, without network."""

import os
import sys
from pathlib import Path

from lmzoo.core.version import __version__

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "extensions"), str(DOCS.parent / "scripts" / "checks")]

project, author, copyright = "lmzoo", "the authors of lmzoo", "the authors of lmzoo, MIT license"
version = release = __version__

extensions = [
    "myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.intersphinx", "sphinx.ext.viewcode",
    "docstrings", "evidence_of_runs", "inventory", "layer_drawing", "mathematics", "records",
    "options_of_code", "sources",
]  # fmt: skip
exclude_patterns = ["pictures/*.py", "results", "labels", "history", "**/__pycache__"]

myst_enable_extensions = ["dollarmath", "html_image"]
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
nb_execution_mode = "force"  # notebooks are stored without outputs
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_execution_timeout = 600  # seconds for a cell
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # for `!lmzoo`

autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
viewcode_follow_imported_members = False  # a source then links back to the names that pages have
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"
default_role = "py:obj"
highlight_language = "none"  # of blocks that name none, as what a command printed

html_theme = "furo"
html_title = f"lmzoo {__version__}"
html_static_path = ["pictures", "extensions/static"]
html_css_files = ["site.css"]
html_js_files = [("sort.js", {"defer": "defer"}), ("page.js", {"defer": "defer"})]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
