"""How Sphinx makes the site. Its source is a tree that scripts/docs.sh lays out as the repository is, so that a link between
pages, or from a page to a file, is the same here and where the repository is read."""
import os

project = "Trireme"
copyright = "the Trireme maintainers, Apache-2.0"
version = release = os.environ["TRIREME_VERSION"]

extensions = ["myst_parser", "breathe"]
exclude_patterns = ["docs/site"]
root_doc = "index"

myst_heading_anchors = 4  # `page.md#a-heading`, as on hosts of repositories
suppress_warnings = ["misc.highlighting_failure"]  # a block of `json` may be shortened by dots
smartquotes = False  # `--` begins an option

breathe_projects = {"trireme": os.environ["TRIREME_DOXYGEN"]}
breathe_default_project = "trireme"
breathe_domain_by_extension = {"h": "c"}
nitpick_ignore = [("c:identifier", name) for name in ("int32_t", "int64_t", "uint8_t", "uint64_t", "size_t")]

html_theme = "sphinx_rtd_theme"
html_theme_options = {"collapse_navigation": True, "navigation_depth": 2}
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
