# Print when the token in the kubeconfig of Calico's CNI plugin expires: one JSON object in ASCII. For each
# token it has the few letters of the payload that hold 'exp', still in base64; nothing else of the token
# leaves the host. Three letters of text are four letters of base64, so 'exp' can begin at one of three
# offsets (RFC 4648). If no letters are printed, no expiry was found. cmd /c runs the program as one line:
# statements end with a semicolon and contain no quotation mark, per cent sign or caret.
$said = [ordered]@{}; $no = [ordered]@{};
$said['tokens'] = 'C:\etc\cni\net.d\calico-kubeconfig', 'C:\k\cni\config\calico-kubeconfig' | ForEach-Object { $path = $_; try { $text = Get-Content -Raw -Path $path -ErrorAction Stop; if ($text) { $one = [ordered]@{}; $one['exp'] = ''; if ($text -cmatch 'token:\s+\W?[\w-]+\.(?:[\w-]{4})*?(ImV4cCI6[\w-]{14,16}|(?:LCJ|eyJ)leHAiOj[\w-]{13,14}|ZXhwIjo[\w-]{13})') { $one['exp'] = $Matches[1] }; $one } } catch { $e = [ordered]@{}; $e['id'] = '' + $_.FullyQualifiedErrorId; $e['message'] = '' + $_.Exception.Message; $no[$path] = $e } };
$said['errors'] = $no; $text = $said | ConvertTo-Json -Depth 4 -Compress;
foreach ($found in [regex]::Matches($text, '[<>&''\u007f-\uffff]')) { $text = $text.Replace($found.Value, ('\u{0:x4}' -f [int][char]$found.Value)) };
$text
