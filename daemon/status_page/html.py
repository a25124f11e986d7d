"""Makes HTML of the page, whole or in parts; whatever it is told is escaped."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from .model import Page

RELOAD_S: Final = 10
"""How often a browser without JavaScript reads the page anew."""

GLANCE: Final = "glance"
_FILES: Final = ("page.css", "page.js")


def prepare() -> None:
    """Compile the templates, which takes some 10 ms, once."""
    for name in ("page", "section", GLANCE):
        _environment().get_template(f"{name}.html.j2")


def whole(page: Page) -> bytes:
    """Return the page as a document."""
    style, script = (_file(name) for name in _FILES)
    template = _environment().get_template("page.html.j2")
    text = template.render(page=page, parts=parts(page), style=style, script=script, reload_s=RELOAD_S)
    return text.encode(errors="replace")


def parts(page: Page) -> dict[str, str]:
    """Return what stands in each section of the document, by the id of its element."""
    glance, section = (_environment().get_template(f"{name}.html.j2") for name in (GLANCE, "section"))
    return {
        GLANCE: glance.render(tiles=page.tiles),
        **{one.anchor: section.render(one=one) for one in page.sections},
    }


@cache
def policy() -> str:
    """Return the Content-Security-Policy: nothing but the page's own style and script, and its own host."""
    style, script = (_digest(_file(name)) for name in _FILES)
    return (
        f"default-src 'none'; style-src '{style}'; script-src '{script}'; connect-src 'self'; img-src data:; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader(__package__ or "", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )


@cache
def _file(name: str) -> str:
    return (files(__package__ or "") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
