"""What a script reports beside its output: errors and text on the host.

Preference variables and common parameters decide what becomes of each (about_Preference_Variables).
"""

from hybridlab.powershell.binding import Call
from hybridlab.powershell.display import Display
from hybridlab.powershell.faults import ErrorRecord, Fault, render
from hybridlab.powershell.objects import ArrayList, NetObject, to_text
from hybridlab.powershell.scope import Scope
from hybridlab.powershell.streams import Streams
from hybridlab.powershell.syntax import NotEmulated
from hybridlab.runtime.applet import Process

SILENT = ("silentlycontinue", "ignore")
_ACTIONS = {"0": "silentlycontinue", "1": "stop", "2": "continue", "4": "ignore"}
"""The numbers of System.Management.Automation.ActionPreference."""
INFORMATION = "System.Management.Automation.InformationRecord"


class Reporting:
    """The part of one run that writes to streams other than the output."""

    process: Process
    scope: Scope
    script: str
    name: str
    streams: Streams
    errors: ArrayList
    _display: Display

    def preference(self, name: str) -> str:
        """A preference variable's value in lower case.  Raises NotEmulated for one that asks or breaks."""
        text = to_text(self.scope.get(name)).lower()
        text = _ACTIONS.get(text, text)
        if text not in ("continue", "stop", *SILENT):
            raise NotEmulated(f"${name} = {text}")
        return text

    def _action(self, call: Call | None) -> str:
        if call is None or not call.has("erroraction"):
            return self.preference("erroractionpreference")
        text = call.text("erroraction").lower()
        found = [item for item in ("silentlycontinue", "stop", "continue", "ignore", "inquire", "suspend", "break")
                 if item == _ACTIONS.get(text, text)]  # fmt: skip
        if not found or found[0] in ("inquire", "suspend", "break"):
            raise NotEmulated(f"-erroraction {text}")
        return found[0]

    def _record(self, fault: Fault) -> None:
        if not fault.recorded:
            fault.recorded = True
            self.errors.insert(0, ErrorRecord(fault))

    async def write_error(self, fault: Fault, call: Call | None) -> None:
        """An error that does not end its statement.  Raises it when it is to stop."""
        action = self._action(call)
        if action == "ignore":
            return
        self._record(fault)
        if action == "stop":
            fault.terminating = fault.stops = True
            raise fault
        if action == "continue":
            await self._report(fault)

    async def _report(self, fault: Fault) -> None:
        if self.streams.error is not None:
            await self.streams.error(ErrorRecord(fault, merged=True))
        else:
            await self._print_error(fault)

    async def _print_error(self, fault: Fault) -> None:
        lines = render(fault, self.script, name=self.name)
        await self.process.stderr.write("".join(f"{line}\r\n" for line in lines).encode())

    async def report(self, fault: Fault) -> None:
        """Print the error that ended the script."""
        await self._print_error(fault)

    async def inform(self, text: str, end: str) -> None:
        """What Write-Host says."""
        if self.streams.information is None:
            await self.host(text + end)
        elif not end:
            raise NotEmulated("redirection of Write-Host -NoNewline")
        else:
            await self.streams.information(NetObject(INFORMATION, text=text))

    async def host(self, text: str) -> None:
        """Text on the host, which is standard output here."""
        await self._print(text)

    async def _print(self, text: str) -> None:
        await self.process.stdout.write(text.encode("utf-8", "replace"))
