# SPDX-License-Identifier: Apache-2.0
"""``policy diff``, ``ask`` and ``check``, their inputs and formats; 300 pods are grouped and
counted."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from benchmarks import policy_size
from conformance.cli import main
from conformance.errors import SuiteError, UsageProblem
from conformance.kube.refused import ApiRefused
from conformance.offline import formats, inputs

ROOT = Path(__file__).parents[4]
SHOP = str(ROOT / "docs/examples/policy/shop.yaml")
EXCEPT = str(ROOT / "docs/examples/policy/except.yaml")
STAGED = str(ROOT / "docs/examples/policy/staged.yaml")
CLOSED = """
apiVersion: projectcalico.org/v3
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec: {selector: app == 'web', ingress: [{action: Allow, protocol: UDP}]}
"""


@pytest.fixture
def closed(tmp_path: Path) -> str:
    (tmp_path / "closed.yaml").write_text(CLOSED)
    return str(tmp_path / "closed.yaml")


def pod(name: str, *addresses: str, system: str = "linux") -> dict[str, Any]:
    """A pod with these addresses on a node of a system."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"nodeSelector": {"kubernetes.io/os": system}, "containers": []},
        "status": {"podIPs": [{"ip": address} for address in addresses]},
    }


def written(folder: Path, name: str, *objects: Any) -> str:
    """The path of a file with these objects."""
    (folder / name).write_text(yaml.safe_dump_all(objects))
    return str(folder / name)


def ran(capsys: Any, *arguments: str) -> tuple[int, str]:
    code = main(["policy", *arguments])
    return code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("sides", "kinds"),
    [
        ("shop {closed} --apply", {"closes": 1}),
        ("{both} shop", {"opens": 1}),
        ("shop shop", {}),
        ("promise windows shop except --address 10.2.0.1", {"closes": 1}),
        ("windows promise shop except --address 10.2.0.1", {"opens": 1}),
        ("v3.29 v3.30 shop staged", {"closes": 1}),
        ("v3.30 v3.33 shop staged", {}),
        ("shop except --apply --column promise --address 10.2.0.1", {"closes": 1}),
        ("shop except --apply --column windows --address 10.2.0.1", {"closes": 2}),
    ],
)
def test_what_a_change_opens_and_closes(
    sides: str, kinds: dict[str, int], closed: str, tmp_path: Path, capsys: Any
) -> None:
    both = tmp_path / "both"
    both.mkdir()
    (both / "a.yaml").write_text(Path(SHOP).read_text())
    (both / "b.yml").write_text(CLOSED)
    names = {
        "shop": SHOP,
        "except": EXCEPT,
        "staged": STAGED,
        "{closed}": closed,
        "{both}": str(both),
    }
    arguments = [names.get(word, word) for word in sides.split()]
    code, out = ran(capsys, "diff", *arguments, "--format", "json")
    found: dict[str, int] = {}
    for change in json.loads(out)["changes"]:
        found[change["kind"]] = found.get(change["kind"], 0) + change["paths"]
    assert (code, found) == (0, kinds)
    for fails, kind in (("opens", "opens"), ("closes", "closes"), ("any", "")):
        expected = bool(kinds) if not kind else kind in kinds
        assert ran(capsys, "diff", *arguments, "--fail-on", fails)[0] == expected


def test_a_change_names_the_rule_and_the_ports(closed: str, capsys: Any) -> None:
    code, out = ran(capsys, "diff", SHOP, closed, "--apply", "--fail-on", "closes")
    assert code == 1
    assert out.startswith(
        "1 path: now closed\n\nCLOSES TCP: open -> closed (1 path)\n  from shop/client (linux)\n"
    )
    assert "denied by the end of tier default; before: allowed (no policy)" in out


def test_pods_of_one_side_alone_are_named_and_not_compared(tmp_path: Path, capsys: Any) -> None:
    more = tmp_path / "more.yaml"
    more.write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: new, namespace: shop}, spec: "
        "{containers: []}}"
    )
    _, out = ran(capsys, "diff", SHOP, str(more), "--apply")
    assert out == "nothing changes for 2 ends\nnew, and not compared: shop/new\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["diff", "promise", SHOP], "name two columns or two inputs"),
        (["diff", SHOP, SHOP, "--column", "v2.0"], "column 'v2.0': one of promise, windows, v3.29"),
        (
            ["ask", SHOP, "--from", "shop/nobody", "--to", "shop/web", "--port", "80"],
            "shop/nobody: no pod or address",
        ),
        (
            ["ask", SHOP, "--from", "shop/web", "--to", "shop/web", "--port", "80"],
            "there is no answer for shop/web and",
        ),
        (
            ["ask", SHOP, "--from", "shop/client", "--to", "shop/web"],
            "port: a number from 1 to 65535 is expected",
        ),
        ([], "name a file, a folder or a cluster"),
        (["diff", SHOP], "the following arguments are required: NEW"),
    ],
)
def test_a_question_that_cannot_be_used_is_one_line(
    arguments: list[str], said: str, capsys: Any
) -> None:
    assert main(["policy", *arguments]) == 4
    printed = capsys.readouterr()
    assert printed.err.startswith("ERROR: ")
    assert said in printed.err
    assert printed.err.count("\n") == 1


def test_a_walk_names_tiers_policies_and_rules_by_column(capsys: Any) -> None:
    code, out = ran(
        capsys, "ask", SHOP, EXCEPT, "--from", "10.2.0.1", "--to", "shop/web", "--port", "80"
    )
    promised, _, windows = out.partition("WINDOWS, v3.29, v3.30 to v3.33: closed")
    assert code == 0
    assert "PROMISE: open" in promised
    assert "ingress rule 1, Allow: matches" in promised
    assert "ingress rule 1, Allow: skipped: XPOL-1" in windows


ASSERTED = """
- {name: open, from: shop/client, to: shop/web, port: 80, protocol: UDP, expect: open}
- {name: "closed < & \\u0007", from: [shop/c*, 10.2.0.1], to: shop/web, port: 80, expect: %s}
"""


@pytest.mark.parametrize(("expect", "failures"), [("closed", 0), ("open", 1)])
def test_assertions_hold_or_fail_the_check(
    expect: str, failures: int, closed: str, tmp_path: Path, capsys: Any
) -> None:
    file, junit = tmp_path / "assertions.yaml", tmp_path / "junit.xml"
    file.write_text(ASSERTED % expect)
    found, out = ran(capsys, "check", str(file), SHOP, closed, "--junit", str(junit))
    assert found == failures
    assert out.startswith(f"{2 - failures} of 2 assertions hold\n")
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", str(failures))
    assert len(suite.findall("testcase/failure")) == failures
    if failures:
        assert "FAILED closed < & \\x07: 4 of 4 paths differ" in out
        assert "denied by the end of tier default" in str(suite.findtext("testcase/failure"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "a list with at least one assertion is expected"),
        ("{a: b}", "assertions: a list is expected"),
        (
            "[{from: shop/web, to: shop/nobody, port: 80, expect: open}]",
            "shop/nobody: no pod or address",
        ),
        ("[{from: shop/web, to: shop/web, port: 80, expect: open}]", "no pair of the named ends"),
        (
            "[{from: shop/web, to: shop/client, expect: open}]",
            "port: a number from 1 to 65535 is expected",
        ),
        (
            "[{from: shop/web, to: shop/client, port: 80, expect: maybe}]",
            "expect: one of closed, open",
        ),
        (
            "[{from: [], to: shop/client, port: 80, expect: open}]",
            "a pod, a pattern or an address is expected",
        ),
        ("[{frm: shop/web}]", "unknown field frm"),
        (
            "[{from: shop/web, to: shop/client, port: '80', expect: open}]",
            "assertion 1 port: a number from 1 to 65535 is expected, not '80'",
        ),
    ],
)
def test_assertions_that_cannot_be_used_are_one_line(
    text: str, said: str, tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "a.yaml").write_text(text)
    assert main(["policy", "check", str(tmp_path / "a.yaml"), SHOP]) == 4
    assert said in capsys.readouterr().err


def test_standard_input_counts_on_both_sides_of_a_change(
    closed: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(Path(SHOP).read_bytes())))
    empty = written(tmp_path, "empty.yaml")
    assert ran(capsys, "diff", empty, closed, "-")[1].startswith("1 path: now closed")


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_a_change_is_a_page_and_a_table(
    form: str, closed: str, tmp_path: Path, capsys: Any
) -> None:
    hostile = {**pod("x", "10.1.0.9"), "metadata": {"name": "<script>|`", "namespace": "shop"}}
    beside = written(tmp_path, "hostile.yaml", hostile)
    shop, both = (SHOP, beside), ("--apply", "--format", form)
    code, printed = ran(capsys, "diff", written(tmp_path, "old.yaml", *read(*shop)), closed, *both)
    assert code == 0
    assert "2 paths: now closed" in printed
    assert "<script" not in printed
    assert "|`" not in printed or form == "html"
    if form == "html":
        picture = printed[printed.index("<svg") : printed.index("</svg>") + 6]
        titles = [rect.findtext("title") for rect in ElementTree.fromstring(picture).iter("rect")]
        assert titles == ["A to B: closes"]


def read(*paths: str) -> list[Any]:
    """The objects of some files."""
    return [one for path in paths for one in yaml.safe_load_all(Path(path).read_text())]


def test_standard_input_is_a_file(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(Path(SHOP).read_bytes())))
    assert ran(capsys, "-")[1].startswith("2 pods, 0 policies")


class Served:
    """A cluster that serves some kinds, and refuses one."""

    def __init__(self, objects: list[dict[str, Any]], refused: str = "") -> None:
        self.objects = objects
        self.refused = refused
        self.discovery = self

    def serves(self, api: str, kind: str) -> bool:
        return any((obj["apiVersion"], obj["kind"]) == (api, kind) for obj in self.objects)

    def objects_at(self, api: str, kind: str) -> tuple[list[dict[str, Any]], str]:
        if kind == self.refused:
            raise ApiRefused(403, "Forbidden", "forbidden: no right", "GET /x")
        bare = ("apiVersion", "kind")
        return [
            {key: value for key, value in obj.items() if key not in bare}
            for obj in self.objects
            if (obj["apiVersion"], obj["kind"]) == (api, kind)
        ], "1"


def test_a_cluster_is_read_by_lists_without_twins() -> None:
    objects = [*yaml.safe_load_all(Path(SHOP).read_text()), yaml.safe_load(CLOSED)]
    original = {**objects[-1], "apiVersion": "networking.k8s.io/v1", "spec": {"podSelector": {}}}
    twin = {**objects[-1], "metadata": {"name": "knp.default.web", "namespace": "shop"}}
    everywhere = {**objects[-1], "kind": "GlobalNetworkPolicy", "metadata": {"name": "g"}}
    cluster: Any = Served([*objects, original, twin, everywhere])
    names = [obj["metadata"]["name"] for obj in inputs.cluster(cluster).objects]
    assert sorted(names) == ["client", "g", "shop", "web", "web", "web", "win-1"]
    # a twin alone is all that is known of its policy; a pod of that name is no policy
    alone: Any = Served([*objects, twin, everywhere])
    assert "knp.default.web" in [obj["metadata"]["name"] for obj in inputs.cluster(alone).objects]
    refusing: Any = Served(objects, "Pod")
    with pytest.raises(SuiteError, match="Pod cannot be listed"):
        inputs.cluster(refusing)


def test_hostile_names_command_neither_terminal_nor_page(tmp_path: Path, capsys: Any) -> None:
    strange = "<script>alert(1)</script>\\e[31m\\n::error::x|y`z"
    pod = (
        f'{{apiVersion: v1, kind: Pod, metadata: {{name: "{strange}", namespace: shop}}, '
        f"spec: {{containers: []}}}}"
    )
    (tmp_path / "p.yaml").write_text(pod)
    for form in ("text", "json", "markdown", "html"):
        code, out = ran(capsys, SHOP, str(tmp_path / "p.yaml"), "--format", form)
        assert code == 0
        assert "\x1b" not in out
        assert not any(line.lstrip().startswith("::error") for line in out.splitlines())
        assert ("<script" in out) is (form in ("text", "json"))
        if form == "markdown":
            assert "x|y" not in out


def test_the_page_has_the_matrix_as_a_picture(closed: str, capsys: Any) -> None:
    page = ran(capsys, SHOP, closed, "--format", "html")[1]
    picture = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    titles = [rect.findtext("title") for rect in picture.iter("rect")]
    assert titles == ["A to B: by port", "B to A: open"]
    assert "http" not in page


def test_many_pods_are_folded_counted_and_within_100_columns(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "many.yaml"
    file.write_text(yaml.safe_dump_all(policy_size.objects(120, 20)))
    folded = ran(capsys, str(file))[1]
    whole = ran(capsys, str(file), "--all")[1]
    assert "groups more: --all" in folded
    assert "--all" not in whole
    long = [line for line in folded.splitlines() if len(line) > 100]
    assert long == []
    assert len(folded) < len(whole) < 100_000
    told = " ".join(whole.split())
    assert sum(f"-{number} (" in told for number in range(120)) == 120, "every pod is there"


def test_ends_with_other_ip_versions_are_compared_by_the_common_ones(
    tmp_path: Path, capsys: Any
) -> None:
    old = written(tmp_path, "old.yaml", pod("a", "10.2.0.1"), pod("b", "10.2.0.2"))
    new = written(
        tmp_path, "new.yaml", pod("a", "10.2.0.1", "fd00::1"), pod("b", "10.2.0.2", "fd00::2")
    )
    for sides in ((old, new), (new, old)):
        code, out = ran(capsys, "diff", *sides)
        assert code == 0
        assert "compared only by the IP versions of both sides: shop/a, shop/b" in out


def test_a_pod_that_moves_to_another_system_is_named_and_not_compared(
    tmp_path: Path, capsys: Any
) -> None:
    old = written(tmp_path, "old.yaml", pod("a", "10.2.0.1"), pod("b", "10.2.0.2"))
    new = written(
        tmp_path, "new.yaml", pod("a", "10.2.0.1", system="windows"), pod("b", "10.2.0.2")
    )
    _, out = ran(capsys, "diff", old, new)
    assert "gone, and not compared: shop/a (linux)" in out
    assert "new, and not compared: shop/a (windows)" in out


def test_a_path_between_ip_versions_is_neither_open_nor_closed_by_policy(
    tmp_path: Path, capsys: Any
) -> None:
    pods = written(tmp_path, "pods.yaml", pod("a", "10.2.0.1"), pod("b", "fd00::2"))
    about = {"from": "shop/a", "to": "shop/b", "port": 80}
    opened = written(tmp_path, "open.yaml", [{**about, "expect": "open"}])
    closed = written(tmp_path, "closed.yaml", [{**about, "expect": "closed"}])
    code, out = ran(capsys, "check", opened, pods)
    assert (code, "no address of the same IP version" in out) == (1, True)
    code = main(["policy", "check", closed, pods])
    assert code == 4
    assert "no pair of the named ends has an answer" in capsys.readouterr().err


def test_a_list_that_unfolds_for_ever_is_refused_at_once(tmp_path: Path) -> None:
    aliases = ["&a {apiVersion: v1, kind: Secret, metadata: {name: s}}"]
    for letter, before in zip("bcde", "abcd", strict=True):
        items = ", ".join([f"*{before}"] * 60)
        aliases.append(f"&{letter} {{apiVersion: v1, kind: List, items: [{items}]}}")
    text = "\n".join(["apiVersion: v1", "kind: List", "items:", *(f"- {one}" for one in aliases)])
    (tmp_path / "list.yaml").write_text(text + "\n")
    with pytest.raises(UsageProblem, match="5,000,000 values"):
        inputs.files([str(tmp_path / "list.yaml")])


def test_pods_without_a_common_ip_version_have_no_path(tmp_path: Path, capsys: Any) -> None:
    pods = written(tmp_path, "pods.yaml", pod("a", "10.2.0.1"), pod("b", "fd00::2"))
    _, out = ran(capsys, pods)
    assert out.startswith("2 pods, 0 policies: 0 paths, as promised none\n")


def calico(api: str, name: str, action: str) -> dict[str, Any]:
    """A policy of Calico that decides all that comes to the pods of a namespace."""
    return {
        "apiVersion": api,
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": "all()", "types": ["Ingress"], "ingress": [{"action": action}]},
    }


def test_a_policy_replaces_its_stored_form() -> None:
    stored = calico("crd.projectcalico.org/v1", "default.web", "Deny")
    ours = calico("projectcalico.org/v3", "web", "Allow")
    other = calico("crd.projectcalico.org/v1", "default.api", "Deny")
    found = inputs.applied(inputs.Given([stored, other]), inputs.Given([ours]))
    assert found.objects == [other, ours]
    both = inputs.applied(inputs.Given([stored]), inputs.Given([ours, stored]))
    assert both.objects == [stored, ours]


def test_a_backslash_of_a_cluster_ends_no_cell_of_a_table() -> None:
    summary: Any = SimpleNamespace(
        reach=SimpleNamespace(columns=[]),
        groups=[],
        cells={},
        alike={},
        of=str,
        headlines=lambda: [r"a == 'x\|y'"],
        notes=lambda most: [],
    )
    assert formats.as_markdown(summary).startswith(r"- a == 'x\\\|y'")
