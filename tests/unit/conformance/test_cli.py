# SPDX-License-Identifier: Apache-2.0
"""``calico-conformance`` reads, judges and compares reports, with the exit codes of a run."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance import cli
from conformance.catalog import catalog, digest
from conformance.cli import ROOT, main
from conformance.errors import SuiteError
from conformance.kube import runner
from conformance.qualify.sets import suite_parts
from conformance.qualify.stored import parse
from conformance.report.summed_up import grouped
from tests.golden.reports.texts import names, stored
from tests.unit.conformance.kube.test_access import lane
from tests.unit.conformance.qualify.reports import NEW, decided, report
from tests.unit.conformance.report.pages import plain


def written(path: Path, *results: dict[str, Any], **run: Any) -> str:
    path.write_text(json.dumps(plain(*results, **run)))
    return str(path)


def test_diff_prints_what_became_worse_and_ends_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = written(tmp_path / "old.json", decided("DEMO-7", {NEW: "CONFIRMED"}))
    new = written(tmp_path / "new.json", decided("DEMO-7", {NEW: "VIOLATED"}))
    assert main(["diff", old, new]) == 1
    assert "DEMO-7: CONFIRMED -> VIOLATED" in capsys.readouterr().out
    assert main(["diff", new, old]) == 0
    assert main(["diff", "--format", "json", old, old]) == 0


def test_a_report_is_found_by_the_folder_of_its_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path / "conformance.json", decided("DEMO-7", {NEW: "VIOLATED"}))
    assert main(["show", str(tmp_path)]) == 0
    assert "VIOLATED     DEMO-7    DEMO-7 was VIOLATED" in capsys.readouterr().out


def test_show_writes_the_page_of_any_report(tmp_path: Path) -> None:
    one = written(tmp_path / "r.json", decided("DEMO-7", {NEW: "VIOLATED"}))
    assert main(["show", one, "--html", str(tmp_path / "r.html")]) == 0
    assert "1 claim is violated" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize("name", names())
def test_every_report_that_is_kept_is_summed_up_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    report = stored(name).plain
    (tmp_path / "conformance.json").write_text(json.dumps(report))
    assert main(["show", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[0].startswith(f"run {report['run']['id']} of ")
    assert all(f"gate: {gate['headline']}\n" in said for gate in report["gates"])
    assert all(
        f"      {line}\n" in said
        for gate in report["gates"]
        for line in grouped(gate["obstacles"], {})
    )
    assert f"(exit code {report['run']['exit_code']}: " in said


def handed_over(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> list[str]:
    """The command line of the program that this process becomes."""

    class Became(BaseException):
        """In place of this process's end."""

    def become(_: str, line: list[str]) -> None:
        raise Became(*line)

    with monkeypatch.context() as patched:
        patched.setattr(os, "execv", become)
        with pytest.raises(Became) as became:
            main(command)
    return list(became.value.args)


def test_a_rerun_leaves_its_report_where_a_run_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the folder in which it was typed, also where the suite was installed as a package."""
    report = stored("leak").plain
    report["suite"]["catalog"] = digest()
    (tmp_path / "leak.json").write_text(json.dumps(report))
    monkeypatch.chdir(tmp_path)
    typed = handed_over(monkeypatch, ["rerun", "leak.json", "--kubeconfig=lane.yaml"])
    assert typed[-2:] == ["--rerun-of=leak.json", "--kubeconfig=lane.yaml"]
    assert f"--report-dir={tmp_path / 'reports'}" in typed


@pytest.mark.parametrize(
    ("options", "environment", "kept"),
    [
        (["-p", "no:cacheprovider"], "", False),
        (["-pno:cacheprovider"], "", False),
        ([], "-p no:cacheprovider", False),
        (["-p", "no:randomly"], "", True),
    ],
)
def test_a_run_may_be_told_to_keep_no_cache(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    options: list[str],
    environment: str,
    kept: bool,
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", environment)
    monkeypatch.chdir(tmp_path)
    called = handed_over(monkeypatch, ["run", *options])
    assert any(word.startswith("cache_dir=") for word in called) == kept


@pytest.mark.parametrize("options", [["-p", "no:cacheprovider"], []])
def test_pytest_takes_what_a_run_hands_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: list[str]
) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    arguments = ["run", *options, "--collect-only", "-q", "--report-dir=elsewhere"]
    done = subprocess.run(
        [sys.executable, "-m", "conformance.cli", *arguments],
        cwd=tmp_path,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell's background jobs ignore SIGINT, and so would the processes that a test starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_command_reaches_the_run(tmp_path: Path, number: signal.Signals) -> None:
    """A cancelled CI job signals the process that it started, and no other."""
    (tmp_path / "waiting.py").write_text(
        "import os, time, pathlib\n"
        "def pytest_configure(config):\n"
        "    pathlib.Path('pid.new').write_text(str(os.getpid()))\n"
        "    os.rename('pid.new', 'pid')\n"
        "    time.sleep(60)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "conformance.cli", "run", "-p", "waiting", "--collect-only"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
    ) as process:
        pid, until = tmp_path / "pid", time.monotonic() + 60
        while not pid.exists() and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(30) != 0
    assert int(pid.read_text()) == process.pid
    assert not Path(f"/proc/{pid.read_text()}").exists()


def test_gate_judges_a_stored_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = written(tmp_path / "r.json", decided("DEMO-7", {NEW: "VIOLATED"}), evidence="field")
    assert main(["gate", one, "--require", "policy", "--require=core"]) == 1
    told = capsys.readouterr().out
    assert "policy on Windows 20348 (mode vxlan): not qualified" in told
    assert "core on Windows 20348 (mode vxlan): incomplete" in told, "it counts as well"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["show", "none.json"], "ERROR: report none.json does not exist"),
        (["gate", "none.json", "--require", "core"], "ERROR: report none.json does not exist"),
        (["diff", "none.json", "none.json"], "ERROR: report none.json does not exist"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line_and_exit_code_four(
    capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    assert main(arguments) == 4
    assert capsys.readouterr().err == expected + "\n"


def test_a_report_of_the_first_schema_is_still_read(tmp_path: Path) -> None:
    whole = plain(decided("DEMO-7", {NEW: "VIOLATED"}))
    for claim in whole["claims"]:
        for result in claim["results"]:
            del result["decisions"]
    (tmp_path / "old.json").write_text(json.dumps(whole | {"schema_version": "1"}))
    assert main(["diff", str(tmp_path / "old.json"), str(tmp_path / "old.json")]) == 0
    assert main(["show", str(tmp_path / "old.json"), "--html", str(tmp_path / "old.html")]) == 0
    assert report([]).schema == "2"


def test_a_report_from_before_a_fact_was_asked_for_is_still_read() -> None:
    whole = plain(decided("DEMO-7", {NEW: "VIOLATED"}))
    del whole["facts"]["kube_proxy_mode"]
    whole["facts"]["of later"] = 1
    facts = parse(whole, "an older report").facts
    assert facts is not None
    assert not facts.kube_proxy_mode.known


def test_wrong_commands_and_files_end_with_4_and_say_what_was_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = written(tmp_path / "r.json", decided("DEMO-7", {NEW: "VIOLATED"}))
    for arguments, told in (
        (["shwo", one], "did you mean show?"),
        (["show", one, "--format=JSON"], "invalid choice: 'JSON'; did you mean json?"),
        (["claims", "nonsense"], "no such claim; calico-conformance claims lists all"),
        ([], "the following arguments are required"),
        (["show", one, "--html=/none/x.html"], "/none/x.html: No such file or directory"),
        (["kubeconfig", "--hours=nan"], "--hours nan: a token lasts from 10 minutes"),
        (["kubeconfig", "--hours=-1"], "--hours -1: a token lasts from 10 minutes"),
    ):
        assert main(arguments) == 4
        assert told in capsys.readouterr().err


def test_a_user_that_is_made_over_an_unverified_connection_is_warned_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(*_: Any) -> None:
        raise SuiteError("asked")

    monkeypatch.setattr(runner, "runner", refuses)
    more = {"insecure-skip-tls-verify": True}
    path = lane(tmp_path / "k", "https://10.0.0.1:6443", more)
    assert main(["kubeconfig", f"--kubeconfig={path}"]) == 7
    said = capsys.readouterr()
    note = "the certificate of https://10.0.0.1:6443 is not verified (insecure-skip-tls-verify)"
    assert said.err == f"note: {note}\nERROR: asked\n"
    assert said.out == ""


def test_markdown_begins_with_the_answer_and_no_text_ends_its_blocks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = written(tmp_path / "r.json", decided("DEMO-7", {NEW: "VIOLATED"}))
    assert main(["show", one, "--format", "markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# 1 claim is violated"
    assert "| | Cause | Claims | First observed |" in lines
    one = written(
        tmp_path / "r.json",
        decided("DEMO-7", {NEW: "VIOLATED"}) | {"reason": "it said ```` and ended"},
    )
    main(["show", one, "--format", "markdown"])
    lines = capsys.readouterr().out.splitlines()
    begin = lines.index("`````text")
    assert lines[begin + 1 : begin + 3] == ["it said ```` and ended", "`````"], (
        "nothing that a cluster says ends the block"
    )


def test_diff_has_a_line_for_each_claim_and_says_more_where_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = written(tmp_path / "old.json", decided("DEMO-7", {NEW: "CONFIRMED"}))
    new = written(tmp_path / "new.json", decided("DEMO-7", {NEW: "VIOLATED"}))
    main(["diff", old, new])
    assert capsys.readouterr().out.count("CONFIRMED -> VIOLATED") == 1
    main(["diff", "-v", old, new])
    assert capsys.readouterr().out.count("CONFIRMED -> VIOLATED") == 2


@pytest.mark.parametrize(
    "command",
    [["conformance.cli", "claims", "--kind", "bgp"], ["hybridlab", "profiles"]],
)
def test_who_stops_reading_gets_no_traceback(command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", *command],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_what_cannot_be_written_for_lack_of_room_is_one_line_and_no_violation() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "conformance.cli", "claims", "--kind", "bgp"], stdout=full, stderr=subprocess.PIPE,
            text=True, check=False, timeout=60,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (4, "ERROR: the output: No space left on device\n")


def test_a_terminal_that_cannot_show_a_name_ends_nothing(tmp_path: Path) -> None:
    whole = plain(decided("DEMO-7", {NEW: "VIOLATED"}), labels={"by": "J\u00fcrgen"})
    (tmp_path / "conformance.json").write_text(json.dumps(whole))
    done = subprocess.run(
        [sys.executable, "-m", "conformance.cli", "show", str(tmp_path)], capture_output=True, text=True, check=False,
        timeout=60, env=os.environ | {"PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "label: by=J\\xfcrgen" in done.stdout


def test_the_version_names_commit_and_catalog(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert re.fullmatch(r"calico-conformance \S+, commit .+, catalog [0-9a-f]{12}\n", said)
    assert digest().startswith(said.split()[-1])


def test_claims_are_listed_and_one_is_explained_in_any_case(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["claims"]) == 0
    listed = capsys.readouterr().out
    assert [claim for claim in catalog() if f"\n  {claim:9} " not in listed] == []
    assert main(["claims", "demo-7"]) == 0
    text = capsys.readouterr().out
    claim = catalog()["DEMO-7"]
    assert text.startswith(f"DEMO-7 ({claim.kind}): {claim.statement}\n")
    for said in (claim.verify, claim.holds, claim.fails, claim.sources[0].url, "--claim DEMO-7"):
        assert said in text
    assert "suites/demo/test_" in text
    assert main(["claims", "DEMO-7", "vxlan-1", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["id"] for each in found] == ["DEMO-7", "VXLAN-1"]
    assert found[0]["verify"] == claim.verify
    assert "policy" in found[0]["sets"]
    assert main(["claims", "--format", "markdown"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(rows) == len(catalog()) + 2
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 5 for row in rows)


def test_each_claim_with_a_test_names_it_and_each_test_is_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["claims", "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    for test in {test for claim in found for test in claim["tests"]}:
        file, _, function = test.partition("::")
        assert f"def {function}(" in (ROOT / file).read_text()
    tested = {claim["id"] for claim in found if claim["tests"]}
    assert tested == set(suite_parts()), "as the collection has it"


@pytest.mark.parametrize("words", [["kinds", "BGP"], ["claims", "--kind", "bgp"]], ids=" ".join)
def test_the_claims_of_a_kind_are_listed_in_any_case_and_by_the_older_option(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(words) == 0
    said = capsys.readouterr().out
    assert said.startswith("bgp: Calico BGP by operator\n")
    assert "\n  VXLAN-1   NOT_APPLICABLE " in said


def test_the_titles_of_kinds_stand_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kinds"]) == 0
    lines = capsys.readouterr().out.splitlines()
    title = lines[0].index("Calico VXLAN by operator")
    assert {line[title - 2 : title] for line in lines} == {"  "}
    assert all(line[title] != " " for line in lines)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ["claims", "DEMO-77"],
            "claims DEMO-77: no such claim; did you mean DEMO-7 or DEMO-9 or DEMO-8?",
        ),
        (["kinds", "akx"], "kinds akx: no such kind; did you mean aks?"),
        (
            ["matrx"],
            "calico-conformance: argument COMMAND: invalid choice: 'matrx'; did you mean matrix?",
        ),
        (
            ["show", "x", "--nonsense"],
            "calico-conformance show: unrecognized arguments: --nonsense; "
            "see calico-conformance show --help",
        ),
    ],
)
def test_a_wrong_name_is_answered_with_the_one_that_was_meant(
    capsys: pytest.CaptureFixture[str], words: list[str], error: str
) -> None:
    assert main(words) == 4
    assert capsys.readouterr().err == f"ERROR: {error}\n"


def test_gates_and_summaries_are_json_for_programs_and_markdown_for_pages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = decided("DEMO-7", {NEW: "VIOLATED"}) | {"reason": "a | b <img> [x](y)"}
    one = written(tmp_path / "r.json", wrong, evidence="field")
    assert main(["gate", one, "--require", "policy", "--format", "json"]) == 1
    gates = json.loads(capsys.readouterr().out)["gates"]
    assert "not qualified" in {gate["answer"] for gate in gates}
    assert any("DEMO-7" in obstacle for gate in gates for obstacle in gate["obstacles"])
    assert main(["gate", one, "--require", "policy", "--format", "markdown"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("| gate | answer |\n| --- | --- |\n| policy on Windows ")
    assert "<img" not in text
    assert not re.search(r"(?<!\\)\[x", text)
    assert main(["show", one, "--format", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["headline"] == "1 claim is violated"
    assert [claim["id"] for claim in summary["fallen"]] == ["DEMO-7"]
    assert summary["counts"]["VIOLATED"] == 1


def test_every_command_helps_with_its_purpose_an_example_and_exit_codes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, command in cli._commands().items():
        if name in ("run", "policy"):  # pytest's help, or one of its own
            continue
        with pytest.raises(SystemExit):
            main([name, "--help"])
        text = capsys.readouterr().out
        assert f"{command.help[:1].upper()}{command.help[1:]}." in text.replace("\n", " ")
        assert "\nexamples:\n  " in text
        assert "\nexit codes: 0 " in text
        if name in ("claims", "kinds", "show", "matrix", "pack"):  # they judge nothing
            assert text.endswith("\nexit codes: 0 done; 4 options or files that cannot be used\n")


@pytest.mark.parametrize(
    ("program", "line", "offered"),
    [
        ("conformance.command", "calico-conformance claims DEMO-", {"DEMO-1", "DEMO-9"}),
        ("conformance.command", "calico-conformance run --no-", {"--no-watch", "--no-disruptive"}),
        ("hybridlab", "hybridlab up --profile windows-", {"windows-2025"}),
    ],
)
def test_a_shell_completes_commands_options_and_names(
    tmp_path: Path, program: str, line: str, offered: set[str]
) -> None:
    answer = tmp_path / "answer"
    variables = {
        "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line, "COMP_POINT": str(len(line)),
    }  # fmt: skip
    subprocess.run(
        [sys.executable, "-m", program], env=os.environ | variables, timeout=120, check=False
    )
    words = {word.strip() for word in answer.read_text().split("\n")}
    assert offered <= words
    assert all(word.startswith(line.rpartition(" ")[2]) for word in words if word)
