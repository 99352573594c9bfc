# probe-protocol: 1
# Stream agent for Windows pods: keeps TCP connections up and says how they fare, as docs/probe-protocol.md section 8 says.
# Windows PowerShell 5.1 and PowerShell 7.  Keep this file ASCII (5.1 reads a file without BOM as ANSI), and never name
# the automatic variable that enumerates standard input: powershell.exe would then swallow it until its end.
# One loop polls all sockets.  It judges nothing: it says what its own system calls answered.
param([int]$BeatMs = 5000, [int]$IdleMs = 120000)
Set-StrictMode -Version 2.0
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

$protocol = 1
$eventsKept = 200
$lineLimit = 4096
$starved = 500                                  # ms without a look at the sockets after which no connecting expires yet
$grace = 50
$clock = [System.Diagnostics.Stopwatch]::StartNew()
$utf8 = New-Object System.Text.UTF8Encoding($false)
$latin1 = [System.Text.Encoding]::GetEncoding(28591)
$out = New-Object System.IO.StreamWriter([Console]::OpenStandardOutput(), $utf8)   # no BOM, no code page, no CRLF
$out.NewLine = "`n"
$out.AutoFlush = $true
$reader = New-Object System.IO.StreamReader([Console]::OpenStandardInput(), $utf8)
$none = [System.Net.Sockets.SocketFlags]::None
$readable = [System.Net.Sockets.SelectMode]::SelectRead
$writable = [System.Net.Sockets.SelectMode]::SelectWrite
$buffer = New-Object byte[] 65536
$opening = @{ ConnectionRefused = 'REFUSED'; ConnectionReset = 'RESET'; ConnectionAborted = 'ABORTED'; TimedOut = 'TIMED_OUT'
    HostUnreachable = 'UNREACHABLE'; NetworkUnreachable = 'UNREACHABLE'; HostDown = 'UNREACHABLE'; NetworkDown = 'UNREACHABLE'
    AccessDenied = 'PROHIBITED' }
$opened = @{ ConnectionReset = 'RESET'; Shutdown = 'RESET'; ConnectionAborted = 'ABORTED'; TimedOut = 'ABORTED'; NetworkReset = 'ABORTED'
    HostUnreachable = 'ABORTED'; NetworkUnreachable = 'ABORTED'; HostDown = 'ABORTED'; NetworkDown = 'ABORTED' }

$script:over = ''
$script:heard = $clock.ElapsedMilliseconds
$script:beaten = $script:heard
$script:looked = $script:heard
$script:late = $false
$ends = New-Object System.Collections.ArrayList
$strangers = New-Object System.Collections.ArrayList    # accepted, and perhaps not streams
$listeners = @{}

function Write-Doc($Doc) { $out.WriteLine('@@PROBE@@ ' + (ConvertTo-Json -InputObject $Doc -Depth 8 -Compress)) }
function Write-Answer($Batch, [string]$Name, $Value) {
    $doc = [ordered]@{ type = 'result'; batch = $Batch; up_ms = $clock.ElapsedMilliseconds }
    $doc[$Name] = $Value
    Write-Doc $doc
}
function Get-Opt($Obj, [string]$Name, $Default) {
    $property = $Obj.PSObject.Properties[$Name]
    if ($null -eq $property -or $null -eq $property.Value) { return $Default }
    return $property.Value
}
function Get-Failure([Exception]$Ex, $Words) {
    while ($Ex -isnot [System.Net.Sockets.SocketException] -and $null -ne $Ex.InnerException) { $Ex = $Ex.InnerException }
    if ($Ex -isnot [System.Net.Sockets.SocketException]) { return @('BROKEN', ($Ex.GetType().Name + ': ' + $Ex.Message)) }
    $name = [string]$Ex.SocketErrorCode
    $word = 'BROKEN'
    if ($Words.ContainsKey($name)) { $word = $Words[$name] }
    return @($word, ('{0}/{1}' -f $name, [int]$Ex.ErrorCode))
}
function Write-Beat {
    $script:beaten = $clock.ElapsedMilliseconds
    $open = 0
    foreach ($e in $ends) { if ($e.open) { $open++ } }
    Write-Doc ([ordered]@{ type = 'beat'; up_ms = $script:beaten; open = $open })
}

# --- sockets ------------------------------------------------------------------------------------------------------

function Close-Socket($C, [bool]$Reset) {
    if ($null -eq $C -or $null -eq $C.sock) { return }
    try {
        if ($Reset) { $C.sock.LingerState = New-Object System.Net.Sockets.LingerOption($true, 0) }
        $C.sock.Close()
    } catch { }
    $C.sock = $null
    $C.ar = $null
}
function New-Connection($Sock) { return @{ sock = $Sock; ar = $null; text = '' } }
function Open-Connection([string]$Address, [int]$Port) {
    $ip = [System.Net.IPAddress]::Parse($Address)
    $sock = New-Object System.Net.Sockets.Socket($ip.AddressFamily, [System.Net.Sockets.SocketType]::Stream, [System.Net.Sockets.ProtocolType]::Tcp)
    $c = New-Connection $sock
    $c.ar = $sock.BeginConnect((New-Object System.Net.IPEndPoint($ip, $Port)), $null, $null)
    return $c
}
function Send-Line($C, [string]$Text) {
    $bytes = $latin1.GetBytes($Text + "`n")
    [void]$C.sock.Send($bytes, 0, $bytes.Length, $none)
}
function Read-Lines($C) {                       # whole lines that came; $null when the peer closed; throws on a RST
    $lines = New-Object System.Collections.ArrayList
    if (-not $C.sock.Poll(0, $readable)) { return , $lines }
    $n = $C.sock.Receive($buffer, 0, $buffer.Length, $none)
    if ($n -eq 0) { return $null }
    $C.text += $latin1.GetString($buffer, 0, $n)
    while (($at = $C.text.IndexOf([char]10)) -ge 0) {
        [void]$lines.Add($C.text.Substring(0, $at))
        $C.text = $C.text.Substring($at + 1)
    }
    return , $lines
}

# --- ends ---------------------------------------------------------------------------------------------------------

function New-End([string]$Side, [double]$Every, [double]$Stall) {
    $now = $clock.ElapsedMilliseconds
    return @{ side = $Side; every = $Every; stall = $Stall; stream = ''; verdict = ''; detail = ''; c = $null; local = ''; remote = ''
        sent = 0; heard = 0; heardAt = $now; nextSend = $now; open = $false; stalled = $false; dropped = $false
        events = (New-Object System.Collections.ArrayList); hostName = ''; port = 0; give = 0; deadline = 0; batch = $null
        trouble = -1; recovered = -1; tries = 0; nextTry = 0; again = $null; againDeadline = 0; beginning = $false }
}
function Add-Event($E, [string]$What, [string]$Detail) {
    [void]$E.events.Add([ordered]@{ at_ms = $clock.ElapsedMilliseconds; event = $What; detail = $Detail })
    if ($E.events.Count -gt $eventsKept) { $E.events.RemoveAt($eventsKept / 2) }
}
function Set-Places($E) {
    $E.c.sock.NoDelay = $true
    $E.c.sock.SendTimeout = 1000
    $E.local = [string]$E.c.sock.LocalEndPoint
    $E.remote = [string]$E.c.sock.RemoteEndPoint
}
function Start-End($E) {
    $E.open = $true
    $E.heardAt = $clock.ElapsedMilliseconds
    $E.nextSend = $E.heardAt
    Add-Event $E 'opened' ('{0} to {1}' -f $E.local, $E.remote)
}
function Stop-End($E, [string]$Verdict, [string]$Detail, [bool]$Reset) {
    $began = $E.open
    $E.open = $false
    $E.verdict = $Verdict
    $E.detail = $Detail
    Close-Socket $E.c $Reset
    Add-Event $E 'ended' ($Verdict + ' ' + $Detail)
    if ($E.side -ne 'opened') { return }
    if (-not $began) { Write-Opened $E }
    elseif ($E.trouble -lt 0) { $E.trouble = $clock.ElapsedMilliseconds }
}
function Get-Report($E) {
    $verdict = $E.verdict
    if ($verdict -eq '') {
        if ($E.stalled) { $verdict = 'STALLED' } elseif ($E.open) { $verdict = 'SURVIVED' } else { $verdict = 'OPENING' }
    }
    $quiet = $null
    if ($E.open) { $quiet = $clock.ElapsedMilliseconds - $E.heardAt }
    $doc = [ordered]@{ stream = $E.stream; side = $E.side; verdict = $verdict; detail = $E.detail; local = $E.local; remote = $E.remote
        sent = $E.sent; heard = $E.heard; events = @($E.events); quiet_ms = $quiet }
    if ($E.side -eq 'opened') {
        $doc['recovered_ms'] = $null
        if ($E.recovered -ge 0) { $doc['recovered_ms'] = $E.recovered - $E.trouble }
        $doc['recovery_tries'] = $E.tries
    }
    return $doc
}
function Write-Opened($E) {                     # once for each stream that was to be opened
    if ($null -eq $E.batch) { return }
    $batch = $E.batch
    $E.batch = $null
    Write-Answer $batch 'ends' @(Get-Report $E)
}
function Step-Heartbeat($E, [string]$Text) {
    $now = $clock.ElapsedMilliseconds
    if ($Text -notmatch '^\d{1,9}$' -or [int]$Text -ne $E.heard + 1) {
        Stop-End $E 'BROKEN' ("heartbeat '{0}' after {1}" -f $Text.Substring(0, [Math]::Min(40, $Text.Length)), $E.heard) $false
        return
    }
    if ($E.stalled) {
        $E.stalled = $false
        Add-Event $E 'resumed' ('after {0} ms' -f ($now - $E.heardAt))
    }
    $E.heard++
    $E.heardAt = $now
}
function Step-Line($E, [string]$Text) {
    if ($E.side -eq 'opened') {
        if ($E.open) { Step-Heartbeat $E $Text; return }
        Start-End $E
        Step-Heartbeat $E $Text
        Write-Opened $E
        return
    }
    if ($E.stream -ne '') { Step-Heartbeat $E $Text; return }
    if ($Text -match '^again [A-Za-z0-9.-]{1,64}$') { Send-Line $E.c '1' }
    elseif ($Text -match '^stream ([A-Za-z0-9.-]{1,64})$') {
        $E.stream = $Matches[1]
        Start-End $E
        [void]$ends.Add($E)
        $strangers.Remove($E)
    } else { Close-Socket $E.c $false }
}
function Step-Connect($E) {                     # an opened end whose connecting has ended
    try {
        $E.c.sock.EndConnect($E.c.ar)
        $E.c.ar = $null
        Set-Places $E
        $E.deadline = $clock.ElapsedMilliseconds + $E.give
        Send-Line $E.c ('stream ' + $E.stream)
    } catch {
        $failure = Get-Failure $_.Exception $opening
        Stop-End $E $failure[0] $failure[1] $false
    }
}
function Step-Reading($E) {                     # returns whether anything moved
    if ($null -eq $E.c -or $null -eq $E.c.sock -or $null -ne $E.c.ar) { return $false }
    try {
        $lines = Read-Lines $E.c
        if ($null -eq $lines) {
            if ($E.stream -ne '') { Stop-End $E 'CLOSED' 'the peer closed in order' $false } else { Close-Socket $E.c $false }
            return $true
        }
        foreach ($line in $lines) { if ($null -ne $E.c.sock) { Step-Line $E $line } }
        if ($E.c.text.Length -gt $lineLimit) {
            if ($E.stream -ne '') { Stop-End $E 'BROKEN' 'the peer speaks no stream protocol' $false } else { Close-Socket $E.c $false }
        }
        return ($lines.Count -gt 0)
    } catch {
        $failure = Get-Failure $_.Exception $opened
        if ($E.stream -ne '') { Stop-End $E $failure[0] $failure[1] $false } else { Close-Socket $E.c $false }
        return $true
    }
}
function Step-Sending($E) {
    $now = $clock.ElapsedMilliseconds
    if ($now -lt $E.nextSend) { return }
    $E.nextSend = [Math]::Max($E.nextSend + $E.every, $now)
    try {
        if ($E.c.sock.Poll(0, $writable)) {
            $E.sent++
            Send-Line $E.c ([string]$E.sent)
        }
    } catch {
        $failure = Get-Failure $_.Exception $opened
        Stop-End $E $failure[0] $failure[1] $false
    }
}
function Step-Stall($E, [long]$Now) {            # all that came until then has been read
    if ($E.open -and -not $E.stalled -and ($Now - $E.heardAt) -ge $E.stall) {
        $E.stalled = $true
        Add-Event $E 'stalled' ('no heartbeat for {0} ms' -f ($Now - $E.heardAt))
    }
}

# --- recovery -----------------------------------------------------------------------------------------------------

function Stop-Again($E, [string]$Detail) {      # a new connection failed
    Close-Socket $E.again $false
    $E.again = $null
    $E.nextTry = $clock.ElapsedMilliseconds + $E.every
    if ($Detail -ne '') { Add-Event $E 'tried' $Detail }
}
function Step-Recovery($E) {
    $now = $clock.ElapsedMilliseconds
    if ($E.stalled -and $E.trouble -lt 0) { $E.trouble = $now }
    if ($E.open -and -not $E.stalled -and $E.recovered -lt 0) {
        $E.trouble = -1
        if ($null -ne $E.again) { Stop-Again $E '' }
    }
    if ($E.trouble -lt 0 -or $E.recovered -ge 0) { return }
    try {
        if ($null -eq $E.again) {
            if ($now -lt $E.nextTry) { return }
            $E.tries++
            $E.againDeadline = $now + $E.give
            $E.again = Open-Connection $E.hostName $E.port
            return
        }
        if ($null -ne $E.again.ar -and $E.again.ar.IsCompleted) {
            $E.beginning = $true
            $E.again.sock.EndConnect($E.again.ar)
            $E.again.ar = $null
            $E.beginning = $false
            Send-Line $E.again ('again ' + $E.stream)
        }
        if ($null -eq $E.again.ar) {
            $lines = Read-Lines $E.again
            if ($null -eq $lines) { Stop-Again $E 'CLOSED the peer closed in order'; return }
            if ($lines.Count -gt 0) {
                $E.recovered = $clock.ElapsedMilliseconds
                Close-Socket $E.again $false
                $E.again = $null
                Add-Event $E 'recovered' ('a new connection works, try {0}' -f $E.tries)
                return
            }
        }
        if (-not $script:late -and $now -ge $E.againDeadline) { Stop-Again $E 'TIMED_OUT no heartbeat of a new connection' }
    } catch {
        $words = $opened
        if ($E.beginning -or $null -eq $E.again) { $words = $opening }
        $E.beginning = $false
        $failure = Get-Failure $_.Exception $words
        Stop-Again $E ($failure[0] + ' ' + $failure[1])
    }
}

# --- lines --------------------------------------------------------------------------------------------------------

function Get-Positive($Job, [string]$Name) {
    $value = [double](Get-Opt $Job $Name 0)
    if (-not ($value -gt 0)) { throw "$Name must be more than 0" }
    return $value
}
function Start-Listener($Job) {
    $port = [int](Get-Opt $Job 'port' -1)
    if ($port -lt 0) { throw 'port is missing' }
    $every = Get-Positive $Job 'every_ms'
    $stall = Get-Positive $Job 'stall_ms'
    if (-not $listeners.ContainsKey($port)) {
        $server = New-Object System.Net.Sockets.TcpListener([System.Net.IPAddress]::Any, $port)
        $server.Start()
        $port = [int]$server.LocalEndpoint.Port
        $listeners[$port] = @{ server = $server; every = $every; stall = $stall }
    }
    $listeners[$port].every = $every
    $listeners[$port].stall = $stall
    return $port
}
function Start-Stream($Job, $Batch) {
    $name = [string](Get-Opt $Job 'stream' '')
    if ($name -notmatch '^[A-Za-z0-9.-]{1,64}$') { throw "'$name' is no name for a stream" }
    foreach ($e in $ends) { if ($e.stream -eq $name -and $e.side -eq 'opened') { throw "there is a stream '$name' already" } }
    $address = [string](Get-Opt $Job 'host' '')
    [void][System.Net.IPAddress]::Parse($address)
    $e = New-End 'opened' (Get-Positive $Job 'every_ms') (Get-Positive $Job 'stall_ms')
    $e.stream = $name
    $e.hostName = $address
    $e.port = [int](Get-Positive $Job 'port')
    $e.give = Get-Positive $Job 'give_up_ms'
    $e.batch = $Batch
    $e.deadline = $clock.ElapsedMilliseconds + $e.give
    [void]$ends.Add($e)
    try { $e.c = Open-Connection $address $e.port } catch {
        $failure = Get-Failure $_.Exception $opening
        Stop-End $e $failure[0] $failure[1] $false
    }
}
function Get-Named($Job) {
    $name = Get-Opt $Job 'stream' $null
    $found = New-Object System.Collections.ArrayList
    foreach ($e in $ends) { if ($null -eq $name -or $e.stream -eq [string]$name) { [void]$found.Add($e) } }
    return , $found
}
function Close-End($E, [string]$How) {
    if ($How -eq 'rst' -and $E.open) { Stop-End $E 'ABORTED' 'as told' $true }
    $doc = Get-Report $E
    Close-Socket $E.c $false
    Close-Socket $E.again $false
    Write-Opened $E
    $ends.Remove($E)
    return $doc
}
function Invoke-Line([string]$Line) {
    $batch = $null
    try {
        $job = $Line | ConvertFrom-Json
        $batch = Get-Opt $job 'batch' $null
        $type = [string](Get-Opt $job 'type' '')
        if ($type -eq 'quit') { $script:over = 'quit' }
        elseif ($type -eq 'ping') { Write-Beat }
        elseif ($type -eq 'stream-listen') { Write-Answer $batch 'port' (Start-Listener $job) }
        elseif ($type -eq 'stream-open') {
            if ($null -eq $batch) { throw 'batch is missing' }
            Start-Stream $job $batch
        } elseif ($type -eq 'stream-report') {
            Write-Answer $batch 'ends' @(foreach ($e in (Get-Named $job)) { Get-Report $e })
        } elseif ($type -eq 'stream-close') {
            $how = [string](Get-Opt $job 'how' 'fin')
            if ($how -ne 'fin' -and $how -ne 'rst') { throw 'how must be fin or rst' }
            Write-Answer $batch 'ends' @(foreach ($e in (Get-Named $job)) { Close-End $e $how })
        } else { throw "type '$type' is not known" }
    } catch { Write-Doc ([ordered]@{ type = 'error'; batch = $batch; message = [string]$_.Exception.Message }) }
}
function Test-Starved {                         # whether this program has not looked for long: what came meanwhile may show later
    $before = $script:looked
    $script:looked = $clock.ElapsedMilliseconds
    return ($script:looked - $before) -ge $starved
}
function Step-All {                             # returns whether anything moved
    $moved = $false
    $script:late = Test-Starved
    foreach ($listener in @($listeners.Values)) {
        while ($listener.server.Pending()) {
            $e = New-End 'accepted' $listener.every $listener.stall
            try {
                $e.c = New-Connection ($listener.server.AcceptSocket())
                Set-Places $e
                [void]$strangers.Add($e)
            } catch { Close-Socket $e.c $false }
            $moved = $true
        }
    }
    foreach ($e in @($strangers)) {
        if (Step-Reading $e) { $moved = $true }
        if ($null -eq $e.c.sock) { $strangers.Remove($e) }
    }
    foreach ($e in @($ends)) {
        $now = $clock.ElapsedMilliseconds
        if ($null -ne $e.c -and $null -ne $e.c.ar -and $e.c.ar.IsCompleted) { Step-Connect $e; $moved = $true }
        if (Step-Reading $e) { $moved = $true }
        if ($e.open) { Step-Sending $e }
        Step-Stall $e $now
        if (Test-Starved) { $script:late = $true }
        if ($e.side -ne 'opened') { continue }
        if (-not $script:late -and -not $e.open -and $e.verdict -eq '' -and $clock.ElapsedMilliseconds -ge $e.deadline) {
            if ($null -ne $e.c.ar) { Stop-End $e 'TIMED_OUT' 'no answer to the first packet' $false }
            else { Stop-End $e 'NO_ANSWER' 'no heartbeat' $false }
        }
        Step-Recovery $e
    }
    if ($script:late) {                         # what came in time is seen by the next pass, before anything expires
        [System.Threading.Thread]::Sleep($grace)
        $moved = $true
    }
    return $moved
}

try {
    $bytes = [System.IO.File]::ReadAllBytes($PSCommandPath)
    $digest = [BitConverter]::ToString([System.Security.Cryptography.SHA256]::Create().ComputeHash($bytes)).Replace('-', '').ToLowerInvariant()
    Write-Doc ([ordered]@{ type = 'hello'; protocol = $protocol; program = 'stream-agent.ps1'; sha256 = $digest; os = 'windows'
            runtime = 'PowerShell ' + [string]$PSVersionTable.PSVersion; hostname = [Environment]::MachineName; pid = $PID })
    $line = $reader.ReadLineAsync()
    while ($script:over -eq '') {
        $moved = $false
        if ($line.IsCompleted) {
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
        if ($script:over -eq '' -and ($now - $script:heard) -ge $IdleMs) { $script:over = 'idle' }
        if (-not $moved) { [System.Threading.Thread]::Sleep(10) }
    }
    Write-Doc ([ordered]@{ type = 'bye'; reason = $script:over })
    exit 0
} catch {
    [Console]::Error.WriteLine('stream-agent: ' + $_.Exception.Message)
    exit 3
}
