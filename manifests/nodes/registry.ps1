# Print settings that may differ between Windows nodes of one build: one JSON object in ASCII, in which
# registry keys are JSON texts, as ConvertTo-Json writes them. AKS sets dozens of HNS and VFP switches by the
# build of its images (Azure/AgentBaker vhdbuilder/packer/windows/windows_settings.json). cmd /c runs the
# program as one line: statements end with a semicolon and contain no quotation mark, per cent sign or caret.
$said = [ordered]@{}; $no = [ordered]@{};
$said['keys'] = 'HKLM:\SYSTEM\CurrentControlSet\Services\hns\State', 'HKLM:\SYSTEM\CurrentControlSet\Services\VfpExt\Parameters', 'HKLM:\SYSTEM\CurrentControlSet\Policies\Microsoft\FeatureManagement\Overrides', 'HKLM:\SOFTWARE\Microsoft\NET Framework Setup\NDP\v4\Full' | ForEach-Object { $key = $_; try { Get-ItemProperty -Path $key -ErrorAction Stop | ForEach-Object { '' + ($_ | ConvertTo-Json -Depth 1 -Compress) } } catch { $e = [ordered]@{}; $e['id'] = '' + $_.FullyQualifiedErrorId; $e['message'] = '' + $_.Exception.Message; $no[$key] = $e } };
$said['LanguageMode'] = '' + $ExecutionContext.SessionState.LanguageMode; $said['Culture'] = '' + (Get-Culture).Name;
$said['errors'] = $no; $text = $said | ConvertTo-Json -Depth 4 -Compress;
foreach ($found in [regex]::Matches($text, '[<>&''\u007f-\uffff]')) { $text = $text.Replace($found.Value, ('\u{0:x4}' -f [int][char]$found.Value)) };
$text
