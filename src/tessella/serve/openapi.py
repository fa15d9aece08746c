"""OpenAPI: the API as an OpenAPI document, generated from routes and messages, and as a page to read."""

import html
import http
import json
from typing import Any

import msgspec

from tessella import __version__
from tessella.serve.calls import ARROW, JSON
from tessella.serve.messages import Health, Problem
from tessella.serve.problems import PROBLEM
from tessella.serve.routes import ROUTES, Route

ALWAYS = (400, 401, 403, 422, 429, 503, 504)  # statuses that any /v1 route may return
_REF = "#/components/schemas/{name}"


def document() -> dict[str, Any]:
    """Return the API as an OpenAPI 3.1 document."""
    kinds = {kind for route in ROUTES for kind in (route.body, route.answer) if kind is not None} | {Problem, Health}
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    _, components = msgspec.json.schema_components(ordered, ref_template=_REF)
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    for path, summary in (
        ("/livez", "Whether the process is alive."),
        ("/readyz", "Whether the service can answer."),
        ("/healthz", "An alias of /readyz."),
    ):
        responses: dict[str, Any] = {"200": _response(_ref(Health), "Yes."), "503": _response(_ref(Health), "No.")}
        paths[path] = {
            "get": {"summary": summary, "operationId": path.strip("/"), "responses": responses, "security": []}
        }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tessella",
            "version": __version__,
            "description": "Top-k recommendations from matrix-factorisation factors.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _ref(kind: type[Any]) -> dict[str, str]:
    return {"$ref": _REF.format(name=kind.__name__)}


def _response(schema: dict[str, Any], description: str, content_type: str = JSON) -> dict[str, Any]:
    return {"description": description, "content": {content_type: {"schema": schema}}}


def _operation(route: Route) -> dict[str, Any]:
    made: dict[str, Any] = {"summary": route.summary, "operationId": route.name}
    parameters = [
        {"name": name, "in": "path", "required": True, "description": text, "schema": schema}
        for name, (text, schema) in route.params.items()
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "description": text, "schema": schema}
        for name, text, schema in route.query
    ]
    parameters.append(
        {
            "name": "Tessella-Timeout-Ms",
            "in": "header",
            "required": False,
            "description": "The time limit of this request in milliseconds.",
            "schema": {"type": "integer", "minimum": 1},
        }
    )
    made["parameters"] = parameters
    if route.body is not None:
        content: dict[str, Any] = {JSON: {"schema": _ref(route.body)}}
        if route.arrow:
            content[ARROW] = {}
        made["requestBody"] = {"required": True, "content": content}
    responses: dict[str, Any] = {
        "200": _response(_ref(route.answer), "The answer.") if route.answer else {"description": "Done."}
    }
    if route.arrow and not route.writes:
        responses["200"]["content"][ARROW] = {}
    for status in sorted({*ALWAYS, *route.statuses}):
        responses[str(status)] = _response(_ref(Problem), http.HTTPStatus(status).phrase, PROBLEM)
    made["responses"] = responses
    return made


_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 0.9rem/1.4 ui-monospace, monospace; }
pre { overflow: auto; padding: 0.75rem; border: 1px solid #8884; border-radius: 6px; }
details { border-bottom: 1px solid #8884; padding: 0.5rem 0; }
summary { cursor: pointer; }
b.method { display: inline-block; width: 4.5rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: 0.2rem 1rem 0.2rem 0; vertical-align: top; }
"""


def page() -> str:
    """Return the document as a self-contained HTML page."""
    told = document()
    parts = [
        f"<h2>{html.escape(path)}</h2>" + "".join(_shown(method, path, one, told) for method, one in methods.items())
        for path, methods in told["paths"].items()
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>tessella: API</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><h1>tessella {html.escape(__version__)}</h1>"
        '<p>OpenAPI document: <a href="/openapi.json">openapi.json</a>. Console: <a href="/">/</a>.</p>'
        f"{''.join(parts)}</body></html>"
    )


def _shown(method: str, path: str, one: dict[str, Any], told: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{html.escape(parameter['name'])}</code></td><td>{parameter['in']}</td>"
        f"<td>{html.escape(parameter['description'])}</td></tr>"
        for parameter in one.get("parameters", ())
    )
    blocks = ""
    body = one.get("requestBody", {}).get("content", {}).get(JSON, {}).get("schema")
    for title, schema in (
        ("Body", body),
        ("Answer", one["responses"]["200"].get("content", {}).get(JSON, {}).get("schema")),
    ):
        if schema is not None:
            name = schema["$ref"].rsplit("/", 1)[1]
            text = json.dumps(told["components"]["schemas"][name], indent=2)
            blocks += f"<h3>{title}: {name}</h3><pre>{html.escape(text)}</pre>"
    statuses = ", ".join(one["responses"])
    return (
        f'<details><summary><b class="method">{method.upper()}</b> <code>{html.escape(path)}</code> '
        f"{html.escape(one['summary'])}</summary><table>{rows}</table>{blocks}<p>Statuses: {statuses}</p></details>"
    )
