# Open TCP connections from a Windows host to several targets, all at once, and print one JSON object in ASCII
# with the result of each. Two parameters are set before this text: $targets = [string]'ADDRESS:PORT
# ADDRESS:PORT', and $milliseconds = [int]800, the time for all attempts together: after the first target that
# does not answer, the program waits for no other. Only the handshake is sent. cmd /c runs the program as one
# line: statements end with a semicolon and contain no quotation mark, per cent sign or caret.
$said = [ordered]@{}; $no = [ordered]@{};
$begun = [regex]::Matches($targets, '[0-9.]+:[0-9]+') | ForEach-Object { $one = [ordered]@{}; $one['to'] = $_.Value; $parts = [regex]::Matches($one['to'], '[0-9.]+'); $one['client'] = New-Object Net.Sockets.TcpClient; $client = $one['client']; $address = $parts[0].Value; $port = [int]$parts[1].Value; $one['task'] = $client.ConnectAsync($address, $port); $one };
$left = $milliseconds;
$said['attempts'] = $begun | ForEach-Object { $begin = $_; $one = [ordered]@{}; $to = $begin['to']; $one['to'] = $to; $one['result'] = 'TimedOut'; try { $task = $begin['task']; if ($task.Wait($left)) { $one['result'] = 'Connected' } else { $left = 1 } } catch { $cause = $_.Exception; while ($cause.InnerException) { $cause = $cause.InnerException }; $one['result'] = '' + $cause.SocketErrorCode; $no[$to] = '' + $cause.Message }; $client = $begin['client']; $client.Close(); $one };
$said['errors'] = $no; $text = $said | ConvertTo-Json -Depth 4 -Compress;
foreach ($found in [regex]::Matches($text, '[<>&''\u007f-\uffff]')) { $text = $text.Replace($found.Value, ('\u{0:x4}' -f [int][char]$found.Value)) };
$text
