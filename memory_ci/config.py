"""The reader of the configuration file `.memory-ci.yaml`; its errors name the line and the key."""

from __future__ import annotations

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
from memory_ci.text import locate_yaml_error

T = TypeVar("T")
CONFIG_FILE = ".memory-ci.yaml"
POLICY_FILE = ".memory/policy.yaml"
"""The policy of `extends`, as `memory-ci init --policy` fetched it for offline use."""
MAX_BYTES = 64 * 1024  # Bytes of `.memory-ci.yaml`, and of a policy.
MAX_DEPTH = 8
MAX_STARS = 3  # `**` in one pattern; more match slowly, and fewer can say the same.
YAML_TAG = "tag:yaml.org,2002:"  # The beginning of the tags of YAML's own types.

OUTSIDE = frozenset(
    {"key", "apikey", "token", "secret", "password", "url", "base", "endpoint", "host", "command"}
)
"""Words in the names of credentials, addresses and programs, which no file may configure."""


REMOVED_KEYS = frozenset(
    """ci.fail_on engine.max_tokens engine.prompt_tokens episodes.fold_after_days
    episodes.ignored_policy extraction.norms nudge.unit org.deadline_ms org.max_share org.weight
    prominence publish.draft retrieve.fusion retrieve.institutional_max_chars retrieve.prominence
    retrieve.reinforcement retrieve.type_max_chars retrieve.vector_weight retrieve.walk
    sessions.keep_full sessions.max_bytes stage""".split()
)
"""Keys that 0.2 had; each has the value that was the default (docs/upgrading.md)."""


def parse_config(
    text: str, path: str = CONFIG_FILE, warnings: list[Finding] | None = None
) -> Config:
    """Return the configuration in the text of a `.memory-ci.yaml`.

    Args:
        text: the text of the file.
        path: the name of the file in errors.
        warnings: findings on unknown keys and formats, which a newer version may write, are added
            to this list.

    Raises:
        UsageError: bad-config.
    """
    findings = [] if warnings is None else warnings
    if len(text) > MAX_BYTES:
        raise _make_error(path, 1, f"the file is longer than {MAX_BYTES} characters")
    # A file of comments alone is common, and PyYAML takes 20 ms to load.
    has_content = any(line.strip() and not line.startswith("#") for line in text.splitlines())
    with _adding_source_line(text):
        node = _compose_yaml(text, path) if has_content else None
        is_empty = node is None or (node.id == "scalar" and node.tag == YAML_TAG + "null")
        if is_empty:
            return Config()
        plain_values = _Reader(path, findings).read(node, Config, "")
        config = msgspec.convert(plain_values, Config, strict=True)
    if config.format > FORMAT:
        message = f"the files are of format {config.format}, this memory-ci knows {FORMAT}"
        findings.append(Finding(path, 1, "newer-format", message, "Update memory-ci.", "warning"))
    return config


def parse_policy(text: str, path: str = POLICY_FILE) -> Policy:
    """Return the policy (limits that an organisation sets) in a text; an unknown key is an error.

    Args:
        text: the text of the file.
        path: the name of the file in errors.

    Raises:
        UsageError: bad-config.
    """
    findings: list[Finding] = []
    with _adding_source_line(text):
        node = _compose_yaml(text, path)
        policy = Policy()
        if node:
            policy = msgspec.convert(_Reader(path, findings).read(node, Policy, ""), Policy)
        if findings:
            finding = findings[0]
            raise _make_error(path, finding.line, finding.message, finding.hint)
    return policy


@contextmanager
def _adding_source_line(text: str) -> Iterator[None]:
    """Add to a `UsageError` of the block the text of the line that it is about, for its excerpt."""
    try:
        yield
    except UsageError as error:
        if error.place:
            path, line, _ = error.place
            error.place = path, line, "".join(text.splitlines()[line - 1 : line])
        raise


def apply_policy(config: Config, policy: bytes | None, required: str = "") -> Config:
    """Return the configuration with the limits of the policy that it extends.

    A policy only takes away: of two caps the lower holds, of two lists the common part.

    Args:
        config: the configuration of a repository.
        policy: the content of POLICY_FILE.
        required: the digest of the policy that the environment requires (MEMORY_CI_POLICY).

    Raises:
        UsageError: policy-missing, policy-changed, policy-forbids, bad-config.
    """
    required = required.removeprefix("sha256:")
    digest = config.extends.rpartition(" sha256:")[2]
    if required and digest != required:
        message = (
            f"MEMORY_CI_POLICY asks for the policy sha256:{required[:12]}, "
            "which is not extended here"
        )
        hint = "Run `memory-ci init --policy SOURCE@REV` with what your platform names, and commit."
        raise UsageError(message, slug="policy-missing", hint=hint)
    if digest:
        config = _narrow_config(config, _load_policy(policy, digest))
    _refuse_forbidden(config)
    return config


def _load_policy(policy: bytes | None, digest: str) -> Policy:
    """Return the policy in the content of POLICY_FILE.

    Args:
        policy: the content, None if the file is missing.
        digest: the SHA-256 that the content must have.

    Raises:
        UsageError: policy-changed, bad-config.
    """
    import hashlib  # Not at the top: the import takes 4 ms, and few projects have a policy.

    if policy is None or hashlib.sha256(policy).hexdigest() != digest:
        fault = "missing" if policy is None else "not the text that `extends` pins"
        hint = "Run `memory-ci init --policy`, and commit what it writes."
        raise UsageError(f"{POLICY_FILE} is {fault}", slug="policy-changed", hint=hint)
    return parse_policy(policy.decode("utf-8", "replace"))


def _refuse_forbidden(config: Config) -> None:
    """Raise an error if the policy forbids this version of memory-ci, or the way of publishing.

    Raises:
        UsageError: policy-forbids.
    """
    if _parse_version(config.minimum_version) > _parse_version(__version__):
        message = (
            f"memory-ci {config.minimum_version} or newer is asked for here, this is {__version__}"
        )
        raise UsageError(message, slug="policy-forbids", hint="Update memory-ci.")
    publish = config.publish
    if publish.allowed and publish.mode not in ("none", *publish.allowed):
        allowed = ", ".join(publish.allowed)
        message = f"publish.mode is {publish.mode}, and publish.allowed {allowed}"
        raise UsageError(message, slug="policy-forbids", hint="Set publish.mode to one of these.")


def _narrow_config(config: Config, policy: Policy) -> Config:
    """Return a configuration with the limits of a policy where they are narrower than its own."""
    engine = replace(
        config.engine,
        allowed=_intersect_lists(config.engine.allowed, policy.engine.allowed, "rules"),
        max_cost_usd=_choose_lower_cap(config.engine.max_cost_usd, policy.engine.max_cost_usd),
        max_cost_usd_month=_choose_lower_cap(
            config.engine.max_cost_usd_month, policy.engine.max_cost_usd_month
        ),
    )
    publish = replace(
        config.publish,
        allowed=_intersect_lists(config.publish.allowed, policy.publish.allowed, "none"),
    )
    version = max(config.minimum_version, policy.minimum_version, key=_parse_version)
    return replace(config, engine=engine, publish=publish, minimum_version=version)


def _intersect_lists(
    own_values: tuple[T, ...], policy_values: tuple[T, ...], default: T
) -> tuple[T, ...]:
    """Return the values that two lists allow; an empty list allows all.

    If no value is in both, return `default`, because an empty list would allow all.
    """
    if not own_values or not policy_values:
        return own_values or policy_values
    return tuple(value for value in own_values if value in policy_values) or (default,)


def _choose_lower_cap(own_cap: float, policy_cap: float) -> float:
    """Return the lower of two caps; 0 means that there is no cap."""
    return min(own_cap or policy_cap, policy_cap or own_cap)


def _parse_version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:4])


def _compose_yaml(text: str, path: str) -> Any:  # noqa: ANN401 - PyYAML's nodes are untyped
    """Return the root node of a YAML text, None for an empty one.

    Raises:
        UsageError: bad-config, for invalid YAML, anchors, tags or deep nesting.
    """
    import yaml  # Not at the top: it takes 20 ms, and many repositories have no configuration.

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_unsafe_yaml(yaml.parse(text, Loader=loader), path)
        return yaml.compose(text, Loader=loader)
    except yaml.YAMLError as error:
        line, reason = locate_yaml_error(error)
        raise _make_error(path, line + 1, f"not valid YAML: {reason}") from error


def _refuse_unsafe_yaml(events: Any, path: str) -> None:  # noqa: ANN401
    """Raise an error for anchors, tags and deep nesting, by which a small file can use much memory.

    Args:
        events: the events of PyYAML's parser.
        path: the name of the file in errors.
    """
    depth = 0
    for event in events:
        name = type(event).__name__
        if name.endswith("StartEvent"):
            depth += 1
        elif name.endswith("EndEvent"):
            depth -= 1
        is_alias = name == "AliasEvent" or getattr(event, "anchor", None)
        if depth > MAX_DEPTH or is_alias or getattr(event, "tag", None):
            message = "anchors, tags and deep nesting are not read here"
            raise _make_error(path, event.start_mark.line + 1, message)


class _Reader:
    """A walk over the nodes of a YAML file that checks each value and names its line in errors."""

    def __init__(self, path: str, findings: list[Finding]) -> None:
        self.path = path
        self.findings = findings

    def read(self, node: Any, type_: Any, where: str) -> Any:  # noqa: ANN401
        """Return the value of a YAML node as plain dicts, lists, texts and numbers, checked.

        Args:
            node: a node of PyYAML.
            type_: the type that the value must have: a record for a mapping of keys.
            where: the dotted key of the value, "" for the file.

        Raises:
            UsageError: bad-config.
        """
        if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
            return self._read_mapping(node, type_, where)
        line = node.start_mark.line + 1
        try:
            value = msgspec.convert(self._read_value(node, where), type_)
        except (msgspec.ValidationError, ValueError, ArithmeticError) as error:
            message = f"{where} must be {describe(inspect.type_info(type_))}"
            raise _make_error(self.path, line, message) from error
        if isinstance(value, tuple):
            self._check_patterns(value, line, where)
        return value

    def _check_patterns(self, values: tuple[object, ...], line: int, where: str) -> None:
        """Raise an error if a text in a list is no valid pattern of paths."""
        for pattern in values:
            fault = find_pattern_fault(pattern) if isinstance(pattern, str) else None
            if fault:
                raise _make_error(self.path, line, f"{where}: {pattern!r} {fault}")

    def _read_mapping(self, node: Any, type_: type[msgspec.Struct], where: str) -> dict[str, Any]:  # noqa: ANN401
        """Return a mapping node as a dict with the keys of a record.

        An unknown key is left out, with a warning among the findings.
        """
        if node.id != "mapping":
            message = f"{where or 'the file'} must be a mapping of keys"
            raise _make_error(self.path, node.start_mark.line + 1, message)
        types = {field.encode_name: field.type for field in msgspec.structs.fields(type_)}
        values: dict[str, Any] = {}
        for key, line, value_node in self._iter_pairs(node, where):
            full_key = f"{where}.{key}" if where else key
            if key in types:
                values[key] = self.read(value_node, types[key], full_key)
                continue
            message = f"unknown key {full_key!r}"
            hint = _suggest_key(key, tuple(types))
            if full_key in REMOVED_KEYS:
                hint = "This setting is gone since 0.3: delete the line."
            finding = Finding(self.path, line, "unknown-key", message, hint, "warning")
            self.findings.append(finding)
        return values

    def _iter_pairs(self, node: Any, where: str) -> Iterator[tuple[str, int, Any]]:  # noqa: ANN401
        """Yield key, line, and node of the value for each key of a mapping.

        Raises:
            UsageError: bad-config, for a key that is no text or is repeated.
        """
        seen_keys: set[str] = set()
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.id != "scalar":
                message = f"{where or 'the file'}: a list or a mapping cannot be a key"
                raise _make_error(self.path, line, message)
            key = str(key_node.value)
            if key in seen_keys:
                full_key = f"{where}.{key}" if where else key
                raise _make_error(self.path, line, f"the key {full_key!r} stands here twice")
            seen_keys.add(key)
            yield key, line, value_node

    def _read_value(self, node: Any, where: str) -> Any:  # noqa: ANN401
        """Return the value of a node by its YAML tag, unchecked.

        It is a number, a truth value, a text or None; or a list or dictionary of such values.
        """
        if node.id == "sequence":
            return [self._read_value(child, where) for child in node.value]
        if node.id == "mapping":
            return {
                key: self._read_value(value, where)
                for key, _, value in self._iter_pairs(node, where)
            }
        if node.tag == YAML_TAG + "int":
            return int(node.value)
        if node.tag == YAML_TAG + "float":
            return float(node.value)
        if node.tag == YAML_TAG + "bool":
            return node.value.lower() in ("true", "yes", "on")
        return None if node.tag == YAML_TAG + "null" else node.value


def find_pattern_fault(pattern: str) -> str | None:
    """Return why a text is no valid pattern of paths (a glob), None if it is one."""
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
    """Return a type of the configuration in plain words, for messages and documentation.

    Args:
        kind: a type, as msgspec inspects it.
        plural: in the plural, as the items of a list.

    >>> describe(inspect.type_info(tuple[bool, ...]))
    'a list of true or false'
    """
    match kind:
        case inspect.LiteralType():
            values = ", ".join(str(value) for value in kind.values)
            return f"any of {values}" if plural else f"one of {values}"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType() | inspect.FloatType():
            noun = "whole number" if isinstance(kind, inspect.IntType) else "number"
            return _inflect_noun(noun, plural) + _format_range(kind)
        case inspect.Metadata(extra_json_schema={"examples": examples}):
            quoted = ", ".join(repr(example) for example in examples)
            return f"{describe(kind.type, plural=plural)} like {quoted}"
        case inspect.StrType():
            return _inflect_noun("text", plural)
        case inspect.VarTupleType():
            items = describe(kind.item_type, plural=True)
            return f"{_inflect_noun('list', plural)} of {items}"
        case inspect.TupleType():
            items = describe(kind.item_types[0], plural=True)
            return f"{_inflect_noun('list', plural)} of {len(kind.item_types)} {items}"
        case inspect.DictType():
            keys = describe(kind.key_type, plural=True)
            values = describe(kind.value_type, plural=True)
            return f"{_inflect_noun('mapping', plural)} from {keys} to {values}"
        case inspect.UnionType():
            return " or ".join(describe(part, plural=plural) for part in kind.types)
    return "nothing"


def _inflect_noun(noun: str, plural: bool) -> str:
    """Return a noun in the plural, or with its article."""
    return f"{noun}s" if plural else f"a {noun}"


def _format_range(kind: inspect.IntType | inspect.FloatType) -> str:
    return "" if kind.ge is None or kind.le is None else f" from {kind.ge} to {kind.le}"


def _suggest_key(key: str, valid_keys: tuple[str, ...]) -> str:
    """Return a hint on an unknown key: a similar key, or where such a value belongs.

    Credentials, addresses and programs are read from the environment only, for any contributor can
    change a file of the repository.
    """
    from difflib import get_close_matches  # Not at the top: only an unknown key needs it.

    is_typo = bool(get_close_matches(key, valid_keys, n=1, cutoff=0.8))
    if not is_typo and OUTSIDE & set(re.split(r"[^a-z]+", key.lower())):
        return (
            "Keys, addresses and programs come from the environment only: "
            "see `memory-ci help settings`."
        )
    close = get_close_matches(key, valid_keys, n=1, cutoff=0.5)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Known keys here: {', '.join(valid_keys)}."


def _make_error(path: str, line: int, message: str, hint: str = "") -> UsageError:
    hint = hint or "All keys: `memory-ci help settings`."
    place = (path, line, "")
    return UsageError(f"{path}:{line}: {message}", slug="bad-config", hint=hint, place=place)
