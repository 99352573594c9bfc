# Print the BGP state of a Windows host: one JSON object in ASCII, with failed queries under 'errors'. cmd /c
# runs the program as one line: statements end with a semicolon and contain no quotation mark, per cent sign
# or caret.
$said = [ordered]@{}; $no = [ordered]@{};
try { $said['service'] = '' + (Get-Service -Name RemoteAccess -ErrorAction Stop).Status } catch { $e = [ordered]@{}; $e['id'] = '' + $_.FullyQualifiedErrorId; $e['message'] = '' + $_.Exception.Message; $no['service'] = $e };
try { $said['router'] = Get-BgpRouter -ErrorAction Stop | ForEach-Object { if ($_) { $one = [ordered]@{}; $one['id'] = '' + $_.BgpIdentifier; $one['as'] = '' + $_.LocalASN; $one } } } catch { $e = [ordered]@{}; $e['id'] = '' + $_.FullyQualifiedErrorId; $e['message'] = '' + $_.Exception.Message; $no['router'] = $e };
try { $said['peer'] = Get-BgpPeer -ErrorAction Stop | ForEach-Object { if ($_) { $one = [ordered]@{}; $one['name'] = '' + $_.PeerName; $one['address'] = '' + $_.PeerIPAddress; $one['state'] = '' + $_.ConnectivityStatus; $one } } } catch { $e = [ordered]@{}; $e['id'] = '' + $_.FullyQualifiedErrorId; $e['message'] = '' + $_.Exception.Message; $no['peer'] = $e };
try { $said['custom'] = Get-BgpCustomRoute -ErrorAction Stop | ForEach-Object { foreach ($network in $_.Network) { '' + $network } } } catch { $e = [ordered]@{}; $e['id'] = '' + $_.FullyQualifiedErrorId; $e['message'] = '' + $_.Exception.Message; $no['custom'] = $e };
try { $said['route'] = Get-BgpRouteInformation -ErrorAction Stop | ForEach-Object { if ($_) { $one = [ordered]@{}; $one['network'] = '' + $_.DestinationNetwork; $one['next_hop'] = '' + $_.NextHop; $one['peer'] = '' + $_.LearnedFromPeer; $one } } } catch { $e = [ordered]@{}; $e['id'] = '' + $_.FullyQualifiedErrorId; $e['message'] = '' + $_.Exception.Message; $no['route'] = $e };
$said['errors'] = $no; $text = $said | ConvertTo-Json -Depth 4 -Compress;
foreach ($found in [regex]::Matches($text, '[<>&''\u007f-\uffff]')) { $text = $text.Replace($found.Value, ('\u{0:x4}' -f [int][char]$found.Value)) };
$text
