"""The embedded model behind HTTP: verdicts under grammar, and a service that stays awake meanwhile."""

import threading

import httpx
import pytest

from judge_service.app import create_app
from judge_service.backends import weights
from judge_service.domain.principal import Role
from judge_service.security.keys import issue
from judge_service.settings import Settings
from judge_service.store import Store
from tests.judge_service.api.requests import pair
from tests.judge_service.serving import serving
from tests.support.engine_server import model_settings
from tests.support.waiting import LONG_ENOUGH_S

pytestmark = pytest.mark.model


def test_health_answers_while_the_embedded_model_computes(tmp_path):
    model = weights.locate(model_settings())
    settings = Settings(data_dir=tmp_path, model_path=model, context_tokens=2048)
    key, plain = issue("test", Role.SCORE)
    with Store.open(settings.database) as store:
        store.keys.add(key)
    with serving(create_app(settings)) as port:
        url = f"http://127.0.0.1:{port}"
        headers = {"Authorization": f"Bearer {plain}"}
        answers: list[httpx.Response] = []

        def judge(number: int) -> None:
            request = pair(f"c{number}") | {"judge": "embedded-direct"}
            answers.append(httpx.post(f"{url}/v1/judgments", json=request, headers=headers, timeout=LONG_ENOUGH_S))

        with httpx.Client(base_url=url) as client:
            ready = client.get("/readyz").json()
            assert ready["status"] == "ok", ready
            threads = [threading.Thread(target=judge, args=(number,)) for number in range(2)]
            for thread in threads:
                thread.start()
            meanwhile = 0
            while any(thread.is_alive() for thread in threads):
                assert client.get("/healthz").status_code == 200
                meanwhile += 1
                threads[0].join(0.01)
            for thread in threads:
                thread.join()
    # A service that waited for the model would answer once for each call of the two judgments.
    assert meanwhile > 10
    assert [answer.status_code for answer in answers] == [201, 201]
    for answer in answers:
        body = answer.json()
        assert body["outcome"] in ("scored", "inconsistent"), body["detail"]
        assert body["enforcement"] == "grammar"
        assert {call["enforcement"] for call in body["calls"]} == {"grammar"}
        assert body["usage"]["prompt_tokens"] > 0
        assert all(call["engine"]["engine"] == "xllamacpp" for call in body["calls"])
