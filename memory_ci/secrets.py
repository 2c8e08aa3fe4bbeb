"""Search for credentials (keys, tokens, passwords) in text, by patterns.

A pattern is tried only where one of its literal keywords is, and compiled at the first such place;
a keyword is searched only in a text that holds its word. A match is the group `secret` of the
pattern, else the whole. Masked text (`[redacted:kind]`) never matches. Escapes of terminals,
addresses, JSON and Markdown are resolved: a key behind a colour, behind `%3D`, or with `\\_` in it
is a key.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from operator import itemgetter
from typing import NamedTuple

from memory_ci.regex import Regex

MASK = Regex(r"\[redacted:[a-z-]+\]")
INVISIBLE = "\u200b-\u200d\u2060\ufeff"
ESCAPED = Regex(
    rf"[\\%\x1b^=&\x9b{INVISIBLE}](?:"
    # The beginning of a key is no escape: `C:\dir\npm_…`.
    r"(?<=\\)(?P<space>[nrt])(?!pm_|tn_|fp_|api_|8_|k_|e_|nd_|dme_|zp_|ubygems_|skey-|k-us-|vly-)"
    r"|(?P<colour>(?:(?<=\x1b)|(?<=\^)\[|(?<=\\)(?:x1[bB]|0?33|e|u001[bB]))"
    r"(?:\[[0-9;:?]{0,20}[A-Za-z]|\([A-Z0-2])"
    r"|(?<=\x9b)[0-9;:?]{0,20}[A-Za-z])"
    r"|(?:(?<=%)(?:25){0,3}|(?<=\\)(?:u00|x)|(?<==)(?=3[dD]))(?P<code>[2-7][0-9A-Fa-f])"
    r"|(?<=&)#(?:[xX](?P<hex>[2-7][0-9A-Fa-f])|(?P<decimal>\d{2,3}));"
    rf"|(?<=\\)(?=[_*~.-])|(?<=[{INVISIBLE}]))"
)
"""Escapes that may be in or before a key.

White space as JSON and source code spell it; colours of terminals (ECMA-48, section 5.4), also as
text; characters of addresses (RFC 3986, section 2.1), also escaped twice, of mail (RFC 2045,
section 6.7), of JSON (RFC 8259, section 7), of source code and of HTML; escapes of Markdown;
invisible characters.
"""

FILLER = "\0"  # Replaces masked text during the search: no pattern accepts it.


class Secret(NamedTuple):
    """A credential in a text: its kind, and text[start:end]."""

    kind: str
    start: int
    end: int


class Pattern(NamedTuple):
    """A pattern of credentials.

    Attributes:
        keywords: a match begins with one of these (in lower case), or at most `reach` characters
            before it. A keyword that does not end in a letter, and a vendor, is searched where its
            last letters are a word: `ghp_` where `ghp` is.
        companions: a match with a keyword holds one of these, too (in lower case).
        needs_entropy: the value must look random, because the key alone proves nothing.
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


def _read_keys(table: str) -> Iterator[Pattern]:
    """Yield the pattern of each line of a table like `KEYS`."""
    for line in table.strip().split("\n"):
        kind, source, *prefixes, suffix = line.split()
        edge = f"{EDGE}(?<!-)" if source.endswith("-") else EDGE
        prefix = "|".join(re.escape(prefix) for prefix in prefixes)
        keywords = tuple(prefix.lower() for prefix in prefixes)
        yield Pattern(kind, keywords, f"{edge}(?:{prefix}){suffix}", source.endswith("?"))


PATTERNS += tuple(_read_keys(KEYS))

ANCHORED = [pattern for pattern in PATTERNS if pattern.anchor]
SHORTEST_ANCHORED = 34
"""Characters without a blank in each match of ANCHORED, at least; few texts have such a word."""


def _is_within_words(keyword: str) -> bool:
    """Tell whether a keyword may be a part of a word, so that it is searched in the whole text."""
    is_vendor = keyword in VENDORS.split()
    return (keyword[-1].isalpha() and not is_vendor) or keyword == "://"


KEYWORDS = [
    (number, keyword) for number, pattern in enumerate(PATTERNS) for keyword in pattern.keywords
]
WITHIN_WORDS = [(number, keyword) for number, keyword in KEYWORDS if _is_within_words(keyword)]
BY_WORD: dict[str, list[tuple[int, str]]] = {}
"""Numbers of patterns with a keyword, by the last word of the keyword; without WITHIN_WORDS."""
for _number, _keyword in KEYWORDS:
    if not _is_within_words(_keyword):
        last_word = re.findall("[a-z]+", _keyword)[-1]
        BY_WORD.setdefault(last_word, []).append((_number, _keyword))
WORDS_OF_KEYWORDS = {keyword: re.findall("[a-z]+", keyword) for _, keyword in KEYWORDS}
KEYWORD_WORDS = frozenset(BY_WORD)
KEYWORD_WORDS_IN_BYTES = frozenset(word.encode() for word in KEYWORD_WORDS)

LETTERS = bytes(
    byte if chr(byte) in "abcdefghijklmnopqrstuvwxyz" else ord(" ") for byte in range(256)
)
"""A table for bytes.translate: all but a-z becomes a blank."""

NO_BLANKS = bytes(ord(" ") if chr(byte).isspace() else ord("x") for byte in range(256))
"""A table for bytes.translate: all but white space becomes an x."""

LONG_TEXT = 10_000  # Characters from which the words of a text are searched instead of the text.
LONG_WORD = b"x" * SHORTEST_ANCHORED

NAME_OR_QUANTITY = Regex(r"[A-Za-z]+\d{0,2}(?:[._/:-]+[A-Za-z]*\d{0,2})*|\d[\d.,]*[A-Za-z]{1,3}")
"""A name made of words (`settings.oauth_token_v2`), or a number with a unit (`2.119834ms`).

The first is the name of a key, not a key. Logs print the second after `token`.
"""

EXAMPLES = frozenset(
    "password passwd pass secret user token changeme example placeholder pwd".split()
)


def find_secrets(text: str) -> list[Secret]:
    """Return the credentials in a text, in order; of overlapping ones the first and longest."""
    masked = MASK.sub(_fill, text)
    escapes = list(ESCAPED.finditer(masked))
    candidates = _find_escaped(masked, escapes) if escapes else _find_plain(masked)
    secrets: list[Secret] = []
    for secret in sorted(candidates, key=lambda secret: (secret.start, -secret.end)):
        if not secrets or secret.start >= secrets[-1].end:
            secrets.append(secret)
    return secrets


def _fill(match: re.Match[str]) -> str:
    return FILLER * len(match.group())


def _find_escaped(text: str, escapes: Sequence[re.Match[str]]) -> Iterator[Secret]:
    """Yield the credentials in a text once its escapes (`%3D`, colours …) are resolved.

    Their offsets are those in the escaped text.
    """
    # A colour of a terminal may be within a key, or between two words: both are tried.
    colour_meanings = [""]
    if any(match["colour"] for match in escapes):
        colour_meanings.append(" ")
    for colour in colour_meanings:
        plain, breaks = _unescape(text, escapes, colour)
        for kind, start, end in _find_plain(plain):
            yield Secret(kind, _map_offset(breaks, start), _map_offset(breaks, end - 1) + 1)


def _unescape(
    text: str, escapes: Iterable[re.Match[str]], colour: str
) -> tuple[str, list[tuple[int, int]]]:
    """Return a text with its escapes resolved, and how offsets in it map to the escaped text.

    Args:
        text: the escaped text.
        escapes: the matches of `ESCAPED` in it.
        colour: the text that an escape for a colour becomes.

    Returns:
        The resolved text; and for each piece that is unchanged, or made from an escape, its offset
        in the resolved and in the escaped text.
    """
    pieces = [""]
    breaks = [(0, 0)]
    length = 0
    position = 0
    for match in escapes:
        character = _resolve_escape(match, colour)
        pieces += [text[position : match.start()], character]
        length += match.start() - position
        breaks.append((length, match.start()))
        length += len(character)
        breaks.append((length, match.end()))
        position = match.end()
    return "".join([*pieces, text[position:]]), breaks


def _resolve_escape(escape: re.Match[str], colour: str) -> str:
    """Return the text that a match of `ESCAPED` means: `=` for `%3D`, `colour` for a colour."""
    code = escape["code"] or escape["hex"]
    if code:
        return chr(int(code, 16))
    if escape["decimal"]:
        return chr(int(escape["decimal"]))
    if escape["space"]:
        return "\n"
    return colour if escape["colour"] else ""


def _map_offset(breaks: list[tuple[int, int]], offset: int) -> int:
    """Return the offset in the escaped text for one in the resolved text (see `_unescape`)."""
    plain_start, escaped_start = breaks[bisect_right(breaks, offset, key=itemgetter(0)) - 1]
    return escaped_start + offset - plain_start


def _find_plain(text: str) -> Iterator[Secret]:
    """Yield the credentials in a text without escapes; they may overlap.

    To save time, a pattern is tried only if the text has one of its keywords, and patterns without
    keywords only if the text has a long word.
    """
    lowered = lower_case(text)
    for number, keywords in list_possible_keywords(lowered).items():
        yield from _match_pattern(PATTERNS[number], keywords, text, lowered)
    longest_word = max(map(len, text.split()), default=0)
    if longest_word >= SHORTEST_ANCHORED:
        for pattern in ANCHORED:
            yield from _match_pattern(pattern, [], text, lowered)


class SecretClues(NamedTuple):
    """The signs of credentials that some of many texts hold.

    Attributes:
        keywords: keywords of patterns, each with its companions (`Pattern.companions`).
        has_escapes: whether a text has an escape.
        has_long_words: whether a text has SHORTEST_ANCHORED characters without a blank.
    """

    keywords: tuple[tuple[str, tuple[str, ...]], ...]
    has_escapes: bool
    has_long_words: bool

    def may_be_in(self, text: str, lowered: str) -> bool:
        """Return whether `find_secrets` may find something in one of the texts.

        Args:
            text: the text.
            lowered: the text in lower case.
        """
        for keyword, companions in self.keywords:
            if keyword in lowered and _has_companion(companions, lowered):
                return True
        if self.has_escapes and ESCAPED.search(text):
            return True
        return self.has_long_words and _has_long_word(text)


def find_secret_clues(joined: str, lowered: str, vocabulary: Set[bytes]) -> SecretClues:
    """Return the signs of credentials in joined texts in ASCII.

    Args:
        joined: the texts.
        lowered: the texts in lower case.
        vocabulary: their words (`split_words`).
    """
    pairs = list(WITHIN_WORDS)
    for word in KEYWORD_WORDS_IN_BYTES & vocabulary:
        pairs += BY_WORD[word.decode()]
    # All different words together are far shorter than the texts, so they are searched first.
    joined_words = b" ".join(vocabulary).decode()
    keywords: dict[tuple[str, tuple[str, ...]], None] = {}
    for number, keyword in sorted(pairs):
        if not all(word in joined_words for word in WORDS_OF_KEYWORDS[keyword]):
            continue
        companions = PATTERNS[number].companions
        if keyword in lowered and _has_companion(companions, lowered):
            keywords[keyword, companions] = None
    return SecretClues(
        keywords=tuple(keywords),
        has_escapes=ESCAPED.search(joined) is not None,
        has_long_words=_has_long_word(joined),
    )


def _has_long_word(text: str) -> bool:
    """Return whether a text in ASCII has SHORTEST_ANCHORED characters without a blank."""
    return LONG_WORD in text.encode("ascii").translate(NO_BLANKS)


def mask_secrets(text: str) -> str:
    """Return a text with each credential replaced by `[redacted:KIND]`."""
    for secret in reversed(find_secrets(text)):
        text = f"{text[: secret.start]}[redacted:{secret.kind}]{text[secret.end :]}"
    return text


def lower_case(text: str) -> str:
    """Return a text in lower case, of the same length.

    Two kinds of i and the long s are replaced first: `re.IGNORECASE` takes them for letters of a-z,
    but `str.lower` leaves them unchanged or makes two characters of one.
    """
    if not text.isascii():
        text = text.replace("\u0130", "i").replace("\u0131", "i").replace("\u017f", "s")
    return text.lower()


def split_words(lowered: str) -> list[bytes]:
    """Return the runs of a-z in a lower-case text, in order, as bytes."""
    return lowered.encode("ascii", "replace").translate(LETTERS).split()


def letter_words(lowered: str) -> list[str]:
    """Return the runs of a-z in a lower-case text, in order."""
    return lowered.encode("ascii", "replace").translate(LETTERS).decode("ascii").split()


def list_possible_keywords(lowered: str) -> dict[int, list[str]]:
    """Return the keywords that a lower-case text may hold, by the index of their pattern.

    For most texts there are none, and no pattern needs to be tried.
    """
    words = letter_words(lowered)
    letters = lowered
    if len(lowered) > LONG_TEXT:
        # All different words together are far shorter than the text.
        letters = " ".join(set(words))
    candidates = []
    for number, keyword in WITHIN_WORDS:
        if keyword in (letters if keyword.isalpha() else lowered):
            candidates.append((number, keyword))
    for word in KEYWORD_WORDS.intersection(words):
        candidates += BY_WORD[word]
    keywords: dict[int, list[str]] = {}
    for number, keyword in sorted(candidates):
        if _has_companion(PATTERNS[number].companions, lowered):
            keywords.setdefault(number, []).append(keyword)
    return keywords


def _has_companion(companions: Sequence[str], lowered: str) -> bool:
    """Return whether a text has what a pattern needs beside its keyword."""
    return not companions or any(companion in lowered for companion in companions)


def _match_pattern(
    pattern: Pattern, keywords: list[str], text: str, lowered: str
) -> Iterator[Secret]:
    """Yield the credentials that one pattern finds in a text.

    It is tried only at its keywords or anchors, and up to `reach` characters before them.

    Args:
        pattern: the pattern.
        keywords: those of its keywords that the text may hold.
        text: the text.
        lowered: the text in lower case.
    """
    offsets: list[int] = []
    if pattern.anchor:
        offsets = [match.start() for match in re.finditer(pattern.anchor, text)]
    else:
        for keyword in keywords:
            offsets += _find_all(keyword, lowered)
    starts = list(list_starts(offsets, pattern.reach))
    if not starts:
        return
    regex = re.compile(pattern.regex)
    group = "secret" if "secret" in regex.groupindex else 0
    last_end = 0
    for start in starts:
        match = regex.match(text, start) if start >= last_end else None
        if match is None:
            continue
        last_end = match.end()
        value = match.group(group)
        if _is_example(value):
            continue
        if not pattern.needs_entropy or _is_random(value):
            yield Secret(pattern.kind, match.start(group), match.end(group))


def list_starts(offsets: Iterable[int], reach: int) -> Iterator[int]:
    """Yield the offsets where a match may start, each once and in order.

    These are the offsets of keywords, and up to `reach` characters before each.
    """
    next_start = 0
    for offset in sorted(offsets):
        yield from range(max(next_start, offset - reach), offset + 1)
        next_start = offset + 1


def _find_all(word: str, text: str) -> Iterator[int]:
    offset = text.find(word)
    while offset >= 0:
        yield offset
        offset = text.find(word, offset + 1)


def _is_example(value: str) -> bool:
    """Tell whether a value is a placeholder: `$TOKEN`, `<token>`, `***`, `password`."""
    return value[0] in "${<%" or len(set(value)) < 3 or value.lower() in EXAMPLES


def _is_random(value: str) -> bool:
    """Return whether a value looks random: letters, digits, and an entropy of 3 bits a character.

    The entropy is Shannon's. A name made of words, or a quantity, is not random.
    """
    if NAME_OR_QUANTITY.fullmatch(value):
        return False
    if not re.search(r"\d", value) or not re.search(r"[A-Za-z]", value):
        return False
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares) >= 3.0
