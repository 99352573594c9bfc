# SPDX-License-Identifier: Apache-2.0
"""Manifests as dicts."""

import re
from pathlib import Path
from typing import Any

import yaml

from conformance.errors import UsageProblem

Obj = dict[str, Any]
# libyaml's classes are ten times as fast, if PyYAML has them. Manifests are read for every
# deployment.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SAFE: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_SAFE):  # type: ignore[misc]
    """A dumper that quotes ``y`` and ``n``: kubectl's reader takes them for Booleans, PyYAML does
    not."""


_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("[yYnN]$"), list("yYnN"))


def load(path: Path) -> list[Obj]:
    """Return the objects of a YAML file, in order.  Raise UsageProblem with file and line."""
    documents = read(path)
    for document in documents:
        is_list = (
            isinstance(document, dict) and document.get("kind") == "List"
        )  # a hand-written List has no metadata
        needed = {"apiVersion", "kind", "items" if is_list else "metadata"}
        if not isinstance(document, dict) or not needed <= document.keys():
            raise UsageProblem(
                f"manifest {path}: a document is not a Kubernetes object, which needs apiVersion, "
                f"kind and {'items' if is_list else 'metadata'}"
            )
    return documents


def read(path: Path) -> list[Any]:
    """Return the documents of a YAML file, in order, of any type.  Raise UsageProblem with file and
    line."""
    try:
        return parsed(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageProblem(f"manifest {path} cannot be read: {error.strerror}") from None


def read_one(path: Path, what: str) -> Any:
    """Return the only document of a YAML file. ``what``: the kind of document (world or story), for
    messages. Raise UsageProblem."""
    documents = read(path)
    if len(documents) != 1:
        raise UsageProblem(f"{what} {path}: expected one YAML document, found {len(documents)}")
    return documents[0]


def parsed(data: bytes, where: str) -> list[Any]:
    """Return the documents in a YAML text, in order.  Raise UsageProblem with the line."""
    try:
        text = data.decode("utf-8-sig")
        return [item for item in yaml.load_all(text, _LOADER) if item is not None]
    except UnicodeDecodeError:
        raise UsageProblem(f"manifest {where} is not UTF-8 text") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        why = str(getattr(error, "problem", None) or error).partition("\n")[0]
        hint = " (a template: render it first, as `helm template` does)" if "{{" in text else ""
        raise UsageProblem(f"manifest {where}{line}: {why}{hint}") from None
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError) as error:
        # the cause may be a date or a number that Python cannot represent
        raise UsageProblem(f"manifest {where}: {str(error).partition(chr(10))[0]}") from None


def dump(objects: list[Obj]) -> str:
    """Return objects as YAML, for reports."""
    return str(yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False))
