#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages of the release: lintian, the manual page, the completions in each shell, the unit, and the
installation on a Debian that debootstrap makes (tests/release/debian).

Where both architectures are named, the package of each is tested; it is installed on amd64.
"""

import os
import pty
import re
import subprocess
import threading

import released
from lib import check, check_equal, main, test, wait_until

ARCHES = ("amd64", "arm64")
# lintian searches the machine code for misspelled words, and finds some in its bytes. The texts of the program are in the
# manual page, where typo-in-manual-page judges them.
SUPPRESSED = "spelling-error-in-binary"
OVERRIDES = os.path.join(released.ROOT, "deploy", "debian", "lintian-overrides")
EXPOSURE_MAX = 2.0
COMMAND = "kinesis-sidecar"


def package(arch):
    return released.file_of(f"kinesis-sidecar_*_{arch}.deb")


def unpack(folder, arch="amd64"):
    """The files of a package, below `folder`/ARCH."""
    root = os.path.join(folder, arch)
    released.run("dpkg-deb", "-x", package(arch), root)
    return root


def words_of_help(root):
    """(subcommands, options) that the program of the package names in its help."""
    said = released.run(os.path.join(root, "usr/bin", COMMAND), "help")
    subcommands = re.findall(r"^  ([a-z][a-z-]*)", said.split("Subcommands:")[1].split("\n\n")[0], re.MULTILINE)
    options = re.findall(r"^  (--[a-z0-9-]+)", said.split("Options:")[1], re.MULTILINE)
    check("run" in subcommands and "--stream" in options, "help:", said[:500])
    return subcommands, options


@test(seconds=120)
def packages_have_no_tag_of_lintian(folder):
    for arch in ARCHES:
        done = subprocess.run(["lintian", "--pedantic", "--display-info", "--tag-display-limit", "0", "--suppress-tags", SUPPRESSED,
                               package(arch)], capture_output=True, text=True, check=False, env=dict(os.environ, TMPDIR=folder))
        check_equal((done.returncode, done.stdout), (0, ""), f"lintian, {arch}:", done.stderr)


@test()
def each_lintian_override_has_a_reason(_):
    with open(OVERRIDES, encoding="utf-8") as file:
        lines = file.read().splitlines()
    check(lines, "there is no override")
    for at, line in enumerate(lines):
        if not line.startswith("#"):
            check(at > 0 and lines[at - 1].startswith("# "), f"no comment above the override: {line}")


@test()
def manual_page_has_no_warning_of_mandoc_and_man(folder):
    for arch in ARCHES:
        page = os.path.join(unpack(folder, arch), "usr/share/man/man1", COMMAND + ".1.gz")
        said = subprocess.run(["mandoc", "-Tlint", page], capture_output=True, text=True, check=False)
        check_equal((said.returncode, said.stdout, said.stderr), (0, "", ""), f"mandoc -Tlint, {arch}")
        said = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", page], capture_output=True, text=True, check=False,
                              env=dict(os.environ, MANWIDTH="80", LC_ALL="C.UTF-8"))
        check_equal((said.returncode, said.stderr), (0, ""), f"man --warnings, {arch}")
        for option in words_of_help(unpack(folder))[1]:
            check(option in said.stdout, f"{option} is not in the page")


@test()
def bash_completes_subcommands_options_and_values(folder):
    root = unpack(folder)
    subcommands, options = words_of_help(root)
    file = os.path.join(root, "usr/share/bash-completion/completions", COMMAND)

    def asked(*words):
        script = f'. {file}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kinesis_sidecar; printf "%s\\n" "${{COMPREPLY[@]}}"'
        return released.run("bash", "--norc", "-c", script, "bash", *words).splitlines()
    check_equal(released.run("bash", "--norc", "-c", f". {file}; complete -p {COMMAND}"),
                f"complete -F _kinesis_sidecar {COMMAND}\n", "complete -p")
    check_equal(sorted(asked(COMMAND, "")), sorted(subcommands), "subcommands")
    check_equal(sorted(asked(COMMAND, "run", "--")), sorted(options), "options")
    check_equal(asked(COMMAND, "he"), ["health", "help"], "beginning of a subcommand")
    check_equal(asked(COMMAND, "--retrieval", ""), ["polling", "fanout"], "values")


@test()
def fish_completes_subcommands_options_and_values(folder):
    root = unpack(folder)
    subcommands, options = words_of_help(root)
    file = os.path.join(root, "usr/share/fish/vendor_completions.d", COMMAND + ".fish")
    env = dict(os.environ, HOME=folder, PATH=os.path.join(root, "usr/bin") + ":" + os.environ["PATH"])

    def asked(line):
        said = released.run("fish", "--no-config", "-c", f"source {file}; complete -C '{line}'", env=env)
        return [one.split("\t")[0] for one in said.splitlines()]
    check_equal(sorted(asked(COMMAND + " ")), sorted(subcommands), "subcommands")
    check_equal(sorted(asked(COMMAND + " run --")), sorted(options), "options")
    check_equal(sorted(asked(COMMAND + " --retrieval ")), ["fanout", "polling"], "values")


# What a user types, in a terminal; every match that zsh is given goes into a file.
ZSH = """
autoload -U compinit && compinit -u -D
compadd() {
    local -a matches
    case "${@[1,(i)(-|--)]}" in
    *-[OAD]*) builtin compadd "$@"; return ;;
    esac
    builtin compadd -A matches "$@"
    (( $#matches )) && print -rl -- $matches >>$ANSWERS
    builtin compadd "$@"
}
LISTMAX=1000
asked() { print -r -- END >>$ANSWERS; BUFFER= }
zle -N asked
bindkey '^X' asked
bindkey '^I' complete-word
print READY >>$ANSWERS
"""


class Zsh:
    """A shell in a terminal of its own that has loaded the completion of the package."""

    def __init__(self, folder, root):
        self.answers = os.path.join(folder, "answers")
        setup = os.path.join(folder, ".zshrc")
        with open(setup, "w", encoding="utf-8") as file:
            file.write(f"fpath=({os.path.join(root, 'usr/share/zsh/vendor-completions')} $fpath)\n{ZSH}")
        self.terminal, other = pty.openpty()
        env = dict(os.environ, ZDOTDIR=folder, HOME=folder, ANSWERS=self.answers, TERM="dumb",
                   PATH=os.path.join(root, "usr/bin") + ":" + os.environ["PATH"])
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "zsh", "-o", "no_global_rcs", "-i"], stdin=other, stdout=other,
                                        stderr=other, env=env, start_new_session=True)
        os.close(other)
        self.shown = b""
        threading.Thread(target=self.read, daemon=True).start()
        self.said("READY")

    def read(self):
        """Keeps what the terminal shows: a shell whose terminal is full would wait."""
        try:
            while data := os.read(self.terminal, 4096):
                self.shown += data
        except OSError:
            pass

    def said(self, mark):
        def lines():
            if not os.path.exists(self.answers):
                return None
            with open(self.answers, encoding="utf-8") as file:
                found = file.read().splitlines()
            return found if mark in found else None
        return wait_until(lines, 20, f"zsh says {mark}")

    def asked(self, line):
        open(self.answers, "w", encoding="utf-8").close()
        os.write(self.terminal, line.encode() + b"\t\x18")
        return sorted(set(self.said("END")) - {"END"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)


@test(seconds=60)
def zsh_completes_subcommands_options_and_values(folder):
    root = unpack(folder)
    subcommands, options = words_of_help(root)
    with Zsh(folder, root) as zsh:
        check_equal(zsh.asked(COMMAND + " "), sorted(subcommands), "subcommands")
        check_equal(zsh.asked(COMMAND + " run --"), sorted(options), "options")
        check_equal(zsh.asked(COMMAND + " --retrieval "), ["fanout", "polling"], "values")


@test()
def unit_is_confined_and_starts_the_program_of_the_package(folder):
    for arch in ARCHES:
        root = unpack(folder, arch)
        unit = os.path.join(root, "usr/lib/systemd/system", COMMAND + "@.service")
        with open(unit, encoding="utf-8") as file:
            program = re.search(r"^ExecStart=(\S+)", file.read(), re.MULTILINE)[1]
        check(os.access(root + program, os.X_OK), f"{program} is not in the package")
        instance = os.path.join(folder, arch, COMMAND + "@x.service")
        os.link(unit, instance)
        said = released.run("systemd-analyze", "security", "--offline=true", f"--threshold={int(EXPOSURE_MAX * 10)}", instance)
        match = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
        check(match and float(match[1]) <= EXPOSURE_MAX, said)


class Debian:
    """A root file system of Debian, as debootstrap makes it, with what the package depends on."""

    def __init__(self, folder):
        self.root = os.path.join(folder, "debian")
        os.mkdir(self.root)
        base = released.run(os.path.join(released.HERE, "debian")).strip()
        released.run("tar", "--extract", "--numeric-owner", "--file", base, "--directory", self.root)
        self.run("apt-get", "-q", "update")
        self.run("apt-get", "-q", "install", "-y", "--no-install-recommends", "ca-certificates")

    def run(self, *command):
        inside = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
        return released.run("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inside, self.root, *command,
                            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C",
                                 **{name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}})

    def files(self):
        """Every path but those of dpkg's and apt's own accounts."""
        found = set()
        for folder, folders, names in os.walk(self.root):
            path = "/" + os.path.relpath(folder, self.root)
            if path in ("/proc", "/sys", "/dev", "/var/lib/dpkg", "/var/log", "/var/cache"):
                folders.clear()
                continue
            found.update(os.path.join(path, name) for name in names + folders)
        return found


@test(seconds=600)
def package_is_installed_runs_and_leaves_nothing_after_purge(folder):
    debian = Debian(folder)
    before = debian.files()
    released.run("cp", package("amd64"), os.path.join(debian.root, "tmp", "package.deb"))
    debian.run("dpkg", "-i", "/tmp/package.deb")
    os.remove(os.path.join(debian.root, "tmp", "package.deb"))
    version = released.run(os.path.join(released.ROOT, "deploy/release/version")).strip()
    check_equal(debian.run("dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Version}", COMMAND), f"ii {version}", "status")
    check_equal(debian.run(COMMAND, "--version"), f"kinesis-sidecar {version}\n", "--version")
    check_equal(debian.run("dpkg", "--verify", COMMAND), "", "dpkg --verify")
    # As systemd makes it for DynamicUser=yes: a folder that its user alone may enter, and a link to it.
    os.makedirs(os.path.join(debian.root, "var/lib/private/kinesis-sidecar/orders"))
    os.symlink("private/kinesis-sidecar", os.path.join(debian.root, "var/lib/kinesis-sidecar"))
    debian.run("dpkg", "--remove", COMMAND)
    check(os.path.isdir(os.path.join(debian.root, "var/lib/private/kinesis-sidecar/orders")), "remove takes the state away")
    debian.run("dpkg", "--purge", COMMAND)
    # /var/lib/private is systemd's.
    check_equal(sorted(debian.files() - before - {"/var/lib/private"}), [], "files after purge")
    check_equal(sorted(before - debian.files()), [], "files of others that purge removed")
    said = debian.run("dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\n")
    check(COMMAND not in said, "dpkg still knows it:", said)


if __name__ == "__main__":
    released.must_be_root()
    main()
