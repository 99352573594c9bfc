"""Variables: automatic ones, and those that this PowerShell does not have and names when they are read."""

from hybridlab.powershell.syntax import NotEmulated

CONSTANT = frozenset(
    ("true", "false", "null", "?", "host", "home", "pid", "error", "shellid", "pshome", "psversiontable", "psedition")
)
"""Cannot be assigned, or not with an effect that is emulated; only $null may be."""
REFUSED = frozenset(
    (
        *("host", "home", "pid", "pwd", "shellid", "pshome", "psedition", "executioncontext", "input", "foreach"),
        *("switch", "this", "sender", "event", "eventargs", "eventsubscriber", "psculture", "psuiculture", "profile"),
        *("psboundparameters", "pscmdlet", "psdebugcontext", "psdefaultparametervalues", "psemailserver", "ofs"),
        *("stacktrace", "nestedpromptlevel", "outputencoding", "formatenumerationlimit", "maximumhistorycount"),
        *("logcommandhealthevent", "transcript", "psmoduleautoloadingpreference", "pssessionoption", "errorview"),
        *("psstyle", "enabledexperimentalfeatures", "pscommandpath_", "iscoreclr", "islinux", "ismacos", "iswindows"),
        *("pssessionapplicationname", "pssessionconfigurationname", "psnativecommandargumentpassing"),
        *("psnativecommanduseerroractionpreference", "consolefilename", "maximumaliascount", "maximumdrivecount"),
        *("maximumerrorcount", "maximumfunctioncount", "maximumvariablecount", "whatifpreference"),
        *("confirmpreference", "commandlineparameters", "psitem_"),
    )
)
"""Exist in PowerShell with values that are not emulated."""
PREFERENCES = {
    "erroractionpreference": "Continue",
    "progresspreference": "Continue",
    "warningpreference": "Continue",
    "verbosepreference": "SilentlyContinue",
    "debugpreference": "SilentlyContinue",
    "informationpreference": "SilentlyContinue",
}


_ACTIONS = ("continue", "silentlycontinue", "stop")
"""What preferences may be set to here."""


class Scope:
    """A script's variables."""

    def __init__(self) -> None:
        self.variables: dict[str, object] = {}
        self.types: dict[str, str] = {}
        """Types of the variables that were assigned as ``[type]$name = ...``."""
        self.nothing: set[str] = set()
        """Variables that hold the output of a command that put nothing out: null, but no object in a pipeline."""

    def get(self, name: str) -> object:
        """The value; null of a variable that was never set.  Raises NotEmulated."""
        if name not in self.variables and name in REFUSED:
            raise NotEmulated(f"the variable ${name}")
        return self.variables.get(name)


def check_assignable(name: str) -> None:
    """Raise NotEmulated for variables whose assignment fails, or means something that is not emulated."""
    if name != "null" and (name in CONSTANT or name in REFUSED):
        raise NotEmulated(f"assignment to ${name}")


def check_preference(name: str, value: str) -> None:
    """Raise NotEmulated for what a preference refuses, or cannot hold: 5.1 takes Ignore and fails at the next error."""
    if value.lower() not in _ACTIONS:
        raise NotEmulated(f"assignment of {value!r} to ${name}")
