"""The OpenAPI document is true: schemathesis makes requests from it, and looks at the answers (make test-serve)."""

import os

import pytest
from hypothesis import HealthCheck, given, settings

pytest.importorskip("starlette")
schemathesis = pytest.importorskip("schemathesis")

from running import fill, running  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tessella.serve import openapi  # noqa: E402

EXAMPLES = int(os.environ.get("TESSELLA_SCHEMA_EXAMPLES", "40"))
# No route says that it may answer 500, so that is wrong, too.
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = {
    made.ok().label: made.ok() for made in schemathesis.openapi.from_dict(openapi.document()).get_all_operations()
}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with running(fill(tmp_path_factory.mktemp("schema") / "c.db")) as client:
        yield str(client.base_url)


@pytest.mark.parametrize("label", list(OPERATIONS))
def test_answers_are_as_the_document_says(label, address):
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=OPERATIONS[label].as_strategy())
    def ask(case):
        case.validate_response(case.call(base_url=address), checks=CHECKS)

    ask()
