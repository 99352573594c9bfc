# SPDX-License-Identifier: Apache-2.0
"""The parts of a Windows host's registry, language mode and culture that the lab emulates.

They exist in HostProcess containers only. Any other container prints ``not emulated``.
"""

import re

from hybridlab.powershell.binding import Call
from hybridlab.powershell.host import ask
from hybridlab.powershell.items import missing_path
from hybridlab.powershell.objects import CUSTOM_OBJECT, NetObject
from hybridlab.powershell.shell import Library, Shell
from hybridlab.powershell.stages import once
from hybridlab.powershell.syntax import NotEmulated

HIVE = re.compile(r"HKLM:\\", re.IGNORECASE)
PROVIDER = "Microsoft.PowerShell.Core\\Registry::HKEY_LOCAL_MACHINE\\"


async def get_item_property(shell: Shell, call: Call) -> list[object]:
    """Return all values of a key of HKLM, with the properties that PowerShell's provider adds."""
    path = call.text("path")
    if not HIVE.match(path):
        raise NotEmulated(f"Get-ItemProperty {path}")
    key = HIVE.sub("", path)
    values = {
        name.lower(): found for name, found in (await ask(shell, call, "registry")).items()
    }.get(key.lower())
    if values is None:
        raise missing_path(call, path)
    parent, _, child = key.rpartition("\\")
    own = {"PSPath": PROVIDER + key, "PSParentPath": PROVIDER + parent, "PSChildName": child}
    return [NetObject.of_properties(CUSTOM_OBJECT, {**values, **own})]


async def get_culture(shell: Shell, call: Call) -> list[object]:
    """Return the host's culture. The lab's hosts are installed in English."""
    await ask(shell, call, "services")  # raises NotEmulated in other containers
    values = {"LCID": 1033, "Name": "en-US", "DisplayName": "English (United States)"}
    return [NetObject("System.Globalization.CultureInfo", values, text="en-US", table=True)]


def execution_context() -> NetObject:
    """Return ``$ExecutionContext``.

    The session runs in full language mode, as SYSTEM does without an application policy.
    """
    mode = NetObject("System.Management.Automation.PSLanguageMode", text="FullLanguage", number=0)
    state = NetObject("System.Management.Automation.SessionState", {"LanguageMode": mode})
    return NetObject("System.Management.Automation.EngineIntrinsics", {"SessionState": state})


def add_to(library: Library) -> None:
    """Register the cmdlets of this module."""
    library.add("Get-ItemProperty", "Path@0", once(get_item_property), "gp")
    library.add("Get-Culture", "", once(get_culture))
