"""Random bash scripts, tame and wild: what the lexer may accept, what it must not, and what lies between them.

No script holds the path of a real program, so none can run one; `/dev/null` is the only path outside of its folder.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

# How likely each piece of a script is to come from the wild tables: many scripts should be acceptable, many nearly so.
WILDNESS = (0.0, 0.0, 0.02, 0.04, 0.1, 0.3)

NAMES = (
    "a", "b", "c", "ab", "ls", "git", "echo", "cat", "grep", "test", "[", ":", ".", "cd", "eval", "exec", "export",
    "set", "printf", "unset", "true", "./a", "a/b", "größe", "a-b", "a.b", "x1", "2", "-a", "a=", "=a", "%", "@",
)  # fmt: skip
LITERALS = (
    "a", "b", "c", "xyz", "f", "0", "1", "2", "10", "-", "--", "-n", "-la", "--x=y", ".", "..", "/", "a/b", ",", ":",
    "%", "+", "@", "=", "a=b", "_", "^", "]", "HEAD", "%h", "s/a/b/", "é", "ß", "文", "☃", "e\u0301", "n:m", "a@b.c",
)  # fmt: skip
EDGES = (
    "a=~", "b=c:~", "d:~", "#", "a#b", "!", "a!", "!a", "c~", "HEAD~1", "a:~b", "}", "{", "{}", "a{b}", "{a}", "-~",
    "]a[", "a]",
)  # fmt: skip
QUOTABLE = (
    "a", "b", " ", "  ", "\t", "\n", "#", "&", "|", ";", "<", ">", "(", ")", "*", "?", "[f]", "{a,b}", "~", "!", "=",
    "&&", "||", "rm", "-", "/", "é", "文", "%h %s", ".a[] | .b", "\\n", "a\\|b",
)  # fmt: skip
ONLY_IN_SINGLE = ("$x", "$(b)", "`b`", '"', "${x}", "$", "\\", "\\\n")
ONLY_IN_DOUBLE = ("'", "\\\\", "\\$", "\\`", '\\"', "\\\n", "\\a", "\\ ", "\\!", "it's")
ESCAPABLE = " \tabn$`\"'\\|&;<>()*?[]{}~#!=-é\n"

EXPANSIONS = (
    "$x", "${x}", "${x:-b}", "$IFS", "$1", "$@", "$?", "$$", "$!", "$-", "$_", "$", "$(b)", "$(b c | a)", "$( b; c )",
    "$(<f)", "`b`", "`b c`", "`", "$((1+1))", "$[1+1]", "$((1", "<(b)", ">(b)", "$'a'", "$'a\\nb'", "$'\\x61'", '$"a"',
    "*", "?", "[f]", "[a-z]", "f*", "?*", "[!a]", "[", "{a,b}", "{1..3}", "x{a,b}y", "{a,", "{a,b", "{,}", "~", "~/a",
    "~+", "~x", "a=~", "a=b:~", "a:~", "@(f)", "!(f)", "+(f|a)", "?(f)", "*(f)", "!!", "!$", "!a:b", "^a^b",
)  # fmt: skip
ODD_CHARACTERS = (
    "\r", "\f", "\v", "\b", "\x01", "\x1b", "\x1b[8m", "\x7f", "\x85", "\u00a0", "\u3000", "\u2003", "\u200b",
    "\u200d", "\u202e", "\u2066", "\u2028", "\u2029", "\ufeff", "\u00ad", "\U000e0041", "\u0430", "\uff41", "\uff1b",
    "\u037e",
)  # fmt: skip

BLANKS = (" ", " ", " ", " ", "  ", "\t", " \t ", "    ", " \\\n", "\\\n ", " \\\n\\\n  ")
OPERATORS = ("&&", "||", ";", "|", "|&", "&", "\n")
JOINS = (
    " && ", " || ", "; ", " | ", " |& ", " & ", "\n", "&&", "||", ";", "|", "|&", "&", "\n\n", " ;\n", " &\n", " &&\n",
    "||\n  ", " |\n", "|&\n\n", " # a comment\n", " #\n", "\n# a comment; b\n", " && # why\n", "\t;\t", " \\\n&& ",
    "&\\\n&", "|\\\n|", " \\\n| ", "\n \n\t",
)  # fmt: skip
DANGLING = (
    ";;", "; ;", "&& &&", "&& ;", "| |", "|| |", "& &", "&;", "; &", "\n;", "\n&&", "&&&", "|||", ";&", "(", ")",
)  # fmt: skip
ENDS = ("", "", "", "", "\n", ";", " ", " ;\n", " &", "\n\n", " # end", " #", "\\\n", "\t\n", " 2>&1")
STRAY_ENDS = (
    "\\", " \\", "&&", " ||", "|", "'", '"', "`", "$(", "(", "{", "\r", "\r\n", " \r\n", "<<E", ")", "}", "#\\\n",
)  # fmt: skip

TAME_REDIRECTS = (
    "2>&1", ">/dev/null", "2>/dev/null", "&>/dev/null", "> /dev/null", ">/dev/null 2>&1", "2>&1 >/dev/null", "1>&2",
    ">&2", "2>> /dev/null", ">>/dev/null", "</dev/null", ">\t/dev/null", "2>\\\n&1", "2> \\\n/dev/null", "0<&1",
)  # fmt: skip
FILE_REDIRECTS = (
    ">g", "> g", ">>f", ">> g", "<f", "< f", "2>g", ">f", "> 'a b'", '2>"g"', "&>g", "&>>g", "<nothing", ">g/h",
)  # fmt: skip
WILD_REDIRECTS = (
    ">|g", "<>g", "1<>f", ">&g", ">& g", "2>&g", "{x}>g", "{x}>&1", ">&-", "2>&-", "<&-", "2>&1-", "3>&1", "1>&3",
    "9>&8", "12>&1", "1>&12", "2 >&1", "2> &1", "2>& 1", ">&1a", "2>&1a", "a2>&1", "-2>&1", "02>&1", "2>&01", "2>&$x",
    ">$x", ">~", ">*", ">{a,b}", ">/dev/nul", ">/dev/null2", ">/dev/null2>&1", ">/dev//null", ">/dev/./null",
    ">'/dev/null'", '>"/dev"/null', ">/dev/null\\ ", ">\\/dev/null", ">/dev/null/", ">", ">>", "<", ">;", "> >g",
    ">>>g", "<<<a", "<<< 'a b'", "<<<$x", "<<E", "<<E\nb\nE\n", "<<'E'\n$x\nE\n", "<<-E\n\tb\n\tE\n",
    "<<E\nb\n E\nE\n", "<<\\E\nE\n", "<<E\n$(c)\nE\n", "<< E", "<<''", "99999999999999999999>&1", "&>>/dev/null",
    "&>&1", "&>1", "<&2", "<&f", "1>&1>&2", "\\2>&1", "'2'>&1", "2\\\n>&1", "2>\\&1", "2>'&1'", "é>&1", "1,2>&1",
    ">#a", "> #a", "> \\\n#a", "<\\\n#", "2>&1#a", "2>&#", ">a#b", "<f#",
)  # fmt: skip

ASSIGNMENTS = (
    "x=1 ", "x= ", "CI=a ", "x+=1 ", "x[0]=1 ", "x=(a b) ", "x='a b' ", "a=~ ", "x=1;", "x=$(b) ", "1x=1 ", "é=1 ",
)  # fmt: skip
RESERVED = (
    "if {0}; then {1}; fi", "if {0}\nthen {1}\nelse {2}\nfi", "for i in 1 2; do {0}; done", "for ((;;)); do {0}; done",
    "until {0}; do {1}; done", "while {0}; do {1}; break; done", "case a in a) {0};; b) {1};& *) {2};; esac",
    "[[ {0} ]]", "[[ -n a && b ]] && {0}", "(( 1 + 1 ))", "(({0}))", "{{ {0}; }}", "{{ {0} ; }} >g", "{{{0}}}",
    "! {0}", "!{0}", "time {0}", "time -p {0}", "coproc {0}", "coproc x {{ {0}; }}", "function x {{ {0}; }}",
    "function x() {{ {0}; }}; x", "x() {{ {0}; }}", "x () ( {0} )", "x(){{ {0};}};x", "select i in a; do {0}; done",
    "({0})", "( {0}; {1} ) 2>&1", "(({0}); {1})", "! ! {0}", "then {0}", "do {0}", "done", "fi {0}", "esac", "in {0}",
    "}} {0}", "]] {0}", "{{ {0}", "else {0}", "elif {0}", "$({0})", "`{0}`", '"$({0})"', "<({0})", "eval '{0}'",
    "{0} <<E\n{1}\nE\n{2}", "{0} <<'E' | {1}\n'\nE\n", "if\\\n {0}", "'if' {0}", "i\\f {0}", "ti\\\nme {0}", "\\! {0}",
    "'{{' {0}", "{{a {0}", "{0} }}", "{0} then {1}", "{0} !", "{0} in do",
)  # fmt: skip
REALISTIC = (
    "git log --pretty=format:'%h %s' -5 | head -3", 'grep -rn "foo\\|bar" src 2>/dev/null || echo "none"',
    "find . -name '*.py' -not -path './x/*' 2>&1", "sed -n '1,5p' f; wc -l f", "ls -la && cat f",
    "git diff HEAD~1 -- a.b", "rg -n 'x|y' -g '*.py' | sort -u -k2,2n", "echo 'it'\\''s' \"a\\\"b\"", "cat -- -f",
    "jq '.a[] | .b' f", "date +%F", "git \\\n  status \\\n  --short", "cd a; ls # there\n",
    "git commit -m 'a: b\n\nc; d && e'", "\nls\n\npwd\n",
)  # fmt: skip

CUTS = ("\\\n", "\\", "#", "'", "\n")
MAX_LENGTH = 400


class Maker:
    """Makes one script after the other; the same seed makes the same scripts."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - it has to be repeatable
        self._wildness = 0.0
        self._earlier = "ls"

    def script(self) -> str:
        self._wildness = self._one(WILDNESS)
        text = self._one(REALISTIC) if self._by(0.1) else self._list()
        if self._by(0.45):
            for _ in range(self._random.randint(1, 3)):
                text = self._one(self._mutations())(text)
        text = text[:MAX_LENGTH]
        self._earlier = text
        return text

    # Grammar.

    def _list(self) -> str:
        text = self._one(("", "", "", " ", "\n", "\t", "# first\n")) + self._command()
        while self._by(0.5):
            text += self._one(JOINS) if not self._is_wild() else self._one(DANGLING)
            text += self._command()
        return text + (self._one(STRAY_ENDS) if self._is_wild() else self._one(ENDS))

    def _command(self) -> str:
        if self._is_wild():
            return self._one((self._reserved, self._assigned))()
        return self._simple()

    def _reserved(self) -> str:
        return self._one(RESERVED).format(self._simple(), self._simple(), self._simple())

    def _assigned(self) -> str:
        return self._one(ASSIGNMENTS) + self._simple()

    def _simple(self) -> str:
        words = [self._one(NAMES) if self._by(0.7) else self._word()]
        while self._by(0.55):
            words.append(self._word())
        if self._by(0.2):
            words.insert(self._random.randint(0, len(words)), self._redirect())
        text = words[0]
        for word in words[1:]:
            text += self._one(BLANKS) + word
        return text

    def _redirect(self) -> str:
        if self._is_wild():
            return self._one(WILD_REDIRECTS)
        return self._one(FILE_REDIRECTS) if self._by(0.15) else self._one(TAME_REDIRECTS)

    def _word(self) -> str:
        word = self._piece()
        while self._by(0.3):
            word += self._piece()
        return word

    def _piece(self) -> str:
        if self._is_wild():
            return self._one(EXPANSIONS) if self._by(0.7) else self._one(ODD_CHARACTERS)
        match self._random.randrange(12):
            case 0 | 1:
                return "'" + self._quotable(ONLY_IN_SINGLE) + "'"
            case 2 | 3:
                return '"' + self._quotable(self._in_double()) + '"'
            case 4:
                return "\\" + self._one(ESCAPABLE)
            case 5:
                return self._one(EDGES)
            case 6:
                return self._one(LITERALS) + "\\\n" + self._one(LITERALS)
            case _:
                return self._one(LITERALS)

    def _in_double(self) -> Sequence[str]:
        return EXPANSIONS if self._is_wild() else ONLY_IN_DOUBLE

    def _quotable(self, special: Sequence[str]) -> str:
        return "".join(self._one(special if self._by(0.2) else QUOTABLE) for _ in range(self._random.randrange(5)))

    # Mutations.

    def _mutations(self) -> Sequence[Callable[[str], str]]:
        return (self._insert, self._insert, self._delete, self._duplicate, self._swap, self._splice)

    def _insert(self, text: str) -> str:
        tables = (OPERATORS, ODD_CHARACTERS, tuple(ESCAPABLE), EXPANSIONS, EDGES, WILD_REDIRECTS, CUTS)
        at = self._at(text)
        return text[:at] + self._one(self._one(tables)) + text[at:]

    def _delete(self, text: str) -> str:
        at = self._at(text)
        return text[:at] + text[at + self._random.randint(1, 3) :]

    def _duplicate(self, text: str) -> str:
        start, end = sorted((self._at(text), self._at(text)))
        return text[:end] + text[start:]

    def _swap(self, text: str) -> str:
        at = self._at(text)
        return text[:at] + text[at + 1 : at + 2] + text[at : at + 1] + text[at + 2 :]

    def _splice(self, text: str) -> str:
        return text[: self._at(text)] + self._earlier[self._at(self._earlier) :]

    # Chances.

    def _at(self, text: str) -> int:
        return self._random.randint(0, len(text))

    def _by(self, chance: float) -> bool:
        return self._random.random() < chance

    def _is_wild(self) -> bool:
        return self._by(self._wildness)

    def _one(self, of: Sequence[T]) -> T:
        return self._random.choice(of)


def scripts(seed: int) -> Iterator[str]:
    """Yield scripts without end."""
    maker = Maker(seed)
    while True:
        yield maker.script()
