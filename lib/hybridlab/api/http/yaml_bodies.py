# SPDX-License-Identifier: Apache-2.0
"""Bodies in YAML, read and written as Kubernetes does: with JSON's data model, so that timestamps
and the like stay text."""

from typing import Any

import yaml


class YamlProblem(ValueError):
    """A body that is no YAML; the message has the place and the reason."""


class _Loader(yaml.CSafeLoader):
    """Resolves only the types that JSON has."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def from_yaml(raw: bytes) -> Any:
    """Return the JSON data of a YAML document. Raise YamlProblem if the text is no YAML."""
    try:
        return _with_text_keys(yaml.load(raw, _Loader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise YamlProblem(f"yaml: line {line}: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise YamlProblem(f"yaml: {error}") from error


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else str(key): _with_text_keys(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_with_text_keys(item) for item in value]
    return value


class _Dumper(yaml.CSafeDumper):
    """Quotes texts that other readers of YAML take for booleans."""


def _text(dumper: _Dumper, value: str) -> yaml.Node:
    style = '"' if value in {"y", "Y", "n", "N"} else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(value: Any) -> bytes:
    """Write JSON data as YAML, keys in order."""
    return yaml.dump(value, Dumper=_Dumper, encoding="utf-8", allow_unicode=True, sort_keys=True)
