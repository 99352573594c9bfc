# The load balancers of a Windows host by hnsdiag, and its ranges of ports that nobody else may take: plain text.  cmd /c runs it
# as one line: statements end with a semicolon, and hold no quotation mark, per cent sign or caret.
$hnsdiag = 'C:\Windows\System32\hnsdiag.exe'; $netsh = 'C:\Windows\System32\netsh.exe';
& $hnsdiag list loadbalancers -d;
& $netsh int ipv4 show excludedportrange tcp
