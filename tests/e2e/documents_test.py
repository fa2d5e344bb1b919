#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the documents tell people to type is taken as it stands there."""

import glob
import os
import re
import subprocess

from lib import BINARY, ROOT, check, check_equal, main, test


def lines_of(path):
    """The commands of a document's shell blocks, each on one line and without its remark."""
    with open(path, encoding="utf-8") as file:
        blocks = re.findall(r"^ *```sh\n(.*?)```", file.read(), re.DOTALL | re.MULTILINE)
    lines = re.sub(r"\\\n *", "", "".join(blocks)).split("\n")
    return [re.sub(r" +", " ", re.sub(r" +#.*", "", line)).strip() for line in lines]


def documents():
    return [os.path.join(ROOT, "README.md"), *glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True)]


@test()
def a_sidecar_takes_the_options_that_the_documents_give_it(folder):
    seen = 0
    for path in documents():
        for line in lines_of(path):
            if not line.startswith("kinesis-sidecar --"):
                continue
            seen += 1
            run = subprocess.run(line.replace("kinesis-sidecar", f"{BINARY} config validate", 1), shell=True, cwd=folder,
                                 env=dict(os.environ, AWS_REGION="us-east-1"), capture_output=True, check=False)
            check_equal(run.returncode, 0, path, line, run.stderr)
    check(seen >= 5, "there are few such lines:", seen)


@test()
def the_document_of_leases_has_the_commands_of_its_help(folder):
    said = subprocess.run([BINARY, "leases", "--help"], capture_output=True, check=True, cwd=folder).stdout.decode().split("\n")
    commands = [line for line in said if line.startswith("kinesis-sidecar leases") and " TABLE" in line]
    check(len(commands) >= 6, commands)
    lines = lines_of(os.path.join(ROOT, "docs", "LEASES.md"))
    for command in commands:
        check(command in lines, command, lines)


@test()
def no_field_of_the_protos_changes(_):
    """Clients are made of them for years: a number, a name or a type that was there stays; what is new is written down."""
    found, owner = [], None
    for path in sorted(glob.glob(os.path.join(ROOT, "proto", "kinesis_sidecar", "v1", "*.proto"))):
        with open(path, encoding="utf-8") as file:
            for line in file:
                outer = re.match(r"(?:message|enum|service) (\w+)", line)
                owner = outer.group(1) if outer else owner
                field = re.match(r" +((?:repeated )?[\w.]+ )?(\w+) = (\d+);", line)
                call = re.match(r" +rpc (\w+)\((.*?)\) returns \((.*?)\)", line)
                if field:
                    found.append(f"{owner} {field.group(3)} {field.group(1) or ''}{field.group(2)}")
                if call:
                    found.append(f"{owner} {call.group(1)} {call.group(2)} {call.group(3)}")
    with open(os.path.join(ROOT, "proto", "golden", "fields"), encoding="utf-8") as file:
        check_equal(sorted(found), file.read().splitlines(), "proto/golden/fields")


def anchors_of(path):
    """The names by which a page's headings are linked, as GitHub makes them."""
    with open(path, encoding="utf-8") as file:
        headings = re.findall(r"^#+ (.*)$", file.read(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@test()
def links_of_the_documents_lead_to_a_file_and_a_heading(_):
    pages = documents()
    for top in "client-stubs", "deploy", "server", "proto":
        pages += [path for path in glob.glob(os.path.join(ROOT, top, "**", "*.md"), recursive=True)
                  if not {"node_modules", "vendor", "target", "build"} & set(os.path.relpath(path, ROOT).split(os.sep))]
    seen, broken = 0, []
    for path in pages:
        with open(path, encoding="utf-8") as file:
            links = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", file.read())
        for name, anchor in links:
            if ":" in name:
                continue  # Of the web.
            seen += 1
            target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if not os.path.exists(target) or (anchor and target.endswith(".md") and anchor not in anchors_of(target)):
                broken.append(f"{os.path.relpath(path, ROOT)}: {name}{'#' + anchor if anchor else ''}")
    check_equal(broken, [], "links that lead nowhere")
    check(seen > 100, "there are few links:", seen)


main()
