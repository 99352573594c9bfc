"""PowerShell text to a tree: the statements.

Scannerless recursive descent in four layers: characters (``scanner``), ``expressions``, ``commands`` and, here, the
keywords.  Left out, and refused by name: classes, enumerations, typed catches, traps, labels, attributes of parameters,
``begin``/``process``/``end``, options of ``switch``.
"""

from hybridlab.powershell import syntax as s
from hybridlab.powershell.commands import Commands
from hybridlab.powershell.scanner import WORD
from hybridlab.powershell.syntax import Block, Node, NotEmulated, SyntaxFault

_REFUSED = frozenset(
    (
        *("filter", "class", "enum", "trap", "data", "workflow", "param", "switch", "function", "for", "do"),
        *("begin", "process", "end", "clean", "dynamicparam", "using", "configuration", "parallel", "sequence"),
    )
)
_COMPOUND = (s.If, s.While, s.ForEach, s.Try)


def parse(text: str) -> s.ScriptBlock:
    """The whole script; raises SyntaxFault and NotEmulated."""
    return _Parser(text).script()


class _Parser(Commands):
    def script(self) -> s.ScriptBlock:
        block = self.block(None)
        return s.ScriptBlock(0, self.at, block, self.text)

    def block(self, closing: str | None) -> Block:
        """Statements up to ``closing``, or to the end of the script."""
        start = self.at
        outside, self._commas = self._commas, True
        statements: list[Node] = []
        while True:
            self.space(lines=True)
            while self.take(";"):
                self.space(lines=True)
            if self.done:
                if closing is not None:
                    raise SyntaxFault(f"Missing closing '{closing}' in statement block or type definition.", start)
                break
            if closing is not None and self.peek(closing):
                break
            statements.append(self.statement())
            self.space()
            if not (self.done or self.here in ";\r\n" or (closing is not None and self.peek(closing))) and not (
                isinstance(statements[-1], _COMPOUND)
            ):
                raise self.unexpected()
        self._commas = outside
        return Block(start, self.at, tuple(statements))

    def braces(self) -> Block:
        self.space(lines=True)
        self.expect("{")
        block = self.block("}")
        self.expect("}")
        return block

    def script_block(self) -> s.ScriptBlock:
        start = self.at
        self.expect("{")
        inside = self.at
        outside, self._commas = self._commas, True
        block = self.block("}")
        self._commas = outside
        text = self.text[inside : self.at]
        self.expect("}")
        return s.ScriptBlock(start, self.at, block, text)

    def statement(self) -> Node:
        """One statement, without what separates it from the next."""
        start = self.at
        if self.here == ":" and self.following.isalpha():
            raise NotEmulated("a label")
        word = WORD.match(self.text, self.at)
        keyword = word[0].lower() if word else ""
        after = self.text[word.end() :].lstrip() if word else ""
        adjacent = self.text[word.end() : word.end() + 1] if word else ""
        if keyword in _REFUSED and not after.startswith("=") and adjacent != "-":
            raise NotEmulated(f"the keyword {keyword}")
        if word and keyword in ("if", "while", "foreach") and after.startswith("("):
            self.at = word.end()
            return getattr(self, f"_{keyword}")(start)  # type: ignore[no-any-return]
        if keyword == "foreach" and after.startswith("-parallel"):
            raise NotEmulated("foreach -parallel")
        if word and keyword == "try" and after.startswith("{"):
            self.at = word.end()
            return self._try(start)
        if word and keyword in ("break", "continue", "return", "exit", "throw") and adjacent != "-":
            return self._jump(start, keyword, word.end())
        return self.pipeline()

    def _jump(self, start: int, keyword: str, end: int) -> Node:
        self.at = end
        self.space()
        value = None if self.done or self.here in ";}\r\n)" else self.pipeline()
        if keyword in ("break", "continue") and value is not None:
            raise NotEmulated("a label")
        return s.Jump(start, self.at, keyword, value)

    def _parentheses(self) -> Node:
        self.space(lines=True)
        self.expect("(")
        self.space(lines=True)
        inner = self.statement()
        self.space(lines=True)
        self.expect(")")
        return inner

    def _if(self, start: int) -> Node:
        branches = [(self._parentheses(), self.braces())]
        otherwise = None
        while True:
            mark = self.at
            self.space(lines=True)
            keyword = self.keyword()
            if keyword == "elseif":
                self.at += len(keyword)
                branches.append((self._parentheses(), self.braces()))
                continue
            if keyword == "else":
                self.at += len(keyword)
                otherwise = self.braces()
            else:
                self.at = mark
            return s.If(start, self.at, tuple(branches), otherwise)

    def _while(self, start: int) -> Node:
        condition = self._parentheses()
        return s.While(start, self.at, condition, self.braces())

    def _foreach(self, start: int) -> Node:
        self.space()
        self.expect("(")
        self.space()
        if not self.starts_variable():
            raise SyntaxFault("Missing variable name after foreach.", self.at)
        variable = self.variable()
        self.space()
        if self.keyword() != "in":
            raise SyntaxFault("Missing 'in' after variable in foreach loop.", self.at)
        self.at += 2
        self.space()
        items = self.pipeline()
        self.space(lines=True)
        self.expect(")")
        return s.ForEach(start, self.at, variable, items, self.braces())

    def _try(self, start: int) -> Node:
        body = self.braces()
        catch = final = None
        while True:
            mark = self.at
            self.space(lines=True)
            keyword = self.keyword()
            if keyword not in ("catch", "finally") or final is not None:
                self.at = mark
                break
            self.at += len(keyword)
            self.space()
            if self.peek("["):
                raise NotEmulated("catch with a type")
            if keyword == "finally":
                final = self.braces()
            elif catch is None:
                catch = self.braces()
            else:
                raise SyntaxFault("Catch block must be the last catch block.", self.at)
        if catch is None and final is None:
            raise SyntaxFault("The Try statement is missing its Catch or Finally block.", self.at)
        return s.Try(start, self.at, body, catch, final)
