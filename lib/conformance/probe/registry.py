"""What PowerShell prints of a Windows node's registry and of itself, as text by name.  Pure."""

import json

from conformance.errors import ProbeBroken

PROVIDER = ("PSPath", "PSParentPath", "PSChildName", "PSDrive", "PSProvider")
"""What Get-ItemProperty adds of its own."""
SHOWN = ("Release", "Version")
"""Values of .NET's key that tell its build."""


def differences(said: str, what: str) -> dict[str, str]:
    """Values of registry keys, one key a line as JSON, and ``NAME=VALUE`` lines.  Raises ProbeBroken."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, said.splitlines())):
        if not line.startswith("{"):
            name, _, value = line.partition("=")
            found[name] = value
            continue
        try:
            key = json.loads(line)
            path = str(key["PSPath"]).rpartition("::")[2].split("\\")
        except (ValueError, KeyError) as error:
            raise ProbeBroken(
                f"{what}: garbled registry key {line[:200]!r}", transport=str(error)
            ) from None
        net = path[-1] == "Full"
        for name, value in sorted(key.items()):
            if name not in PROVIDER and (not net or name in SHOWN):
                found[f".NET {name}" if net else f"{path[-2]}\\{path[-1]} {name}"] = str(value)
    return found
