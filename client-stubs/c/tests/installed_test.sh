#!/bin/sh
# installed_test.sh BUILD_FOLDER - installs the package, and builds programs with it by pkg-config and by CMake.
# SPDX-License-Identifier: Apache-2.0
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
cmake --install "$1" --prefix "$prefix" >/dev/null

# The shared library exports the functions of the header, and nothing else.
library=$(find "$prefix" -name 'libkinesis-sidecar-client.so')
nm -D --defined-only "$library" | awk '{print $3}' | sort >"$work/exported"
sed -n '/^KS_CLIENT_API/s/.*\(ks_[a-z_]*\)(.*/\1/p' "$prefix/include/kinesis-sidecar-client.h" | sort >"$work/named"
diff "$work/named" "$work/exported"

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name 'kinesis-sidecar-client.pc')")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
cc -Wall -Wextra -Werror "$here/../example.c" -o "$work/example" $(pkg-config --cflags --libs kinesis-sidecar-client)

cmake -S "$here/installed" -B "$work/installed" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$work/installed" -- -s >/dev/null
"$work/installed/uses-testing"
"$work/installed/uses-once"
LD_LIBRARY_PATH=$(dirname "$library") KINESIS_SIDECAR_URL=none "$work/example" 2>&1 | grep -q '^url must be'
KINESIS_SIDECAR_URL=none "$work/installed/example-static" 2>&1 | grep -q '^url must be'
