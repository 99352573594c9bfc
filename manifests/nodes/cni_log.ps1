# Print the error lines from the end of the log of Calico's CNI plugin. The first line is the number of
# minutes by which the host's clock is ahead of UTC, since the log has local times. cmd /c runs the program as
# one line: statements end with a semicolon and contain no quotation mark, per cent sign or caret. The path is
# that of an installation by the operator; the suite replaces it with the path from the CNI configuration.
$ErrorActionPreference = 'Stop';
$path = 'C:\var\log\calico\cni\cni.log';
Get-CimInstance Win32_OperatingSystem | ForEach-Object { $_.CurrentTimeZone };
Get-Content -Tail 4000 -Path $path | Where-Object { $_ -match '\[(ERROR|FATAL|PANIC)\]|panic: |fatal error: ' } | Select-Object -Last 200
