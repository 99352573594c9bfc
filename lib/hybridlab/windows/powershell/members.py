"""Members of the values that are no .NET objects here: hashtables, strings, numbers and arrays."""

from __future__ import annotations

from hybridlab.windows.powershell.objects import HashTable, to_text
from hybridlab.windows.powershell.operators import equal
from hybridlab.windows.powershell.syntax import NotEmulated


def hash_member(table: HashTable, key: str, name: str, arguments: list[object] | None) -> object:
    """Members of a hashtable; an entry of that name wins over nothing."""
    if arguments is None:
        if table.has(name):
            return table.get(name)
        match key:
            case "keys":
                return [k for k, _ in table.items()]
            case "values":
                return [v for _, v in table.items()]
            case "count":
                return len(table)
        return None
    match key, arguments:
        case ("get_item", [item]) | ("item", [item]):
            return table.get(item)
        case (("set_item" | "add"), [item, value]):
            table.set(item, value)
            return None
        case (("containskey" | "contains"), [item]):
            return table.has(item)
        case "remove", [item]:
            table.remove(item)
            return None
    raise NotEmulated(f"method {name} of a hashtable")


def plain_member(owner: object, key: str, name: str, arguments: list[object] | None) -> object:  # noqa: PLR0911, PLR0912
    """Members of strings, numbers and arrays."""
    if arguments is None:
        if key in ("length", "count"):
            return len(owner) if isinstance(owner, (str, list, bytes)) else 1
        if isinstance(owner, (str, int, float)):
            return None
        raise NotEmulated(f"property {name}")
    if key == "tostring":
        return to_text(owner)
    if isinstance(owner, list):
        match key, arguments:
            case "contains", [item]:
                return any(equal(one, item) for one in owner)
            case "add", [item]:
                owner.append(item)
                return len(owner) - 1
    if isinstance(owner, str):
        texts = [to_text(item) for item in arguments]
        match key, len(arguments):
            case "trim", 0:
                return owner.strip()
            case "trimend", 0:
                return owner.rstrip()
            case "toupper", 0:
                return owner.upper()
            case "tolower", 0:
                return owner.lower()
            case "contains", 1:
                return texts[0] in owner
            case "startswith", 1:
                return owner.startswith(texts[0])
            case "endswith", 1:
                return owner.endswith(texts[0])
            case "indexof", 1:
                return owner.find(texts[0])
            case "replace", 2:
                return owner.replace(texts[0], texts[1])
            case "split", 1:
                return owner.split(texts[0])
            case "substring", 1:
                return owner[int(texts[0]) :]
            case "substring", 2:
                return owner[int(texts[0]) : int(texts[0]) + int(texts[1])]
    raise NotEmulated(f"method {name}")
