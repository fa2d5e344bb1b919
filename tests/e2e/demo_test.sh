#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# demo_test.sh - `make demo` comes true; and `make run` prints lines that work, drains when told, and leaves nothing behind.
set -u
cd "$(dirname "$0")/../.." || exit 1
binary=${KS_BIN:-build/kinesis-sidecar}
work=$(mktemp -d "${TMPDIR:-/tmp}/ks-demo-test.XXXXXX")
passed=0
failed=0
run=''
trap '[ -z "$run" ] || kill -9 "$run" 2>/dev/null; rm -rf "$work"' EXIT

# check WHAT COMMAND... - the command must succeed.
check() {
    local what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $what"
        tail -n 30 "$work"/*.log | cut -c 1-250
    fi
}
wait_for() { # SECONDS COMMAND...
    local until=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$until" ] || return 1
        sleep 0.2
    done
}

check "the demo ends well" timeout -k 5 "${DEMO_SECONDS:-300}" deploy/demo "$binary" >"$work/demo.log" 2>&1
check "it says that nothing was lost" grep -qx '0 lost' "$work/demo.log"
check "it says that nothing came back" grep -q ', 0 of them came back' "$work/demo.log"
# A demo that cannot fail shows nothing.
check "it fails with a binary that fails" bash -c "! deploy/demo /bin/false >'$work/fails.log' 2>&1"

# Two ports in a row that nobody has, as `deploy/run` takes them; below those that the kernel gives to connections.
PORT=$(python3 -c '
import random
import socket
while True:
    port = random.randrange(10000, 30000)
    with socket.socket() as one, socket.socket() as next_one:
        try:
            one.bind(("127.0.0.1", port))
            next_one.bind(("127.0.0.1", port + 1))
        except OSError:
            continue
        print(port)
        break')
export PORT RUN_DIR=$work/run
# A background job ignores Ctrl-C unless told otherwise.
env --default-signal=INT deploy/run "$binary" >"$work/run.log" 2>&1 </dev/null &
run=$!
check "run becomes ready" wait_for 60 grep -q '/v1/shards' "$work/run.log"
mapfile -t lines < <(sed -n 's/^    \(.*curl .*\)/\1/p' "$work/run.log")
check "it prints three lines with curl" [ "${#lines[@]}" = 3 ]
check "it shows its options" grep -q -e '--local-shards 4' "$work/run.log"

: >"$work/stream.log"
timeout 60 bash -c "${lines[0]}" >"$work/stream.log" 2>&1 &
stream=$!
check "the first line streams" wait_for 60 grep -q '"type":"record"' "$work/stream.log"
kill "$stream"
wait "$stream"
# The records that the stream was given come again after its grace; the producer goes on anyway.
acked() {
    timeout 20 bash -c "${lines[1]}" >"$work/ack.log" 2>&1
    grep -q '"failed":\[\]' "$work/ack.log" && grep -Eq '"ok":([1-9]|10)[,}]' "$work/ack.log"
}
check "the second line pulls and acknowledges" wait_for 30 acked
bash -c "${lines[2]}" >"$work/shards.log" 2>&1
check "the third line shows four shards" [ "$(grep -o '"shard_id"' "$work/shards.log" | wc -l)" = 4 ]

# The sidecar, and the `put` of the producer.
processes() {
    local line count=0
    for line in /proc/[0-9]*/cmdline; do
        case " $(tr '\0' ' ' 2>/dev/null <"$line")" in
        *" --listen 127.0.0.1:$PORT "*) count=$((count + 1)) ;;
        esac
    done
    echo "$count"
}
check "there is something to leave behind" [ "$(processes)" = 2 ]
kill -INT "$run"
status=0
wait "$run" || status=$?
run=''
check "it drains and ends with 0" [ "$status" = 0 ]
check "it leaves no process behind" [ "$(processes)" = 0 ]

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
