# SPDX-License-Identifier: Apache-2.0
"""Commands that make a user for the suite: kubeconfig, namespaces."""

import argparse
import os
import stat
import sys

from conformance import product
from conformance.errors import SuiteError, UsageProblem, first_line
from conformance.kube import runner
from conformance.kube.access import from_environment, from_kubeconfig
from conformance.kube.client import Kube
from conformance.kube.manifest import dump
from conformance.kube.refused import ApiRefused
from conformance.printing import say


def namespaces(options: argparse.Namespace) -> None:
    """Print the Kubernetes objects that prepare a cluster for runs with ``--namespaces-prefix``."""
    print(dump(runner.user_of_prefix(options.prefix, options.workers)[1]), end="")


def kubeconfig(options: argparse.Namespace) -> None:
    """Print a kubeconfig of a user for the suite. If standard output is a file, make it readable
    only for its owner."""
    if not 600 <= options.hours * 3600 <= 1 << 32:  # the limits of a TokenRequest; NaN also fails
        raise UsageProblem(
            f"--hours {options.hours:g}: a token lasts from 10 minutes (0.17) to 136 years"
        )
    prefix = options.namespaces_prefix
    role = options.role or runner.ROLES[0]
    if prefix and (options.role or options.beside):
        raise UsageProblem("--namespaces-prefix has a role of its own: leave out --role and --with")
    account, objects = (
        runner.user_of_prefix(prefix, options.workers)
        if prefix
        else runner.user_of(role, options.beside)
    )
    access = (
        from_kubeconfig(options.kubeconfig, options.context)
        if options.kubeconfig
        else from_environment(os.environ, options.context)
    )
    say(*(f"note: {why}" for why in (access.unverified,) if why), error=True)
    kube = Kube(access)
    try:
        user = runner.runner(kube, account, objects, round(options.hours * 3600))
        text = runner.kubeconfig(kube, user, options.server)
        runner.prove(text, user, kube.access)
    except ApiRefused as refusal:
        hint = (
            "; roles and users are made by an administrator of the cluster"
            if refusal.forbidden
            else ""
        )
        raise SuiteError(f"{first_line(refusal)}{hint}") from None
    finally:
        kube.close()
    if stat.S_ISREG(os.fstat(1).st_mode):
        os.fchmod(sys.stdout.fileno(), 0o600)
    print(text, end="")
    beside = (role, *runner.beside_of(role, options.beside))
    roles = ", ".join(("read-only", runner.PREPARED) if prefix else beside)
    option = f"--namespaces-prefix={prefix} " if prefix else ""
    statement = f"user {user.name} of namespace {runner.NAMESPACE}, roles {roles}, until {user.ends:%Y-%m-%d %H:%M} UTC"
    print(
        f"{statement}; next: {product.command()} --kubeconfig=FILE {option}--plan", file=sys.stderr
    )
