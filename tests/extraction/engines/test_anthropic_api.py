"""Tests of calls of the Messages API: the request, credentials, and errors before anything is sent."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from typing import Any

import pytest

from memory_ci.errors import EngineError
from memory_ci.extraction.engines.anthropic_api import (
    CLIENTS,
    CREDENTIAL_VARIABLES,
    AnthropicEngine,
    is_configured,
)
from memory_ci.records.config import EngineConfig, Provider
from tests.extraction.engines.make import KEY, make_engine, make_request, make_text
from tests.extraction.engines.model_double import Answer, make_answer, make_error, serve_model

anthropic = pytest.importorskip("anthropic")

FEDERATION = {
    "ANTHROPIC_FEDERATION_RULE_ID": "fdrl_01",
    "ANTHROPIC_ORGANIZATION_ID": "00000000-0000-4000-8000-000000000001",
    "ANTHROPIC_IDENTITY_TOKEN": "eyJ.identity.token",
}


def test_a_call_has_the_required_parameters_and_none_for_sampling() -> None:
    with serve_model(make_answer(make_text())) as model:
        make_engine(model.url).extract(make_request())
    body, headers = model.requests[0].body, model.requests[0].headers
    assert set(body) == {"model", "max_tokens", "system", "messages", "output_config"}
    assert (body["model"], body["max_tokens"]) == ("claude-haiku-5-5", 8000)
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert [message["role"] for message in body["messages"]] == ["user"]
    assert "idempotency key" in body["messages"][0]["content"]
    assert body["output_config"]["format"]["type"] == "json_schema"
    assert body["output_config"]["format"]["schema"]["type"] == "object"
    assert KEY in (
        headers.get("x-api-key"),
        headers.get("authorization", "").removeprefix("Bearer "),
    )
    assert model.requests[0].path == "/v1/messages"


def test_a_reply_has_its_usage_and_the_model_that_answered() -> None:
    answer = make_answer(
        make_text(), input_tokens=10, cache_read_input_tokens=20, cache_creation_input_tokens=30
    )
    with serve_model(answer) as model:
        reply = make_engine(model.url).extract(make_request())
    usage = reply.usage
    assert (
        usage.input_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.is_batch,
    ) == (
        10,
        20,
        30,
        False,
    )
    assert (reply.model, reply.tries) == ("claude-haiku-5-5", 1)


def test_after_a_refused_schema_calls_are_sent_without_it() -> None:
    refusal = make_error(
        400, "invalid_request_error", "output_config: Extra inputs are not permitted"
    )
    with serve_model(refusal, make_answer(make_text())) as model:
        engine = make_engine(model.url)
        assert engine.extract(make_request()).tries == 2
        assert engine.extract(make_request()).tries == 1
    assert ["output_config" in request.body for request in model.requests] == [True, False, False]


def test_a_prompt_that_is_too_long_is_not_sent() -> None:
    with serve_model(make_answer(make_text())) as model:
        with pytest.raises(EngineError) as caught:
            make_engine(model.url).extract(make_request("word " * 50_000))
        assert (caught.value.slug, model.requests) == ("prompt-too-long", [])


def test_a_call_that_could_exceed_the_cost_limit_is_not_made() -> None:
    answer = make_answer(make_text(), input_tokens=10_000, output_tokens=8000)
    with serve_model(answer) as model:
        engine = make_engine(model.url, max_cost_usd=0.01)
        engine.extract(make_request())
        engine.extract(make_request())
        with pytest.raises(EngineError) as caught:
            engine.extract(make_request())
    assert (caught.value.slug, len(model.requests)) == ("cost-limit", 2)
    assert engine.meter.spent.cost_usd == pytest.approx(2 * 0.005)


def test_a_missing_key_is_unauthorised_without_a_request() -> None:
    with serve_model(make_answer(make_text())) as model:
        with pytest.raises(EngineError) as caught:
            make_engine(model.url, environ={}).extract(make_request())
        assert (caught.value.slug, model.requests) == ("engine-unauthorised", [])
    assert (
        "no credentials for anthropic: set ANTHROPIC_API_KEY; or ANTHROPIC_AUTH_TOKEN; or "
        in caught.value.message
    )
    assert "TypeError" not in caught.value.message


def test_a_missing_package_is_named_with_its_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(EngineError) as caught:
        make_engine("").extract(make_request())
    assert caught.value.slug == "engine-not-installed"
    assert caught.value.message.endswith("is not installed: the package anthropic")
    assert "pip install 'memory-ci[anthropic]'" in caught.value.hint


def test_a_redirect_does_not_send_the_key_to_another_host() -> None:
    with serve_model(make_answer(make_text())) as other_server:
        redirect = Answer("", 307, (("location", f"{other_server.url}/v1/messages"),))
        with serve_model(redirect) as model, pytest.raises(EngineError) as caught:
            make_engine(model.url).extract(make_request())
    assert (caught.value.slug, other_server.requests) == ("engine-rejected-request", [])


def test_a_token_is_sent_as_bearer() -> None:
    with serve_model(make_answer(make_text())) as model:
        make_engine(model.url, environ={"ANTHROPIC_AUTH_TOKEN": KEY}).extract(make_request())
    assert model.requests[0].headers["authorization"] == f"Bearer {KEY}"


def federate(model_url: str, patch: pytest.MonkeyPatch) -> AnthropicEngine:
    for name, value in FEDERATION.items():  # the SDK reads them itself
        patch.setenv(name, value)
    return make_engine(model_url, environ=FEDERATION)


has_identity = hasattr(anthropic, "WorkloadIdentityCredentials")


def test_workload_identity_is_exchanged_for_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    token = Answer('{"access_token": "short-lived", "token_type": "Bearer", "expires_in": 3600}')
    with serve_model(make_answer(make_text()), paths={"/v1/oauth/token": token}) as model:
        engine = federate(model.url, monkeypatch)
        if has_identity:
            engine.extract(make_request())
            assert model.requests[0].body["assertion"] == FEDERATION["ANTHROPIC_IDENTITY_TOKEN"]
            assert model.requests[1].headers["authorization"] == "Bearer short-lived"
        else:
            with pytest.raises(EngineError, match="credentials"):
                engine.extract(make_request())
            assert model.requests == []


def test_a_refused_identity_is_unauthorised(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = Answer('{"error": "invalid_grant", "error_description": "no such rule"}', 400)
    paths = {"/v1/oauth/token": refusal}
    with (
        serve_model(make_answer(make_text()), paths=paths) as model,
        pytest.raises(EngineError) as caught,
    ):
        federate(model.url, monkeypatch).extract(make_request())
    assert caught.value.slug == "engine-unauthorised"
    assert FEDERATION["ANTHROPIC_IDENTITY_TOKEN"] not in str(caught.value)


@pytest.mark.parametrize("provider", CLIENTS)
def test_each_provider_has_a_client_in_the_sdk(provider: Provider) -> None:
    assert isinstance(getattr(anthropic, CLIENTS[provider]), type)


def test_a_cloud_provider_is_called_with_its_own_client(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_model(make_answer(make_text())) as model:
        monkeypatch.setenv("ANTHROPIC_FOUNDRY_BASE_URL", model.url)
        monkeypatch.setenv("ANTHROPIC_FOUNDRY_API_KEY", KEY)
        make_engine(model.url, environ={}, provider="foundry").extract(make_request())
    assert KEY in model.requests[0].headers.values()


def test_a_cloud_provider_without_a_region_is_unauthorised_and_names_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CLOUD_ML_REGION", raising=False)
    with pytest.raises(EngineError, match="CLOUD_ML_REGION") as caught:
        make_engine("", environ={}, provider="vertex").extract(make_request())
    assert caught.value.slug == "engine-unauthorised"


@pytest.mark.parametrize("provider", CLIENTS)
def test_a_provider_is_configured_only_by_a_complete_set_of_variables(
    provider: Provider,
) -> None:
    settings = EngineConfig(provider=provider)
    for names in CREDENTIAL_VARIABLES[provider]:
        assert str(is_configured(dict.fromkeys(names, "x"), settings)).startswith(names[0])
        assert is_configured(dict.fromkeys(names[:-1], "x") | {names[-1]: ""}, settings) is None


def run_python(source: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    ).stdout


def test_checking_the_configuration_does_not_import_the_sdk() -> None:
    source = (
        "import sys; from memory_ci.records.config import EngineConfig as C;"
        "from memory_ci.extraction.engines.anthropic_api import AnthropicEngine as E, is_configured as f;"
        "E(C(), {}); print(f({'ANTHROPIC_API_KEY': 'x'}, C()), 'anthropic' in sys.modules)"
    )
    assert run_python(source) == "ANTHROPIC_API_KEY is set False\n"


def test_a_missing_sdk_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(EngineError) as caught:
        make_engine("http://127.0.0.1:9").extract(make_request())
    assert caught.value.slug == "engine-not-installed"
    assert "memory-ci[anthropic]" in caught.value.hint


def test_the_repr_of_an_engine_has_no_credential() -> None:
    engine: Any = make_engine("http://127.0.0.1:9")
    assert KEY not in repr(engine)
    assert KEY not in repr(engine.meter)


def test_a_key_that_is_invalid_in_a_header_is_reported_without_its_value() -> None:
    environ = {"ANTHROPIC_API_KEY": "sk-one\nsk-two", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    with pytest.raises(
        EngineError, match="ANTHROPIC_API_KEY is no key: it holds a line break"
    ) as caught:
        AnthropicEngine(EngineConfig(), environ).extract(make_request())
    assert caught.value.slug == "engine-unauthorised"
    assert "sk-one" not in str(caught.value)


def test_a_line_feed_after_a_key_is_removed() -> None:
    with serve_model(make_answer(make_text())) as server:
        environ = {"ANTHROPIC_API_KEY": f"{KEY}\n", "ANTHROPIC_BASE_URL": server.url}
        with closing(AnthropicEngine(EngineConfig(), environ)) as engine:
            assert engine.extract(make_request()).stop_reason == "end_turn"
