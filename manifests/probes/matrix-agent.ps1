# probe-protocol: 1
# Probe agent for Windows pods: JSON lines in, JSON lines out, as docs/probe-protocol.md says.
# Windows PowerShell 5.1 and PowerShell 7.  Keep this file ASCII (5.1 reads a file without BOM as ANSI), and never name
# the automatic variable that enumerates standard input: powershell.exe would then swallow it until its end.
# Every attempt is a small state machine on asynchronous socket calls; one loop polls them all.  It judges nothing: it says
# what its own system calls answered, or BROKEN when it could not try.
param([int]$BeatMs = 5000, [int]$IdleMs = 120000)
Set-StrictMode -Version 2.0
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

$protocol = 1
$bodyLimit = 65536
$openLimit = 400
$patience = 10
$starved = 500                                  # ms without a look at the sockets after which nothing expires yet
$grace = 50
$clock = [System.Diagnostics.Stopwatch]::StartNew()
$utf8 = New-Object System.Text.UTF8Encoding($false)
$latin1 = [System.Text.Encoding]::GetEncoding(28591)
$out = New-Object System.IO.StreamWriter([Console]::OpenStandardOutput(), $utf8)   # no BOM, no code page, no CRLF
$out.NewLine = "`n"
$out.AutoFlush = $true
$reader = New-Object System.IO.StreamReader([Console]::OpenStandardInput(), $utf8)
$none = [System.Net.Sockets.SocketFlags]::None
$types = @{ A = 1; NS = 2; CNAME = 5; PTR = 12; TXT = 16; AAAA = 28; SRV = 33 }
$codes = @{ 1 = 'FORMERR'; 2 = 'SERVFAIL'; 3 = 'NXDOMAIN'; 4 = 'NOTIMP'; 5 = 'REFUSED' }
$required = @{ tcp = @('host', 'port'); http = @('host', 'port'); udp = @('host', 'port'); dns = @('query') }
$words = @{ ConnectionRefused = 'REFUSED'; ConnectionReset = 'RESET'; ConnectionAborted = 'ABORTED'; TimedOut = 'ABORTED'
    HostUnreachable = 'UNREACHABLE'; NetworkUnreachable = 'UNREACHABLE'; HostDown = 'UNREACHABLE'; NetworkDown = 'UNREACHABLE'
    AccessDenied = 'PROHIBITED'; MessageSize = 'PROHIBITED'; Shutdown = 'RESET' }

$script:over = ''
$script:heard = $clock.ElapsedMilliseconds
$script:beaten = $script:heard
$script:looked = $script:heard
$batches = @{}
$queue = New-Object System.Collections.Queue
$running = New-Object System.Collections.ArrayList
$random = New-Object System.Random

function Write-Doc($Doc) { $out.WriteLine('@@PROBE@@ ' + (ConvertTo-Json -InputObject $Doc -Depth 8 -Compress)) }
function Get-Opt($Obj, [string]$Name, $Default) {
    $property = $Obj.PSObject.Properties[$Name]
    if ($null -eq $property -or $null -eq $property.Value) { return $Default }
    return $property.Value
}
function Get-Pattern([int]$Size) {
    $text = 'abcdefghijklmnopqrstuvwxyz' * ([Math]::Floor($Size / 26) + 1)
    return $text.Substring(0, $Size)
}
function Write-Beat {
    $script:beaten = $clock.ElapsedMilliseconds
    Write-Doc ([ordered]@{ type = 'beat'; up_ms = $script:beaten; open = $running.Count })
}

# --- ends ---------------------------------------------------------------------------------------------------------

function Close-Socket($S) {
    $S.ar = $null
    if ($null -ne $S.sock) {
        try { $S.sock.Close() } catch { }
        $S.sock = $null
    }
}
function Complete-Try($S, [string]$Verdict, [string]$Detail) {
    $S.out['verdict'] = $Verdict
    $S.out['detail'] = $Detail
    $S.out['ms'] = $clock.ElapsedMilliseconds - $S.begin
    $S.done = $true
    if ($S.kind -eq 'udp' -or $S.kind -eq 'http') { Add-Body $S }
    Close-Socket $S
}
function Add-Body($S) {
    $bytes = $S.data.ToArray()
    if ($bytes.Length -eq 0) { return }
    $start = 0
    if ($S.kind -eq 'http') {
        $head = Get-Head $bytes
        if ($null -ne $head) { $start = $head.body }
    }
    $size = $bytes.Length - $start
    $S.out['body_bytes'] = $size
    $S.out['body_b64'] = [Convert]::ToBase64String($bytes, $start, [Math]::Min($size, $bodyLimit))
}
function Get-Failure([Exception]$Ex) {
    while ($Ex -isnot [System.Net.Sockets.SocketException] -and $null -ne $Ex.InnerException) { $Ex = $Ex.InnerException }
    if ($Ex -isnot [System.Net.Sockets.SocketException]) { return @('BROKEN', ($Ex.GetType().Name + ': ' + $Ex.Message)) }
    $name = [string]$Ex.SocketErrorCode
    $word = 'BROKEN'
    if ($words.ContainsKey($name)) { $word = $words[$name] }
    return @($word, ('{0}/{1}' -f $name, [int]$Ex.ErrorCode))
}
function Stop-Failed($S, [Exception]$Ex) {
    $failure = Get-Failure $Ex
    $word = $failure[0]
    if ($S.phase -eq 'connect' -and $failure[1] -like 'TimedOut/*') { $word = 'TIMED_OUT' }
    if ($S.phase -like 'dns-*') {
        if ($word -eq 'BROKEN') { Complete-Try $S 'BROKEN' $failure[1] } else { Skip-Server $S $failure[1] }
        return
    }
    if ($S.kind -eq 'udp' -and $word -eq 'RESET') { $word = 'REFUSED' }   # Windows reports ICMP port unreachable as 10054
    if ($S.kind -eq 'http') { [void](Read-Status $S) }
    Complete-Try $S $word $failure[1]
}
function Stop-Expired($S) {
    switch ($S.phase) {
        'connect' { Complete-Try $S 'TIMED_OUT' 'no answer to the first packet' }
        'dns-connect' { Skip-Server $S 'no answer' }
        'dns-answer' { Skip-Server $S 'no answer' }
        default {
            if ($S.kind -eq 'udp') { Complete-Try $S 'TIMED_OUT' 'no datagram came back' }
            else {
                [void](Read-Status $S)
                Complete-Try $S 'NO_ANSWER' ('connected, then silence after {0} bytes' -f $S.data.Length)
            }
        }
    }
}

# --- resolver -----------------------------------------------------------------------------------------------------

function Get-Resolver {
    $servers = New-Object System.Collections.ArrayList
    $suffixes = New-Object System.Collections.ArrayList
    foreach ($adapter in [System.Net.NetworkInformation.NetworkInterface]::GetAllNetworkInterfaces()) {
        if ([string]$adapter.OperationalStatus -ne 'Up') { continue }
        $settings = $adapter.GetIPProperties()
        foreach ($address in $settings.DnsAddresses) {
            $text = [string]$address
            if ($text -notmatch ':' -and -not $servers.Contains($text)) { [void]$servers.Add($text) }
        }
        foreach ($suffix in ([string]$settings.DnsSuffix).Split(',')) {
            $name = $suffix.Trim().Trim('.')
            if ($name -ne '' -and -not $suffixes.Contains($name)) { [void]$suffixes.Add($name) }
        }
    }
    $list = ''
    try {
        $key = 'HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Services\Tcpip\Parameters'
        $list = [string][Microsoft.Win32.Registry]::GetValue($key, 'SearchList', '')
    } catch { $list = '' }
    foreach ($suffix in $list.Split(',')) {
        $name = $suffix.Trim().Trim('.')
        if ($name -ne '' -and -not $suffixes.Contains($name)) { [void]$suffixes.Add($name) }
    }
    return @{ servers = $servers; suffixes = $suffixes }
}
function Start-Resolving($S, [string]$Query, [string]$Record, [bool]$Tcp) {
    $S.record = $Record
    $S.tcp = $Tcp
    $S.names = New-Object System.Collections.ArrayList
    $S.servers = New-Object System.Collections.ArrayList
    $S.nameAt = 0
    $S.serverAt = 0
    $S.trouble = ''
    if (-not $types.ContainsKey($Record)) { Complete-Try $S 'BROKEN' ("record type '$Record' is not known"); return }
    $suffixes = @()
    $server = [string](Get-Opt $S.spec 'host' '')
    if ($S.kind -eq 'dns' -and $server -ne '') { [void]$S.servers.Add(@($server, [int](Get-Opt $S.spec 'port' 53))) }
    else {
        $settings = Get-Resolver
        foreach ($one in $settings.servers) { [void]$S.servers.Add(@($one, 53)) }
        $suffixes = $settings.suffixes
        if ($S.servers.Count -eq 0) { Complete-Try $S 'BROKEN' 'no adapter has a DNS server'; return }
    }
    if ($Record -eq 'PTR' -and $Query -match '^\d+\.\d+\.\d+\.\d+$') {
        $parts = $Query.Split('.')
        [void]$S.names.Add(('{3}.{2}.{1}.{0}.in-addr.arpa' -f $parts[0], $parts[1], $parts[2], $parts[3]))
    } elseif ($Record -eq 'PTR' -or $Query.EndsWith('.') -or $Query.Contains('.') -or @($suffixes).Count -eq 0) {
        [void]$S.names.Add($Query.TrimEnd('.'))
    } else {
        foreach ($suffix in $suffixes) { [void]$S.names.Add("$Query.$suffix") }
    }
    Start-Query $S
}
function Start-Query($S) {
    Close-Socket $S
    $name = [string]$S.names[$S.nameAt]
    $S.number = $random.Next(0, 65536)
    $packet = New-Object System.IO.MemoryStream
    $fixed = [byte[]]@(($S.number -shr 8), ($S.number -band 255), 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)
    $packet.Write($fixed, 0, 12)
    foreach ($label in $name.Split('.')) {
        $bytes = $latin1.GetBytes($label)
        if ($bytes.Length -lt 1 -or $bytes.Length -gt 63) { Complete-Try $S 'BROKEN' ("'$name' is no DNS name"); return }
        $packet.WriteByte([byte]$bytes.Length)
        $packet.Write($bytes, 0, $bytes.Length)
    }
    $packet.Write([byte[]]@(0, 0, [byte]$types[$S.record], 0, 1), 0, 5)
    $S.packet = $packet.ToArray()
    $S.data = New-Object System.IO.MemoryStream
    $server = $S.servers[$S.serverAt]
    $S.phase = 'dns-connect'
    try { Open-Socket $S ([string]$server[0]) ([int]$server[1]) (-not $S.tcp) } catch { Stop-Failed $S $_.Exception }
}
function Skip-Server($S, [string]$Why) {
    $server = $S.servers[$S.serverAt]
    $S.trouble = '{0} from {1}:{2} for {3}' -f $Why, $server[0], $server[1], $S.names[$S.nameAt]
    $S.serverAt++
    if ($S.serverAt -lt $S.servers.Count) { Start-Query $S } else { Skip-Name $S }
}
function Skip-Name($S) {
    $S.serverAt = 0
    $S.nameAt++
    if ($S.nameAt -lt $S.names.Count) { Start-Query $S; return }
    if ($S.trouble -ne '') { Complete-Try $S 'DNS_FAILED' $S.trouble }
    else { Complete-Try $S 'NO_SUCH_NAME' ('no {0} record for {1}' -f $S.record, ($S.names -join ', ')) }
}
function Confirm-Room([byte[]]$Packet, [int]$At, [int]$Size) {   # an index out of range reads as nothing, and as 0
    if ($At -lt 0 -or $At + $Size -gt $Packet.Length) { throw 'cut short' }
}
function Read-Name([byte[]]$Packet, [int]$At) {
    $parts = New-Object System.Collections.ArrayList
    $end = -1
    for ($jumps = 0; $jumps -lt 200; $jumps++) {
        Confirm-Room $Packet $At 1
        $size = [int]$Packet[$At]
        if (($size -band 192) -eq 192) {
            Confirm-Room $Packet $At 2
            if ($end -lt 0) { $end = $At + 2 }
            $At = (($size -band 63) -shl 8) -bor [int]$Packet[$At + 1]
            continue
        }
        $At++
        if ($size -eq 0) {
            if ($end -lt 0) { $end = $At }
            return @((($parts -join '.') + '.'), $end)
        }
        Confirm-Room $Packet $At $size
        [void]$parts.Add($latin1.GetString($Packet, $At, $size))
        $At += $size
    }
    throw 'compression loop'
}
function Read-Answers($S, [byte[]]$Packet) {
    $found = New-Object System.Collections.ArrayList
    $kind = [int]$types[$S.record]
    $at = 12
    $questions = ([int]$Packet[4] -shl 8) -bor [int]$Packet[5]
    $records = ([int]$Packet[6] -shl 8) -bor [int]$Packet[7]
    for ($i = 0; $i -lt $questions; $i++) { $at = (Read-Name $Packet $at)[1] + 4 }
    for ($i = 0; $i -lt $records; $i++) {
        $at = (Read-Name $Packet $at)[1]
        Confirm-Room $Packet $at 10
        $this = ([int]$Packet[$at] -shl 8) -bor [int]$Packet[$at + 1]
        $size = ([int]$Packet[$at + 8] -shl 8) -bor [int]$Packet[$at + 9]
        $at += 10
        Confirm-Room $Packet $at $size
        if ($this -eq $kind) {
            if ($kind -eq 1 -or $kind -eq 28) {
                $bytes = New-Object byte[] $size
                [Array]::Copy($Packet, $at, $bytes, 0, $size)
                [void]$found.Add([string](New-Object System.Net.IPAddress(, $bytes)))
            } elseif ($kind -eq 33) {
                if ($size -lt 7) { throw 'cut short' }
                $numbers = @(for ($k = 0; $k -lt 6; $k += 2) { ([int]$Packet[$at + $k] -shl 8) -bor [int]$Packet[$at + $k + 1] })
                [void]$found.Add(('{0} {1} {2} {3}' -f $numbers[0], $numbers[1], $numbers[2], (Read-Name $Packet ($at + 6))[0]))
            } elseif ($kind -eq 16) {
                if ($size -lt 1 -or $size -le [int]$Packet[$at]) { throw 'cut short' }
                [void]$found.Add($latin1.GetString($Packet, $at + 1, [int]$Packet[$at]))
            } else { [void]$found.Add((Read-Name $Packet $at)[0]) }
        }
        $at += $size
    }
    $S.answers = $found
}
function Read-Reply($S) {                       # one whole DNS answer is there, or it waits for more
    $bytes = $S.data.ToArray()
    if ($S.tcp) {
        if ($bytes.Length -lt 2 -or $bytes.Length -lt 2 + (([int]$bytes[0] -shl 8) -bor [int]$bytes[1])) { Receive-More $S; return }
        $whole = New-Object byte[] ($bytes.Length - 2)
        [Array]::Copy($bytes, 2, $whole, 0, $whole.Length)
        $bytes = $whole
    }
    $ours = $bytes.Length -ge 12 -and ((([int]$bytes[0] -shl 8) -bor [int]$bytes[1]) -eq $S.number) -and ($bytes[2] -band 128)
    if (-not $ours) {
        $S.data = New-Object System.IO.MemoryStream
        Receive-More $S
        return
    }
    if (($bytes[2] -band 2) -and -not $S.tcp) { $S.tcp = $true; Start-Query $S; return }   # truncated: whole over TCP
    $code = [int]$bytes[3] -band 15
    try { Read-Answers $S $bytes } catch { Skip-Server $S 'garbled answer'; return }
    if ($code -eq 0 -and $S.answers.Count -gt 0) {
        $S.out['name'] = [string]$S.names[$S.nameAt]
        if ($S.kind -eq 'dns') { $S.out['answers'] = @($S.answers); Complete-Try $S 'RESOLVED' '' }
        else { Start-Target $S ([string]$S.answers[0]) }
        return
    }
    if ($code -ne 0 -and $code -ne 3) {
        $name = "code $code"
        if ($codes.ContainsKey($code)) { $name = $codes[$code] }
        Skip-Server $S $name
        return
    }
    Skip-Name $S
}

# --- sockets ------------------------------------------------------------------------------------------------------

function Receive-More($S) { $S.ar = $S.sock.BeginReceive($S.buf, 0, $S.buf.Length, $none, $null, $null) }
function Open-Socket($S, [string]$Address, [int]$Port, [bool]$Datagram) {
    $ip = [System.Net.IPAddress]::Parse($Address)
    $ep = New-Object System.Net.IPEndPoint($ip, $Port)
    if ($Datagram) {
        $S.sock = New-Object System.Net.Sockets.Socket($ip.AddressFamily, [System.Net.Sockets.SocketType]::Dgram, [System.Net.Sockets.ProtocolType]::Udp)
        $S.sock.Connect($ep)                    # only fixes the peer, sends nothing
        if ([bool](Get-Opt $S.spec 'whole' $false)) { $S.sock.DontFragment = $true }
        Send-First $S
    } else {
        $S.sock = New-Object System.Net.Sockets.Socket($ip.AddressFamily, [System.Net.Sockets.SocketType]::Stream, [System.Net.Sockets.ProtocolType]::Tcp)
        $S.ar = $S.sock.BeginConnect($ep, $null, $null)
    }
}
function Send-First($S) {                       # the socket is connected
    $S.out['connect_ms'] = $clock.ElapsedMilliseconds - $S.begin
    $S.out['local'] = [string]$S.sock.LocalEndPoint
    $S.out['remote'] = [string]$S.sock.RemoteEndPoint
    if ($S.phase -like 'dns-*') {
        $S.phase = 'dns-answer'
        $bytes = $S.packet
        if ($S.tcp) { $bytes = [byte[]](@([byte]($S.packet.Length -shr 8), [byte]($S.packet.Length -band 255)) + $S.packet) }
        $S.sending = $bytes
    } elseif ($S.kind -eq 'tcp') { Complete-Try $S 'CONNECTED' ''; return }
    else { $S.phase = 'answer'; $S.sending = Get-Request $S }
    $S.sent = 0
    $S.ar = $S.sock.BeginSend($S.sending, 0, $S.sending.Length, $none, $null, $null)
}
function Get-Request($S) {
    $size = [int](Get-Opt $S.spec 'payload' 0)
    if ($S.kind -eq 'udp') {
        $text = [string](Get-Opt $S.spec 'send' 'probe')
        if ($size -gt 0) { $text = Get-Pattern $size }
        return , $utf8.GetBytes($text)          # the comma keeps a byte array one object
    }
    $verb = 'GET'
    if ($size -gt 0) { $verb = 'POST' }
    $head = "$verb $(Get-Opt $S.spec 'path' '/') HTTP/1.0`r`nHost: $($S.spec.host)`r`nUser-Agent: probe`r`nConnection: close`r`n"
    if ($size -gt 0) { $head += "Content-Type: application/octet-stream`r`nContent-Length: $size`r`n`r`n" + (Get-Pattern $size) }
    else { $head += "`r`n" }
    return , $utf8.GetBytes($head)
}
function Start-Target($S, [string]$Address) {
    Close-Socket $S
    $S.data = New-Object System.IO.MemoryStream
    $S.phase = 'connect'
    try { Open-Socket $S $Address ([int]$S.spec.port) ($S.kind -eq 'udp') } catch { Stop-Failed $S $_.Exception }
}
function Get-Head([byte[]]$Bytes) {
    $text = $latin1.GetString($Bytes, 0, [Math]::Min($Bytes.Length, $bodyLimit))
    $cut = $text.IndexOf("`r`n`r`n")
    if ($text -notmatch '^HTTP/\d\.\d (\d{3})' -or $cut -lt 0) { return $null }
    return @{ status = [int]$Matches[1]; lines = $text.Substring(0, $cut) -split "`r`n"; body = $cut + 4 }
}
function Read-Status($S) {                      # status and identity headers into the result; returns Content-Length or -1
    $head = Get-Head ($S.data.ToArray())
    if ($null -eq $head) { return -1 }
    $length = -1
    $headers = @{}
    foreach ($line in @($head.lines)) {
        $colon = $line.IndexOf(':')
        if ($colon -lt 1) { continue }
        $key = $line.Substring(0, $colon).Trim().ToLowerInvariant()
        $value = $line.Substring($colon + 1).Trim()
        if ($key.StartsWith('x-probe-')) { $headers[$key] = $value }
        if ($key -eq 'content-length' -and $value -match '^\d+$') { $length = [int]$value }
    }
    $S.out['status'] = $head.status
    $S.out['status_line'] = [string]@($head.lines)[0]
    $S.out['headers'] = $headers
    $S.rest = $S.data.Length - $head.body
    return $length
}
function Complete-Http($S) {                    # the peer closed in order
    if ($S.data.Length -eq 0) { Complete-Try $S 'CLOSED' 'the peer closed without answering'; return }
    $length = Read-Status $S
    if ($length -ge 0 -and $S.rest -lt $length) { Complete-Try $S 'CLOSED' ('answer cut short: {0} of {1} bytes' -f $S.rest, $length); return }
    $line = ''
    if ($S.out.Contains('status_line')) { $line = $S.out['status_line'] }
    Complete-Try $S 'CONNECTED' $line
}
function Step-Try($S) {                         # one asynchronous call has completed
    $S.mark = $clock.ElapsedMilliseconds
    try {
        if ($S.phase -eq 'connect' -or $S.phase -eq 'dns-connect') {
            $S.sock.EndConnect($S.ar)
            Send-First $S
        } elseif ($null -ne $S.sending) {
            $S.sent += $S.sock.EndSend($S.ar)
            if ($S.sent -lt $S.sending.Length) {
                $S.ar = $S.sock.BeginSend($S.sending, $S.sent, $S.sending.Length - $S.sent, $none, $null, $null)
            } else { $S.sending = $null; Receive-More $S }
        } else {
            $n = $S.sock.EndReceive($S.ar)
            if ($n -gt 0) { $S.data.Write($S.buf, 0, $n) }
            if ($S.phase -eq 'dns-answer') {
                if ($n -eq 0) { Skip-Server $S 'the server closed before its answer was whole' } else { Read-Reply $S }
            } elseif ($S.kind -eq 'udp') { Complete-Try $S 'CONNECTED' '' }
            elseif ($n -gt 0) { Receive-More $S }
            else { Complete-Http $S }
        }
    } catch { Stop-Failed $S $_.Exception }
}

# --- batches ------------------------------------------------------------------------------------------------------

function Test-Spec($Spec) {
    $kind = [string](Get-Opt $Spec 'kind' '')
    if (-not $required.ContainsKey($kind)) { throw "kind '$kind' is not known" }
    if (-not ([double](Get-Opt $Spec 'give_up_ms' 0) -gt 0)) { throw 'give_up_ms must be more than 0' }
    foreach ($name in @('id') + $required[$kind]) {
        if ($null -eq (Get-Opt $Spec $name $null)) { throw "an attempt lacks '$name'" }
    }
}
function Start-Try([string]$Batch, [int]$Index, $Spec) {
    $now = $clock.ElapsedMilliseconds
    $s = @{ batch = $Batch; index = $Index; spec = $Spec; kind = [string]$Spec.kind; phase = 'start'; sock = $null; ar = $null
        begin = $now; mark = $now; give = [double]$Spec.give_up_ms; done = $false; out = [ordered]@{ id = $Spec.id }
        buf = (New-Object byte[] 16384); data = (New-Object System.IO.MemoryStream); sending = $null; sent = 0; rest = 0
        record = 'A'; tcp = $false; names = $null; servers = $null; nameAt = 0; serverAt = 0; trouble = ''; number = 0
        packet = $null; answers = $null }
    [void]$running.Add($s)
    try {
        if ($s.kind -eq 'dns') {
            Start-Resolving $s ([string]$Spec.query) ([string](Get-Opt $Spec 'record' 'A')) ([string](Get-Opt $Spec 'over' 'udp') -eq 'tcp')
        } elseif ([string]$Spec.host -match '^\d+\.\d+\.\d+\.\d+$' -or [string]$Spec.host -match ':') { Start-Target $s ([string]$Spec.host) }
        else { Start-Resolving $s ([string]$Spec.host) 'A' $false }
    } catch { Stop-Failed $s $_.Exception }
}
function Complete-Batch([string]$Id) {
    $batch = $batches[$Id]
    $batches.Remove($Id)
    Write-Doc ([ordered]@{ type = 'result'; batch = $Id; ms = $clock.ElapsedMilliseconds - $batch.begin; results = @($batch.results) })
    $script:heard = $clock.ElapsedMilliseconds
}
function Invoke-Line([string]$Line) {
    $id = $null
    try {
        $job = $Line | ConvertFrom-Json
        $id = Get-Opt $job 'batch' $null
        $type = [string](Get-Opt $job 'type' '')
        if ($type -eq 'quit') { $script:over = 'quit' }
        elseif ($type -eq 'ping') { Write-Beat }
        elseif ($type -eq 'batch') {
            if ($batches.ContainsKey([string]$id)) { throw "batch '$id' is still under way" }
            $specs = @(Get-Opt $job 'attempts' @())
            $ids = @{}
            foreach ($spec in $specs) {
                Test-Spec $spec
                if ($ids.ContainsKey([string]$spec.id)) { throw 'two attempts of a batch have the same id' }
                $ids[[string]$spec.id] = $true
            }
            $batches[[string]$id] = @{ begin = $clock.ElapsedMilliseconds; left = $specs.Count; results = (New-Object object[] $specs.Count) }
            for ($i = 0; $i -lt $specs.Count; $i++) { $queue.Enqueue(@([string]$id, $i, $specs[$i])) }
            if ($specs.Count -eq 0) { Complete-Batch ([string]$id) }
        } else { throw "type '$type' is not known" }
    } catch { Write-Doc ([ordered]@{ type = 'error'; batch = $id; message = [string]$_.Exception.Message }) }
}
function Test-Starved {                         # whether this program has not looked for long: what came meanwhile may show later
    $before = $script:looked
    $script:looked = $clock.ElapsedMilliseconds
    return ($script:looked - $before) -ge $starved
}
function Step-All {                             # returns whether anything moved
    $moved = $false
    $late = Test-Starved
    while ($queue.Count -gt 0 -and $running.Count -lt $openLimit) {
        $next = $queue.Dequeue()
        Start-Try $next[0] $next[1] $next[2]
        $moved = $true
    }
    foreach ($s in @($running)) {
        if (-not $s.done -and $null -ne $s.ar -and $s.ar.IsCompleted) { Step-Try $s; $moved = $true }
        if (Test-Starved) { $late = $true }
        $now = $script:looked
        if (-not $late -and -not $s.done -and (($now - $s.mark) -ge $s.give -or ($now - $s.begin) -ge $patience * $s.give)) {
            $s.mark = $now
            Stop-Expired $s
            $moved = $true
        }
        if ($s.done) {
            $running.Remove($s)
            $batch = $batches[$s.batch]
            $batch.results[$s.index] = $s.out
            $batch.left--
            if ($batch.left -eq 0) { Complete-Batch $s.batch }
        }
    }
    if ($late) {                                # what came in time is seen by the next pass, before anything expires
        [System.Threading.Thread]::Sleep($grace)
        $moved = $true
    }
    return $moved
}

try {
    $bytes = [System.IO.File]::ReadAllBytes($PSCommandPath)
    $digest = [BitConverter]::ToString([System.Security.Cryptography.SHA256]::Create().ComputeHash($bytes)).Replace('-', '').ToLowerInvariant()
    Write-Doc ([ordered]@{ type = 'hello'; protocol = $protocol; program = 'matrix-agent.ps1'; sha256 = $digest; os = 'windows'
            runtime = 'PowerShell ' + [string]$PSVersionTable.PSVersion; hostname = [Environment]::MachineName; pid = $PID })
    $line = $reader.ReadLineAsync()
    while ($script:over -eq '' -or $batches.Count -gt 0) {
        $moved = $false
        if ($script:over -eq '' -and $line.IsCompleted) {
            $text = $line.GetAwaiter().GetResult()
            $script:heard = $clock.ElapsedMilliseconds
            $moved = $true
            if ($null -eq $text) { $script:over = 'end of input' }
            else {
                if ($text.Trim() -ne '') { Invoke-Line $text }
                if ($script:over -eq '') { $line = $reader.ReadLineAsync() }
            }
        }
        if (Step-All) { $moved = $true }
        $now = $clock.ElapsedMilliseconds
        if (($now - $script:beaten) -ge $BeatMs) { Write-Beat }
        if ($script:over -eq '' -and $batches.Count -eq 0 -and ($now - $script:heard) -ge $IdleMs) { $script:over = 'idle' }
        if (-not $moved) { [System.Threading.Thread]::Sleep(10) }
    }
    Write-Doc ([ordered]@{ type = 'bye'; reason = $script:over })
    exit 0
} catch {
    [Console]::Error.WriteLine('matrix-agent: ' + $_.Exception.Message)
    exit 3
}
