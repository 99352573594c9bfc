"""What a pod asks for in total."""

from decimal import Decimal

from hybridlab.api.contract import Obj, quantity


def requests(pod: Obj) -> dict[str, Decimal]:
    """What the scheduler reserves for a pod, by resource name: the sum of its containers and side-cars, or the
    largest init container if that is more, plus overhead.  A limit without a request counts as the request."""
    spec = pod["spec"]
    total: dict[str, Decimal] = {}
    for container in spec["containers"]:
        _add(total, _of(container))
    largest: dict[str, Decimal] = {}
    for container in spec.get("initContainers", ()):
        if container.get("restartPolicy") == "Always":
            _add(total, _of(container))
            continue
        for name, amount in _of(container).items():
            largest[name] = max(largest.get(name, Decimal(0)), amount)
    for name, amount in largest.items():
        total[name] = max(total.get(name, Decimal(0)), amount)
    _add(total, {name: quantity(str(value)) for name, value in (spec.get("overhead") or {}).items()})
    return total


def _of(container: Obj) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: quantity(str(value)) for name, value in wanted.items()}


def _add(total: dict[str, Decimal], more: dict[str, Decimal]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Decimal(0)) + amount
