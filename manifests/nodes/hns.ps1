# Print what HNS holds on a Windows host: networks, endpoints and policy lists (kube-proxy's load balancers),
# as the cmdlets return them, in one JSON object in ASCII. cmd /c runs the program as one line: statements end
# with a semicolon and contain no quotation mark, per cent sign or caret.
$said = [ordered]@{}; $no = [ordered]@{};
try { $said['networks'] = Get-HnsNetwork } catch { $e = [ordered]@{}; $e['id'] = '' + $_.FullyQualifiedErrorId; $e['message'] = '' + $_.Exception.Message; $no['networks'] = $e };
try { $said['endpoints'] = Get-HnsEndpoint } catch { $e = [ordered]@{}; $e['id'] = '' + $_.FullyQualifiedErrorId; $e['message'] = '' + $_.Exception.Message; $no['endpoints'] = $e };
try { $said['policy_lists'] = Get-HnsPolicyList } catch { $e = [ordered]@{}; $e['id'] = '' + $_.FullyQualifiedErrorId; $e['message'] = '' + $_.Exception.Message; $no['policy_lists'] = $e };
$said['errors'] = $no; $text = $said | ConvertTo-Json -Depth 12 -Compress;
foreach ($found in [regex]::Matches($text, '[<>&''\u007f-\uffff]')) { $text = $text.Replace($found.Value, ('\u{0:x4}' -f [int][char]$found.Value)) };
$text
