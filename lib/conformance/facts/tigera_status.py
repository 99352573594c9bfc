# SPDX-License-Identifier: Apache-2.0
"""The status that Calico's operator reports of its components, as a single fact."""

from conformance.facts.reading import Reading
from conformance.kube.client import Obj
from conformance.kube.fields import list_at, value_at
from conformance.model.facts import Fact

API = "operator.tigera.io/v1"
KIND = "TigeraStatus"
SHOWN = 120
"""The number of characters of a component's own message that are shown."""


def tigera_status(reading: Reading) -> Fact[str]:
    """Return ``all 4 available``, or the components that are not available: ``calico-windows is
    degraded: ResourceReadError ...``."""
    found = sorted(reading.all(API, KIND), key=lambda item: str(item["metadata"]["name"]))
    if not found:
        return Fact(
            None,
            f"not known: {reading.why.get(KIND) or 'there is none (no operator)'}",
        )
    source = f"{KIND} {', '.join(item['metadata']['name'] for item in found)} ({API})"
    unwell = [words for item in found if (words := _unwell(item))]
    return Fact("; ".join(unwell) if unwell else f"all {len(found)} available", source)


def _unwell(item: Obj) -> str:
    """Describe a component's fault; an empty string if it is available and not degraded."""
    name = item["metadata"]["name"]
    conditions = {
        condition.get("type"): condition for condition in list_at(item, "status", "conditions")
    }
    degraded = conditions.get("Degraded") or {}
    if degraded.get("status") == "True":
        said = f"{degraded.get('reason') or ''} {degraded.get('message') or ''}".strip()
        return f"{name} is degraded: {said[:SHOWN] or 'no reason given'}"
    if value_at(conditions, "Available", "status") != "True":
        progressing = value_at(conditions, "Progressing", "status") == "True"
        return f"{name} is {'progressing' if progressing else 'not available'}"
    return ""
