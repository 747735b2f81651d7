# SPDX-License-Identifier: GPL-2.0-only
"""Which rules the virtual RDMA device has, by its sources: wherever it tells of a broken one, or refuses.

Told of are the texts that vhca_fault() is given. A refusal is a negative errno, or a work request's status that is an
error; a rule then is each part, between "||", of the condition that leads there.
"""

import functools
import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../mutants"))
from sites import closing, tokens_of  # noqa: E402

COMPARE = {"==", "!=", "<", ">", "<=", ">="}
# A condition that says no more than that a rule was found broken before.
PASSED_ON = {"why", "err"}


def split(tokens, mark):
    """The parts between @mark, outside of brackets."""
    parts, part, i = [], [], 0
    while i < len(tokens):
        if tokens[i].text == mark:
            parts.append(part)
            part = []
            i += 1
            continue
        end = closing(tokens, i) if tokens[i].text in "([{" else i
        part += tokens[i:end + 1]
        i = end + 1
    return parts + [part]


def refuses(tokens):
    """Whether a simple statement has a negative errno or a status that is an error, other than to compare with it."""
    for i, token in enumerate(tokens):
        name = token.text
        at = i
        if name[:1] == "E" and name.isupper() and i and tokens[i - 1].text == "-":
            at = i - 1
        elif not (name.startswith("IB_WC_") and name.endswith("_ERR")):
            continue
        if not at or tokens[at - 1].text not in COMPARE:
            return True
    return False


class Reader:
    """Rules of one file: @refusals "FILE FUNCTION: CONDITION", @told texts."""

    def __init__(self, name, source):
        self.refusals, self.told = [], []
        self._source, self._tokens = source, tokens_of(source)
        self._file = name
        tokens, i, depth = self._tokens, 0, 0
        while i < len(tokens):
            if tokens[i].text == "(" and not depth and i and tokens[i - 1].kind == "name":
                end = closing(tokens, i)
                if end + 1 < len(tokens) and tokens[end + 1].text == "{":
                    self._function = tokens[i - 1].text
                    i = self._statement(end + 1, None)
                    continue
                i = end
            elif tokens[i].text in "([{":
                i = closing(tokens, i)
            i += 1

    def _statement(self, i, condition):
        """Reads the statement at @i, which @condition leads to; returns what is behind it."""
        tokens = self._tokens
        word = tokens[i].text
        if word == "{":
            end = closing(tokens, i)
            i += 1
            while i < end:
                i = self._statement(i, condition)
            return end + 1
        if word in ("case", "default") or tokens[i].kind == "name" and tokens[i + 1].text == ":":
            while tokens[i].text != ":":
                i += 1
            return i + 1
        if word == "do":
            i = self._statement(i + 1, condition)
            return closing(tokens, i + 1) + 2
        if word == "else":
            return self._statement(i + 1, condition)
        if tokens[i].kind == "name" and tokens[i + 1].text == "(":
            end = closing(tokens, i + 1)
            if word == "if":
                inner = tokens[i + 2:end]
                i = self._statement(end + 1, inner)
                if i < len(tokens) and tokens[i].text == "else":
                    i = self._statement(i + 1, inner)
                return i
            # Loops, and macros that are.
            if word in ("for", "while", "switch") or tokens[end + 1].text not in (";", ".", "->", "=", ",", "["):
                return self._statement(end + 1, condition)
        end = i
        while tokens[end].text != ";":
            end = closing(tokens, end) + 1 if tokens[end].text in "([{" else end + 1
        self._simple(tokens[i:end], condition)
        return end + 1

    def _simple(self, tokens, condition):
        words = {token.text for token in tokens}
        tells = words & {"vhca_fault", "own_fault"} or "why" in words and "=" in words or self._function == "forbidden"
        texts = [token.text[1:-1] for token in tokens if token.kind == "text"]
        if tells:
            self.told += [text for text in texts if " " in text and "%s" not in text]
        if not refuses(tokens) and not (tells and texts):
            return
        for part in split(condition, "||") if condition else [None]:
            said = " ".join(self._source[part[0].at:part[-1].end].split()) if part else "always"
            rule = f"{self._file} {self._function}: {said}"
            if said not in PASSED_ON and rule not in self.refusals:
                self.refusals.append(rule)


@functools.lru_cache(maxsize=None)
def read(name, source):
    return Reader(name, source)


def rules_of(folder, changed=()):
    """(refusals, told) of the sources in @folder, where @changed {file: text} has some that differ."""
    refusals, told = [], []
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".c"):
            continue
        source = changed[name] if name in changed else open(os.path.join(folder, name)).read()
        found = read(name, source)
        refusals += found.refusals
        told += found.told
    return refusals, told
