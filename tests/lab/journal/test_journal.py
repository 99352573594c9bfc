# SPDX-License-Identifier: Apache-2.0
"""A run records each change outside its namespaces before it makes it, and restores it exactly,
except values that others have changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, LockLost
from conformance.journal import Journal, Journalled, Outcome, believed
from conformance.journal.fields import Content
from conformance.journal.mark import marks_of, unmark
from conformance.journal.redaction import JournalRefused
from conformance.journal.restore import restore
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import Ownership, annotations_of
from conformance.model.change import ObjectRef
from tests.lab.journal.conftest import RUN

pytestmark = pytest.mark.usefixtures("more_rows")
FELIX = ObjectRef(api_version="projectcalico.org/v3", kind="FelixConfiguration", name="default")
Begin = Callable[..., Journalled]


def spec(kube: Kube) -> dict[str, Any]:
    found: dict[str, Any] = kube.get(FELIX.api_version, FELIX.kind, FELIX.name)["spec"]
    return found


def content(kube: Kube, target: ObjectRef) -> dict[str, Any]:
    """An object without what the server counts."""
    found = kube.get(target.api_version, target.kind, target.name, target.namespace)
    for name in ("resourceVersion", "generation", "managedFields"):
        found["metadata"].pop(name, None)
    return found


def marks(kube: Kube) -> list[tuple[str, str]]:
    """Of the node that is changed here."""
    return list(marks_of(kube.get("v1", "Node", a_node(kube).name)))


def a_node(kube: Kube) -> ObjectRef:
    return ObjectRef(
        api_version="v1", kind="Node", name=kube.objects("v1", "Node")[0]["metadata"]["name"]
    )


def outcomes(done: list[Any]) -> list[Outcome]:
    return [item.outcome for item in done]


def test_what_a_patch_set_added_and_removed_is_put_back(kube: Kube, begin: Begin) -> None:
    before = content(kube, FELIX)
    journalled = begin()
    journalled.patch(FELIX, {"spec": {"vxlanVNI": 5000, "logSeverityScreen": "Debug"}}, "a test")
    journalled.patch(
        FELIX,
        {"metadata": {"annotations": {"example.org/a": "b"}}, "spec": {"vxlanVNI": None}},
        "a test",
    )
    assert content(kube, FELIX) != before
    assert outcomes(journalled.restore()) == [Outcome.RESTORED, Outcome.RESTORED]
    assert content(kube, FELIX) == before


def test_the_journal_holds_the_old_state_before_the_change_is_made(
    kube: Kube, journal: Journal, begin: Begin
) -> None:
    seen: list[Any] = []

    def check() -> None:
        seen.extend(journal.entries())
        assert spec(kube)["vxlanVNI"] == 4096

    journalled = begin(check)
    journalled.patch(FELIX, {"spec": {"vxlanVNI": 5000}}, "a test")
    (entry,) = seen
    (field,) = entry.fields
    assert (field.path, field.before.value, field.ours.value) == (("spec", "vxlanVNI"), 4096, 5000)
    assert entry.uid
    assert entry.resource_version
    assert [each.state for each in journal.entries()] == ["done"]
    journalled.restore()
    assert [each.state for each in journal.entries()] == ["closed"]


def test_a_process_that_knows_nothing_of_the_run_restores_it(
    kube: Kube, journal: Journal, begin: Begin
) -> None:
    before = content(kube, a_node(kube))
    begin().patch(a_node(kube), {"spec": {"unschedulable": True}}, "cordons it")
    other = Journal(kube, Ownership("j1"), within=5.0)
    assert outcomes(restore(other, Changes(kube, Ownership("j1")), {})) == [Outcome.RESTORED]
    assert content(kube, a_node(kube))["spec"].get("unschedulable") == before["spec"].get(
        "unschedulable"
    )
    assert restore(other, Changes(kube, Ownership("j1")), {}) == []


def test_a_change_that_was_written_down_and_never_made_needs_nothing(
    kube: Kube, journal: Journal
) -> None:
    class Killed(Exception): ...

    class DiesBefore(Changes):
        def patch(self, *arguments: Any, **more: Any) -> Any:
            raise Killed

    journalled = Journalled(DiesBefore(kube, journal.run), journal, {}, lambda: None)
    with pytest.raises(Killed):
        journalled.patch(FELIX, {"spec": {"vxlanVNI": 5000}}, "a test")
    assert [each.state for each in journal.entries()] == ["intended"]
    assert outcomes(restore(journal, Changes(kube, journal.run), {})) == [Outcome.UNCHANGED]


def test_somebody_elses_value_is_left_and_named_and_the_rest_is_put_back(
    kube: Kube, begin: Begin
) -> None:
    severity = spec(kube).get("logSeverityScreen")
    journalled = begin()
    journalled.patch(FELIX, {"spec": {"vxlanVNI": 5000, "logSeverityScreen": "Debug"}}, "a test")
    Changes(kube, Ownership("foreign")).patch(
        FELIX, {"spec": {"vxlanVNI": 6000}}, "a user", foreign=True
    )
    (done,) = journalled.restore()
    assert done.outcome is Outcome.CONFLICT
    assert (
        "FelixConfiguration default (projectcalico.org/v3): .spec.vxlanVNI was 4096, was set to 5000 by this suite "
        "and is now 6000: the value of another owner is kept"
    ) in str(done)
    assert "kubectl get felixconfiguration default -o yaml" in done.by_hand
    assert spec(kube)["vxlanVNI"] == 6000
    assert spec(kube).get("logSeverityScreen") == severity
    Changes(kube, Ownership("foreign")).patch(
        FELIX, {"spec": {"vxlanVNI": 4096}}, "a user", foreign=True
    )


def test_an_object_that_was_made_is_removed_and_one_of_somebody_else_is_left(
    kube: Kube, begin: Begin
) -> None:
    target = ObjectRef(api_version="v1", kind="ConfigMap", name="made", namespace="kube-system")
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "made", "namespace": "kube-system"},
    }
    journalled = begin()
    journalled.create(body, "a test")
    assert outcomes(journalled.restore()) == [Outcome.RESTORED]
    assert kube.find("v1", "ConfigMap", "made", "kube-system") is None
    journalled.create(body, "a test")
    foreign = Changes(kube, Ownership("foreign"))
    foreign.delete(target, "a user", foreign=True)
    foreign.create(body, "a user", foreign=True)
    (done,) = journalled.restore()
    assert done.outcome is Outcome.REFUSED
    assert "was replaced by an object with another uid; nothing was done" in str(done)
    assert kube.find("v1", "ConfigMap", "made", "kube-system") is not None
    foreign.delete(target, "a user", foreign=True)


def test_procedures_are_healed_newest_first_unless_they_were_closed(
    kube: Kube, begin: Begin
) -> None:
    healed: list[Any] = []
    node = a_node(kube).name
    before = content(kube, a_node(kube))
    journalled = begin(
        heal=lambda run, arguments: healed.append((run, arguments["at"], len(marks(kube))))
    )
    journalled.procedure("heal", {"node": node, "at": "a"}, "a test")
    closed = journalled.procedure("heal", {"node": node, "at": "b"}, "a test")
    journalled.procedure("heal", {"node": node, "at": "c"}, "a test")
    assert len(marks(kube)) == 3
    journalled.close(closed)
    assert outcomes(journalled.restore()) == [Outcome.RESTORED, Outcome.RESTORED]
    assert healed == [("j1", "c", 2), ("j1", "a", 1)], "a mark goes once its procedure is over"
    assert content(kube, a_node(kube)) == before


def test_a_procedure_that_cannot_be_noted_leaves_no_mark(
    kube: Kube, journal: Journal, begin: Begin
) -> None:
    too_much = {"node": a_node(kube).name, "pods": "x" * 1024 * 1024}
    journalled = begin(heal=lambda run, arguments: None)
    with pytest.raises(JournalRefused, match=r"more than a ConfigMap holds \(1048576\)"):
        journalled.procedure("heal", too_much, "a test")
    assert journal.entries() == []
    assert outcomes(journalled.restore()) == [Outcome.UNCHANGED]
    assert marks(kube) == []
    assert [entry.open for entry in journal.entries()] == [False]


def test_a_node_is_marked_before_its_procedure_is_noted(
    kube: Kube, journal: Journal, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(Exception): ...

    def killed(entry: Any) -> None:
        raise Killed

    monkeypatch.setattr(journal, "write", killed)
    with pytest.raises(Killed):
        begin(heal=lambda run, arguments: None).procedure(
            "heal", {"node": a_node(kube).name}, "a test"
        )
    ((run, name),) = marks(kube)
    assert run == "j1"
    assert journal.entries() == []
    assert unmark(Changes(kube, journal.run), a_node(kube), name, within=1.0)
    assert marks(kube) == []


def test_what_is_changed_bears_the_mark_until_it_is_put_back(
    kube: Kube, journal: Journal, begin: Begin
) -> None:
    journalled = begin()
    journalled.patch(FELIX, {"spec": {"vxlanVNI": 5000}}, "a test")
    (entry,) = journal.entries()
    found = kube.get(FELIX.api_version, FELIX.kind, FELIX.name)
    assert annotations_of(found)[entry.mark_name] == entry.mark
    assert believed(kube, entry) == ""
    assert outcomes(journalled.restore()) == [Outcome.RESTORED]
    assert list(marks_of(kube.get(FELIX.api_version, FELIX.kind, FELIX.name))) == []
    assert believed(kube, entry) != ""


@pytest.mark.parametrize(
    ("altered", "why"),
    [
        (
            {"uid": "00000000-0000-0000-0000-000000000000"},
            "was replaced by an object with another uid",
        ),
        ({"key": "1"}, "does not carry the mark calico-conformance/change-1"),
        ({"run": "j2"}, "it names run j2"),
        ({"run": ""}, "an earlier release wrote this entry"),
        ({"before": 4200}, "is marked for another change: the journal entry was altered"),
    ],
    ids=["uid", "key", "run", "format", "value"],
)
def test_an_entry_that_the_object_does_not_confirm_is_refused_by_name(
    kube: Kube, journal: Journal, begin: Begin, altered: dict[str, Any], why: str
) -> None:
    journalled = begin()
    journalled.patch(FELIX, {"spec": {"vxlanVNI": 5000}}, "a test")
    (entry,) = journal.entries()
    changed = content(kube, FELIX)
    if before := altered.pop("before", None):
        altered["fields"] = (replace(entry.fields[0], before=Content(present=True, value=before)),)
    journal.mark(entry, "closed")
    forged = journal.write(replace(entry, **altered))
    (done,) = restore(journal, Changes(kube, RUN), {})
    assert done.outcome is Outcome.REFUSED
    assert why in done.text
    by_hand = "if a run of yours made the change: kubectl patch felixconfiguration.projectcalico.org default"
    assert by_hand in done.by_hand
    assert content(kube, FELIX) == changed, "nothing was changed"
    assert forged in journal.entries(), "it stays in the journal"
    journal.mark(forged, "closed")
    journal.write(entry)
    assert outcomes(restore(journal, Changes(kube, RUN), {})) == [Outcome.RESTORED]


def test_what_this_suite_never_changes_is_not_changed_either(
    kube: Kube, journal: Journal, begin: Begin
) -> None:
    labels = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
    target = ObjectRef(api_version="v1", kind="Namespace", name="default")
    with pytest.raises(
        JournalRefused, match="this suite makes no such change; nothing was changed"
    ):
        begin().patch(target, labels, "a test")
    assert journal.entries() == []


def test_a_healer_that_breaks_is_told_stays_open_and_does_not_keep_others_back(
    kube: Kube, journal: Journal, begin: Begin
) -> None:
    def breaks(run: str, arguments: dict[str, Any]) -> None:
        raise RuntimeError("no such node")

    journalled = begin(breaks=breaks)
    journalled.patch(FELIX, {"spec": {"vxlanVNI": 5000}}, "a test")
    journalled.procedure("breaks", {"node": a_node(kube).name}, "a test")
    failed, restored = journalled.restore()
    assert (failed.outcome, restored.outcome) == (Outcome.FAILED, Outcome.RESTORED)
    assert "RuntimeError: no such node" in str(failed)
    open_entries = [entry for entry in journal.entries() if entry.open]
    assert [entry.procedure for entry in open_entries] == ["breaks"]
    journalled.close(open_entries[0])


def test_a_procedure_that_nobody_can_undo_is_refused(journal: Journal, begin: Begin) -> None:
    with pytest.raises(JournalRefused, match="no healer is called 'unknown'"):
        begin().procedure("unknown", {}, "a test")
    assert journal.entries() == []


def test_secrets_are_neither_changed_nor_written_down(
    kube: Kube, journal: Journal, begin: Begin
) -> None:
    secret = ObjectRef(api_version="v1", kind="Secret", name="s", namespace="kube-system")
    with pytest.raises(JournalRefused, match="secrets are not journalled; nothing was changed"):
        begin().patch(secret, {"stringData": {"a": "planted"}}, "a test")
    environment = [{"name": "DB_PASSWORD", "value": "planted"}]
    with pytest.raises(JournalRefused, match="DB_PASSWORD looks like a secret") as refusal:
        begin().patch(a_node(kube), {"metadata": {"annotations": {"x": environment}}}, "a test")
    assert "planted" not in str(refusal.value)
    assert journal.entries() == []


def test_what_does_not_fit_is_refused_before_anything_is_changed(
    kube: Kube, journal: Journal, begin: Begin
) -> None:
    before = content(kube, FELIX)
    with pytest.raises(
        JournalRefused, match=r"more than a ConfigMap holds \(1048576\); nothing was changed"
    ):
        begin().patch(
            FELIX, {"metadata": {"annotations": {"example.org/a": "x" * 1024 * 1024}}}, "a test"
        )
    assert content(kube, FELIX) == before


def test_a_run_that_lost_its_lock_changes_nothing(
    kube: Kube, journal: Journal, begin: Begin
) -> None:
    def check() -> None:
        raise LockLost("another run holds it")

    before = content(kube, FELIX)
    with pytest.raises(LockLost):
        begin(check).patch(FELIX, {"spec": {"vxlanVNI": 5000}}, "a test")
    assert content(kube, FELIX) == before
    assert [entry.open for entry in journal.entries()] == [False]


def test_a_pod_without_a_controller_is_not_deleted(kube: Kube, begin: Begin) -> None:
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", "namespace": "kube-system"},
        "spec": {"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]},
    }  # fmt: skip
    Changes(kube, Ownership("foreign")).create(pod, "a user", foreign=True)
    target = ObjectRef(api_version="v1", kind="Pod", name="alone", namespace="kube-system")
    with pytest.raises(EnvironmentBroken, match="it has no controller that would create it again"):
        begin().delete_owned_pod(target, "a test")
    assert kube.find("v1", "Pod", "alone", "kube-system") is not None
    Changes(kube, Ownership("foreign")).delete(target, "a user", foreign=True)


def test_a_journal_with_nothing_open_is_removed_and_one_with_something_stays(
    kube: Kube, journal: Journal, begin: Begin
) -> None:
    journalled = begin()
    journalled.patch(FELIX, {"spec": {"vxlanVNI": 5000}}, "a test")
    journal.remove()
    assert len(journal.entries()) == 1
    journalled.restore()
    journal.remove()
    assert kube.find("v1", "ConfigMap", journal.ref.name, journal.ref.namespace) is None


def test_a_journal_that_somebody_removed_is_written_anew_with_all_that_is_open(
    kube: Kube, journal: Journal, begin: Begin
) -> None:
    journalled = begin()
    journalled.patch(FELIX, {"spec": {"vxlanVNI": 5000}}, "a test")
    Changes(kube, Ownership("foreign")).delete(journal.ref, "a user", foreign=True)
    journalled.patch(a_node(kube), {"spec": {"unschedulable": True}}, "a test")
    assert outcomes(journalled.restore()) == [Outcome.RESTORED, Outcome.RESTORED]
    assert spec(kube)["vxlanVNI"] == 4096


def test_changes_survive_an_api_server_that_does_not_answer_for_a_while(
    kube: Kube, begin: Begin
) -> None:
    class Hiccups(Changes):
        left = 2

        def patch(self, *arguments: Any, **more: Any) -> Any:
            from conformance.kube.refused import ApiUnreachable

            if Hiccups.left:
                Hiccups.left -= 1
                raise ApiUnreachable("PATCH", 1, 0.0, "refused")
            return super().patch(*arguments, **more)

    journalled = begin()
    journalled.changes = Hiccups(kube, journalled.changes.run)
    journalled.patch(FELIX, {"spec": {"vxlanVNI": 5000}}, "a test")
    assert spec(kube)["vxlanVNI"] == 5000
    assert outcomes(journalled.restore()) == [Outcome.RESTORED]
