"""How property tests draw their examples: the same ones on each run, or, when asked, new ones; and fresh databases.

`make test` repeats itself, so that a red run means a change and not a draw. `make explore` draws anew and more.
"""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.judge_service.store.databases import copying

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=500, deadline=None, print_blob=True)
settings.load_profile("steady")


@pytest.fixture(scope="session", autouse=True)
def _databases_from_a_template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("judge_service.store.store.upgrade", copying(tmp_path_factory.mktemp("template")))
        yield
