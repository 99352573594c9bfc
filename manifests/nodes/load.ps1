# Print the load of a Windows host: each processor in percent, and free and total memory in KB, in one JSON
# object in ASCII. cmd /c runs the program as one line: statements end with a semicolon and contain no
# quotation mark, per cent sign or caret.
$said = [ordered]@{}; $no = [ordered]@{};
try { $said['processors'] = Get-CimInstance Win32_Processor -ErrorAction Stop | ForEach-Object { '' + $_.LoadPercentage } } catch { $e = [ordered]@{}; $e['id'] = '' + $_.FullyQualifiedErrorId; $e['message'] = '' + $_.Exception.Message; $no['processors'] = $e };
try { $said['memory'] = Get-CimInstance Win32_OperatingSystem -ErrorAction Stop | ForEach-Object { $one = [ordered]@{}; $one['free'] = '' + $_.FreePhysicalMemory; $one['all'] = '' + $_.TotalVisibleMemorySize; $one } } catch { $e = [ordered]@{}; $e['id'] = '' + $_.FullyQualifiedErrorId; $e['message'] = '' + $_.Exception.Message; $no['memory'] = $e };
$said['errors'] = $no; $text = $said | ConvertTo-Json -Depth 4 -Compress;
foreach ($found in [regex]::Matches($text, '[<>&''\u007f-\uffff]')) { $text = $text.Replace($found.Value, ('\u{0:x4}' -f [int][char]$found.Value)) };
$text
