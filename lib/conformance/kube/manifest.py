# SPDX-License-Identifier: Apache-2.0
"""Manifests as dicts."""

from pathlib import Path
from typing import Any

import yaml

from conformance.errors import UsageProblem
from conformance.kube.client import Obj

# libyaml's, where PyYAML was built with it, are ten times as fast: manifests are read again for every deployment.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def load(path: Path) -> list[Obj]:
    """The objects of a YAML file, in order.  Raises UsageProblem with file and line."""
    documents = read(path)
    for document in documents:
        is_list = (
            isinstance(document, dict) and document.get("kind") == "List"
        )  # one by hand has no metadata
        needed = {"apiVersion", "kind", "items" if is_list else "metadata"}
        if not isinstance(document, dict) or not needed <= document.keys():
            raise UsageProblem(f"manifest {path}: a document is no Kubernetes object")
    return documents


def read(path: Path) -> list[Any]:
    """The documents of a YAML file, in order, whatever they are.  Raises UsageProblem with file
    and line."""
    try:
        return [item for item in yaml.load_all(path.read_text(), _LOADER) if item is not None]
    except OSError as error:
        raise UsageProblem(f"manifest {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageProblem(f"manifest {path} is no text in UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise UsageProblem(f"manifest {path}{line}: {getattr(error, 'problem', error)}") from None


def dump(objects: list[Obj]) -> str:
    """Objects as YAML, for reports."""
    return str(yaml.dump_all(objects, Dumper=_DUMPER, sort_keys=False))
