# SPDX-License-Identifier: Apache-2.0
"""A credential plugin that fails is named without its secrets."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.errors import UsageProblem
from conformance.kube.access import from_kubeconfig
from tests.unit.conformance.kube.lanes import with_plugin


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 'the SSO session has expired' >&2; exit 3", r"failed with exit code 3: the SSO session has expired"),
        ('echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{}}\'',
         r"returned neither a token nor a certificate"),
    ],
)  # fmt: skip
def test_a_credential_plugin_that_gives_nothing_is_quoted(
    tmp_path: Path, fakes: Any, script: str, expected: str
) -> None:
    with pytest.raises(
        UsageProblem, match=rf"user me: its credential plugin .*get-token' {expected}"
    ) as caught:
        from_kubeconfig(with_plugin(tmp_path, fakes, script))
    assert "\n" not in str(caught.value)


SECRET = "PLUG" + "SECRET99"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ([f"--oidc-client-secret={SECRET}"], "--oidc-client-secret=..."),
        (["eks", "get-token", "--secret", SECRET, "-v"], "eks get-token --secret ... -v"),
        (["-c", f"echo {SECRET}"], "-c ..."),
        ([f"-p{SECRET}", f"-token={SECRET}"], "-p... -token=..."),
        ([SECRET, SECRET.lower()], "... ..."),
        ([f"--client-secret {SECRET}", f"-s {SECRET}"], "--client-secret ... -s ..."),
        (["-c", f"login get --key={SECRET};true"], "-c ..."),
        (["--secret", SECRET.lower()], "--secret ..."),
    ],
)
@pytest.mark.parametrize(
    "script",
    [
        "echo refused: $*, $KEY >&2; exit 3",
        "echo $* $KEY >&2",
        "echo no; echo $* $KEY",
        None,
    ],
)
def test_a_credential_plugin_is_named_without_the_values_of_its_arguments(
    tmp_path: Path, fakes: Any, arguments: list[str], shown: str, script: str | None
) -> None:
    path = with_plugin(tmp_path, fakes, script or "")
    content = yaml.safe_load(path.read_text())
    plugin = content["users"][0]["user"]["exec"]
    plugin |= {"args": arguments, "env": [{"name": "KEY", "value": f"{SECRET}-too"}]}
    plugin |= {"installHint": f"get it by --secret={SECRET}, for {SECRET}-too"}
    path.write_text(yaml.safe_dump(content))
    if script is None:
        (tmp_path / "login").unlink()
    with pytest.raises(UsageProblem) as caught:
        from_kubeconfig(path)
    assert SECRET.lower() not in str(caught.value).lower()
    assert f"login {shown}'" in str(caught.value)


@pytest.mark.parametrize(
    "argument",
    [
        SECRET,
        f"-p{SECRET}",
        f"-s {SECRET}",
        f"--secret={SECRET}",
        f"--client-secret {SECRET}",
        f"login --key='{SECRET}'; true",
    ],
)
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (f"echo {SECRET} >&2; exit 3", "failed with exit code 3: (removed)"),
        (f"echo of {SECRET}", "its output begins with 'of (removed)'"),
        (f"""echo '{{"kind": "{SECRET}", "apiVersion": "v1"}}'""", "printed (removed) of v1"),
    ],
)
def test_a_secret_within_an_argument_is_not_quoted_from_what_a_plugin_prints(
    tmp_path: Path, fakes: Any, argument: str, script: str, expected: str
) -> None:
    path = with_plugin(tmp_path, fakes, script)
    content = yaml.safe_load(path.read_text())
    content["users"][0]["user"]["exec"] |= {"args": [argument]}
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(UsageProblem) as caught:
        from_kubeconfig(path)
    assert expected in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "argument", ["--secret=sesame", "-psesame", "-s sesame", "--client-secret sesame"]
)
def test_a_secret_that_looks_like_a_word_is_none_behind_an_option(
    tmp_path: Path, fakes: Any, argument: str
) -> None:
    path = with_plugin(tmp_path, fakes, "echo open sesame >&2; exit 3")
    content = yaml.safe_load(path.read_text())
    content["users"][0]["user"]["exec"] |= {"args": ["open", argument]}
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(UsageProblem, match=r"exit code 3: open \(removed\)$"):
        from_kubeconfig(path)


def test_a_token_that_a_plugin_prints_in_place_of_an_answer_is_not_quoted(
    tmp_path: Path, fakes: Any
) -> None:
    path = with_plugin(tmp_path, fakes, "echo your token is Jx8opaque0Zq1Yt7Ww/5vBn2Mk4")
    with pytest.raises(UsageProblem, match=r"its output begins with 'your token is \(removed\)'"):
        from_kubeconfig(path)


def test_a_command_with_arguments_of_its_own_is_named_without_them(
    tmp_path: Path, fakes: Any
) -> None:
    path = with_plugin(tmp_path, fakes, "")
    content = yaml.safe_load(path.read_text())
    content["users"][0]["user"]["exec"] |= {"command": f"login --secret {SECRET}"}
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(UsageProblem, match=r"'login \.\.\. get-token' cannot be run"):
        from_kubeconfig(path)


def test_an_argument_that_no_program_takes_is_a_usage_problem(tmp_path: Path, fakes: Any) -> None:
    path = with_plugin(tmp_path, fakes, "")
    content = yaml.safe_load(path.read_text())
    content["users"][0]["user"]["exec"] |= {"args": ["get\0token"]}
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(UsageProblem, match="cannot be run: embedded null byte"):
        from_kubeconfig(path)


def test_what_a_failing_credential_plugin_prints_is_scrubbed(tmp_path: Path, fakes: Any) -> None:
    token = "hvs." + "CAESIJ0aB3dE5gH7jK9mN1pQ3r"
    with pytest.raises(UsageProblem, match=r"exit code 3: login with \(removed\) was refused"):
        from_kubeconfig(
            with_plugin(tmp_path, fakes, f"echo login with {token} was refused >&2; exit 3")
        )


def test_a_credential_plugin_that_is_not_installed_is_named_and_the_client_prints_nothing_of_its_own(
    tmp_path: Path, fakes: Any, caplog: pytest.LogCaptureFixture
) -> None:
    path = with_plugin(tmp_path, fakes, "")
    (tmp_path / "login").unlink()
    with pytest.raises(
        UsageProblem, match=r"login get-token' cannot be run: No such file or directory; install it"
    ):
        from_kubeconfig(path)
    assert caplog.records == []
    logging.getLogger().error("what others say is heard")
    assert len(caplog.records) == 1
