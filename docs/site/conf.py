# Sphinx's settings for the site that scripts/docs-site makes of the Markdown pages.
project = "Penstock"
author = copyright = "the Penstock authors"
version = release = "@VERSION@"
extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_enable_extensions = []
source_suffix = {".md": "markdown"}
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
