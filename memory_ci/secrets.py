"""Credentials: patterns that more than one room needs (evidence masks them, extraction refuses them).

A pattern is tried only where one of its literal keywords stands, and compiled when the first of them is met; a keyword
is sought only in a text that holds its word. A match is the group `secret` where a pattern names one, else the whole.
Text already masked (`[redacted:kind]`) never matches. What terminals, addresses, JSON and Markdown escape is read as it
is meant: a key behind a colour, behind `%3D`, or with `\\_` in it is a key.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

MASK = re.compile(r"\[redacted:[a-z-]+\]")
INVISIBLE = "\u200b-\u200d\u2060\ufeff"
ESCAPED = re.compile(
    rf"[\\%\x1b^=&\x9b{INVISIBLE}](?:"
    # What begins a key is no escape: `C:\dir\npm_…`.
    r"(?<=\\)(?P<space>[nrt])(?!pm_|tn_|fp_|api_|8_|k_|e_|nd_|dme_|zp_|ubygems_|skey-|k-us-|vly-)"
    r"|(?P<colour>(?:(?<=\x1b)|(?<=\^)\[|(?<=\\)(?:x1[bB]|0?33|e|u001[bB]))(?:\[[0-9;:?]{0,20}[A-Za-z]|\([A-Z0-2])"
    r"|(?<=\x9b)[0-9;:?]{0,20}[A-Za-z])"
    r"|(?:(?<=%)(?:25){0,3}|(?<=\\)(?:u00|x)|(?<==)(?=3[dD]))(?P<code>[2-7][0-9A-Fa-f])"
    r"|(?<=&)#(?:[xX](?P<hex>[2-7][0-9A-Fa-f])|(?P<decimal>\d{2,3}));"
    rf"|(?<=\\)(?=[_*~.-])|(?<=[{INVISIBLE}]))"
)
"""White space as JSON and source code spell it; colours of terminals (ECMA-48, section 5.4), also as text; characters
of addresses (RFC 3986, section 2.1), also escaped again, of mail (RFC 2045, section 6.7), of JSON (RFC 8259, section
7), of source code and of HTML; the escapes of Markdown; what nobody sees."""

FILLER = "\0"  # Stands for masked text while searching: no pattern accepts it.


class Secret(NamedTuple):
    """A credential found: its kind, and text[start:end]."""

    kind: str
    start: int
    end: int


class Pattern(NamedTuple):
    """A match begins with one of `keywords` (in lower case), or at most `reach` characters before it.

    A keyword that ends in no letter, and a vendor, is sought where its last letters are a word: `ghp_` where `ghp` is.
    `needs_entropy`: the value must look random, the key alone proves nothing. Where a match has no keyword, what
    `anchor` matches is sought instead.
    """

    kind: str
    keywords: tuple[str, ...]
    regex: str
    needs_entropy: bool = False
    reach: int = 0
    anchor: str = ""


def _pattern(
    kind: str, keywords: str, regex: str, needs_entropy: bool = False, reach: int = 0
) -> Pattern:
    return Pattern(kind, tuple(keywords.split()), regex, needs_entropy, reach)


VENDORS = "algolia circleci cloudflare datadog fastly heroku launchdarkly mailgun netlify okta relic snyk twilio vercel wandb"
"""Some of whose keys have no prefix: theirs are known where the vendor and `key`, `token` or `secret` stand before."""

EDGE = "(?<![A-Za-z0-9\u0130\u0131\u017f\u212a])"
"""Before a key: an underscore or a dot is no part of it. The last four are letters to `lower_case`."""

# What a pattern reads before it can fail is bounded, or a text of nothing but beginnings costs its square.
PATTERNS: tuple[Pattern, ...] = (
    _pattern(
        "private-key",
        "-----begin",
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
        # Up to the next beginning at most: a text of nothing but beginnings is gone through once.
        r"(?:(?:(?!-----BEGIN)[^\0]){0,40000}?-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\]*)",
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
        "glpat- gldt- glrt- glrtr- glwt- glcbt- glptt- glft- glsoat- glagent- glimt- gloas- glffct-",
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
        r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,30}://[^\s/:@\0\"'<>]{0,100}:(?P<secret>[^\s/@\0\"'<>]{3,200})@(?=[\w\[])",
        reach=31,
    ),
    _pattern(
        "netrc-password",
        "machine default",
        r"(?:\bmachine\s+\S+|(?m:^)default)\s+login\s+[^\s\0]+\s+(?:account\s+[^\s\0]+\s+)?password\s+"
        r"(?P<secret>[^\s\0]+)",
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
    ),
    _pattern(
        "connection-string",
        "server= host= uid= data user",
        r"\b(?i:(?:server|data source|host|uid|user id)=[^;\s\0]{1,300};(?:[^;\n\0]*;){0,6}\s*(?:pwd|password)=)"
        r"(?P<secret>[^;\s\0\"'${<]{3,})",
    ),
    _pattern(
        "authorization",
        "authorization bearer",
        r"(?i:\bauthorization\\?[\"']?\s{0,3}[:=]\s{0,3}\\?[\"']?(?:basic|bearer|token)|\bbearer)\s{1,3}"
        r"(?P<secret>[A-Za-z0-9._~+/=-]{16,})",
        needs_entropy=True,
    ),
    _pattern(
        "password",
        "passw pwd secret token api access_key private_key",
        r"(?i:(?:password|passwd|pwd|secret|token(?!iz)|api[_-]?key|access_key|private_key)[\w-]{0,20})"
        r"\\?[\"']?\s{0,3}(?:=|:|:=|=>)\s{0,3}\\?[\"']?(?P<secret>[A-Za-z0-9+/=_.~!@#%^&*-]{10,})",
        needs_entropy=True,
    ),
    # No keyword begins these. Discord and Telegram: their documentation of bot tokens; the rest: gitleaks (see KEYS).
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
        rf"(?i:(?<![a-z])(?:{VENDORS.replace(' ', '|')})(?![a-z])[\w .-]{{0,32}}?(?:key|token|secret)\w{{0,10}}"
        r"[\s:=\"'`]{1,6}(?:is\s)?[\"'`]?)(?P<secret>[\w-]{20,72})(?![\w-])",
        needs_entropy=True,
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
discord-webhook    k  https://discord.com/api/webhooks/ https://discordapp.com/api/webhooks/  \d{17,20}/[\w-]{60,}
docker-token       k? dckr_pat_ dckr_oat_  [\w-]{27,}
doppler-token      k  dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.  (?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}
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
"""Kind, source, prefixes, what follows; `?`: it must look random, for words could stand there; `-`: no
hyphen stands before, or it is the end of a name (`cache-key-…`).

g: gitleaks, config/gitleaks.toml at b58d3f1; k: kingfisher, its rules at ee7c0db; v: the vendor's own documentation of
its tokens. Facts alone are taken: prefix, alphabet and length."""


def _read_keys(table: str) -> Iterator[Pattern]:
    for line in table.strip().split("\n"):
        kind, source, *prefixes, rest = line.split()
        begin = "|".join(map(re.escape, prefixes))
        edge = f"{EDGE}(?<!-)" if source.endswith("-") else EDGE
        yield Pattern(
            kind, tuple(map(str.lower, prefixes)), f"{edge}(?:{begin}){rest}", source.endswith("?")
        )


PATTERNS += tuple(_read_keys(KEYS))


ANCHORED = [pattern for pattern in PATTERNS if pattern.anchor]
SHORTEST_ANCHORED = (
    34  # Characters without a blank that any of them has at least; few texts have so long a word.
)
KEYWORDS = [
    (number, keyword) for number, pattern in enumerate(PATTERNS) for keyword in pattern.keywords
]
WITHIN_WORDS = [
    (number, keyword)
    for number, keyword in KEYWORDS
    if (keyword[-1].isalpha() and keyword not in VENDORS.split()) or keyword == "://"
]
BY_WORD: dict[str, list[tuple[int, str]]] = {}
for place in KEYWORDS:
    if place not in WITHIN_WORDS:
        BY_WORD.setdefault(re.findall("[a-z]+", place[1])[-1], []).append(place)

LETTERS = bytes(
    byte if chr(byte) in "abcdefghijklmnopqrstuvwxyz" else ord(" ") for byte in range(256)
)
"""A table for bytes.translate: all but a-z becomes a blank."""

NAME_OR_QUANTITY = re.compile(
    r"[A-Za-z]+\d{0,2}(?:[._/:-]+[A-Za-z]*\d{0,2})*|\d[\d.,]*[A-Za-z]{1,3}"
)
"""A name made of words (`settings.oauth_token_v2`): what a key is called, not what it is. Or a number with its unit
(`2.119834ms`): what logs say of tokens."""

EXAMPLES = frozenset(
    "password passwd pass secret user token changeme example placeholder pwd".split()
)


def find_secrets(text: str) -> list[Secret]:
    """Credentials in `text`, in order, not overlapping: the earliest and then the longest wins."""
    masked = MASK.sub(lambda match: FILLER * len(match.group()), text)
    escapes = list(ESCAPED.finditer(masked))
    found = _find_escaped(masked, escapes) if escapes else _find(masked)
    kept: list[Secret] = []
    for secret in sorted(found, key=lambda one: (one.start, -one.end)):
        if not kept or secret.start >= kept[-1].end:
            kept.append(secret)
    return kept


def _find_escaped(text: str, escapes: Sequence[re.Match[str]]) -> Iterator[Secret]:
    """What stands in the text that escapes mean, at its place in `text`. A colour may stand in a key or between two."""
    for colour in ("", " ") if any(match["colour"] for match in escapes) else ("",):
        plain, breaks = _unescape(text, escapes, colour)
        for kind, start, end in _find(plain):
            yield Secret(kind, _place(breaks, start), _place(breaks, end - 1) + 1)


def _unescape(
    text: str, escapes: Iterable[re.Match[str]], colour: str
) -> tuple[str, list[tuple[int, int]]]:
    """`text` without its escapes, and where each piece of it begins: there, and in `text`."""
    pieces, breaks, length, at = [""], [(0, 0)], 0, 0
    for match in escapes:
        meant = _meant(match, colour)
        pieces += [text[at : match.start()], meant]
        length += match.start() - at
        breaks += [(length, match.start()), (length + len(meant), match.end())]
        length, at = length + len(meant), match.end()
    return "".join([*pieces, text[at:]]), breaks


def _meant(escape: re.Match[str], colour: str) -> str:
    if code := escape["code"] or escape["hex"]:
        return chr(int(code, 16))
    if escape["decimal"]:
        return chr(int(escape["decimal"]))
    return "\n" if escape["space"] else colour if escape["colour"] else ""


def _place(breaks: list[tuple[int, int]], at: int) -> int:
    there, here = breaks[bisect_right(breaks, at, key=itemgetter(0)) - 1]
    return here + at - there


def _find(text: str) -> Iterator[Secret]:
    lowered = lower_case(text)
    for number, keywords in _near_keywords(lowered).items():
        yield from _matches(PATTERNS[number], keywords, text, lowered)
    if max(map(len, text.split()), default=0) >= SHORTEST_ANCHORED:
        for pattern in ANCHORED:
            yield from _matches(pattern, [], text, lowered)


def mask_secrets(text: str) -> str:
    """`text` with every credential in it replaced."""
    for secret in reversed(find_secrets(text)):
        text = f"{text[: secret.start]}[redacted:{secret.kind}]{text[secret.end :]}"
    return text


def lower_case(text: str) -> str:
    """`text` in lower case, character for character: what a pattern that ignores case takes for a-z becomes a-z.
    `re.IGNORECASE` takes three characters for letters that `str.lower` leaves, or turns into two."""
    if not text.isascii():
        text = text.replace("\u0130", "i").replace("\u0131", "i").replace("\u017f", "s")
    return text.lower()


def letter_words(lowered: str) -> list[str]:
    """The runs of a-z in a text of `lower_case`, in order."""
    return lowered.encode("ascii", "replace").translate(LETTERS).decode("ascii").split()


def _near_keywords(lowered: str) -> dict[int, list[str]]:
    """Of each pattern, by its number, the keywords that a text may hold; most texts hold none of any."""
    held = [place for word in BY_WORD.keys() & letter_words(lowered) for place in BY_WORD[word]]
    near: dict[int, list[str]] = {}
    for number, keyword in sorted(held + [place for place in WITHIN_WORDS if place[1] in lowered]):
        near.setdefault(number, []).append(keyword)
    return near


def _matches(pattern: Pattern, keywords: list[str], text: str, lowered: str) -> Iterator[Secret]:
    regex = re.compile(pattern.regex)
    group = "secret" if "secret" in regex.groupindex else 0
    places = (at for keyword in keywords for at in _places(keyword, lowered))
    if pattern.anchor:
        places = (match.start() for match in re.finditer(pattern.anchor, text))
    free = 0
    for start in _starts(places, pattern.reach):
        if start >= free and (match := regex.match(text, start)):
            free = match.end()
            value = match.group(group)
            if not _is_example(value) and (not pattern.needs_entropy or _is_random(value)):
                yield Secret(pattern.kind, match.start(group), match.end(group))


def _starts(places: Iterable[int], reach: int) -> Iterator[int]:
    tried = 0
    for at in sorted(places):
        yield from range(max(tried, at - reach), at + 1)
        tried = at + 1


def _places(word: str, text: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def _is_example(value: str) -> bool:
    """A variable or a stand-in (`$TOKEN`, `<token>`, `***`, `password`), not a credential."""
    return value[0] in "${<%" or len(set(value)) < 3 or value.lower() in EXAMPLES


def _is_random(value: str) -> bool:
    """Letters and digits with at least three bits a character (Shannon), and no name made of words, nor a quantity."""
    if NAME_OR_QUANTITY.fullmatch(value) or not (
        re.search(r"\d", value) and re.search(r"[A-Za-z]", value)
    ):
        return False
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values()) >= 3.0
