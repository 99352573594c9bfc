"""Bodies in YAML, read and written as Kubernetes does: JSON's data model, timestamps and the like stay text."""

from __future__ import annotations

from typing import Any

import yaml

from hybridlab.api.errors import bad_request


class _Loader(yaml.CSafeLoader):
    """Resolves what JSON has too, and nothing else."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def from_yaml(raw: bytes) -> Any:
    """Return the JSON data of a YAML document; ApiError 400 when it is none."""
    try:
        return _with_text_keys(yaml.load(raw, _Loader))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem = getattr(error, "problem", None) or str(error)
        raise bad_request(f"error parsing YAML: {problem}") from error


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _with_text_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_text_keys(item) for item in value]
    return value


def to_yaml(value: Any) -> bytes:
    """Write JSON data as YAML, keys in order."""
    return yaml.dump(value, Dumper=yaml.CSafeDumper, encoding="utf-8", allow_unicode=True, sort_keys=True)
