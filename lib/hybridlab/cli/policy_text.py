"""The answer of ``hybridlab policy`` as text: a table a pod, what was left out below it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_COLUMNS = (
    "Priority",
    "Direction",
    "Action",
    "Protocol",
    "LocalAddresses",
    "LocalPorts",
    "RemoteAddresses",
    "RemotePorts",
)
_HEADS = ("PRIO", "DIR", "ACTION", "PROTO", "LOCAL", "LPORTS", "REMOTE", "RPORTS", "ID")
_ANY_PROTOCOL = 256
_SHOWN_ADDRESSES = 4


def print_answer(answer: Mapping[str, Any]) -> None:
    """Print an answer of ``hybridlab.cli.policy``."""
    print(f"Calico {answer['calico']}")
    for line in answer["assumed"]:
        print(f"assumed: {line}")
    for line in answer["not_read"]:
        print(f"not read: {line}")
    for name, pod in answer["pods"].items():
        print(f"\n{name} ({pod['os']}, {pod['address']})")
        if "panic" in pod:
            print(
                f"  Felix panics and starts again for ever: {pod['panic']!r}; what was programmed before stays"
            )
        elif pod["os"] == "windows":
            _print_windows(pod)
        else:
            _print_linux(pod)
    if answer["probes"]:
        print()
    for probe in answer["probes"]:
        ends = ", ".join(f"{end} {probe[end]}" for end in ("egress", "ingress") if end in probe)
        port = f"/{probe['port']}" if "port" in probe else ""
        print(
            f"{probe['from']} -> {probe['to']} {probe.get('protocol', 'TCP')}{port}: {probe['verdict']} ({ends})"
        )


def _print_windows(pod: Mapping[str, Any]) -> None:
    rows = [_HEADS, *(_row(acl) for acl in pod["acls"] if acl["RuleType"] == "Switch")]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    for row in rows:
        print(
            "  "
            + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        )
    for item in pod["left_out"]:
        print(
            f"  left out: {item['rule']}: {item['why']}{'' if item['warned'] else ' (Felix says nothing)'}"
        )


def _row(acl: Mapping[str, Any]) -> tuple[str, ...]:
    said = {**acl, "Protocol": "any" if acl["Protocol"] == _ANY_PROTOCOL else acl["Protocol"]}
    cells = [_short(str(said.get(column, "any"))) for column in _COLUMNS]
    return (*cells, str(acl.get("Id", "")))


def _short(text: str) -> str:
    listed = text.split(",")
    more = len(listed) - _SHOWN_ADDRESSES
    return text if more <= 0 else f"{','.join(listed[:_SHOWN_ADDRESSES])} and {more} more"


def _print_linux(pod: Mapping[str, Any]) -> None:
    for direction in ("ingress", "egress"):
        tiers: Sequence[Mapping[str, Any]] = pod[direction]
        if not tiers:
            print(f"  {direction}: no policy, the profile allows")
        for tier in tiers:
            print(f"  {direction}, tier {tier['tier']}")
            for rule in tier["rules"]:
                print(f"    {rule['action']:5} {_match(rule)}  # {rule['from']}")
            print(f"    {tier['end']:5} at the end of the tier")


def _match(rule: Mapping[str, Any]) -> str:
    said = (f"{name}={_value(rule, name, value)}" for name, value in rule["match"].items())
    return " ".join(said) or "everything"


def _value(rule: Mapping[str, Any], name: str, value: Any) -> str:
    if name.endswith("_sets"):
        return _members(rule["members"][item] for item in value)
    if name.endswith("_ports"):
        return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in value)
    return _short(",".join(value) if isinstance(value, tuple) else str(value))


def _members(sets: Iterable[Sequence[str]]) -> str:
    return " and ".join("{" + _short(",".join(members)) + "}" for members in sets)
