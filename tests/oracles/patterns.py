#!/usr/bin/env python3
"""patterns.py [SEED [COUNT]] - event patterns and records by chance: base/pattern.h must find what event-ruler finds.

Makes COUNT pairs from SEED, asks event-ruler (event-ruler/, from Maven Central) and our module (patterns.c) about each,
and fails on any difference. KNOWN lists the differences that are meant: each pair of it must show its difference, so
that one that is gone is noticed. Ends with a table: for each operator the pairs that have it, and how many of them match.
SPDX-License-Identifier: Apache-2.0
"""

import collections
import json
import os
import random
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
BUILT = os.path.join(ROOT, "build", "oracles")
RULER = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", f"{BUILT}/event-ruler/classes:{BUILT}/event-ruler/dependency/*", "Oracle"]
OURS = [f"{BUILT}/patterns"]
SHARE_OF_MATCHES = 1 / 3
# Letters of Unicode 14, which Java 17 does not have.
NEW_LETTERS = (0x2C2F, 0x2C5F, 0xA7C0, 0xA7C1, *range(0xA7D0, 0xA7DA))


def line(pattern, data, key='"key"', sequence="49590338271490256608559692538361571095921575989136588898", arrival=1545084650987):
    return "\t".join((pattern, key, sequence, str(arrival), data))


# What event-ruler answers, what we answer, why we differ, the pattern and the data.
KNOWN = [
    ("1", "x", "cidr is not an operator of Lambda", '{"data":{"a":[{"cidr":"10.0.0.0/24"}]}}', '{"a":"10.0.0.7"}'),
    ("1", "0", "an address is a text, and AWS documents texts as compared character by character",
     '{"data":{"a":["::1"]}}', '{"a":"0:0:0:0:0:0:0:1"}'),
    ("1", "0", "event-ruler takes a number for the hexadecimal digits of an address", '{"data":{"a":["16.0.0.1"]}}', '{"a":10000001}'),
    ("1", "x", "a field is a list or an object, not both", '{"data":{"a":["x"]},"data":{"a":{"b":["y"]}}}', '{"a":["x",{"b":"y"}]}'),
    ("1", "0", "a name with a dot is one name; the README of event-ruler says not to rely on this",
     '{"data":{"a":{"b":[1]}}}', '{"a.b":1}'),
    ("1", "0", "as above", '{"data":{"a.b":[1]}}', '{"a":{"b":1}}'),
    ("1", "x", "fields of the envelope are the same for all records", '{"eventSource":[{"exists":false}]}', "{}"),
    ("1", "x", "an unknown field is a mistake", '{"Data":[{"exists":false}]}', "{}"),
    ("1", "0", "event-ruler takes the quotation mark that ends a string for its last character",
     '{"data":{"a":[{"prefix":"x\\""}]}}', '{"a":"x"}'),
    ("1", "0", "and the one that begins it for its first", '{"data":{"a":[{"suffix":"\\"x"}]}}', '{"a":"x"}'),
    ("0", "1", "event-ruler folds the case of half of a surrogate pair", '{"data":{"a":[{"equals-ignore-case":"\U00010400"}]}}',
     '{"a":"\U00010428"}'),
    ("1", "0", "the upper case of this letter is two letters", '{"data":{"a":[{"equals-ignore-case":"\u00df"}]}}', '{"a":"SS"}'),
    ("0", "1", "a text is equal to itself; the letter is neither upper nor lower case",
     '{"data":{"a":[{"equals-ignore-case":"\u01c5"}]}}', '{"a":"\u01c5"}'),
    ("0", "1", "event-ruler 2.1.0 loses an anything-but that ignores case beside some wildcards",
     '{"data":{"a":[{"wildcard":"*\u00c4rg"},{"anything-but":{"equals-ignore-case":"x"}}]}}', '{"a":"\u00c4rger"}'),
    ("1", "0", "a field that is named twice in data: neither of the two matches alone",
     '{"data":{"a":{"b":[1],"c":[2]}}}', '{"a":{"b":1},"a":{"c":2}}'),
    ("1", "0", "a text with half of a surrogate pair is not JSON", '{"data":{"a":[1]}}', '{"a":1,"b":"\\ud800"}'),
    ("1", "0", "JSON with something after it is not JSON", '{"data":{"a":[1]}}', '{"a":1}}'),
    ("1", "0", "data that nests deeper than 64 levels is not JSON", '{"data":{"a":[1]}}', '{"a":1,"b":' + "[" * 64 + "]" * 64 + "}"),
    ("0", "1", "of 17 digits with an extreme exponent we do not ask whether a double represents them",
     '{"data":{"a":[{"numeric":["<",1]}]}}', '{"a":1.6126933103096309e-30}'),
    ("x", "1", "Java 17 does not write the shortest decimal of this double (JDK-4511638)",
     '{"data":{"a":[{"numeric":["=",7.326608836686445e16]}]}}', '{"a":7.326608836686445e16}'),
    ("x", "0", "nothing is larger than the largest double", '{"data":{"a":[{"numeric":[">",1.7976931348623157e308]}]}}', '{"a":1}'),
    ("0", "1", "nor of a number so small that a double has fewer digits", '{"data":{"a":[{"numeric":["<",1]}]}}', '{"a":1.23e-322}'),
]

# Both refuse them.
WRONG = [
    "[]", "1", "{}", '{"data":{}}', '{"data":[]}', '{"data":1}', '{"data":"x"}', '{"data":null}', '{"data":[[1]]}',
    '{"data":[{}]}', '{"data":[{"unknown":1}]}', '{"data":[{"prefix":1}]}', '{"data":[{"prefix":["a"]}]}',
    '{"data":[{"prefix":{"suffix":"a"}}]}', '{"data":[{"prefix":"a","suffix":"b"}]}', '{"data":[{"suffix":{}}]}',
    '{"data":[{"suffix":{"equals-ignore-case":1}}]}', '{"data":[{"equals-ignore-case":["a"]}]}', '{"data":[{"wildcard":1}]}',
    '{"data":[{"wildcard":"a**b"}]}', '{"data":[{"wildcard":"a\\\\b"}]}', '{"data":[{"wildcard":"a\\\\"}]}',
    '{"data":[{"numeric":1}]}', '{"data":[{"numeric":[]}]}', '{"data":[{"numeric":["="]}]}', '{"data":[{"numeric":["=","1"]}]}',
    '{"data":[{"numeric":["!=",1]}]}', '{"data":[{"numeric":["=",1,"<",2]}]}', '{"data":[{"numeric":["<",1,">",0]}]}',
    '{"data":[{"numeric":[">",1,"<",1]}]}', '{"data":[{"numeric":[">",2,"<",1]}]}', '{"data":[{"numeric":[">",1,">",2]}]}',
    '{"data":[{"numeric":[">",1,"<",2,"<",3]}]}', '{"data":[{"numeric":["=",12345678901234567890]}]}',
    '{"data":[{"numeric":[">",1e999]}]}', '{"data":[{"exists":1}]}', '{"data":[{"exists":"true"}]}', '{"data":[{"exists":null}]}',
    '{"data":[{"anything-but":null}]}', '{"data":[{"anything-but":true}]}', '{"data":[{"anything-but":[]}]}',
    '{"data":[{"anything-but":["a",1]}]}', '{"data":[{"anything-but":[null]}]}', '{"data":[{"anything-but":{"exists":true}}]}',
    '{"data":[{"anything-but":{"prefix":""}}]}', '{"data":[{"anything-but":{"suffix":[""]}}]}',
    '{"data":[{"anything-but":{"prefix":1}}]}', '{"data":[{"anything-but":{"prefix":[]}}]}', '{"data":[{"anything-but":{"wildcard":"**"}}]}',
    '{"data":[{"anything-but":{"prefix":"a","suffix":"b"}}]}', '{"data":[{"anything-but":9007199254740993}]}',
    '{"data":{"$or":[]}}', '{"data":{"$or":{}}}', '{"data":{"$or":[{"a":[1]}]}}', '{"data":{"$or":[{"a":[1]},1]}}',
    '{"data":{"$or":[{"a":[1]},{}]}}', '{"data":{"$or":[{"prefix":["a"]},{"a":[1]}]}}', '{"data":{"a":[1],"a":[2]}}',
    '{"data":{"a":[1],"$or":[{"a":[2]},{"b":[1]}]}}', '{"data":[1]', '{"data":[1],}', '{"data":[01]}', "{'data':[1]}",
]


class Written(str):
    """A number as it is written."""


NAMES = ["a", "b", "c", "ab", "a-b", "k\u00e4se", "x y", "\u65e5"]
TEXTS = ["", "x", "xy", "xyx", "xyxyx", "XY", "Xyz", "\u00c4rger", "\u00e4RGER", "stra\u00dfe", "a*b", "a\\b", 'a"b', "\u65e5\u672c", "1", "true",
         "null", "\u0394\u03b4", "\u0416\u0436", "tab\there", "\U0001f600!", "eu-west-1", "us-east-1", "file.png", "FILE.PNG"]
NUMBERS = ["0", "-0", "0.0", "1", "1.0", "10e-1", "2", "5", "5.5", "-3", "-3.00", "100", "1e2", "1.0E+2", "300", "3.0e2", "1.5e300", "1e308",
           "0.1", "0.10", "12345678901", "9007199254740992", "9007199254740993", "12345678901234567890", "1e400", "0.30000000000000004",
           "0.3000000000000000", "0.30000000000000001", "123456789.12345678", "2.2250738585072014e-308"]


class Maker:
    """Makes pairs; `counted` has the operators of the last one."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.counted = set()

    def chance(self, share):
        return self.random.random() < share

    def number(self):
        if self.chance(0.8):
            return Written(self.random.choice(NUMBERS))
        value = self.random.choice((self.random.uniform(-1, 1), self.random.uniform(-1e6, 1e6), float(self.random.randint(-9999, 9999)),
                                    self.random.randint(1, 10 ** 15) / 10 ** self.random.randint(0, 15)))
        return Written(repr(value))

    def scalar(self):
        kind = self.random.random()
        if kind < 0.5:
            return self.random.choice(TEXTS)
        return self.number() if kind < 0.8 else self.random.choice((True, False, None))

    def value(self, depth):
        kind = self.random.random()
        if depth == 0 or kind < 0.35:
            return self.scalar()
        if kind < 0.65:
            return [self.value(depth - 1) for _ in range(self.random.choice((0, 1, 2, 2, 3)))]
        return self.object(depth)

    def object(self, depth):
        names = self.random.sample(NAMES[:4] if self.chance(0.8) else NAMES, self.random.randint(0 if self.chance(0.1) else 1, 3))
        members = [(name, self.value(depth - 1)) for name in names]
        if members and self.chance(0.03):
            members = [(name, self.scalar()) for name, _ in members] + [(members[0][0], self.scalar())]
        return dict(members) if len(set(name for name, _ in members)) == len(members) else Members(members)

    def write(self, value):
        """As JSON, with escapes and white space by chance."""
        if isinstance(value, Written):
            return str(value)
        if isinstance(value, str):
            return json.dumps(value, ensure_ascii=self.chance(0.3))
        gap = " " if self.chance(0.05) else ""
        if isinstance(value, list):
            return "[" + ("," + gap).join(map(self.write, value)) + gap + "]"
        if isinstance(value, (dict, Members)):
            return "{" + gap + ",".join(self.write(name) + gap + ":" + self.write(member) for name, member in value.items()) + "}"
        return json.dumps(value)

    # Patterns.

    def fields(self, value, path=()):
        """(path, scalar) of every value below."""
        if isinstance(value, list):
            for element in value:
                yield from self.fields(element, path)
        elif isinstance(value, (dict, Members)):
            for name, member in value.items():
                yield from self.fields(member, path + (name,))
        else:
            yield path, value

    def recase(self, text):
        if "\U0001f600" in text:
            return "x"
        return text if "\u00df" in text else self.random.choice((text.upper(), text.lower(), text.swapcase(), text))

    def part(self, text, end):
        """A prefix or a suffix, which does not touch a quotation mark at its other end."""
        size = self.random.randint(0, len(text))
        part = text[len(text) - size:] if end else text[:size]
        return "x" if part[:1] == '"' or part[-1:] == '"' else part

    def wildcard(self, text):
        cuts = sorted(self.random.sample(range(len(text) + 1), min(len(text) + 1, self.random.choice((0, 1, 2, 2, 4)))))
        parts = [text[begin:end] for begin, end in zip([0] + cuts, cuts + [len(text)])]
        kept = [part.replace("\\", "\\\\").replace("*", "\\*") for part in parts if self.chance(0.8)] or [""]
        joined = "*".join(kept)
        while "**" in joined:
            joined = joined.replace("**", "*")
        return ("*" if self.chance(0.3) and joined[:1] != "*" else "") + joined

    def text_test(self, text):
        operator = self.random.choice(("prefix", "prefix-nocase", "suffix", "suffix-nocase", "equals-ignore-case", "wildcard", "exactly"))
        self.counted.add(operator)
        if operator == "wildcard":
            return {"wildcard": self.wildcard(text)}
        if operator in ("equals-ignore-case", "exactly"):
            return {operator: self.recase(text) if operator != "exactly" else text}
        name = operator.split("-", maxsplit=1)[0]
        part = self.part(text, name == "suffix")
        if name == "suffix" and not part:
            part = "x"
        return {name: {"equals-ignore-case": self.recase(part)} if operator.endswith("nocase") else part}

    def anything_but(self, value):
        other = self.random.choice(TEXTS)
        kind = self.random.choice(("plain", "list", "number", "numbers", "prefix", "suffix", "equals-ignore-case", "wildcard"))
        self.counted.add("anything-but " + kind)
        text = value if isinstance(value, str) and not isinstance(value, Written) and self.chance(0.5) else other
        if kind in ("plain", "list"):
            return {"anything-but": text if kind == "plain" else [text, self.random.choice(TEXTS)]}
        if kind in ("number", "numbers"):
            number = value if isinstance(value, Written) and ordered(value) and self.chance(0.5) else Written("5")
            return {"anything-but": number if kind == "number" else [number, Written("-3")]}
        makers = {"prefix": lambda: self.part(text, False) or "x", "suffix": lambda: self.part(text, True) or "x",
                  "equals-ignore-case": lambda: self.recase(text), "wildcard": lambda: self.wildcard(text)}
        return {"anything-but": {kind: makers[kind]() if self.chance(0.5) else [makers[kind](), "q"]}}

    def range(self, value):
        bound = value if isinstance(value, Written) and ordered(value) else Written("5")
        kind = self.random.choice(("=", "<", "<=", ">", ">=", "between"))
        self.counted.add("numeric " + kind)
        if kind != "between":
            return {"numeric": [kind, bound]}
        other = Written(self.random.choice(("-1e5", "-3", "0", "5", "1e3", "1e308")))
        low, high = sorted((bound, other), key=float)
        if float(low) >= float(high):
            return {"numeric": [">=", bound]}
        return {"numeric": [self.random.choice((">", ">=")), low, self.random.choice(("<", "<=")), high]}

    def test(self, value):
        kind = self.random.random()
        if kind < 0.12:
            self.counted.add("exists true")
            return {"exists": True}
        if kind < 0.2:
            self.counted.add("exists false")
            return {"exists": False}
        if kind < 0.4:
            return self.anything_but(value)
        if isinstance(value, Written):
            if kind < 0.8:
                return self.range(value)
        elif isinstance(value, str) and kind < 0.8:
            return self.text_test(value)
        self.counted.add("plain " + ("number" if isinstance(value, Written) else "text" if isinstance(value, str) else "word"))
        return value

    def list(self, value):
        values = [value if self.chance(0.8) else self.scalar()]
        while self.chance(0.25):
            values.append(self.scalar())
        tests = [self.test(one) for one in values]
        if any(map(is_but_nocase, tests)):
            tests = [one for one in tests if "wildcard" not in json.dumps(one)]
        return [one for one in tests if not is_textual(one)] if any(map(is_below_zero, tests)) else tests

    def put(self, pattern, path, tests):
        """False if the path is there, or the way to it."""
        for name in path[:-1]:
            pattern = pattern.setdefault(name, {})
            if not isinstance(pattern, dict):
                return False
        if path[-1] in pattern:
            return False
        pattern[path[-1]] = tests
        return True

    def some_fields(self, data, most):
        """An object of patterns about fields of `data`, which is not empty."""
        found = list(self.fields(data))
        pattern = {}
        while not pattern or (self.chance(0.6) and most > 1):
            most -= 1
            path, value = self.random.choice(found) if found and self.chance(0.85) else (tuple(self.random.sample(NAMES[:4], 2)), "x")
            if not path:
                break
            if self.chance(0.08):
                path = path[:-1] + (self.random.choice(NAMES),)
            trial = json.loads(json.dumps(pattern))
            tests = self.list(value)
            if self.put(trial, path, tests):
                self.put(pattern, path, tests)
        return pattern

    def add_or(self, pattern, data):
        """Adds a $or beside the fields of the pattern that does not name them again."""
        alternatives = [self.some_fields(data, 2) for _ in range(self.random.choice((2, 2, 3)))]
        if any(not one or clash(one, pattern) for one in alternatives):
            return
        self.counted.add("$or")
        if self.chance(0.15) and isinstance(alternatives[0], dict):
            inner = [self.some_fields(data, 1) for _ in range(2)]
            if all(one and not clash(one, pattern) and not clash(one, alternatives[0]) for one in inner):
                self.counted.add("$or in $or")
                alternatives[0]["$or"] = inner
        pattern["$or"] = alternatives

    # Lists of objects.

    def listed(self, depth):
        kind = self.random.random()
        if depth == 0 or kind < 0.2:
            return self.random.choice(("x", "y"))
        if kind < 0.6:
            return [self.listed(depth - 1) for _ in range(self.random.choice((1, 2, 2, 3)))]
        return {name: self.listed(depth - 1) for name in self.random.sample("abc", self.random.choice((1, 2, 3)))}

    def listed_pattern(self, depth):
        if depth == 0 or self.chance(0.3):
            kind = self.random.choice(("value", "value", "absent", "absent", "both", "present", "but"))
            if kind == "both" and self.chance(0.5):
                kind = "absent"
            self.counted.add("in lists: " + kind)
            return {"value": ["x"], "absent": [{"exists": False}], "both": [{"exists": False}, "y"], "present": [{"exists": True}],
                    "but": [{"anything-but": "x"}]}[kind]
        return {name: self.listed_pattern(depth - 1) for name in self.random.sample("abc", self.random.choice((1, 2, 2, 3)))}

    def listed_pair(self):
        """Few names, few values, many lists: what must match in one element of a list, and what is absent in it."""
        self.counted = set()
        data = {"a": self.listed(4), "b": self.listed(3)}
        pattern = {"a": self.listed_pattern(2)}
        if self.chance(0.2):
            pattern["b"] = self.listed_pattern(1)
        return line(self.write({"data": pattern}), self.write(data))

    def pair(self):
        if self.chance(0.2):
            return self.listed_pair()
        self.counted = set()
        data = self.object(4) if self.chance(0.95) else self.value(2)
        pattern = {}
        if isinstance(data, (dict, Members)):
            inner = self.some_fields(data, 4)
            if self.chance(0.2):
                self.add_or(inner, data)
            pattern["data"] = inner
        else:
            pattern["data"] = self.list(next((value for _, value in self.fields(data)), "x"))
            self.counted.add("data itself")
        key = self.random.choice(TEXTS)
        sequence = str(self.random.randint(10 ** 55, 10 ** 56))
        arrival = self.random.randint(1, 2 * 10 ** 12)
        metadata = {"partitionKey": key, "sequenceNumber": sequence, "kinesisSchemaVersion": "1.0",
                    "approximateArrivalTimestamp": Written(f"{arrival // 1000}.{arrival % 1000:03d}")}
        for name, value in metadata.items():
            if self.chance(0.04):
                pattern[name] = self.list(value)
                self.counted.add(name)
        if self.chance(0.1):
            pattern = dict(reversed(pattern.items()))
        return line(self.write(pattern), self.write(data), self.write(key), sequence, arrival)


class Members:
    """Members of an object that has a name twice."""

    def __init__(self, members):
        self.members = members

    def items(self):
        return iter(self.members)


def ordered(number):
    """True if the number is its double's shortest decimal, by Python's own arithmetic."""
    from decimal import Decimal
    value = float(number)
    return value in (0.0,) or (abs(value) != float("inf") and Decimal(repr(value)) == Decimal(number))


def is_below_zero(test):
    """True for a numeric range with negative numbers. Beside texts in the list of a field it makes event-ruler 2.1.0 lose
    some of the texts, by chance: the same pattern and text match in one run and not in the next."""
    numbers = test.get("numeric", ()) if isinstance(test, dict) else ()
    return len(numbers) > 0 and (numbers[0] in ("<", "<=") or float(numbers[1]) < 0)


def is_but_nocase(test):
    return isinstance(test, dict) and isinstance(test.get("anything-but"), dict) and "equals-ignore-case" in test["anything-but"]


def is_textual(test):
    return isinstance(test, str) and not isinstance(test, Written) or isinstance(test, dict) and not {"numeric", "exists"} & set(test)


def clash(one, other):
    """True if two patterns name the same path, or one a part of the other's."""
    for name, inner in one.items():
        if name in other and (not isinstance(inner, dict) or not isinstance(other[name], dict) or clash(inner, other[name])):
            return True
    return False


def ask(command, lines):
    done = subprocess.run(command, input="\n".join(lines) + "\n", stdout=subprocess.PIPE, encoding="utf-8", check=True)
    answers = done.stdout.split()
    assert len(answers) == len(lines), (command, len(answers), len(lines))
    return answers


def check_fixed():
    """The list of known differences, and what both refuse. Returns the number of failures."""
    failures = 0
    lines = [line(pattern, data) for _, _, _, pattern, data in KNOWN] + [line(pattern, "1") for pattern in WRONG]
    expected = [(theirs, ours) for theirs, ours, _, _, _ in KNOWN] + [("x", "x")] * len(WRONG)
    for one, wanted, found in zip(lines, expected, zip(ask(RULER, lines), ask(OURS, lines))):
        if wanted != found:
            failures += 1
            print(f"event-ruler, we: expected {wanted}, found {found}: {one}")
    return failures


def check_case():
    """Every letter of the basic plane that has one other case of one letter, in both."""
    points = [chr(point) for point in range(0x80, 0xD800) if chr(point).isalpha() and point not in NEW_LETTERS]
    pairs = [(one, other) for one in points for other in {one.lower(), one.upper()}
             if len(one.lower()) == 1 and len(one.upper()) == 1 and one in (one.lower(), one.upper())]
    lines = [line(json.dumps({"data": [{"equals-ignore-case": one}]}), json.dumps(other)) for one, other in pairs]
    failures = [one for one, theirs, ours in zip(pairs, ask(RULER, lines), ask(OURS, lines)) if theirs != ours]
    print(f"equals-ignore-case: {len(pairs)} pairs of letters, {len(failures)} differences")
    for one, other in failures[:5]:
        print(f"  U+{ord(one):04X} and U+{ord(other):04X}")
    return len(failures)


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 200000
    failures = check_fixed() + check_case()
    maker = Maker(seed)
    lines, operators = [], []
    for _ in range(count):
        lines.append(maker.pair())
        operators.append(maker.counted)
    theirs, ours = ask(RULER, lines), ask(OURS, lines)
    shown = 0
    for one, their, our in zip(lines, theirs, ours):
        if their != our or their == "x":
            failures += 1
            shown += 1
            if shown <= 20:
                print(f"event-ruler {their}, we {our}: {one}")
    pairs, matching = collections.Counter(), collections.Counter()
    for found, their in zip(operators, theirs):
        pairs.update(found)
        matching.update(found if their == "1" else ())
    for operator in sorted(pairs):
        print(f"  {operator:34} {pairs[operator]:8} pairs {matching[operator]:8} match")
    matches = theirs.count("1")
    print(f"seed {seed}: {count} pairs, {matches} match, {len(KNOWN)} known differences, {failures} failures")
    if matches < count * SHARE_OF_MATCHES:
        print("too few match")
        failures += 1
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
