#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the scripts of a release refuse, each in a sentence: a tree that is no commit, a version that is none, and an older
version that the clone does not have."""

import glob
import os
import shutil
import subprocess

from lib import ROOT, check, check_equal, main, test

PLACES = ("Makefile", "deploy/release", "server/main/version.h", "tests/deps", "tests/release/build-old")


def checkout(folder, commit=True):
    """A repository with what the scripts of a release read, in one commit; its path."""
    tree = os.path.join(folder, "tree")
    for place in PLACES:
        os.makedirs(os.path.dirname(os.path.join(tree, place)), exist_ok=True)
        copy = shutil.copytree if os.path.isdir(os.path.join(ROOT, place)) else shutil.copy2
        copy(os.path.join(ROOT, place), os.path.join(tree, place))
    if commit:
        with open(os.path.join(tree, ".gitignore"), "w", encoding="utf-8") as file:
            file.write("/build/\n")
        for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
            subprocess.run(["git", "-c", "user.name=test", "-c", "user.email=test@example.com", *command], cwd=tree, check=True)
    return tree


def run(tree, *command):
    # A repository around the folder of the tests is not the subject.
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    env["GIT_CEILING_DIRECTORIES"] = os.path.dirname(tree)
    # It ends all that the command started, too.
    return subprocess.run(["timeout", "20", *command], cwd=tree, env=env, capture_output=True, text=True, check=False)


def check_refused(done, sentence, *named):
    check_equal(done.returncode, 1, done)
    said = done.stderr.split("\n")
    check_equal(said[0], sentence, done)
    for name in named:
        check(any(name in line for line in said[1:]), name, "is not named:", done.stderr)


DIRTY = "release: the tree has changes that are in no commit; commit them or put them aside:"


@test()
def tree_with_changes_is_not_released(folder):
    tree = checkout(folder)
    check_equal(run(tree, "deploy/release/clean").returncode, 0, "a clean tree")
    kept = os.path.join(tree, "build", "release", "SHA256SUMS")
    os.makedirs(os.path.dirname(kept))
    with open(kept, "w", encoding="utf-8") as file:
        file.write("of the last release\n")
    with open(os.path.join(tree, "server/main/version.h"), "a", encoding="utf-8") as file:
        file.write("/* changed */\n")
    with open(os.path.join(tree, "new.c"), "w", encoding="utf-8") as file:
        file.write("\n")
    for command in ("deploy/release/clean",), ("deploy/release/release", "build/release"):
        check_refused(run(tree, *command), DIRTY, "server/main/version.h", "new.c")
    with open(kept, encoding="utf-8") as file:
        check_equal(file.read(), "of the last release\n", "what was released before is still there")


@test()
def make_release_refuses_a_tree_with_changes_before_it_builds(folder):
    tree = checkout(folder)
    with open(os.path.join(tree, "new.c"), "w", encoding="utf-8") as file:
        file.write("\n")
    done = run(tree, "make", "release", "DEPS=:")
    check_equal((done.returncode, done.stdout), (2, ""), done)
    check(DIRTY in done.stderr.split("\n"), done)
    check_equal(glob.glob(os.path.join(tree, "build", "static-*")), [], "what was built")


@test()
def tree_that_is_not_a_checkout_is_not_released(folder):
    tree = checkout(folder, commit=False)
    check_refused(run(tree, "deploy/release/release", "build/release"),
                  "release: the tree is not a checkout of git; clone the repository and release from that:")
    check(not os.path.exists(os.path.join(tree, "build")), "something was made")


@test()
def version_that_is_not_three_numbers_is_refused(folder):
    tree = checkout(folder)
    for version in ("1.2", "v1.2.3", "1.2.3-rc1"):
        done = run(tree, "deploy/release/versions", version)
        check_equal((done.returncode, done.stderr), (1, f"versions: {version}: three numbers, such as 1.2.3\n"), done)


@test()
def older_version_that_the_clone_lacks_is_refused(folder):
    tree = checkout(folder)
    for args in ([], ["v9.9.9"]):
        done = run(tree, "tests/release/build-old", *args)
        check_equal((done.returncode, done.stdout), (1, ""), done)
        check(done.stderr.startswith("build-old: the commit ") and "git fetch --tags --unshallow" in done.stderr and
              "make upgrade-check OLD=COMMIT" in done.stderr, done)


if __name__ == "__main__":
    main()
