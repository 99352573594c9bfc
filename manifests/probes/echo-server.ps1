# probe-protocol: 1
# Echo server for Windows pods: says over HTTP and UDP whom it saw and who it is, as docs/probe-protocol.md says.
# Windows PowerShell 5.1 and PowerShell 7.  Keep this file ASCII (5.1 reads a file without BOM as ANSI).
# HTTP runs on http.sys, whose wildcard prefix needs administrator rights: server core's default user has them.
param([string]$Ports = '8080', [switch]$Page)
Set-StrictMode -Version 2.0
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

$utf8 = New-Object System.Text.UTF8Encoding($false)
$out = New-Object System.IO.StreamWriter([Console]::OpenStandardOutput(), $utf8)
$out.NewLine = "`n"
$out.AutoFlush = $true
$pod = [string]$env:POD_NAMESPACE + '/' + [string]$env:POD_NAME
if (-not $env:POD_NAME) { $pod = [string]$env:POD_NAMESPACE + '/' + [Environment]::MachineName }
$node = [string]$env:NODE_NAME
$callers = @{}
$bodyLimit = 16777216
$slowMs = 30000                                 # how long a request's body may stay silent
$clock = [System.Diagnostics.Stopwatch]::StartNew()
$posts = New-Object System.Collections.ArrayList        # requests whose body is still coming

function Get-Identity($Client, $Server) {       # the identity line, as bytes
    $doc = [ordered]@{ client = [string]$Client.Address; client_port = $Client.Port; server = [string]$Server.Address
        server_port = $Server.Port; pod = $pod; node = $node }
    return , $utf8.GetBytes((ConvertTo-Json -InputObject $doc -Compress) + "`n")
}
function Start-Post($Context) {
    $post = @{ context = $Context; stream = $Context.Request.InputStream; buf = (New-Object byte[] 65536); ar = $null
        data = (New-Object System.IO.MemoryStream); heard = $clock.ElapsedMilliseconds }
    if ($Context.Request.ContentLength64 -gt $bodyLimit) { $Context.Response.Abort(); throw 'a body above the limit' }
    $post.ar = $post.stream.BeginRead($post.buf, 0, $post.buf.Length, $null, $null)
    [void]$posts.Add($post)
}
function Step-Post($Post) {                     # returns whether anything moved
    $over = $false
    try {
        if (-not $Post.ar.IsCompleted) {
            if (($clock.ElapsedMilliseconds - $Post.heard) -lt $slowMs) { return $false }
            throw 'a body that does not arrive'
        }
        $over = $true
        $n = $Post.stream.EndRead($Post.ar)
        if ($n -eq 0) { Send-Reply $Post.context ($Post.data.ToArray()) }
        elseif ($Post.data.Length + $n -gt $bodyLimit) { throw 'a body above the limit' }
        else {
            $Post.data.Write($Post.buf, 0, $n)
            $Post.heard = $clock.ElapsedMilliseconds
            $Post.ar = $Post.stream.BeginRead($Post.buf, 0, $Post.buf.Length, $null, $null)
            $over = $false
        }
    } catch {
        $over = $true
        [Console]::Error.WriteLine('reply: ' + $_.Exception.Message)
        try { $Post.context.Response.Abort() } catch { }
    }
    if ($over) { $posts.Remove($Post) }
    return $true
}
function Send-Reply($Context, $Echoed) {        # $Echoed: the body of a POST, as bytes
    $request = $Context.Request
    $response = $Context.Response
    $client = $request.RemoteEndPoint
    $server = $request.LocalEndPoint
    $type = 'application/json'
    if ($null -ne $Echoed) {
        $body = $Echoed
        $type = 'application/octet-stream'
    } elseif ($Page -and $request.HttpMethod -eq 'GET' -and $request.Url.AbsolutePath -eq '/') {
        $name = [string]$client.Address
        $callers[$name] = 1 + [int]$callers[$name]
        $text = '<html><body><H1>Windows Container Web Server</H1><p>IP {0} callerCount {1} </body></html>' -f $server.Address, $callers[$name]
        $body = $utf8.GetBytes($text)
        $type = 'text/html'
    } else { $body = Get-Identity $client $server }
    $response.StatusCode = 200
    $response.ContentType = $type
    $response.KeepAlive = $false                # every probe must open its own connection
    $response.Headers.Set('X-Probe-Client', [string]$client.Address)
    $response.Headers.Set('X-Probe-Client-Port', [string]$client.Port)
    $response.Headers.Set('X-Probe-Server', [string]$server.Address)
    $response.Headers.Set('X-Probe-Pod', $pod)
    $response.Headers.Set('X-Probe-Node', $node)
    $response.ContentLength64 = $body.Length
    $response.Close($body, $false)              # $false: do not wait for a slow or cut-off client
}
function Get-OwnAddress($Client) {              # which of our addresses talks to this client
    $probe = New-Object System.Net.Sockets.Socket([System.Net.Sockets.AddressFamily]::InterNetwork, [System.Net.Sockets.SocketType]::Dgram, [System.Net.Sockets.ProtocolType]::Udp)
    try { $probe.Connect($Client); return $probe.LocalEndPoint.Address } finally { $probe.Close() }
}
function Step-Datagrams($Udp) {                 # answers what has arrived; returns whether there was any
    $moved = $false
    while ($Udp.Available -gt 0) {
        $moved = $true
        $from = New-Object System.Net.IPEndPoint([System.Net.IPAddress]::Any, 0)
        try {
            $request = $Udp.Receive([ref]$from)
            $own = New-Object System.Net.IPEndPoint((Get-OwnAddress $from), $Udp.Client.LocalEndPoint.Port)
            $line = Get-Identity $from $own
            if ($request.Length -gt 0 -and $request[0] -eq 63) {     # "?": who was seen, and nothing else
                [void]$Udp.Send($line, $line.Length, $from)
                continue
            }
            $start = 0
            if ($request.Length -gt 512) { $start = [Math]::Min($line.Length, $request.Length) }
            $answer = New-Object byte[] ($line.Length + $request.Length - $start)
            [Array]::Copy($line, $answer, $line.Length)
            [Array]::Copy($request, $start, $answer, $line.Length, $request.Length - $start)
            [void]$Udp.Send($answer, $answer.Length, $from)
        } catch { [Console]::Error.WriteLine('datagram: ' + $_.Exception.Message) }
    }
    return $moved
}

try {
    $numbers = @($Ports.Split(',') | ForEach-Object { [int]$_ })
    $listener = New-Object System.Net.HttpListener
    foreach ($number in $numbers) { $listener.Prefixes.Add("http://*:$number/") }
    $listener.Start()
    $sockets = New-Object System.Collections.ArrayList
    foreach ($number in $numbers) {
        try { $udp = New-Object System.Net.Sockets.UdpClient($number) } catch {
            [Console]::Error.WriteLine("udp port ${number}: " + $_.Exception.Message)   # another program has it
            continue
        }
        # SIO_UDP_CONNRESET off: an ICMP error about an earlier answer must not fail the next receive
        try { [void]$udp.Client.IOControl(-1744830452, [byte[]]@(0, 0, 0, 0), $null) } catch { }
        [void]$sockets.Add($udp)
    }
    $bytes = [System.IO.File]::ReadAllBytes($PSCommandPath)
    $digest = [BitConverter]::ToString([System.Security.Cryptography.SHA256]::Create().ComputeHash($bytes)).Replace('-', '').ToLowerInvariant()
    $ready = [ordered]@{ type = 'listening'; protocol = 1; program = 'echo-server.ps1'; sha256 = $digest; ports = $numbers }
    $out.WriteLine('@@PROBE@@ ' + (ConvertTo-Json -InputObject $ready -Compress))
    $pending = $listener.BeginGetContext($null, $null)
    while ($listener.IsListening) {
        $moved = $false
        if ($pending.IsCompleted) {
            $moved = $true
            $context = $null
            try { $context = $listener.EndGetContext($pending) } catch { [Console]::Error.WriteLine('accept: ' + $_.Exception.Message) }
            $pending = $listener.BeginGetContext($null, $null)
            if ($null -ne $context) {
                try {
                    if ($context.Request.HttpMethod -eq 'POST') { Start-Post $context } else { Send-Reply $context $null }
                } catch { [Console]::Error.WriteLine('reply: ' + $_.Exception.Message) }
            }
        }
        foreach ($post in @($posts)) { if (Step-Post $post) { $moved = $true } }
        foreach ($udp in $sockets) { if (Step-Datagrams $udp) { $moved = $true } }
        if (-not $moved) { [void]$pending.AsyncWaitHandle.WaitOne(10) }
    }
} catch {
    [Console]::Error.WriteLine('echo-server: ' + $_.Exception.Message)
    exit 3
}
