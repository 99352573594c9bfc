"""YAML and JSON documents from text; the lab's one way to read YAML."""

from typing import Any

import yaml

Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def documents(text: str) -> list[Any]:
    """All documents of a stream, empty ones left out.  Raises ValueError with the place of what is wrong."""
    try:
        return [document for document in yaml.load_all(text, Loader) if document is not None]
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
