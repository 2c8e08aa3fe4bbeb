"""Reading `.memory-ci.yaml`: every error names the file, the line, the key and the nearest known key."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from msgspec import inspect
from msgspec.structs import replace

from memory_ci import __version__
from memory_ci.errors import UsageError
from memory_ci.records.config import FORMAT, Config, Policy
from memory_ci.records.report import Finding
from memory_ci.text import yaml_fault

T = TypeVar("T")
CONFIG_FILE = ".memory-ci.yaml"
POLICY_FILE = ".memory/policy.yaml"
"""What `extends` names, as `memory-ci policy` fetched it: hooks read it without a network."""
MAX_BYTES = 64 * 1024
MAX_DEPTH = 8
MAX_STARS = 3  # `**` in one pattern: more of them match slowly, and say nothing that fewer do not.
CORE = "tag:yaml.org,2002:"

OUTSIDE = frozenset(
    {"key", "apikey", "token", "secret", "password", "url", "base", "endpoint", "host", "command"}
)
"""Words in the names of credentials, addresses and programs, none of which a file of a repository may say."""


def parse_config(text: str, path: str = CONFIG_FILE, found: list[Finding] | None = None) -> Config:
    """The configuration a text holds. Raises UsageError (bad-config). What a newer version may have written is passed
    over, and told in `found`: keys that are not known, a newer format."""
    found = [] if found is None else found
    if len(text) > MAX_BYTES:
        raise _error(path, 1, f"the file is longer than {MAX_BYTES} characters")
    says_something = any(line.strip() and not line.startswith("#") for line in text.splitlines())
    with _quoting(text):
        node = _compose(text, path) if says_something else None
        if node is None or (node.id == "scalar" and node.tag == CORE + "null"):
            return Config()
        config = msgspec.convert(_Reader(path, found).plain(node, Config, ""), Config, strict=True)
    if config.format > FORMAT:
        message = f"the files are of format {config.format}, this memory-ci knows {FORMAT}"
        found.append(Finding(path, 1, "newer-format", message, "Update memory-ci.", "warning"))
    return config


def parse_policy(text: str, path: str = POLICY_FILE) -> Policy:
    """The policy a text holds; `path` names it in errors. Raises UsageError (bad-config), also for a key that no policy
    has."""
    found: list[Finding] = []
    with _quoting(text):
        node = _compose(text, path)
        policy = (
            msgspec.convert(_Reader(path, found).plain(node, Policy, ""), Policy)
            if node
            else Policy()
        )
        if found:
            raise _error(path, found[0].line, found[0].message, found[0].hint)
    return policy


@contextmanager
def _quoting(text: str) -> Iterator[None]:
    """Errors in reading `text` take the line along that they are about."""
    try:
        yield
    except UsageError as error:
        if error.place:
            path, line, _ = error.place
            error.place = path, line, "".join(text.splitlines()[line - 1 : line])
        raise


def narrow(config: Config, policy: bytes | None, required: str = "") -> Config:
    """The configuration as the policy that it extends allows it; `policy` is the text that POLICY_FILE holds.

    A policy takes away and gives nothing: of two caps the lower one holds, of two lists what stands in both.
    `required` is the digest of the policy that the environment asks for (MEMORY_CI_POLICY).
    Raises UsageError: policy-missing, policy-changed, policy-forbids, bad-config.
    """
    required, digest = required.removeprefix("sha256:"), config.extends.rpartition(" sha256:")[2]
    if required and digest != required:
        message = f"MEMORY_CI_POLICY asks for the policy sha256:{required[:12]}, which is not extended here"
        hint = "Run `memory-ci policy SOURCE@REV` with what your platform names, and commit."
        raise UsageError(message, slug="policy-missing", hint=hint)
    if digest:
        if policy is None or hashlib.sha256(policy).hexdigest() != digest:
            message = f"{POLICY_FILE} is {'missing' if policy is None else 'not the text that `extends` pins'}"
            raise UsageError(
                message,
                slug="policy-changed",
                hint="Run `memory-ci policy`, and commit what it writes.",
            )
        config = _narrow(config, parse_policy(policy.decode("utf-8", "replace")))
    if _version(config.minimum_version) > _version(__version__):
        message = (
            f"memory-ci {config.minimum_version} or newer is asked for here, this is {__version__}"
        )
        raise UsageError(message, slug="policy-forbids", hint="Update memory-ci.")
    if config.publish.allowed and config.publish.mode not in ("none", *config.publish.allowed):
        message = f"publish.mode is {config.publish.mode}, and publish.allowed {', '.join(config.publish.allowed)}"
        raise UsageError(message, slug="policy-forbids", hint="Set publish.mode to one of these.")
    return config


def _narrow(own: Config, policy: Policy) -> Config:
    def both(ours: tuple[T, ...], theirs: tuple[T, ...], nothing: T) -> tuple[T, ...]:
        return (
            tuple(one for one in ours if one in theirs) or (nothing,)
            if ours and theirs
            else ours or theirs
        )

    def lower(ours: float, theirs: float) -> float:
        return min(ours or theirs, theirs or ours)

    engine = replace(
        own.engine,
        allowed=both(own.engine.allowed, policy.engine.allowed, "rules"),
        max_cost_usd=lower(own.engine.max_cost_usd, policy.engine.max_cost_usd),
        max_cost_usd_month=lower(own.engine.max_cost_usd_month, policy.engine.max_cost_usd_month),
    )
    publish = replace(
        own.publish, allowed=both(own.publish.allowed, policy.publish.allowed, "none")
    )
    version = max(own.minimum_version, policy.minimum_version, key=_version)
    return replace(own, engine=engine, publish=publish, minimum_version=version)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:4])


def _compose(text: str, path: str) -> Any:  # noqa: ANN401 - PyYAML's nodes are untyped
    import yaml  # 20 ms that a repository without a configuration saves

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_tricks(yaml.parse(text, Loader=loader), path)
        return yaml.compose(text, Loader=loader)
    except yaml.YAMLError as error:
        line, reason = yaml_fault(error)
        raise _error(path, line + 1, f"not valid YAML: {reason}") from error


def _refuse_tricks(events: Any, path: str) -> None:  # noqa: ANN401
    """Anchors, tags and deep nesting have no use here, and cost a reader its memory or its stack."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if (
            depth > MAX_DEPTH
            or name == "AliasEvent"
            or getattr(event, "anchor", None)
            or getattr(event, "tag", None)
        ):
            raise _error(
                path, event.start_mark.line + 1, "anchors, tags and deep nesting are not read here"
            )


class _Reader:
    """Walks YAML nodes beside the type they should have, so that an error knows its line."""

    def __init__(self, path: str, found: list[Finding]) -> None:
        self.path = path
        self.found = found

    def plain(self, node: Any, type_: Any, where: str) -> Any:  # noqa: ANN401
        if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
            return self._mapping(node, type_, where)
        line = node.start_mark.line + 1
        try:
            value = msgspec.convert(self._value(node, where), type_)
        except (msgspec.ValidationError, ValueError, ArithmeticError) as error:
            raise _error(
                self.path, line, f"{where} must be {describe(inspect.type_info(type_))}"
            ) from error
        for pattern in value if isinstance(value, tuple) else ():
            if isinstance(pattern, str) and (reason := find_fault(pattern)):
                raise _error(self.path, line, f"{where}: {pattern!r} {reason}")
        return value

    def _mapping(self, node: Any, type_: type[msgspec.Struct], where: str) -> dict[str, Any]:  # noqa: ANN401
        if node.id != "mapping":
            raise _error(
                self.path,
                node.start_mark.line + 1,
                f"{where or 'the file'} must be a mapping of keys",
            )
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(type_)}
        plain: dict[str, Any] = {}
        for key, line, value_node in self._pairs(node, where):
            full = f"{where}.{key}" if where else key
            if key not in fields:
                hint = _nearest(key, tuple(fields))
                self.found.append(
                    Finding(
                        self.path, line, "unknown-key", f"unknown key {full!r}", hint, "warning"
                    )
                )
                continue
            plain[key] = self.plain(value_node, fields[key], full)
        return plain

    def _pairs(self, node: Any, where: str) -> Iterator[tuple[str, int, Any]]:  # noqa: ANN401
        """The keys of a mapping, each with its line and the node of its value; none may stand there twice."""
        seen: set[str] = set()
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.id != "scalar":
                raise _error(
                    self.path, line, f"{where or 'the file'}: a list or a mapping cannot be a key"
                )
            key = str(key_node.value)
            if key in seen:
                full = f"{where}.{key}" if where else key
                raise _error(self.path, line, f"the key {full!r} stands here twice")
            seen.add(key)
            yield key, line, value_node

    def _value(self, node: Any, where: str) -> Any:  # noqa: ANN401
        if node.id == "sequence":
            return [self._value(child, where) for child in node.value]
        if node.id == "mapping":
            return {key: self._value(value, where) for key, _, value in self._pairs(node, where)}
        if node.tag == CORE + "int":
            return int(node.value)
        if node.tag == CORE + "float":
            return float(node.value)
        if node.tag == CORE + "bool":
            return node.value.lower() in ("true", "yes", "on")
        return None if node.tag == CORE + "null" else node.value


def find_fault(pattern: str) -> str | None:
    """Why a text cannot be one of the patterns of the configuration, or None."""
    if not pattern or "\0" in pattern:
        return "is no pattern"
    if pattern.count("{where}") > 1:
        return "names {where} more than once"
    if pattern.count("**") > MAX_STARS:
        return f"has more than {MAX_STARS} times **"
    try:
        for class_ in re.findall(r"\[[^\]/]+\]", pattern):
            re.compile(class_)
    except re.error as error:
        return f"is no pattern: {error}"
    return None


def describe(kind: inspect.Type, *, plural: bool = False) -> str:
    """What a value of this type is, in plain words; `plural` for the parts of a list.

    >>> describe(inspect.type_info(tuple[bool, ...]))
    'a list of true or false'
    """
    one, many = ("", "s") if plural else ("a ", "")
    match kind:
        case inspect.LiteralType():
            return f"{'any' if plural else 'one'} of {', '.join(map(str, kind.values))}"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType() | inspect.FloatType():
            return f"{one}{'whole ' * isinstance(kind, inspect.IntType)}number{many}{_range(kind)}"
        case inspect.Metadata(extra_json_schema={"examples": examples}):
            return f"{describe(kind.type, plural=plural)} like {', '.join(map(repr, examples))}"
        case inspect.StrType():
            return f"{one}text{many}"
        case inspect.VarTupleType():
            return f"{one}list{many} of {describe(kind.item_type, plural=True)}"
        case inspect.TupleType():
            return f"{one}list{many} of {len(kind.item_types)} {describe(kind.item_types[0], plural=True)}"
        case inspect.DictType():
            keys, values = (
                describe(kind.key_type, plural=True),
                describe(kind.value_type, plural=True),
            )
            return f"{one}mapping{many} from {keys} to {values}"
        case inspect.UnionType():
            return " or ".join(describe(part, plural=plural) for part in kind.types)
    return "nothing"


def _range(kind: inspect.IntType | inspect.FloatType) -> str:
    return "" if kind.ge is None or kind.le is None else f" from {kind.ge} to {kind.le}"


def _nearest(key: str, known: tuple[str, ...]) -> str:
    """What to do about a key that is not known: a slip of the pen is told from what is never read from a file."""
    from difflib import get_close_matches  # 1 ms that only a key that is not known costs

    close = get_close_matches(key, known, n=1, cutoff=0.5)
    is_slip = get_close_matches(key, known, n=1, cutoff=0.8)
    if not is_slip and OUTSIDE & set(re.split(r"[^a-z]+", key.lower())):
        return "Keys, addresses and programs come from the environment only: see `memory-ci help configuration`."
    return f"Did you mean {close[0]!r}?" if close else f"Known keys here: {', '.join(known)}."


def _error(path: str, line: int, message: str, hint: str = "") -> UsageError:
    hint = hint or "All keys: `memory-ci help configuration`."
    return UsageError(
        f"{path}:{line}: {message}", slug="bad-config", hint=hint, place=(path, line, "")
    )
