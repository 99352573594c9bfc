# SPDX-License-Identifier: Apache-2.0
"""The choice of the run's cluster, with its reason. The choice depends on the options only, and is
made before anything is touched."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from conformance.errors import UsageProblem

How = Literal["lab", "kubeconfig", "in-cluster"]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The cluster of a run."""

    how: How
    why: str
    """The origin of the choice, for the header: an option, or the default."""
    kubeconfig: Path | None = None
    """The kubeconfig. If ``how`` is ``kubeconfig`` and this is None, KUBECONFIG names the files."""
    context: str | None = None
    profile: str | None = None
    """The kind of lab; None: the default kind."""
    powershell: str | None = None
    """The program that runs the probe programs of the lab's Windows pods; None: the lab's stand-in.
    """

    @property
    def own_lab(self) -> bool:
        """Return whether this run starts its own lab, and ends it."""
        return self.how == "lab"

    @property
    def stands_in(self) -> bool:
        """Return whether the cluster is a lab with stand-ins for PowerShell in its Windows pods.
        Real PowerShell takes time to start."""
        return self.own_lab and self.powershell is None


def choose(
    *,
    cluster: str | None,
    kubeconfig: str | None,
    context: str | None,
    profile: str | None,
    powershell: str | None = None,
    keep: bool,
) -> Choice:
    """Return the choice that the options make. Raise UsageProblem for contradictions, with
    advice."""
    named = "--kubeconfig" if kubeconfig else "--context" if context else ""
    how: str = cluster or ("kubeconfig" if named else "lab")
    if named and how != "kubeconfig":
        raise UsageProblem(
            f"--cluster {how} and {named} contradict each other: {named} names a cluster; leave one out"
        )
    if how != "lab" and (option := _of_own_labs(profile, powershell)):
        raise UsageProblem(
            f"{option} is for a lab that the run starts itself, not for --cluster {how}"
        )
    if how == "lab":
        if keep:
            raise UsageProblem(
                "--keep has no effect on a lab that ends with the run: start a lab that stays with "
                "`hybridlab up --kubeconfig PATH`, then `pytest --kubeconfig=PATH --keep`"
            )
        why = (
            "--cluster lab" if cluster else "the default; name another cluster by --kubeconfig=PATH"
        )
        return Choice(how="lab", why=why, profile=profile, powershell=powershell)
    if how == "in-cluster":
        return Choice(how="in-cluster", why="--cluster in-cluster")
    if kubeconfig:
        return Choice(
            how="kubeconfig", why="--kubeconfig", kubeconfig=Path(kubeconfig), context=context
        )
    return Choice(
        how="kubeconfig",
        why="KUBECONFIG, by " + (f"{named}" if named else "--cluster kubeconfig"),
        context=context,
    )


def _of_own_labs(profile: str | None, powershell: str | None) -> str:
    """Return an option, as the user typed it, that is only for the run's own lab; empty if no such
    option is given."""
    if profile:
        return f"--lab-profile {profile}"
    return f"--lab-powershell {powershell}" if powershell else ""
