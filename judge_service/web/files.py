"""Serves style, scripts and pictures by name, with their content's hash for caches. Nothing comes from another host.

`assets` holds what report files use too; `web/static` what only pages need. Names are looked up in a table, so no
request can name another file.
"""

import gzip
from functools import lru_cache

from fastapi import APIRouter, Request, Response

from judge_service.assets import Asset, assets, collect
from judge_service.errors import NotFound
from judge_service.gate.route import GuardedRoute, public

router = APIRouter(include_in_schema=False, route_class=GuardedRoute)

_YEAR = "public, max-age=31536000, immutable"
_ASK = "public, no-cache"
_SMALL = 1024


@lru_cache(maxsize=1)
def served() -> dict[str, Asset]:
    """Every file that is served, by the name after `/static/`."""
    return collect("judge_service.web", "static") | assets()


def address(name: str) -> str:
    """Where a page finds a file: the address changes with the content. Raises KeyError for a name of no file."""
    return f"/static/{name}?v={served()[name].digest}"


@lru_cache(maxsize=64)
def _packed(name: str) -> bytes:
    return gzip.compress(served()[name].content, 6, mtime=0)


@router.get("/static/{name:path}")
@public
async def static(request: Request, name: str, v: str | None = None) -> Response:
    """One file. Under its current hash it may be kept for a year; under any other it is asked about again."""
    asset = served().get(name)
    if asset is None:
        raise NotFound(f"There is no file {name[:200]!r} here.")
    headers = {
        "Cache-Control": _YEAR if v == asset.digest else _ASK,
        "ETag": f'"{asset.digest}"',
        "Vary": "Accept-Encoding",
    }
    known = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if headers["ETag"] in known:
        return Response(status_code=304, headers=headers)
    content = asset.content
    if len(content) > _SMALL and "gzip" in request.headers.get("accept-encoding", ""):
        content = _packed(name)
        headers["Content-Encoding"] = "gzip"
    return Response(content, media_type=asset.media_type, headers=headers)
