"""Tests of finding credentials of many vendors in many surroundings. No credential is in a file: tests make them."""

from __future__ import annotations

import random
import re
import string

import pytest

from memory_ci.secrets import find_secrets, mask_secrets

ALPHABETS = {
    "h": "0123456789abcdef",
    "x": string.ascii_letters + string.digits,
    "w": string.ascii_letters + string.digits + "-_",
    "u": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "d": string.digits,
}
UUID = "{h8}-{h4}-{h4}-{h4}-{h12}"

SHAPES = f"""
adobe p8e-{{l32}}
age AGE-SECRET-KEY-1{{u58}}
airtable pat{{x14}}.{{h64}}
alibaba LTAI{{x20}}
anthropic sk-ant-api03-{{w93}}AA
anthropic-admin sk-ant-admin01-{{w93}}AA
artifactory AKCp{{x69}}
artifactory-reference cmVmd{{x59}}
asana 1/{{d16}}:{{h32}}
atlassian ATATT3{{w180}}={{u8}}
aws AKIA{{A16}}
aws-temporary ASIA{{A16}}
aws-bedrock ABSK{{x120}}
azure {{x3}}8Q~{{x34}}
bitbucket ATBB{{x24}}
brevo xkeysib-{{h64}}-{{x16}}
buildkite bkua_{{h40}}
circleci CCIPAT_{{x22}}_{{h40}}
clickhouse 4b1d{{x38}}
clojars CLOJARS_{{h60}}
cloudflare-user cfut_{{x48}}
cloudflare-account cfat_{{x48}}
cloudflare-global cfk_{{x45}}
cloudflare-origin v1.0-{{h24}}-{{h146}}
contentful CFPAT-{{w43}}
databricks dapi{{h32}}
databricks-numbered dapi{{h32}}-2
digitalocean dop_v1_{{h64}}
digitalocean-oauth doo_v1_{{h64}}
digitalocean-refresh dor_v1_{{h64}}
discord-bot MTk4{{x20}}.{{w6}}.{{w38}}
discord-webhook https://discord.com/api/webhooks/{{d18}}/{{w68}}
docker dckr_pat_{{w27}}
docker-organisation dckr_oat_{{w32}}
doppler dp.pt.{{x43}}
doppler-service dp.st.dev.{{x43}}
duffel duffel_live_{{w43}}
dynatrace dt0c01.{{u24}}.{{u64}}
easypost EZAK{{x54}}
elevenlabs sk_{{h48}}
facebook EAAC{{x120}}
figma figd_{{w40}}
firecrawl fc-{{h32}}
fireworks fw_{{x24}}
flutterwave FLWSECK_TEST-{{h32}}-X
fly fo1_{{w43}}
fly-macaroon fm2_{{x120}}
frameio fio-u-{{w64}}
github ghp_{{x36}}
github-oauth gho_{{x36}}
github-server ghs_{{x36}}
github-fine github_pat_{{x22}}_{{x59}}
gitlab glpat-{{w20}}
gitlab-runner glrt-{{w20}}
gitlab-registration GR1348941{{w20}}
google AIza{{w35}}
google-oauth GOCSPX-{{w28}}
grafana-cloud glc_{{x60}}
grafana-service glsa_{{x32}}_{{h8}}
groq gsk_{{x52}}
harness pat.{{w22}}.{{x24}}.{{x20}}
heroku HRKU-AA{{w58}}
hubspot pat-na1-{UUID}
huggingface hf_{{x34}}
infracost ico-{{x32}}
jwt eyJ{{x33}}.eyJ{{x60}}.{{w43}}
langfuse sk-lf-{UUID}
langsmith lsv2_pt_{{h32}}_{{h10}}
linear lin_api_{{x40}}
mailchimp {{h32}}-us12
mailgun key-{{l32}}
mapbox sk.eyJ{{x80}}.{{w22}}
maxmind {{x6}}_{{x29}}_mmk
neon napi_{{l64}}
netlify nfp_{{x40}}
newrelic NRAK-{{u27}}
newrelic-licence {{h36}}NRAL
notion ntn_{{d11}}{{x35}}
notion-old secret_{{x43}}
npm npm_{{x36}}
nuget oy2{{l43}}
octopus API-{{u26}}
onepassword A3-{{u6}}-{{u6}}-{{u5}}-{{u5}}-{{u5}}-{{u5}}
onepassword-service ops_eyJ{{x250}}
openai sk-proj-{{x74}}T3BlbkFJ{{x74}}
openai-old sk-{{x20}}T3BlbkFJ{{x20}}
openrouter sk-or-v1-{{h64}}
openshift sha256~{{w43}}
paypal access_token$production${{l16}}${{h32}}
perplexity pplx-{{x48}}
pinecone pcsk_{{x6}}_{{x63}}
planetscale pscale_tkn_{{w43}}
planetscale-password pscale_pw_{{w43}}
posthog phx_{{x43}}
postman PMAK-{{h24}}-{{h34}}
prefect pnu_{{x36}}
pulumi pul-{{h40}}
pypi pypi-AgEIcHlwaS5vcmc{{w120}}
razorpay rzp_live_{{x14}}
readme rdme_{{l70}}
render rnd_{{x28}}
replicate r8_{{x37}}
resend re_{{x8}}_{{x24}}
rubygems rubygems_{{h48}}
scalingo tk-us-{{w48}}
sendgrid SG.{{w22}}.{{w43}}
sentry-user sntryu_{{h64}}
sentry-organisation sntrys_eyJpYXQiO{{x120}}_{{x43}}
shippo shippo_live_{{h40}}
shopify shpat_{{h32}}
shopify-shared shpss_{{h32}}
slack xoxb-{{d12}}-{{d13}}-{{x24}}
slack-app xapp-1-{{u11}}-{{d13}}-{{h64}}
slack-webhook https://hooks.slack.com/services/T{{u10}}/B{{u10}}/{{x24}}
snyk snyk_uat.{{h8}}.{{w60}}
sonarqube squ_{{h40}}
sourcegraph sgp_{{h16}}_{{h40}}
square sq0atp-{{w22}}
stripe sk_live_{{x24}}
stripe-restricted rk_live_{{x24}}
supabase sbp_{{h40}}
supabase-secret sb_secret_{{w31}}
tailscale tskey-auth-{{x17}}-{{x32}}
tavily tvly-dev-{{x32}}
teams https://acme.webhook.office.com/webhookb2/{UUID}@{UUID}/IncomingWebhook/{{h32}}/{UUID}
telegram {{d10}}:AA{{w33}}
terraform {{x14}}.atlasv1.{{w67}}
twilio SK{{h32}}
vault hvs.{{w95}}
vault-batch hvb.{{w150}}
xai xai-{{x80}}
yandex AQVN{{w36}}
zapier https://hooks.zapier.com/hooks/catch/{{d7}}/{{l7}}
"""

SURROUNDINGS = {
    "prose": "We use {} for it.",
    "end": "The key is {}",
    "assignment": "VALUE={}",
    "name": "MY_VALUE_{}",
    "json": '{{"stdout": "ok\\n{}\\nend"}}',
    "colour": "\x1b[1;32m{}\x1b[0m",
    "colour as text": "^[[32m{}^[[0m and \\x1b[0m",
    "coloured by parts": "\x1b[38:5:196m{}\x1b(B",
    "8-bit colour": "\x9b31m{}\x9b0m",
    "hex escape": "\\x22token\\x22:\\x22{}\\x22",
    "escaped twice": "?value%253D{}%2526x",
    "mail": "value=3D{} end",
    "address": "https://example.com/?value%3D{}%26x",
    "code": "`{}`, 'and' more",
    "diff": "@@ -1 +1 @@\n+{}\n",
}


def make(shape: str) -> str:
    """Return a fixed credential of a shape, with a digit where one is allowed."""
    chance = random.Random(shape)  # noqa: S311 - none of these opens anything

    def draw(match: re.Match[str]) -> str:
        alphabet = {**ALPHABETS, "A": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"}[match[1]]
        begin = "".join(kind for kind in "7bK" if kind in alphabet and int(match[2]) > 3)
        middle = "".join(chance.choice(alphabet) for _ in range(int(match[2]) - len(begin) - 1))
        return begin + middle + chance.choice(alphabet.replace("-", "").replace("_", ""))

    return re.sub(r"\{(\w)(\d+)\}", draw, shape)


KEYS: list[tuple[str, str]] = [
    (line.split()[0], line.split()[1]) for line in SHAPES.strip().splitlines()
]


def test_there_are_at_least_a_hundred_shapes_in_eight_surroundings() -> None:
    assert len(KEYS) >= 100
    assert len(SURROUNDINGS) >= 8


@pytest.mark.parametrize(("vendor", "shape"), KEYS, ids=[vendor for vendor, _ in KEYS])
def test_a_key_is_found_whole_wherever_it_stands(vendor: str, shape: str) -> None:
    key = make(shape)
    for name, surrounding in SURROUNDINGS.items():
        masked = mask_secrets(surrounding.format(key))
        assert "[redacted:" in masked, f"{vendor} in {name}"
        assert key[-12:] not in masked, f"{vendor} in {name}"


@pytest.mark.parametrize(("vendor", "shape"), KEYS, ids=[vendor for vendor, _ in KEYS])
def test_a_key_is_found_in_markdown_that_escapes_it(vendor: str, shape: str) -> None:
    key = make(shape)
    text = "We use " + re.sub(r"([_*~-])", r"\\\1", key) + " for it."
    assert mask_secrets(text).startswith("We use [redacted:") or "://" in key
    assert find_secrets(text), vendor


@pytest.mark.parametrize("shape", ["ghp_{x36}", "npm_{x36}", "glpat-{w20}"])
def test_a_key_is_found_with_html_or_invisible_characters_in_it_and_after_a_path(
    shape: str,
) -> None:
    key = make(shape)
    for text in (
        key.replace("_", "&#95;").replace("-", "&#x2d;"),
        f"{key[:9]}\u200b{key[9:]}",
        f"C:\\dir\\{key}",
    ):
        assert key[-9:] not in mask_secrets(f"We use {text} for it.")
    assert find_secrets(make("hf_{x34}") + "_more")


@pytest.mark.parametrize(
    "vendor", ["Cloudflare", "Datadog", "Heroku", "Twilio", "Fastly", "New Relic"]
)
def test_a_key_without_a_prefix_is_found_after_its_vendors_name(vendor: str) -> None:
    for shape in ("{x40}", "{h32}", UUID):
        key = make(shape)
        assert key not in mask_secrets(f"The {vendor} API key is `{key}`.")
        assert key not in mask_secrets(f"{vendor} token: {key}")


def test_masking_does_not_change_other_text() -> None:
    key = make("ghp_{x36}")
    text = f"a\\_b %41 \x1b[1mx\x1b[0m %3D{key} c\\-d {key.replace('_', chr(92) + '_')}\\n"
    assert (
        mask_secrets(text)
        == "a\\_b %41 \x1b[1mx\x1b[0m %3D[redacted:github-token] c\\-d [redacted:github-token]\\n"
    )


ORDINARY = [
    "re_match_everything_that_looks_like_a_long_name and rnd_seed, fw_update, fc-list, nfp_x",
    "sk_learn and pk_field, SG.method.call, dp.pt.x, hvs.example, pat.match.group, secret_santa_is_a_game_with_gifts",
    "API-REFERENCE and key-value, A3-SIZE, EAA countries, v1.0-beta, LTAI is a word",
    "commit 3f2ab9191c0d4e5f6a7b8c9d0e1f2a3b4c5d6e7f and sha256:9f31c2d0aa10bb20cc30dd40ee50ff60112233",
    "The Datadog key is read from the environment; Heroku token: see the_documentation_of_the_platform",
    "C:\\_work\\new\\notes and 100%25 of \\u0041 or [1;32m as text, see docs/a\\_b.md",
    "https://discord.com/api/webhooks/ID/TOKEN and https://hooks.zapier.com/hooks/catch/ID",
    "NotificationDispatchManager.handle.retryAfterTransientNetworkFailure, cache-key-d41d8cd98f00b204e9800998ecf8427e",
    "sha256 4b1d"
    + "0123456789abcdef" * 3
    + "0123456789ab and RECORD,sha256=r8_DrqAfn6HtDsMEr6Zb0Qn3vQpYJz9xKcWmL2aT5sE,12",
    "tokenizer: cl100k_base_v2_2024 and tokenizer=meta-llama/Llama-3.1-8B-Instruct",
    "12:30:45 and a ratio of 1234567890:1, us-east-1, en-us1 layouts",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_text_that_only_looks_like_a_key_is_unchanged(text: str) -> None:
    assert mask_secrets(text) == text
