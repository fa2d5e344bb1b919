# debian_root.sh - sourced: a root file system of Debian that reaches the registries of this machine.
#
# $root is its folder, $release the name of the Debian release. apt's sources, apt's Acquire settings, the CA
# certificates, pip's and npm's settings, and the variables for proxies and certificates are taken over.
# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0

# Where this machine gets Debian from; sources of other archives are left out, for a bare machine has none.
mirror() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
        sed -n -e 's/^URIs: *\([^ ]*\).*/\1/p' -e 's/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' |
        awk '/\/debian\/*$/ && !found { found = $0 } END { print found ? found : "http://deb.debian.org/debian" }'
}

copy_sources() {
    local file
    rm -f "$root"/etc/apt/sources.list
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        [ -f "$file" ] || continue
        grep -qE "^(Suites:|deb ).*[ ]$release([ -]|\$)" "$file" || continue
        cp "$file" "$root$file"
    done
    [ -n "$(ls "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/* 2>/dev/null)" ] ||
        echo "deb $(mirror) $release main" >"$root/etc/apt/sources.list"
    apt-config dump --no-empty | grep '^Acquire::' >"$root/etc/apt/apt.conf.d/00host"
    [ ! -f /etc/apt/auth.conf ] || cp /etc/apt/auth.conf "$root/etc/apt/"
}

copy_network() {
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    mkdir -p "$root/etc/ssl" "$root/usr/local/share"
    cp -rL /etc/ssl/certs "$root/etc/ssl/" 2>/dev/null
    cp -rL /usr/local/share/ca-certificates "$root/usr/local/share/" 2>/dev/null
    [ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
}

# The variables that say how registries are reached, and npm's settings as variables.
network_variables() {
    local key value
    env | grep -E '^(https?_proxy|no_proxy|HTTPS?_PROXY|NO_PROXY|PIP_[A-Z_]*|NODE_EXTRA_CA_CERTS)=' | grep -v '^PIP_FIND_LINKS='
    env | grep -E '^(SSL_CERT_FILE|SSL_CERT_DIR|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE)='
    command -v npm >/dev/null 2>&1 || return 0
    for key in registry cafile proxy https-proxy; do
        value=$(npm config get "$key" 2>/dev/null)
        case $value in
        '' | null | undefined) ;;
        *) echo "NPM_CONFIG_$(echo "$key" | tr 'a-z-' 'A-Z_')=$value" ;;
        esac
    done
}
