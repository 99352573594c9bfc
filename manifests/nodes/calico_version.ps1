# Print the path of the program that runs as Calico's Felix, and the version that it reports: one JSON object
# in ASCII. cmd /c runs the program as one line: statements end with a semicolon and contain no quotation
# mark, per cent sign or caret.
$said = [ordered]@{}; $no = [ordered]@{};
$said['programs'] = 'calico-node.exe', 'calico.exe' | ForEach-Object { $name = $_; try { Get-CimInstance Win32_Process -Filter ('Name=''' + $name + '''') -ErrorAction Stop | Select-Object -First 1 | ForEach-Object { if ($_.ExecutablePath) { $one = [ordered]@{}; $one['path'] = '' + $_.ExecutablePath; $one['version'] = '' + (& $_.ExecutablePath -v); $one } } } catch { $e = [ordered]@{}; $e['id'] = '' + $_.FullyQualifiedErrorId; $e['message'] = '' + $_.Exception.Message; $no[$name] = $e } };
$said['errors'] = $no; $text = $said | ConvertTo-Json -Depth 4 -Compress;
foreach ($found in [regex]::Matches($text, '[<>&''\u007f-\uffff]')) { $text = $text.Replace($found.Value, ('\u{0:x4}' -f [int][char]$found.Value)) };
$text
