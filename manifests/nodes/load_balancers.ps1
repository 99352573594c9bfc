# Print the load balancers of a Windows host (by hnsdiag) and its reserved port ranges, as plain text. cmd /c
# runs the program as one line: statements end with a semicolon and contain no quotation mark, per cent sign
# or caret.
$hnsdiag = 'C:\Windows\System32\hnsdiag.exe'; $netsh = 'C:\Windows\System32\netsh.exe';
& $hnsdiag list loadbalancers -d;
& $netsh int ipv4 show excludedportrange tcp
