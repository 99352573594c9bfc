# What a Windows host says of BGP, a line for each thing; 'end' comes last.  cmd /c runs it as one line: statements end
# with a semicolon, and hold no quotation mark, per cent sign or caret.
try { 'service ' + (Get-Service -Name RemoteAccess -ErrorAction Stop).Status } catch { 'no service ' + $_.FullyQualifiedErrorId + ' ' + $_.Exception.Message };
try { Get-BgpRouter -ErrorAction Stop | ForEach-Object { 'router ' + $_.BgpIdentifier + ' ' + $_.LocalASN } } catch { 'no router ' + $_.FullyQualifiedErrorId + ' ' + $_.Exception.Message };
try { Get-BgpPeer -ErrorAction Stop | ForEach-Object { 'peer ' + $_.PeerName + ' ' + $_.PeerIPAddress + ' ' + $_.ConnectivityStatus } } catch { 'no peer ' + $_.FullyQualifiedErrorId + ' ' + $_.Exception.Message };
try { Get-BgpCustomRoute -ErrorAction Stop | ForEach-Object { foreach ($network in $_.Network) { 'custom ' + $network } } } catch { 'no custom ' + $_.FullyQualifiedErrorId + ' ' + $_.Exception.Message };
try { Get-BgpRouteInformation -ErrorAction Stop | ForEach-Object { 'route ' + $_.DestinationNetwork + ' ' + $_.NextHop + ' ' + $_.LearnedFromPeer } } catch { 'no route ' + $_.FullyQualifiedErrorId + ' ' + $_.Exception.Message };
'end'
