# SPDX-License-Identifier: Apache-2.0
"""The archive of a run: no planted secret, and no planted path of this machine, is anywhere in
it."""

from __future__ import annotations

import base64
import json
import re
import zipfile
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from conformance.cli import main
from conformance.report.pack import pack, scrubbed
from conformance.scrubbing import HIDDEN
from tests.unit.conformance.qualify.reports import NEW, decided
from tests.unit.conformance.report.pages import plain

TOKEN = (
    "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
)
BODY = "MIIEpAIBAAKCAQEA7yzQbkMHT+fake+key+body+of+a+test=="
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n{BODY}\n-----END RSA PRIVATE KEY-----"
CUT = f"-----BEGIN CERTIFICATE-----\n{BODY}"
SECRETS = {
    "token": TOKEN,
    "token in base64": base64.b64encode(TOKEN.encode()).decode(),
    "certificate in base64": base64.b64encode(KEY.encode()).decode(),
    "bearer": "kJ93jd8dJdk3jdkwl29dk",
    "password": "correct-horse-battery",
    "openshift": "sha256~AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abc",
    "basic": "YWRtaW46aHVudGVyMjIy",
    "cloud": "AKIAIOSFODNN7EXAMPLE",
    "url": "jane:hunter2222",
    "github": "ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "kubeadm": "abcdef.0123456789abcdef",
}
LINES = f"""\
Authorization: Bearer {SECRETS["bearer"]}
Authorization: Basic {SECRETS["basic"]}
the token is {SECRETS["token"]}, and {SECRETS["token in base64"]}
certificate-authority-data: {SECRETS["certificate in base64"]}
DB_PASSWORD={SECRETS["password"]}
- name: DB_PASSWORD
  value: {SECRETS["password"]}
{{"password": "{SECRETS["password"]}", "cloud": "{SECRETS["cloud"]}"}}
{SECRETS["openshift"]} https://{SECRETS["url"]}@registry.example/v2
joined with {SECRETS["kubeadm"]}, cloned with {SECRETS["github"]}
{KEY}
{CUT}
"""
KUBECONFIG = f"apiVersion: v1\nkind: Config\nusers:\n- name: me\n  user:\n    token: {TOKEN}\n"
KEPT = "calico-node on windows-2019 says: policy default/allow is active, from 192.168.1.77:8080 to C:\\CalicoWindows\\log"


def a_run(folder: Path) -> Path:
    """A run's folder with secrets in everything that it holds."""
    run = folder / "home-of-jane" / "reports" / "2026-11-22T17-08-31Z-518dd7"
    attached = run / "attachments" / "one"
    for place in (attached, run / "allure", run / "lab", run / ".run"):
        place.mkdir(parents=True)
    told = f"{LINES}{KEPT}\nwritten to {run}/x.txt, /home/jane/.kube/config and /Users/jane/lane.yaml\n"
    whole = plain(
        decided("DEMO-7", {NEW: "VIOLATED"}) | {"reason": told},
        notes=[told],
        command=f"pytest --kubeconfig=/srv/secret-place/lane.yaml --report-dir={run.parent}",
        cluster={
            "how": "kubeconfig",
            "why": "",
            "label": "https://api.internal.example:6443, kubeconfig lane.yaml",
        },
    )
    (run / "conformance.json").write_text(json.dumps(whole))
    (run / "report.html").write_text(
        f"<pre>{told}</pre><p title='{json.dumps(told)}'>".replace('"', "&#34;")
    )
    xml = Xml.Element("testsuites")
    Xml.SubElement(xml, "failure", message=told).text = told
    Xml.ElementTree(xml).write(run / "junit.xml")
    for place in (
        attached / "log.txt",
        attached / "objects.yaml",
        run / "transcript-gw0.txt",
        run / "lab" / "lab.log",
    ):
        place.write_text(f"{told} https://api.internal.example:6443 /srv/secret-place/lane.yaml")
    (run / "allure" / "1-result.json").write_text(
        json.dumps({"message": json.dumps({"inner": told})})
    )
    (run / "allure" / "2-attachment.txt").write_text(KUBECONFIG)
    (run / "lab" / "kubeconfig").write_text(KUBECONFIG)
    (attached / "lane.yaml").write_text(KUBECONFIG)
    (attached / "notes.swp").write_text(TOKEN)
    (attached / "link.txt").symlink_to("/etc/hostname")
    (attached / "packets.pcap").write_bytes(b"\xd4\xc3\xb2\xa1 packets")
    (run / ".run" / "plan.json").write_text(TOKEN)
    (run / "allure.html").write_text(told)
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "private.txt").write_text("of another run")
    (attached / "linked").symlink_to(folder / "elsewhere")
    return run


def contents(archive: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as whole:
        return {name.partition("/")[2]: whole.read(name) for name in whole.namelist()}


def test_nothing_that_was_planted_is_in_the_archive_and_what_a_reader_needs_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = a_run(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["pack", str(run)]) == 0
    said = capsys.readouterr().out
    found = contents(tmp_path / f"{run.name}.zip")
    planted = [
        *SECRETS.values(),
        BODY,
        "home-of-jane",
        "jane/",
        "secret-place",
        "api.internal.example",
        str(tmp_path),
    ]
    leaks = [
        (name, secret)
        for name, body in found.items()
        for secret in planted
        if secret.encode() in body
    ]
    assert leaks == []
    assert "/home/" not in str(found)
    assert sorted(found) == [
        "allure/1-result.json",
        "attachments/one/log.txt",
        "attachments/one/objects.yaml",
        "attachments/one/packets.pcap",
        "conformance.json",
        "junit.xml",
        "lab/lab.log",
        "report.html",
        "transcript-gw0.txt",
    ]
    assert KEPT.encode() in found["attachments/one/log.txt"]
    assert found["attachments/one/packets.pcap"] == b"\xd4\xc3\xb2\xa1 packets"
    assert all(
        name in said
        for name in (
            "lab/kubeconfig",
            "attachments/one/lane.yaml",
            "notes.swp",
            "link.txt",
            "one/linked",
        )
    )
    assert "allure.html" in said


def test_the_runs_own_folder_is_removed_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "conformance.report.pack._HOMES", re.compile("(?!)")
    )  # as if it were in no usual home
    run = a_run(tmp_path)
    (run / "own.txt").write_text(f"in {run}/lab and {run.parent}/latest")
    pack(run, tmp_path / "run.zip", ())
    found = contents(tmp_path / "run.zip")["own.txt"].decode()
    assert found == f"in (here)/{run.name}/lab and (here)/reports/latest"


def test_what_was_json_and_xml_still_is(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    pack(run, tmp_path / "run.zip", ())
    found = contents(tmp_path / "run.zip")
    claims = json.loads(found["conformance.json"])["claims"]
    assert any(KEPT in result["reason"] for claim in claims for result in claim["results"])
    assert KEPT.replace("\\", "\\\\") in json.loads(found["allure/1-result.json"])["message"]
    assert KEPT in str(Xml.fromstring(found["junit.xml"]).findtext("failure"))


@pytest.mark.parametrize(
    "text",
    ["secretName: pull-me-please", "tokens: 4 of them", "token: null", '"automountServiceAccountToken": false',
     "token.windows", "the password is in the vault", "node windows-2019 10.0.0.15:30355 eyJ", KEPT],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert scrubbed(text) == text


def test_a_name_that_says_so_hides_its_value_in_any_writing() -> None:
    for text in (
        "token=abcdef123",
        "token: 'abcdef123'",
        '\\"token\\": \\"abcdef123\\"',
        "token&#34;: &#34;abcdef123",
    ):
        assert scrubbed(text) == text.replace("abcdef123", HIDDEN)


def test_names_of_files_and_what_is_under_this_machines_own_folders_are_removed_too(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path)
    (run / "lab" / f"{SECRETS['cloud']}.txt").write_text(
        "read from /opt/suite-of-jane/lib/x.py and /opt/other/y.py"
    )
    inside, _ = pack(run, tmp_path / "run.zip", (Path("/opt/suite-of-jane"),))
    found = contents(tmp_path / "run.zip")
    assert f"lab/{SECRETS['cloud']}.txt" in inside, "who packs is told what it is called here"
    assert (
        found[f"lab/{HIDDEN}.txt"] == b"read from (here)/suite-of-jane/lib/x.py and /opt/other/y.py"
    )


def test_where_it_cannot_be_written_whole_what_was_there_stays_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path)
    folder = tmp_path / "archives"
    folder.mkdir()
    (folder / "run.zip").write_text("of before")

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="no space left"):
        pack(run, folder / "run.zip", ())
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [
        ("run.zip", "of before")
    ]


def test_a_folder_that_is_no_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pack", str(tmp_path)]) == 4
    assert "is not the folder of a run (it has no conformance.json)" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_archive_that_cannot_be_made_is_told_by_the_name_that_was_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "conformance.json").write_text('{"run": {"command": ""}}', encoding="utf-8")
    assert main(["pack", str(tmp_path), f"--to={tmp_path}/none/x.zip"]) == 4
    assert capsys.readouterr().err == f"ERROR: {tmp_path}/none/x.zip: No such file or directory\n"


def test_a_path_at_the_begin_of_a_line_goes_in_any_writing_and_a_short_folder_takes_nothing_else_with_it() -> (
    None
):
    assert scrubbed(json.dumps("told by\n/home/jane/suite/x.py")) == json.dumps(
        "told by\n(here)/x.py"
    )
    for text in ("<p>a</p></a>", "apis/apps/v1", "/apple/x", "x/app/y", "/application"):
        assert scrubbed(text, ["/app", "/a", "/p"]) == text
    assert (
        scrubbed("read /app/lib/x.py and /app: 3", ["/app"])
        == "read (here)/app/lib/x.py and (here)/app: 3"
    )


def test_an_archive_among_a_run_s_own_files_is_not_told_of(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    inside, left_out = pack(run, run / "run.zip", ())
    assert [name for name in (*inside, *left_out) if name.startswith(("tmp", "run.zip"))] == []
