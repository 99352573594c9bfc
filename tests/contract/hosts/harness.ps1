# Executes programs for Windows hosts, one JSON object a line in and out.  A program may name only the test's functions, pure
# commands and pure types (`refused` has what else it names, and it does not run); whatever command it looks up while it runs
# and that is neither is refused as well.  A call of a value has to be one of the test's functions, and is held to it when it runs.
$ErrorActionPreference = 'Stop'
$pure = 'ConvertFrom-Json', 'ConvertTo-Json', 'ForEach-Object', 'Out-Null', 'Out-String', 'Select-Object', 'Where-Object', 'Write-Output'
$pureTypes = 'bool', 'char', 'int', 'ordered', 'regex', 'string'
$pureMethods = 'Replace', 'ToString', 'Trim'
$variables = 'ErrorActionPreference', 'ExecutionContext', 'LASTEXITCODE', 'Matches', 'false', 'null', 'true', '_'
$kinds = 'ArrayExpression', 'ArrayLiteral', 'AssignmentStatement', 'BinaryExpression', 'CatchClause', 'Command', 'CommandExpression',
'CommandParameter', 'ConstantExpression', 'ConvertExpression', 'ForEachStatement', 'Hashtable', 'IfStatement', 'IndexExpression',
'InvokeMemberExpression', 'MemberExpression', 'NamedBlock', 'ParenExpression', 'Pipeline', 'ScriptBlock', 'ScriptBlockExpression',
'StatementBlock', 'StringConstantExpression', 'ThrowStatement', 'TryStatement', 'TypeConstraint', 'TypeExpression',
'UnaryExpression', 'VariableExpression'

function Get-Refused($Tree, $Functions) {
    $own = @($Tree.FindAll({ $args[0] -is [System.Management.Automation.Language.AssignmentStatementAst] }, $true) |
            ForEach-Object { $_.Left.Extent.Text.TrimStart('$') -replace '\[.*', '' }) +
    @($Tree.FindAll({ $args[0] -is [System.Management.Automation.Language.ForEachStatementAst] }, $true) | ForEach-Object { $_.Variable.VariablePath.UserPath })
    foreach ($node in $Tree.FindAll({ $true }, $true)) {
        $kind = $node.GetType().Name -replace 'Ast$', ''
        if ($kinds -notcontains $kind) { "$kind $($node.Extent.Text)"; continue }
        switch ($kind) {
            'Command' {
                if ($node.InvocationOperator -eq 'Dot' -or $node.Redirections.Count) { "command $($node.Extent.Text)" }
                $name = $node.GetCommandName()
                $blocks = $node.CommandElements | Select-Object -Skip 1 | Where-Object { $_ -isnot [System.Management.Automation.Language.ScriptBlockExpressionAst] }
                if ($name -in 'ForEach-Object', '%', 'foreach' -and $blocks) { "command $($node.Extent.Text)" }
                if ($null -ne $name -and $pure -notcontains $name -and $Functions -notcontains $name) { "command $name" }
            }
            'CommandExpression' { if ($node.Redirections.Count) { "redirection $($node.Extent.Text)" } }
            'InvokeMemberExpression' {
                if ($node.Static) { if ($node.Member.Extent.Text -cne 'Matches') { "method $($node.Extent.Text)" } }
                elseif ($pureMethods -notcontains $node.Member.Extent.Text) { "method $($node.Extent.Text)" }
            }
            'MemberExpression' {
                if ($node.Expression.Extent.Text -match '^\$ExecutionContext' -and $node.Extent.Text -notmatch '^\$ExecutionContext\.SessionState(\.LanguageMode)?$') { "member $($node.Extent.Text)" }
            }
            'TypeExpression' { if ($pureTypes -notcontains $node.TypeName.Name) { "type $($node.TypeName.Name)" } }
            'TypeConstraint' { if ($pureTypes -notcontains $node.TypeName.Name) { "type $($node.TypeName.Name)" } }
            'VariableExpression' {
                $name = $node.VariablePath.UserPath
                if ($node.Splatted -or ($variables -notcontains $name -and $own -notcontains $name) -or $name.Contains(':')) { "variable $name" }
            }
        }
    }
}

# The names and numbers that a program takes from .NET and from PowerShell, for the tables of Windows PowerShell 5.1.
function Get-Named($Tree, $Tokens) {
    $newer = 'TernaryExpression', 'PipelineChain'
    foreach ($node in $Tree.FindAll({ $true }, $true)) {
        $kind = $node.GetType().Name -replace 'Ast$', ''
        $text = $node.Extent.Text
        if ($newer -contains $kind) { , @('syntax', $text) }
        switch ($kind) {
            'BinaryExpression' { if ($node.Operator -eq 'QuestionQuestion') { , @('syntax', $text) } }
            'AssignmentStatement' { if ($node.Operator -eq 'QuestionQuestionEquals') { , @('syntax', $text) } }
            'Pipeline' { if ($node.Background) { , @('syntax', $text) } }
            'NamedBlock' { if ($node.BlockKind -eq 'Clean') { , @('syntax', $text) } }
            'TypeExpression' { , @('type', $node.TypeName.FullName) }
            'TypeConstraint' { , @('type', $node.TypeName.FullName) }
            'Command' {
                $name = $node.GetCommandName()
                if ($null -ne $name) {
                    $given = @($node.CommandElements | Where-Object { $_ -is [System.Management.Automation.Language.CommandParameterAst] } | ForEach-Object { $_.ParameterName })
                    , (@('command', $name) + $given)
                    if ($name -eq 'New-Object') {
                        $last = $node.CommandElements | Where-Object { $_ -isnot [System.Management.Automation.Language.CommandParameterAst] } | Select-Object -Skip 1
                        $arguments = 0
                        if ($last.Count -gt 1) {
                            $inner = $last[1]
                            if ($inner -is [System.Management.Automation.Language.ParenExpressionAst]) { $inner = $inner.Pipeline.PipelineElements[0].Expression }
                            $arguments = if ($inner -is [System.Management.Automation.Language.ArrayLiteralAst]) { $inner.Elements.Count } else { 1 }
                        }
                        , @('new', @($last)[0].Value, $arguments)
                    }
                }
            }
        }
        if ($node -is [System.Management.Automation.Language.MemberExpressionAst]) {
            if ($node.NullConditional) { , @('syntax', $text) }
            $count = -1
            if ($node -is [System.Management.Automation.Language.InvokeMemberExpressionAst]) { $count = @($node.Arguments).Count; if ($null -eq $node.Arguments) { $count = 0 } }
            $owner = ''
            if ($node.Static) { $owner = if ($node.Expression -is [System.Management.Automation.Language.TypeExpressionAst]) { $node.Expression.TypeName.FullName } else { '?' } }
            , @('member', $owner, $node.Member.Extent.Text, $count)
        }
        if ($node -is [System.Management.Automation.Language.IndexExpressionAst] -and $node.NullConditional) { , @('syntax', $text) }
        if ($node -is [System.Management.Automation.Language.HashtableAst]) { foreach ($pair in $node.KeyValuePairs) { , @('key', $pair.Item1.Extent.Text.Trim("'")) } }
        if ($node -is [System.Management.Automation.Language.FunctionDefinitionAst]) { , @('function', $node.Name) }
    }
    foreach ($token in $Tokens) {
        $text = $token.Text
        if ($token.Kind -eq 'Number' -and $text -match '^(0b|.*(n|u|y|ul|us|uy)$)' -and $text -notmatch '^0x') { , @('syntax', $text) }
        if ("$($token.Kind)" -match 'Expandable' -and $text -match '`(u\{|e)') { , @('syntax', $text) }
    }
}

# The program with each value that it calls, `& $x`, passed through Get-Called first; a block that stands there is no value.
function Add-Check($Tree) {
    $text = $Tree.Extent.Text
    $places = foreach ($node in $Tree.FindAll({ $args[0] -is [System.Management.Automation.Language.CommandAst] }, $true)) {
        $called = $node.CommandElements[0]
        if ($null -ne $node.GetCommandName() -or $called -is [System.Management.Automation.Language.ScriptBlockExpressionAst]) { continue }
        , @($called.Extent.StartOffset, '(Get-Called (')
        , @($called.Extent.EndOffset, '))')
    }
    foreach ($place in @($places | Sort-Object -Descending { $_[0] })) { $text = $text.Insert($place[0], $place[1]) }
    return $text
}

function Invoke-Case($Case) {
    $tokens = $errors = $null
    $tree = [System.Management.Automation.Language.Parser]::ParseInput($Case.script, [ref]$tokens, [ref]$errors)
    if ($errors) { return @{ refused = @("$($errors[0].Message)") } }
    if ($Case.named) { return @{ named = @(Get-Named $tree $tokens) } }
    $functions = @{}
    foreach ($one in $Case.functions.PSObject.Properties) { $functions[$one.Name] = $one.Value }
    $refused = @(Get-Refused $tree @($functions.Keys) | Select-Object -Unique)
    if ($refused) { return @{ refused = $refused } }
    $calls = [System.Collections.ArrayList]::Synchronized([System.Collections.ArrayList]::new())
    $late = [System.Collections.ArrayList]::new()
    $state = [initialsessionstate]::CreateDefault()
    $runspace = [runspacefactory]::CreateRunspace($state)
    $runspace.Open()
    try {
        $shell = [powershell]::Create()
        $shell.Runspace = $runspace
        [void]$shell.AddScript('param($functions, $pure, $calls, $late)
            $global:__all = @{ functions = @{}; pure = $pure; calls = $calls; late = $late }
            foreach ($name in $functions.Keys) { $global:__all.functions[$name] = [scriptblock]::Create($functions[$name]) }
            $ExecutionContext.InvokeCommand.PreCommandLookupAction = {
                param($name, $lookup)
                $all = $global:__all
                if ($all.functions.ContainsKey($name)) {
                    $body = $all.functions[$name]
                    $lookup.CommandScriptBlock = {
                        [void]$all.calls.Add(@($name) + @($args | ForEach-Object { "$_" }))
                        $input | & $body @args
                    }.GetNewClosure()
                } elseif ($name -eq "Get-Called") {
                    $lookup.CommandScriptBlock = {
                        if ($args[0] -is [string] -and $all.functions.ContainsKey($args[0])) { return $args[0] }
                        [void]$all.late.Add("$($args[0])")
                        throw "refused: $($args[0])"
                    }.GetNewClosure()
                } elseif ($all.pure -notcontains $name) {
                    [void]$all.late.Add($name)
                    $lookup.CommandScriptBlock = { throw "refused: $name" }.GetNewClosure()
                }
            }')
        [void]$shell.AddArgument($functions).AddArgument($pure).AddArgument($calls).AddArgument($late)
        [void]$shell.Invoke()
        $shell.Commands.Clear()
        [void]$shell.AddScript((Add-Check $tree))
        $output = [System.Collections.Generic.List[object]]::new()
        $problem = ''
        $status = 0
        try { $shell.Invoke($null, $output) } catch { $problem = "$($_.Exception.InnerException.Message)$($_.Exception.Message)"; $status = 1 }
        if ($late.Count) { return @{ refused = @($late | ForEach-Object { "call of $_" }) } }
        return @{ output = @($output | Where-Object { $null -ne $_ } | ForEach-Object { "$_" }); exit = $status; problem = $problem; calls = @($calls.ToArray())
            errors = @($shell.Streams.Error | ForEach-Object { "$_" }) }
    } finally { $runspace.Close() }
}

while ($null -ne ($line = [Console]::In.ReadLine())) {
    try { $answer = Invoke-Case ($line | ConvertFrom-Json) } catch { $answer = @{ broken = "$_ $($_.ScriptStackTrace)" } }
    [Console]::Out.WriteLine(($answer | ConvertTo-Json -Depth 6 -Compress))
    [Console]::Out.Flush()
}
