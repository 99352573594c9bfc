# Errors in the end of the log of Calico's CNI plugin: first the minutes by which the host's clock is ahead of UTC, which the lines'
# times are of, then the lines.  cmd /c runs it as one line: statements end with a semicolon, and hold no quotation mark, per
# cent sign or caret.  The path is the operator's; the suite puts that of the CNI configuration in its place.
$ErrorActionPreference = 'Stop';
$path = 'C:\var\log\calico\cni\cni.log';
Get-CimInstance Win32_OperatingSystem | ForEach-Object { $_.CurrentTimeZone };
Get-Content -Tail 4000 -Path $path | Where-Object { $_ -match '\[(ERROR|FATAL|PANIC)\]|panic: |fatal error: ' } | Select-Object -Last 200
