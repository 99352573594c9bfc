# When the token ends that Calico's CNI plugin has in its kubeconfig: one JSON object in ASCII, which has of each token the few
# letters of its payload that hold 'exp', in base64 as they stand there; nothing else of it leaves the host.  Without letters
# the token has no end that is found.  cmd /c runs it as one line: statements end with a semicolon, and hold no quotation
# mark, per cent sign or caret.  Three letters of a text are four of base64, so that 'exp' begins at one of three places (RFC 4648).
$said = [ordered]@{}; $no = [ordered]@{};
$said['tokens'] = 'C:\etc\cni\net.d\calico-kubeconfig', 'C:\k\cni\config\calico-kubeconfig' | ForEach-Object { $path = $_; try { $text = Get-Content -Raw -Path $path -ErrorAction Stop; if ($text) { $one = [ordered]@{}; $one['exp'] = ''; if ($text -cmatch 'token:\s+\W?[\w-]+\.(?:[\w-]{4})*?(ImV4cCI6[\w-]{14,16}|(?:LCJ|eyJ)leHAiOj[\w-]{13,14}|ZXhwIjo[\w-]{13})') { $one['exp'] = $Matches[1] }; $one } } catch { $e = [ordered]@{}; $e['id'] = '' + $_.FullyQualifiedErrorId; $e['message'] = '' + $_.Exception.Message; $no[$path] = $e } };
$said['errors'] = $no; $text = $said | ConvertTo-Json -Depth 4 -Compress;
foreach ($found in [regex]::Matches($text, '[<>&''\u007f-\uffff]')) { $text = $text.Replace($found.Value, ('\u{0:x4}' -f [int][char]$found.Value)) };
$text
