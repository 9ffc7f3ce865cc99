"""Style, scripts and pictures that pages and report files share: what they are, their type and their content's hash.

Owns the table of design tokens (`site.css`). Knows nothing of requests; whoever embeds or serves a file asks here.
"""

import hashlib
import mimetypes
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_TOKEN = re.compile(r"--([a-z0-9-]+):\s*(#[0-9a-f]{6})\b")


@dataclass(frozen=True, slots=True)
class Asset:
    """One file: its content, media type, and the first 16 hex digits of its SHA-256."""

    name: str
    content: bytes
    media_type: str
    digest: str

    @property
    def text(self) -> str:
        """The content as text."""
        return self.content.decode("utf-8")


def collect(package: str, folder: str = "") -> dict[str, Asset]:
    """The files of a package's folder by their path below it; Python files are left out."""
    found: dict[str, Asset] = {}

    def walk(place: Traversable, prefix: str) -> None:
        for entry in place.iterdir():
            if entry.is_dir():
                if entry.name != "__pycache__":
                    walk(entry, f"{prefix}{entry.name}/")
            elif not entry.name.endswith((".py", ".pyc")):
                name = prefix + entry.name
                content = entry.read_bytes()
                suffix = "." + entry.name.rpartition(".")[2]
                kind = _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
                found[name] = Asset(name, content, kind, hashlib.sha256(content).hexdigest()[:16])

    root = files(package)
    walk(root / folder if folder else root, "")
    return found


@lru_cache(maxsize=1)
def assets() -> dict[str, Asset]:
    """The shared files by name, such as `site.css` and `vendor/vega.min.js`."""
    return collect("judge_service.assets")


@lru_cache(maxsize=1)
def tokens() -> tuple[dict[str, str], dict[str, str]]:
    """The colours of `site.css` by token, in light and in dark, as `#rrggbb`."""
    light, _, rest = assets()["site.css"].text.partition("@media (prefers-color-scheme: dark)")
    dark = rest.partition("}")[0]
    return dict(_TOKEN.findall(light)), dict(_TOKEN.findall(dark))
