"""The OpenAPI document is true: schemathesis makes requests from it, and looks at the answers (make test-serve)."""

import os

import pytest
from hypothesis import HealthCheck, settings

pytest.importorskip("starlette")
schemathesis = pytest.importorskip("schemathesis")

from running import fill, running  # noqa: E402

EXAMPLES = int(os.environ.get("TESSELLA_SCHEMA_EXAMPLES", "40"))


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    with running(fill(tmp_path_factory.mktemp("schema") / "c.db")) as client:
        yield schemathesis.openapi.from_url(f"{client.base_url}/openapi.json")


schema = schemathesis.pytest.from_fixture("web")


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_answers_are_as_the_document_says(case):
    from schemathesis.checks import not_a_server_error  # noqa: PLC0415
    from schemathesis.specs.openapi.checks import (  # noqa: PLC0415
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    case.call_and_validate(
        checks=[not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    )
