#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# example.sh - prints each record and acknowledges it; Ctrl-C ends it, what was not acknowledged comes again at once.
#
# Beside `make run`:  client-stubs/bash/example.sh
set -eu
. "$(dirname "$0")/kinesis-sidecar.sh"

# The data is on stdin. A failure makes the record come again.
handle() {
    printf '%s %s (attempt %s): %s\n' "$KS_SHARD_ID" "$KS_SEQUENCE_NUMBER" "$KS_ATTEMPT" "$(cat)"
}

KS_SESSION=bash-example
trap ks_close EXIT
trap 'exit 130' INT
trap 'exit 143' TERM # When the poll that waits is over: 10 s at most.
ks_consume handle 10
