"""house.py - what the text checks share: the files of the house, their text without comments, the allowed exceptions.

An exception is one line of allowed.txt: rule, file, what, and why. One without a reason, or that nothing needs any
more, is itself a finding: the table says what is true today.
SPDX-License-Identifier: Apache-2.0
"""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", ".."))
ALLOWED = os.path.join(ROOT, "tests", "tidy", "allowed.txt")

SKIPPED_FOLDERS = {"build", "node_modules", ".git", "__pycache__", "corpus"}

PIECE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)


def files(folders, endings):
    """The files below `folders` with one of the endings, as paths from the root, sorted."""
    found = []
    for folder in folders:
        for place, inner, names in os.walk(os.path.join(ROOT, folder)):
            inner[:] = [name for name in inner if name not in SKIPPED_FOLDERS]
            for name in names:
                if name.endswith(endings):
                    found.append(os.path.relpath(os.path.join(place, name), ROOT))
    return sorted(found)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def code_of(text):
    """The text with comments, strings and characters blanked, on the same lines and columns."""
    return PIECE.sub(lambda piece: re.sub(r"[^\n]", " ", piece.group()), text)


class Findings:
    """Collects what one rule finds; takes away what is allowed; says the rest."""

    def __init__(self, rule):
        self.rule = rule
        self.found = []
        self.allowed = {}
        self.used = set()
        if not os.path.exists(ALLOWED):
            return
        with open(ALLOWED, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                words = line.split("#")[0].split(None, 3)
                if not words or words[0] != rule:
                    continue
                if len(words) < 4:
                    self.found.append(f"tests/tidy/allowed.txt:{number}: an exception needs a reason")
                    continue
                self.allowed[(words[1], words[2])] = number

    def add(self, path, line, what, message):
        """`what` is the word that allowed.txt uses for this kind of finding in this file."""
        for key in ((path, what), (os.path.dirname(path) + "/", what)):
            if key in self.allowed:
                self.used.add(key)
                return
        self.found.append(f"{path}:{line}: {message}")

    def finish(self):
        for key, number in self.allowed.items():
            if key not in self.used:
                self.found.append(
                    f"tests/tidy/allowed.txt:{number}: nothing needs this exception any more"
                )
        for finding in self.found:
            print(finding)
        sys.exit(1 if self.found else 0)
