"""The web demo: one page, and two endpoints that gradio_client can call."""

import os

# Read once, when gradio is imported: the page must work, and keep quiet, without a network.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"

from app.demo.numbers import find_judge
from app.demo.page import build
from app.demo.server import serve

__all__ = ["build", "find_judge", "serve"]
