"""Tests of masking secrets: secrets are masked, ordinary text is not, and masking is idempotent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_ci.evidence.content import redact
from memory_ci.secret_patterns import PATTERNS
from memory_ci.secrets import find_secrets

MIXED = "a1B2c3D4e5F6g7H8i9J0"
LONG = MIXED * 4

SECRETS = [
    ("aws-access-key", "AKIA" + "QWERTYUIOP234567"),
    ("aws-secret-key", "aws_secret_access_key = " + (MIXED * 2)),
    ("github-token", "ghp_" + LONG[:36]),
    ("github-token", "gho_" + LONG[:36]),
    ("github-token", "ghu_" + LONG[:36]),
    ("github-token", "ghs_" + LONG[:36]),
    ("github-token", "ghr_" + LONG[:36]),
    ("github-token", "github_pat_" + LONG[:22] + "_" + LONG[:59]),
    ("gitlab-token", "glpat-" + MIXED),
    ("gitlab-token", "glrt-" + MIXED),
    ("gitlab-token", "glrtr-" + MIXED),
    ("gitlab-token", "glcbt-" + "64_" + MIXED),
    ("anthropic-key", "sk-ant-" + "oat01-" + LONG),
    ("openai-key", "sk-" + "svcacct-" + LONG),
    ("google-key", "GOC" + "SPX-" + LONG[:28]),
    ("slack-token", "xapp-" + "1-A0123-" + MIXED),
    ("stripe-key", "rk_" + "test_" + LONG[:24]),
    ("stripe-key", "sk_" + "org_live_" + LONG[:24]),
    ("anthropic-key", "sk-ant-" + "api03-" + LONG),
    ("openai-key", "sk-" + "proj-" + LONG),
    ("openai-key", "sk-" + LONG[:48]),
    ("google-key", "AIza" + LONG[:35]),
    ("slack-token", "xox" + "b-123456789012-" + MIXED),
    ("slack-webhook", "https://hooks.slack.com/services/" + "T00000000/B00000000/" + MIXED),
    ("stripe-key", "sk_" + "live_" + LONG[:24]),
    ("npm-token", "npm_" + LONG[:36]),
    ("pypi-token", "pypi-" + "AgEIcHlwaS5vcmc" + LONG),
    ("huggingface-token", "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH"),
    (
        "private-key",
        "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE" + LONG + "\n-----END RSA PRIVATE KEY-----",
    ),
    ("private-key", "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nMIIE" + LONG),
    ("jwt", "eyJ" + "hbGciOiJIUzI1NiJ9" + "." + "eyJ" + "zdWIiOiIxMjM0In0" + "." + LONG[:43]),
    ("url-password", "postgres://app:" + "s3cr3t!x" + "@db.internal:5432/main"),
    ("url-password", "https://bot:" + MIXED + "@git.example.com/x.git"),
    ("netrc-password", "machine git.example.com login ada password " + "hunter2x"),
    ("connection-string", "DefaultEndpointsProtocol=https;AccountKey=" + LONG[:86] + "=="),
    (
        "netrc-password",
        "machine git.example.com\n  login ada\n  account x\n  password " + "hunter2x",
    ),
    ("netrc-password", "default login ada password " + "hunter2x"),
    ("connection-string", "Endpoint=sb://x;SharedAccessKey=" + LONG[:43] + "="),
    ("connection-string", "jdbc:postgresql://db/main?user=app&password=" + "hunter2x"),
    ("connection-string", "host=db dbname=main user=app password=" + "hunter2x"),
    ("url-password", "redis://:" + "hunter2x" + "@cache:6379/0"),
    ("github-token", 'a line of JSON: {"stdout": "done\\n' + "ghp_" + LONG[:36]),
    ("password", '{"stdout": "{\\"api_key\\": \\"' + MIXED + '\\"}"}'),
    ("connection-string", "Server=db;Database=main;Uid=app;Pwd=" + "hunter2;"),
    ("authorization", "Authorization: Bearer " + MIXED),
    ("authorization", "curl -H 'Authorization: Basic " + MIXED + "'"),
    ("password", "password=" + "xK9#mP2$vL5n".replace("$", "z")),
    ("password", "API_KEY: '" + MIXED + "'"),
    ("password", '"client_secret": "' + MIXED + '"'),
    ("password", "export DEPLOY_TOKEN=" + MIXED),
]

ORDINARY = [
    "The token bucket refills every second; a secret ballot needs no password.",
    "password=os.environ['DB_PASSWORD']",
    "token = get_token(request)",
    "api_key: settings.oauth_token_v2",
    "secret: ${{ secrets.DEPLOY_KEY }}",
    "https://user:$TOKEN@host.example/x and https://user:${PASS}@host.example",
    "postgres://user:password@localhost/db in the example",
    "password: changeme",
    "commit 3f2ab9191c0d4e5f6a7b8c9d0e1f2a3b4c5d6e7f fixed it",
    "id 0f6f1f0e-5f0a-4c55-9c0b-3f3a0c2f9d11 is the entry",
    "sha256:9f31c2d0aa10bb20cc30dd40ee50ff6011223344556677889900aabbccddeeff",
    "git clone git@github.com:owner/repo.git",
    "pin actions/checkout@v4.2.1 and left-pad@1.3.0 and @types/node@20",
    "می‌خواهم کتاب‌ها را بخوانم",  # noqa: RUF001 - Persian, on purpose
    "the family 👨‍👩‍👧‍👦 and क्‍ष stay whole",
    "https://example.com/home/alice/page and ./home/alice",
    "Bearer tokens are refused without an Authorization header",
    "sk-learn and sk-toggleable-content are no keys; xoxo",
    "use the ghp_ prefix to tell a token",
    "a@b matrix product, x@y.T transposed",
    "CalculateTotalTokenUsage:  2.119834ms and secret_reads: 1,234.567MB",
]

NEAR = [
    ("aws-access-key", "AKIA" + "QWERTYUIOP23456"),
    ("aws-access-key", "TAKIA" + "QWERTYUIOP234567"),
    ("aws-secret-key", "aws_secret_access_key = var.secret_key"),
    ("github-token", "ghp_" + "short"),
    ("github-token", "ghx_" + LONG[:36]),
    ("github-token", "github_pat_" + "x"),
    ("gitlab-token", "glpat-" + "short"),
    ("gitlab-token", "glxx-" + MIXED),
    ("anthropic-key", "sk-ant-" + "api03-..."),
    ("openai-key", "sk-" + "proj-<yours>"),
    ("openai-key", "disk-" + LONG[:10]),
    ("google-key", "AIza" + LONG[:20]),
    ("slack-token", "xox" + "b-1234"),
    ("slack-webhook", "https://hooks.slack.com/" + "docs"),
    ("stripe-key", "sk_" + "live_" + "x"),
    ("stripe-key", "task_" + "live_" + LONG[:24]),
    ("npm-token", "npm_" + LONG[:20]),
    ("npm-token", "npm_config_registry"),
    ("pypi-token", "pypi-" + "publish-action-of-the-release-job"),
    ("huggingface-token", "hf_" + "hub_download"),
    ("private-key", "-----BEGIN PUBLIC KEY-----\nMIIE\n-----END PUBLIC KEY-----"),
    ("jwt", "eyJ" + "hbGciOiJIUzI1NiJ9 alone"),
    ("url-password", "https://example.com:8080/a@b"),
    ("url-password", "ssh://git@example.com:22/x.git"),
    ("netrc-password", "every machine asks for the login and password of its owner"),
    ("netrc-password", "the default login page shows the password field"),
    ("connection-string", "AccountKey=<key>"),
    ("connection-string", "Server=db;Database=main;Pwd=${PASSWORD};"),
    ("connection-string", "https://example.com/?user=a&password=${PASSWORD}"),
    ("connection-string", "host=db user=app sslmode=require"),
    ("authorization", "Authorization: Bearer ${TOKEN}"),
    ("password", "password = getpass.getpass()"),
]


@pytest.mark.parametrize(("kind", "text"), SECRETS)
def test_a_secret_is_found_and_masked(kind: str, text: str) -> None:
    surrounding_text = f"before\n{text}\nafter"
    secrets = find_secrets(surrounding_text)
    assert [secret.kind for secret in secrets] == [kind]
    masked = redact(surrounding_text)
    assert masked.kinds == (kind,)
    assert surrounding_text[secrets[0].start : secrets[0].end] not in masked.text
    assert masked.text.startswith("before\n")


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_not_touched(text: str) -> None:
    assert redact(text).text == text


@pytest.mark.parametrize(("kind", "text"), NEAR)
def test_text_that_only_looks_like_a_secret_is_unchanged(kind: str, text: str) -> None:
    assert find_secrets(text) == []
    assert kind in {pattern.kind for pattern in PATTERNS}


def test_every_kind_has_a_secret_and_a_near_miss() -> None:
    """Kinds with a prefix are tested in tests/test_credentials.py."""
    kinds = {kind for kind, _ in SECRETS}
    assert kinds == {kind for kind, _ in NEAR} <= {pattern.kind for pattern in PATTERNS}


def test_addresses_and_home_directories_are_replaced() -> None:
    text = r"Ada <ada.l@example.co.uk> ran /home/ada/x.py, /Users/ada/y and C:\Users\ada\z"
    masked = redact(text)
    assert masked.text == r"Ada <[redacted:email]> ran ~/x.py, ~/y and ~\z"
    assert (masked.count, masked.kinds) == (4, ("email", "home"))


def test_the_longest_of_overlapping_secrets_is_masked() -> None:
    masked = redact("Authorization: Bearer " + "ghp_" + LONG[:36])
    assert masked.count == 1
    assert LONG[:10] not in masked.text


FRAGMENTS = st.lists(
    st.one_of(
        st.sampled_from([text for _, text in SECRETS]),
        st.sampled_from(
            [
                "password=",
                "://",
                "user:",
                "@host.example",
                "[redacted:jwt]",
                "token: ",
                " ",
                "\n",
                "~",
                "/home/x",
            ]
        ),
        st.text(max_size=8),
    ),
    max_size=8,
).map("".join)


@given(FRAGMENTS)
def test_masking_is_idempotent(text: str) -> None:
    once = redact(text)
    twice = redact(once.text)
    assert (twice.text, twice.count) == (once.text, 0)


@given(FRAGMENTS)
def test_masked_text_contains_no_secret(text: str) -> None:
    assert find_secrets(redact(text).text) == []


def test_a_text_of_many_addresses_is_masked_in_linear_time() -> None:
    masked = redact("a@example.com " * 40_000)
    assert masked.count == 40_000
    assert masked.text == "[redacted:email] " * 40_000
