"""Patterns of credentials: the keys, tokens and passwords of services, and words that name them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec


class Pattern(msgspec.Struct, frozen=True):
    """A pattern of credentials.

    Attributes:
        kind: the kind of credential, which takes its place in masked text.
        keywords: a match begins with one of these (in lower case), or at most `reach` characters
            before it. A keyword that does not end in a letter, and a vendor, is searched where its
            last letters are a word: `ghp_` where `ghp` is.
        companions: a match with a keyword holds one of these, too (in lower case).
        regex: matches the credential, or has it as the group `secret`.
        needs_entropy: the value must look random, because the key alone proves nothing.
        reach: how many characters of a match may be before its keyword.
        anchor: a regex that is searched if a match has no keyword.
    """

    kind: str
    keywords: tuple[str, ...]
    regex: str
    needs_entropy: bool = False
    reach: int = 0
    anchor: str = ""
    companions: tuple[str, ...] = ()


def _pattern(
    kind: str,
    keywords: str,
    regex: str,
    needs_entropy: bool = False,
    reach: int = 0,
    *,
    companions: str = "",
) -> Pattern:
    """Return a pattern, with its keywords and companions split at blanks.

    The arguments are the attributes of `Pattern`.
    """
    return Pattern(
        kind,
        tuple(keywords.split()),
        regex,
        needs_entropy,
        reach,
        companions=tuple(companions.split()),
    )


VENDORS = (
    "algolia circleci cloudflare datadog fastly heroku launchdarkly mailgun netlify okta relic "
    "snyk twilio vercel wandb"
)
"""Vendors with keys without a prefix, which follow the vendor and `key`, `token` or `secret`."""

EDGE = "(?<![A-Za-z0-9\u0130\u0131\u017f\u212a])"
"""The edge before a key, also an underscore or a dot; the last four are letters to `lower_case`."""

# Each pattern reads a bounded length before it fails; else a text of nothing but beginnings would
# take quadratic time.
PATTERNS: tuple[Pattern, ...] = (
    _pattern(
        "private-key",
        "-----begin",
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
        # Up to the next beginning at most.
        r"(?:(?:(?!-----BEGIN)[^\0]){0,40000}?-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
        r"|[A-Za-z0-9+/=\s\\]*)",
    ),
    _pattern(
        "aws-access-key",
        "akia asia abia acca",
        EDGE + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])",
    ),
    _pattern(
        "aws-secret-key",
        "aws",
        r"(?i:aws[\w-]{0,20}secret[\w-]{0,20}(?:key|token)?)\\?[\"']?\s{0,3}[:=]\s{0,3}\\?[\"']?"
        r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
    ),
    _pattern("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", EDGE + r"gh[pousr]_[A-Za-z0-9_]{20,255}"),
    _pattern("github-token", "github_pat_", EDGE + r"github_pat_[A-Za-z0-9_]{22,255}"),
    _pattern(
        "gitlab-token",
        "glpat- gldt- glrt- glrtr- glwt- glcbt- glptt- glft- glsoat- glagent- glimt- gloas- "
        "glffct-",
        EDGE + r"gl(?:pat|dt|rtr?|wt|cbt|ptt|ft|soat|agent|imt|oas|ffct)-[A-Za-z0-9_.-]{20,}",
    ),
    _pattern("anthropic-key", "sk-ant-", EDGE + r"sk-ant-[A-Za-z0-9_-]{20,}"),
    _pattern(
        "openai-key",
        "sk-",
        EDGE
        + r"sk-(?:(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{32,}(?![A-Za-z0-9]))",
    ),
    _pattern(
        "google-key",
        "aiza gocspx- ya29.",
        EDGE + r"(?:AIza[A-Za-z0-9_-]{35}|GOCSPX-[\w-]{20,}|ya29\.[\w-]{20,})",
    ),
    _pattern(
        "slack-token",
        "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp-",
        EDGE + r"(?:xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{10,})",
    ),
    _pattern(
        "slack-webhook",
        "https://hooks.slack.com/",
        r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9+/]{20,}",
    ),
    _pattern(
        "stripe-key",
        "sk_ rk_ whsec_",
        EDGE + r"(?:[sr]k_(?:org_)?(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{20,})",
    ),
    _pattern("npm-token", "npm_", EDGE + r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _pattern("pypi-token", "pypi-", EDGE + r"pypi-[A-Za-z0-9_-]{50,}"),
    _pattern(
        "huggingface-token",
        "hf_ api_org_",
        EDGE + r"(?:hf_[A-Za-z]{30,}|hf_[A-Za-z0-9]{34,}|api_org_[A-Za-z]{34})(?![A-Za-z0-9])",
    ),
    _pattern(
        "jwt",
        "eyj",
        EDGE + r"eyJ[A-Za-z0-9_-]{10,8000}+\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    ),
    _pattern(
        "url-password",
        "://",
        r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,30}://[^\s/:@\0\"'<>]{0,100}:"
        r"(?P<secret>[^\s/@\0\"'<>]{3,200})@(?=[\w\[])",
        reach=31,
    ),
    _pattern(
        "netrc-password",
        "machine default",
        r"(?:\bmachine\s+\S+|(?m:^)default)\s+login\s+[^\s\0]+\s+"
        r"(?:account\s+[^\s\0]+\s+)?password\s+"
        r"(?P<secret>[^\s\0]+)",
        companions="login",
    ),
    _pattern(
        "connection-string",
        "accountkey sharedaccesskey",
        r"\b(?:Account|SharedAccess)Key=(?P<secret>[A-Za-z0-9+/=]{40,})",
    ),
    _pattern(
        "connection-string",
        "password= pwd=",
        r"[?&](?i:password|pwd)=(?P<secret>[^&\s\0\"'`${<%*]{3,200})",
        reach=1,
    ),
    _pattern(
        "connection-string",
        "host= dbname= user=",
        r"\b(?:host|dbname|user)=[^\s\0]{1,100} (?:[a-z_]{1,20}=[^\s\0]{1,100} ){0,6}password="
        r"(?P<secret>[^\s\0\"'`${<%*]{3,})",
        companions="password=",
    ),
    _pattern(
        "connection-string",
        "server= host= uid= data user",
        r"\b(?i:(?:server|data source|host|uid|user id)=[^;\s\0]{1,300};"
        r"(?:[^;\n\0]*;){0,6}\s*(?:pwd|password)=)"
        r"(?P<secret>[^;\s\0\"'${<]{3,})",
        companions="pwd= password=",
    ),
    _pattern(
        "authorization",
        "authorization bearer",
        r"(?i:\bauthorization\\?[\"']?\s{0,3}[:=]\s{0,3}\\?[\"']?(?:basic|bearer|token)|\bbearer)"
        r"\s{1,3}"
        r"(?P<secret>[A-Za-z0-9._~+/=-]{16,})",
        needs_entropy=True,
    ),
    _pattern(
        "password",
        "passw pwd secret token api access_key private_key",
        r"(?i:(?:password|passwd|pwd|secret|token(?!iz)|api[_-]?key|access_key|private_key)"
        r"[\w-]{0,20})"
        r"\\?[\"']?\s{0,3}(?:=|:|:=|=>)\s{0,3}\\?[\"']?(?P<secret>[A-Za-z0-9+/=_.~!@#%^&*-]{10,})",
        needs_entropy=True,
    ),
    # These begin with no keyword. Discord and Telegram: their documentation of bot tokens; the
    # others: gitleaks (see KEYS).
    Pattern(
        "discord-token",
        (),
        EDGE + r"[MNO][DTjz][\w-]{22,26}\.[\w-]{6}\.[\w-]{27,40}",
        reach=28,
        anchor=r"\.(?=[\w-]{6}\.[\w-]{27})",
    ),
    Pattern(
        "telegram-token", (), EDGE + r"\d{8,10}:AA[\w-]{33}", reach=10, anchor=r":(?=AA[\w-]{33})"
    ),
    Pattern(
        "twilio-key",
        (),
        EDGE + r"SK[0-9a-fA-F]{32}(?![A-Za-z0-9])",
        anchor=r"SK(?=[0-9a-fA-F]{32})",
    ),
    Pattern("mailchimp-key", (), EDGE + r"[0-9a-f]{32}-us\d{1,2}", reach=32, anchor=r"-us(?=\d)"),
    Pattern(
        "airtable-token",
        (),
        EDGE + r"pat[A-Za-z0-9]{14}\.[a-f0-9]{62,66}",
        reach=17,
        anchor=r"\.(?=[a-f0-9]{62})",
    ),
    Pattern(
        "asana-token",
        (),
        EDGE + r"\d{1,2}/\d{12,20}(?:/\d{12,20})?:[0-9a-f]{32}",
        reach=45,
        anchor=":(?=[0-9a-f]{32})",
    ),
    _pattern(
        "terraform-token", ".atlasv1.", EDGE + r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70}", reach=14
    ),
    _pattern("azure-secret", "q~", EDGE + r"[\w~.]{3}\dQ~[\w~.-]{31,34}", reach=4),
    _pattern("new-relic-key", "nral", EDGE + r"[A-Fa-f0-9]{36}NRAL(?![A-Za-z0-9])", reach=36),
    _pattern("maxmind-key", "_mmk", EDGE + r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk", reach=36),
    _pattern(
        "teams-webhook",
        ".webhook.office.com/",
        r"https://[\w-]{1,60}\.webhook\.office\.com/webhookb2/[\w@/-]{60,}",
        reach=68,
    ),
    _pattern(
        "vendor-key",
        VENDORS,
        rf"(?i:(?<![a-z])(?:{VENDORS.replace(' ', '|')})(?![a-z])"
        r"[\w .-]{0,32}?(?:key|token|secret)\w{0,10}"
        r"[\s:=\"'`]{1,6}(?:is\s)?[\"'`]?)(?P<secret>[\w-]{20,72})(?![\w-])",
        needs_entropy=True,
        companions="key token secret",
    ),
)

KEYS = r"""
adobe-secret       g  p8e-  [a-z0-9]{32}
age-key            g  AGE-SECRET-KEY-1  [A-Z0-9]{58}
alibaba-key        g? LTAI  [A-Za-z0-9]{16,24}
artifactory-key    g  AKCp  [A-Za-z0-9]{69}
artifactory-key    g  cmVmd  [A-Za-z0-9]{59}
atlassian-token    v? ATATT3 ATCTT3 ATSTT3  [\w=-]{40,}
atlassian-token    v? ATBB  [A-Za-z0-9]{24,}
aws-bedrock-key    g  ABSK  [A-Za-z0-9+/]{109,}
brevo-key          g  xkeysib-  [a-f0-9]{64}-[A-Za-z0-9]{16}
buildkite-token    k  bkua_  [a-z0-9]{40}
circleci-token     k  CCIPAT_ CCIPRJ_  \w{12,30}_[a-fA-F0-9]{40}
clickhouse-key     g  4b1d  [A-Za-z0-9]{38}(?![A-Za-z0-9])
clojars-token      g  CLOJARS_  [a-z0-9]{60}
cloudflare-key     v? cfk_ cfut_ cfat_  \w{32,}
cloudflare-key     g  v1.0-  [a-f0-9]{24}-[a-f0-9]{146}
contentful-token   v? CFPAT-  [\w-]{43}
databricks-token   g  dapi  [a-f0-9]{32}
digitalocean-token g  doo_v1_ dop_v1_ dor_v1_  [a-f0-9]{64}
discord-webhook    k  https://discord.com/api/webhooks/  \d{17,20}/[\w-]{60,}
discord-webhook    k  https://discordapp.com/api/webhooks/  \d{17,20}/[\w-]{60,}
docker-token       k? dckr_pat_ dckr_oat_  [\w-]{27,}
doppler-token      k  dp.pt. dp.st. dp.ct. dp.sa.  (?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}
doppler-token      k  dp.scim. dp.audit.  (?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}
duffel-token       g? duffel_test_ duffel_live_  [\w=-]{43}
dynatrace-token    g  dt0c01. dt0s16.  [A-Za-z0-9]{24}\.[A-Za-z0-9]{64}
easypost-token     g  EZAK EZTK  [A-Za-z0-9]{54}
elevenlabs-key     k  sk_  [a-f0-9]{48}
facebook-token     g  EAA  [A-Za-z0-9]{100,}
figma-token        k  figd_  [\w-]{40}
firecrawl-key      v- fc-  [a-f0-9]{32}
fireworks-key      v? fw_  [A-Za-z0-9]{20,}
flutterwave-key    g  FLWSECK_TEST- FLWSECK-  [a-h0-9]{12,}
fly-token          g? fo1_ fm1r_ fm1a_ fm2_  [\w+/=-]{43,}
frameio-token      g? fio-u-  [\w=-]{64}
gitlab-token       g? GR1348941  [\w-]{20}
grafana-token      g  glc_ eyJrIjoi  [A-Za-z0-9+/]{32,}
grafana-token      g  glsa_  [A-Za-z0-9]{32}_[A-Fa-f0-9]{8}
groq-key           k  gsk_  [A-Za-z0-9]{48,}
harness-key        g? pat. sat.  [\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}
heroku-key         g? HRKU-  [\w-]{58,}
hubspot-token      k  pat-na1- pat-eu1-  [a-fA-F0-9]{8}(?:-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}
infracost-token    g  ico-  [A-Za-z0-9]{32}
langfuse-key       v  sk-lf-  [a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}
langsmith-key      k  ls__  [A-Za-z0-9]{32}
langsmith-key      v  lsv2_pt_ lsv2_sk_  [a-f0-9]{32}_[a-f0-9]{10}
linear-key         g  lin_api_ lin_oauth_  [A-Za-z0-9]{40,}
mailgun-key        k- key-  [a-z0-9]{32}
mapbox-token       k? sk.eyJ  [\w-]{30,}\.[\w-]{20,}
neon-key           v  napi_  [a-z0-9]{60,}
netlify-token      v  nfp_  [A-Za-z0-9]{36,}
new-relic-key      v? NRAK- NRII- NRJS-  [\w-]{19,}
notion-token       g  ntn_ secret_  [A-Za-z0-9]{43,}
nuget-key          v  oy2  [a-z0-9]{43}
octopus-key        g  API-  [A-Z0-9]{26}
onepassword-key    g  A3-  [A-Z0-9]{6}-[A-Z0-9]{6}-?[A-Z0-9]{5}(?:-[A-Z0-9]{5}){3}
onepassword-key    g  ops_  eyJ[A-Za-z0-9+/]{100,}
openrouter-key     v  sk-or-v1-  [a-f0-9]{64}
openshift-token    g? sha256~  [\w-]{43}
paypal-token       v  access_token$production$  [a-z0-9]{16}\$[a-f0-9]{32}
perplexity-key     g  pplx-  [A-Za-z0-9]{48}
pinecone-key       v? pcsk_  \w{40,}
planetscale-token  g? pscale_tkn_ pscale_oauth_ pscale_pw_  [\w=.-]{32,64}
posthog-key        k? phx_  \w{43}
postman-key        g  PMAK-  [a-fA-F0-9]{24}-[a-fA-F0-9]{34}
prefect-key        g  pnu_ pnb_  [A-Za-z0-9]{36}
pulumi-token       g  pul-  [a-f0-9]{40}
razorpay-key       v  rzp_live_ rzp_test_  [A-Za-z0-9]{14}
readme-key         g  rdme_  [a-z0-9]{70}
render-key         v? rnd_  [A-Za-z0-9]{28,}
replicate-token    k? r8_  [\w-]{37}(?![\w-])
resend-key         v? re_  [A-Za-z0-9]{8}_[A-Za-z0-9]{20,}
rubygems-key       g  rubygems_  [a-f0-9]{48}
scalingo-token     g? tk-us-  [\w-]{48}
sendgrid-key       g? SG.  [\w=-]{16,32}\.[\w=-]{16,64}
sentry-token       g? sntrys_  [A-Za-z0-9+/=_-]{60,}
sentry-token       g  sntryu_  [a-f0-9]{64}
shippo-token       g  shippo_live_ shippo_test_  [a-fA-F0-9]{40}
shopify-token      g  shpat_ shpca_ shppa_ shpss_  [a-fA-F0-9]{32}
snyk-token         v? snyk_uat. snyk_sat.  [\w.-]{40,}
sonarqube-token    k  squ_ sqp_ sqa_  [a-z0-9]{40}
sourcegraph-token  g  sgp_  (?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}
square-token       g? EAAA sq0atp- sq0csp-  [\w-]{22,60}
supabase-key       k? sbp_  [a-z0-9]{40}
supabase-key       v? sb_secret_  [\w-]{31,}
tailscale-key      k  tskey-  [a-z]{2,20}-[A-Za-z0-9]{8,40}-[A-Za-z0-9]{16,}
tavily-key         v? tvly-  [A-Za-z0-9-]{32,}
vault-token        g? hvs. hvb. hvr.  [\w-]{24,300}
xai-key            k? xai-  \w{60,}
yandex-key         v? AQVN  [\w-]{35,38}
zapier-webhook     v  https://hooks.zapier.com/hooks/catch/  \d{4,12}/[a-z0-9]{5,}
"""
"""A table of kind, source, prefixes, and the regex of what follows.

A source with `?`: the value must look random, because words could follow. A source with `-`: no
hyphen precedes, else it is the end of a name (`cache-key-…`).

g: gitleaks, config/gitleaks.toml at b58d3f1; k: kingfisher, its rules at ee7c0db; v: the vendor's
own documentation of its tokens. Only facts are taken: prefix, alphabet and length.
"""


RANDOM_MARK = "?"
NO_HYPHEN_MARK = "-"


def _read_keys(table: str) -> Iterator[Pattern]:
    """Yield the pattern of each line of a table like `KEYS`: kind, source, prefixes, regex.

    The source is a letter. A mark behind it says that the value must look random (RANDOM_MARK), or
    that no hyphen may be before the prefix (NO_HYPHEN_MARK).
    """
    for line in table.strip().split("\n"):
        kind, source, *prefixes, suffix = line.split()
        mark = source[1:]
        edge = f"{EDGE}(?<!-)" if mark == NO_HYPHEN_MARK else EDGE
        alternatives = "|".join(re.escape(prefix) for prefix in prefixes)
        keywords = tuple(prefix.lower() for prefix in prefixes)
        regex = f"{edge}(?:{alternatives}){suffix}"
        yield Pattern(kind, keywords, regex, needs_entropy=mark == RANDOM_MARK)


PATTERNS += tuple(_read_keys(KEYS))
