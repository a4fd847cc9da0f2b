"""How Sphinx builds these pages: Markdown by MyST, the furo theme, nothing from another server."""

from importlib import metadata

from sphinx.highlighting import lexer_classes

project = "sayso"
author = "the sayso authors"
copyright = "2026, the sayso authors"
version = release = metadata.version("sayso")

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "sayso"
html_show_sourcelink = False
html_copy_source = False

lexer_classes["mermaid"] = lexer_classes["none"]  # shown as its text: drawing it would need a script from elsewhere
