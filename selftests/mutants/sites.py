# SPDX-License-Identifier: GPL-2.0-only
"""Where a source of the module may be mutated, and how: by its tokens, within bodies of functions.

Every mutation is told at run time from the original (switch.hh), so that one program has all of a draw. What looks
like a site and is none does not compile, and scripts/mutants leaves it out then.
"""

import collections
import re

TOKEN = re.compile(r"""
	(?P<skip>//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*)
	|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
	|(?P<number>\b(?:0[xX][0-9a-fA-F']+|[0-9][0-9']*)[uUlL]*\b)
	|(?P<name>[A-Za-z_]\w*)
	|(?P<mark><<=|>>=|<=>|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|::|[^\s\w])
	""", re.X | re.S | re.M)

OPERATORS = ("condition negated", "boundary moved", "call dropped", "order swapped", "constant off by one", "flag not reset")

COMPARISONS = {"<": "Lt", "<=": "Le", ">": "Gt", ">=": "Ge", "==": "Eq", "!=": "Ne"}
# What a statement that does nothing but call or assign does not begin with.
KEYWORDS = set("""if else for while do switch case default return break continue goto using typedef static const constexpr
	struct class enum union namespace template auto new delete public private protected friend static_assert TRY
	unsigned bool int char void u8 u16 u32 u64 s32 s64 asm volatile""".split())
BEFORE_BODY = {")", "const", "noexcept", "override", "final", "mutable"}
ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>=", "++", "--"}
FLAGS = {"false", "true", "0", "nullptr"}


class Token:
    def __init__(self, kind, text, at):
        self.kind, self.text, self.at, self.end = kind, text, at, at + len(text)


class Site:
    """@edits: [(from, to, text)] of the source, where {n} stands for the mutant's number."""

    def __init__(self, operator, at, what, edits):
        self.operator, self.at, self.what, self.edits = operator, at, what, edits


def tokens_of(source):
    found = []
    for match in TOKEN.finditer(source):
        if match.lastgroup != "skip":
            found.append(Token(match.lastgroup, match.group(), match.start()))
    return found


def in_functions(tokens):
    """For each token, whether it is within a function's body."""
    inside, stack = [], []
    for i, token in enumerate(tokens):
        if token.text == "{":
            stack.append(any(stack) or (i > 0 and tokens[i - 1].text in BEFORE_BODY))
        inside.append(any(stack))
        if token.text == "}" and stack:
            stack.pop()
    return inside


def closing(tokens, i):
    """Where the bracket at @i is closed."""
    depth = 0
    for j in range(i, len(tokens)):
        depth += tokens[j].text in "([{"
        depth -= tokens[j].text in ")]}"
        if not depth:
            return j
    return len(tokens) - 1


def statement_end(tokens, i):
    """The semicolon of the statement that begins at @i, or None if it is more than an expression."""
    j = i
    while j < len(tokens):
        if tokens[j].text in ("(", "["):
            j = closing(tokens, j)
        elif tokens[j].text == ";":
            return j
        elif tokens[j].text in ("{", "}"):
            return None
        j += 1
    return None


def is_expression(tokens, i, end):
    """Whether the statement calls or assigns, and declares nothing."""
    first = tokens[i]
    if first.text in ("++", "--"):
        return True
    if first.kind != "name" or first.text in KEYWORDS:
        return False
    j = i + 1
    while j < end and tokens[j].text in ("::", ".", "->", "[", "("):
        if tokens[j].text in ("[", "("):
            j = closing(tokens, j) + 1
        else:
            j += 2
    if j == end:
        return tokens[end - 1].text == ")"
    return tokens[j].text in ASSIGN


def sites_of(source):
    tokens = tokens_of(source)
    inside = in_functions(tokens)
    sites, before = [], None
    in_case = False
    hints = hinted(tokens)
    for i, token in enumerate(tokens):
        if token.text == "case":
            in_case = True
        elif in_case:
            in_case = token.text != ":"
            continue
        if not inside[i]:
            continue
        if token.text in ("if", "while") and tokens[i + 1].text == "(":
            end = closing(tokens, i + 1)
            inner = [t.text for t in tokens[i + 2:end]]
            if "=" not in inner and ";" not in inner:
                start, stop = tokens[i + 1].end, tokens[end].at
                text = source[start:stop]
                sites.append(Site("condition negated", token.at, f"{token.text} (!({flat(text)}))",
                                  [(start, start, "::mutants::is({n}) != bool("), (stop, stop, ")")]))
        spaced = source[token.at - 1:token.at].isspace() and source[token.end:token.end + 1].isspace()
        if token.text in COMPARISONS and spaced and i not in hints:
            kind = COMPARISONS[token.text]
            sites.append(Site("boundary moved", token.at, f"{token.text} at {around(source, token)}",
                              [(token.end, token.end, f" ::mutants::{kind}<{{n}}>() {token.text}")]))
        if token.kind == "number" or re.fullmatch(r"k[A-Z]\w*", token.text):
            after, ahead = tokens[i + 1].text, tokens[i - 1].text
            of_template = ahead == "<" and tokens[i - 1].end == token.at
            if i not in hints and not of_template and ahead not in ("::", ".", "->") and after not in ("::", "(", "{", ":"):
                sites.append(Site("constant off by one", token.at, f"{token.text} + 1 at {around(source, token)}",
                                  [(token.at, token.end, f"(::mutants::is({{n}}) ? {token.text} + 1 : {token.text})")]))
        if tokens[i - 1].text in (";", "{", "}", ")", "else", ":"):
            if tokens[i - 1].text == ")" and not is_controlled(tokens, i - 1):
                continue
            end = statement_end(tokens, i)
            if end is None or not is_expression(tokens, i, end):
                before = None
                continue
            text = source[token.at:tokens[end].end]
            flag = tokens[end - 2].text == "=" and tokens[end - 1].text in FLAGS
            called = tokens[end - 1].text == ")" and not any(t.text in ASSIGN for t in tokens[i:end])
            sites.append(Site("flag not reset" if flag or not called else "call dropped", token.at, flat(text),
                              [(token.at, tokens[end].end, f"{{{{ if (!::mutants::is({{n}})) {{{{ {escape(text)} }}}} }}}}")]))
            # Two in a row, neither of them the only one of an if; two plain assignments are the same either way.
            calls = called or (before and before[2])
            if before and "\n#" in source[tokens[before[0]].at:token.at]:
                # What the preprocessor is told stays between them.
                before = None
            if before and before[1] == i and calls and tokens[before[0] - 1].text in (";", "{", "}"):
                first = source[tokens[before[0]].at:tokens[before[1] - 1].end]
                sites.append(Site("order swapped", token.at, f"{flat(text)} before {flat(first)}",
                                  [(tokens[before[0]].at, tokens[end].end,
                                    f"{{{{ if (::mutants::is({{n}})) {{{{ {escape(text)} {escape(first)} }}}} else "
                                    f"{{{{ {escape(first)} {escape(text)} }}}} }}}}")]))
            before = (i, end + 1, called)
    number(sites)
    return sites


def number(sites):
    """Of several that would be called the same, each but the first is told apart by its number."""
    seen = collections.Counter()
    for site in sites:
        seen[site.operator, site.what] += 1
        if seen[site.operator, site.what] > 1:
            site.what += f" ({seen[site.operator, site.what]})"


def hinted(tokens):
    """Tokens that nothing is decided by when the program runs: what __builtin_expect() expects, if constexpr, static_assert()."""
    found = set()
    for i, token in enumerate(tokens):
        if token.text in ("__builtin_expect", "constexpr", "static_assert") and tokens[i + 1].text == "(":
            end = closing(tokens, i + 1)
            found |= set(range(end - 1, end) if token.text == "__builtin_expect" else range(i, end))
    return found


def is_controlled(tokens, i):
    """Whether the bracket closed at @i is that of an if, a loop."""
    depth = 0
    for j in range(i, -1, -1):
        depth += tokens[j].text in ")]}"
        depth -= tokens[j].text in "([{"
        if not depth:
            return tokens[j - 1].text in ("if", "while", "for", "constexpr")
    return False


def escape(text):
    return text.replace("{", "{{").replace("}", "}}")


def flat(text):
    return re.sub(r"\s+", " ", text).strip()


def around(source, token):
    start = source.rfind("\n", 0, token.at) + 1
    end = source.find("\n", token.end)
    return flat(source[start:end])


def mutate(source, chosen):
    """@source with each site of @chosen, [(number, site)], whose edits are beside one another or within one another."""
    edits = []
    for number, site in chosen:
        for start, end, text in site.edits:
            edits.append((start, end, text.format(n=number)))
    for i, (start, end, _text) in enumerate(edits):
        for other_start, other_end, _other in edits[i + 1:]:
            if start < other_end and other_start < end:
                raise ValueError("sites overlap")
    for start, end, text in sorted(edits, reverse=True):
        source = source[:start] + text + source[end:]
    return source


def overlap(one, other):
    """Whether two sites cannot be in one program."""
    for start, end, _text in one.edits:
        for other_start, other_end, _other in other.edits:
            if start <= other_end and other_start <= end:
                return True
    return False
