# Sphinx's settings for the site that scripts/docs-site makes of the Markdown pages and of the Python package.
import os
import sys

# The package is read, not built: its C++ side is the type stubs, as Python, and torch is a stand-in.
sys.path.insert(0, os.path.abspath("python"))
autodoc_mock_imports = ["torch"]
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
default_role = "code"
smartquotes = False
project = "Penstock"
author = copyright = "the Penstock authors"
version = release = "@VERSION@"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
myst_enable_extensions = []
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
html_theme = "alabaster"
html_theme_options = {"description": "Mixture-of-Experts language models with any router", "page_width": "1100px"}
html_sidebars = {"**": ["about.html", "navigation.html", "searchbox.html"]}
html_extra_path = ["extra"]
html_copy_source = False
# A block without a language is a terminal's.
highlight_language = "none"
# Pages that name functions of the API or show TOML with dots in it are no Python.
suppress_warnings = ["misc.highlighting_failure"]
