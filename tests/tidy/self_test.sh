#!/bin/bash
# self_test.sh - plants one violation of each kind in a small copy of the house, and sees it named with file and line.
#
# A check that finds nothing could be blind. Silent when all is well; ends with the total when asked with -v.
# SPDX-License-Identifier: Apache-2.0
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
passed=0
failed=0

# A house in which every check is content.
build_house() {
    rm -rf "${root:?}"/*
    mkdir -p "$root"/{server/base,server/core,server/ports,server/aws,server/api,server/main,docs,tests/unit/core,tests/unit/base,tests/lib,tests/tidy,build}
    cp "$here/../../.clang-format" "$root/"
    : >"$root/tests/tidy/allowed.txt"
    printf '#ifndef A\n#define A\n\nint ks_lease_add(int a);\n\n#endif\n' >"$root/server/core/lease.h"
    printf '#include "core/lease.h"\n\n#include <assert.h>\n\nint ks_lease_add(int a)\n{\n    assert(a > 0);\n    return a + 1;\n}\n' \
        >"$root/server/core/lease.c"
    printf '#include "core/lease.h"\n' >"$root/tests/unit/core/lease_test.c"
    printf 'X(lease_duration_ms, U32, 10000, 1000, 600000, "How long.")\n' >"$root/server/base/options.def"
    printf 'server/core/lease.c\n    the lease <- server/core/lease.h | a > 0\n' >"$root/tests/tidy/asserts.txt"
    printf 'Say `--lease-duration-ms`.\n' >"$root/docs/options.md"
}

# finds CHECK "FILE:LINE: PART" - the check must fail and say so; and have nothing else to say.
finds() {
    local said status=0
    said=$("$here/$1" "$root" 2>&1) || status=$?
    if [ "$status" != 0 ] && [[ $said == *"$2"* ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '%s did not find "%s" (status %s); it said:\n%s\n' "$1" "$2" "$status" "$said"
    fi
    build_house
}

content() {
    local said status=0
    said=$("$here/$1" "$root" 2>&1) || status=$?
    if [ "$status" = 0 ] && [ -z "$said" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '%s is not content with a good house (status %s); it said:\n%s\n' "$1" "$status" "$said"
    fi
}

plant() { # FILE LINE...
    local file=$root/$1
    shift
    mkdir -p "$(dirname "$file")"
    printf '%s\n' "$@" >"$file"
}

# The linker is asked about objects; here they are made by hand.
compile_pure() {
    mkdir -p "$root/build/pure/obj/server/core"
    (cd "$root" && gcc -Iserver -O1 -fPIE -fno-stack-protector -U_FORTIFY_SOURCE -c \
        -o build/pure/obj/server/core/lease.o server/core/lease.c)
}

build_house
for check in floors banned lengths tested documented generated asserts formatted headers names; do content "$check"; done
compile_pure
content purity

plant server/ports/switchboard.c '' '#include "aws/http.h"'
finds floors 'server/ports/switchboard.c:2: floor ports may not see aws'
plant server/core/bad.c '#include "ports/clock.h"'
finds floors 'server/core/bad.c:1: floor core may not see ports'
plant server/base/bad.c '#include "core/lease.h"'
finds floors 'server/base/bad.c:1: floor base may not see core'
plant server/core/bad.c '#include <time.h>'
finds floors 'server/core/bad.c:1: the core is pure: no <time.h>'
plant server/core/bad.c '#  include <stdio.h>'
finds floors 'server/core/bad.c:1: the core is pure: no <stdio.h>'
plant server/core/bad.c '#include "lease.h"'
finds floors 'server/core/bad.c:1: say the floor'
plant server/core/bad.c '#include "../aws/http.h"'
finds floors 'server/core/bad.c:1: say the floor'
plant server/api/rest.c '#include "adapters/sqlite/store.h"'
finds floors 'server/api/rest.c:1: floor api may not see adapters'
plant server/attic/x.c '#include "base/err.h"'
finds floors 'server/attic/x.c:1: there is no floor attic'
for library in curl/curl.h openssl/evp.h microhttpd.h nghttp2/nghttp2.h sqlite3.h jansson.h protobuf-c/protobuf-c.h pthread.h stdatomic.h; do
    plant server/main/bad.c '' "#include <$library>"
    finds floors "server/main/bad.c:2: <$library> is not included here"
done

for call in 'strcpy(a, b)' 'strcat(a, b)' 'sprintf(a, b)' 'strtok(a, b)' 'atoi(a)' 'rand()' 'time(NULL)' 'localtime(a)' \
    'gmtime(a)' 'gettimeofday(a, b)' 'usleep(1)' 'sleep(1)' 'alloca(1)' 'printf("x")' 'malloc(1)' 'calloc(1, 1)' \
    'realloc(a, 1)' 'free(a)' 'strdup(a)' 'clock_gettime(a, b)' 'system(a)'; do
    plant server/main/bad.c '/* A comment may name free(a). */' '' "int x = $call;"
    finds banned "server/main/bad.c:3: ${call%%(*}: use "
done
plant server/main/good.c 'void f(void)' '{' '    lease->free(a);' '    ks_free(a);' '    log("free(a)");' '    runtime(1);' '}'
content banned
build_house
plant server/main/bad.c '/* FIX''ME */'
finds banned "server/main/bad.c:1: FIX""ME"
plant tests/tidy/allowed.txt 'banned server/core/lease.c free Because.'
finds banned 'tests/tidy/allowed.txt:1: nothing needs this exception'
plant tests/tidy/allowed.txt '' 'banned server/core/lease.c free'
finds banned 'tests/tidy/allowed.txt:2: an exception needs a reason'
plant tests/tidy/allowed.txt 'banned server/main/ printf It speaks to a person.'
plant server/main/cli.c 'int x = printf("x");'
content banned
build_house

lines() { for _ in $(seq "$1"); do echo "$2"; done; }
{ echo 'int f(void)'; echo '{'; lines 69 '    f();'; echo '}'; } >"$root/server/core/bad.c"
finds lengths 'server/core/bad.c:2: a function of 71 lines'
{ echo 'int f(void)'; echo '{'; lines 68 '    f();'; echo '}'; } >"$root/server/core/good.c"
content lengths
build_house
lines 801 '' | sed '$s/$/int x;/' >"$root/server/core/bad.c"
finds lengths 'server/core/bad.c:801: a file of 801 lines'
plant server/core/bad.c "/* $(lines 1 "$(printf '%120s' x)") */"
finds lengths 'server/core/bad.c:1: a line of 126 columns'

printf '#include "core/lease.h"\n\n#include <assert.h>\n\nint ks_lease_add(int a)\n{\n    assert(a > 0);\n    assert(a <\n           (9)); /* assert(no) */\n    return a;\n}\n' \
    >"$root/server/core/lease.c"
finds asserts 'server/core/lease.c:8: tests/tidy/asserts.txt does not have assert(a < (9))'
printf '    ours | a == 7\n' >>"$root/tests/tidy/asserts.txt"
finds asserts 'server/core/lease.c has no assert(a == 7) any more'
sed -i 's/lease.h/lost.h/' "$root/tests/tidy/asserts.txt"
finds asserts 'tests/tidy/asserts.txt:2: there is no server/core/lost.h'
sed -i 's/the lease <- /<- /' "$root/tests/tidy/asserts.txt"
finds asserts 'tests/tidy/asserts.txt:2: say'

plant server/core/untested.c 'int x;'
finds tested 'server/core/untested.c:1: no test names it'
plant tests/unit/core/gone_test.c 'int x;'
finds tested 'tests/unit/core/gone_test.c:1: tests nothing'
plant server/aws/store.c 'int x;'
plant tests/contract/store_test.c '#include "aws/store.h"'
content tested
build_house

plant docs/options.md 'Nothing about lease_duration.'
finds documented 'server/base/options.def:1: the option lease_duration_ms is not in the docs'
plant server/base/options.def ''
finds documented 'server/base/options.def:1: no options table found'
plant server/api/rest.c '' 'x = "/v1/shards";'
finds documented 'server/api/rest.c:2: the route /v1/shards is not in the docs'

descriptor='x.AddSerializedFile(b"\x22\x12\n\x06Record\x12\x08\n\x04lane\x18\x0e")'
plant client-stubs/python/src/kinesis_sidecar/v1/record_pb2.py "$descriptor"
plant proto/golden/fields 'Record 14 uint32 lane' 'Consumer Pull PullRequest PullResponse'
content generated
plant proto/golden/fields 'Record 14 uint32 lane' 'Record 15 repeated string tags'
finds generated 'proto/golden/fields:2: client-stubs/python/src/kinesis_sidecar/v1 has no tags = 15 in Record'

plant server/core/bad.c 'int f(void) {' '  return 1;' '}'
finds formatted 'server/core/bad.c:1:'
plant server/core/bad.h '' 'ks_instant now;'
finds headers 'server/core/bad.h:2:'

plant tests/e2e/bad_test.py 'import os' '' 'print(DESCRIPTORS)'
finds names "tests/e2e/bad_test.py:3:7: undefined name 'DESCRIPTORS'"
plant tests/lib/bad '#!/usr/bin/env python3' 'import os'
finds names "tests/lib/bad:2:1: 'os' imported but unused"

plant server/core/lease.c '#include <stdio.h>' 'int f(void) {' '    return puts("x");' '}'
compile_pure
finds purity 'server/core/lease.c:3: the core is pure: it may not need puts'
plant server/core/lease.c '' 'int counter;' 'int f(void) { static int calls; return calls++ + counter; }'
compile_pure
finds purity 'server/core/lease.c:2: the core is pure: counter is a global that can change'
plant server/core/lease.c '' 'int f(void) { static int calls; return calls++; }'
compile_pure
finds purity 'server/core/lease.c:2: the core is pure: calls'

# A package whose version differs, and one in which there is none.
repository=$here/../..
(cd "$repository" && sed -n 's/^    ("\([^"]*\)", r.*/\1/p' deploy/release/versions | sort -u | xargs cp --parents -t "$root")
python=client-stubs/python/src/kinesis_sidecar/__init__.py
rust=client-stubs/rust/Cargo.toml
sed -i 's/__version__ = "/&9/' "$root/$python"
sed -i '/^version = /d' "$root/$rust"
said=$(VERSIONS_ROOT=$root "$repository/deploy/release/versions")
if [[ $said == *"$python: 9"* && $said == *"$rust: no version"* ]]; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    printf 'versions did not find what differs; it said:\n%s\n' "$said"
fi

[ "${1:-}" = -v ] && echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
