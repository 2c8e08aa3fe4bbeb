"""Reading `.memory-ci.yaml`: every error names the file, the line, the key and the nearest known key."""

from __future__ import annotations

import difflib
from typing import Any

import msgspec

from memory_ci.errors import UsageError
from memory_ci.records.config import Config

CONFIG_FILE = ".memory-ci.yaml"


def parse_config(text: str, path: str = CONFIG_FILE) -> Config:
    """The configuration a text holds. Raises UsageError (bad-config)."""
    says_something = any(line.strip() and not line.startswith("#") for line in text.splitlines())
    node = _compose(text, path) if says_something else None
    if node is None or (node.id == "scalar" and node.tag == "tag:yaml.org,2002:null"):
        return Config()
    plain = _Reader(path).plain(node, Config, "")
    try:
        return msgspec.convert(plain, Config, strict=True)
    except msgspec.ValidationError as error:
        raise _error(path, 1, str(error)) from error  # pragma: no cover - _Reader names the line first


def _compose(text: str, path: str) -> Any:  # noqa: ANN401 - PyYAML's nodes are untyped
    import yaml  # 20 ms that a repository without a configuration saves

    try:
        return yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error)
        raise _error(path, mark.line + 1 if mark else 1, f"not valid YAML: {reason}") from error


class _Reader:
    """Walks YAML nodes beside the type they should have, so that an error knows its line."""

    def __init__(self, path: str) -> None:
        self.path = path

    def plain(self, node: Any, type_: Any, where: str) -> Any:  # noqa: ANN401
        if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
            return self._mapping(node, type_, where)
        value = self._value(node)
        try:
            return msgspec.convert(value, type_)
        except msgspec.ValidationError as error:
            raise _error(self.path, node.start_mark.line + 1, f"{where}: {error}") from error

    def _mapping(self, node: Any, type_: type[msgspec.Struct], where: str) -> dict[str, Any]:  # noqa: ANN401
        if node.id != "mapping":
            raise _error(self.path, node.start_mark.line + 1, f"{where or 'the file'} must be a mapping of keys")
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(type_)}
        plain: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            full = f"{where}.{key}" if where else key
            if key not in fields:
                raise _error(self.path, line, f"unknown key {full!r}", _nearest(key, tuple(fields)))
            if key in plain:
                raise _error(self.path, line, f"the key {full!r} stands here twice")
            plain[key] = self.plain(value_node, fields[key], full)
        return plain

    def _value(self, node: Any) -> Any:  # noqa: ANN401
        import yaml

        if node.id == "sequence":
            return [self._value(child) for child in node.value]
        if node.id == "mapping":
            return {str(key.value): self._value(value) for key, value in node.value}
        return yaml.SafeLoader("").construct_object(node)


def _nearest(key: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"Did you mean {close[0]!r}?" if close else f"Known keys here: {', '.join(known)}."


def _error(path: str, line: int, message: str, hint: str = "") -> UsageError:
    return UsageError(f"{path}:{line}: {message}", slug="bad-config", hint=hint or "See docs/configuration.md.")
