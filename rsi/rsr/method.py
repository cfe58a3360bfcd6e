"""The method of a command without its values: tools, options and operators. What a runbook may say."""

from __future__ import annotations

import re

TOOLS = frozenset(
    "awk basename cat cd chmod cksum cp cut date diff dirname echo exit export expr find for git grep head if kill ln ls md5sum mkdir mktemp mv "
    "nl paste patch pgrep pkill printf ps pwd read readlink realpath rev rm rmdir sed seq set sha256sum sleep sort split stat tac tail "
    "tar tee test touch tr truncate uniq wait wc while xargs comm join nohup bash done do then fi cmp env source".split())
_OPERATOR = re.compile(r"^(\|\|?|&&?|;|>>?|<)$")
_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\|\||&&|>>|[|&;<>]|[^\s|&;<>'"]+""")
_OPTION = re.compile(r"^--?[A-Za-z][A-Za-z-]*$|^-\d*$|^[+-]x$|^[ugoa]*[+-][rwx]+$")
GIT = frozenset("add branch checkout cherry-pick clone commit diff init log merge reset restore revert show stash status switch tag".split())


def method(command: str) -> str:
    """E.g. `mkdir -p amber/cedar && touch amber/a.txt` -> `mkdir -p && touch`. Names, numbers and quoted text are dropped."""
    out: list[str] = []
    for line in command.splitlines():
        for token in _TOKEN.findall(line):
            if _OPERATOR.match(token):
                if out and not _OPERATOR.match(out[-1]):
                    out.append(token)
            elif token in TOOLS or (token in GIT and _tool(out) == "git") or (_OPTION.match(token) and out):
                out.append(token)
    while out and out[-1] in {"|", "&&", ";", "&", "<", "||"}:
        out.pop()
    return " ".join(out)


def _tool(words: list[str]) -> str:
    """The tool of the simple command that is being read."""
    tool = ""
    for word in words:
        tool = "" if _OPERATOR.match(word) else tool or word
    return tool


def looks(command: str) -> bool:
    """The command only reads: no redirect into a file, and every tool in it is a reader."""
    words = method(command).split()
    readers = {"cat", "ls", "grep", "head", "tail", "wc", "find", "diff", "stat", "sort", "nl", "cut", "sha256sum", "git", "log", "status", "show",
               "pgrep", "ps"}
    tools = [w for w in words if w in TOOLS or w in GIT]
    return bool(tools) and ">" not in words and ">>" not in words and all(t in readers for t in tools)
