"""Two plain pages for people: where to start, and every route. No script, nothing from another host."""

import base64
import hashlib
import html
import json
import re
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from judge_service import __version__
from judge_service.gate.route import GuardedRoute, public

router = APIRouter(include_in_schema=False, route_class=GuardedRoute)

_STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#17212b;--muted:#4a5866;--accent:#0a58a6;--line:#cdd5dd}
@media(prefers-color-scheme:dark){:root{--paper:#161c23;--ink:#e8edf2;--muted:#a9b6c3;--accent:#7cbcff;--line:#36424e}}
body{background:var(--paper);color:var(--ink);font:1rem/1.5 system-ui,sans-serif;margin:0 auto;max-width:1160px;
padding:24px}
h1{font-size:1.5rem;font-weight:650}h2{font-size:1.25rem;font-weight:650}h3{font-size:1rem;font-weight:650}
a{color:var(--accent)}a:focus-visible,summary:focus-visible,pre:focus-visible{outline:3px solid var(--accent);
outline-offset:2px}
p,li{max-width:68ch}.muted{color:var(--muted);font-size:.875rem}code,pre{font-family:ui-monospace,monospace}
pre{border:1px solid var(--line);border-radius:6px;overflow-x:auto;padding:12px;font-size:.875rem}
section{border-top:1px solid var(--line);padding:8px 0}
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def _page(title: str, body: str) -> HTMLResponse:
    document = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><main>{body}</main></body></html>"
    )
    return HTMLResponse(document, headers={"Content-Security-Policy": _POLICY})


@router.get("/")
@public
async def index() -> HTMLResponse:
    """Where to start."""
    return _page(
        "judge-service",
        f"""<h1>judge-service {html.escape(__version__)}</h1>
<p>LLM judges whose verdicts carry their measured agreement with people.</p>
<ul>
<li><a href="/docs">Every route with an example</a></li>
<li><a href="/openapi.json">OpenAPI document</a></li>
<li><a href="/readyz">What is ready</a></li>
</ul>
<p>Requests under <code>/v1</code> need a key: <code>Authorization: Bearer jk_...</code>. The first start printed an
admin key on standard error; <code>judge-service keys create</code> makes more.</p>""",
    )


def _example(operation: dict[str, Any]) -> Any:
    content = operation.get("requestBody", {}).get("content", {})
    for media in content.values():
        if "example" in media:
            return media["example"]
        for example in media.get("examples", {}).values():
            return example.get("value")
    return None


def _prose(text: str) -> str:
    """Escaped text; what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    parts = [
        f"<section><h3><code>{html.escape(method.upper())} {html.escape(path)}</code></h3>",
        f"<p>{html.escape(operation.get('summary', ''))}. {_prose(operation.get('description', ''))}</p>",
    ]
    permission = operation.get("x-permission")
    roles = ", ".join(operation.get("x-roles", []))
    needed = f"Permission {permission}: {roles}." if permission else "Open to everyone."
    parts.append(f'<p class="muted">{html.escape(needed)}</p>')
    example = _example(operation)
    if example is not None:
        text = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
        parts.append(f'<pre tabindex="0">{html.escape(text)}</pre>')
    parts.append("</section>")
    return "".join(parts)


@router.get("/docs")
@public
async def docs(request: Request) -> HTMLResponse:
    """Every route of the OpenAPI document, for reading."""
    document = request.app.openapi()
    operations = [
        _operation(method, path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]
    return _page(
        "judge-service: routes",
        '<h1>Routes</h1><p><a href="/openapi.json">OpenAPI document</a></p>' + "".join(operations),
    )
