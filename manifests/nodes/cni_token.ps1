# When the token ends that Calico's CNI plugin has in its kubeconfig: 'token' and the few letters of its payload that hold
# 'exp', in base64 as they stand there; nothing else of it leaves the host.  'token' alone: it has no end that is found.
# 'end' comes last.  cmd /c runs it as one line: statements end with a semicolon, and hold no quotation mark, per cent
# sign or caret.  Three letters of a text are four of base64, so that 'exp' begins at one of three places (RFC 4648).
foreach ($path in 'C:\etc\cni\net.d\calico-kubeconfig', 'C:\k\cni\config\calico-kubeconfig') { $text = Get-Content -Raw -Path $path -ErrorAction SilentlyContinue; if ($text) { if ($text -cmatch 'token:\s+\W?[\w-]+\.(?:[\w-]{4})*?(ImV4cCI6[\w-]{14,16}|LCJleHAiOj[\w-]{13,14}|ZXhwIjo[\w-]{13})') { 'token ' + $Matches[1] } else { 'token' } } };
'end'
