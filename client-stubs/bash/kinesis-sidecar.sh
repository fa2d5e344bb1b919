# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# kinesis-sidecar.sh - a small client for kinesis-sidecar: sh or bash, curl, sed and base64; to be sourced.
#
#     . kinesis-sidecar.sh
#     handle() { cat >>orders; }            # a record's data is on stdin; 0 = done, anything else = again
#     ks_consume handle
#
# KINESIS_SIDECAR_URL (http://127.0.0.1:8990, or unix:/PATH) says where the sidecar is, KINESIS_SIDECAR_TOKEN_FILE which
# file holds the token, if one is asked for; KS_URL, KS_SOCKET (the path) and KS_TOKEN_FILE count before these. KS_SESSION
# says which pull session is used (default). Delivery is at least once.
#
# The JSON of the sidecar is compact, and a quotation mark within a text is escaped: so `"name":"` and `},{"` are found
# by their bytes, whatever a partition key holds. No other JSON is read here.

case ${KS_URL:-}${KS_SOCKET:-}${KINESIS_SIDECAR_URL:-} in
unix:*) KS_SOCKET=${KINESIS_SIDECAR_URL#unix:} KS_URL=http://localhost ;;
*) KS_SOCKET=${KS_SOCKET:-} KS_URL=${KS_URL:-${KINESIS_SIDECAR_URL:-http://127.0.0.1:8990}} ;;
esac
KS_SESSION=${KS_SESSION:-default}
KS_TOKEN_FILE=${KS_TOKEN_FILE:-${KINESIS_SIDECAR_TOKEN_FILE:-}}
KS_SECONDS=${KS_SECONDS:-75} # Longest time of one request: the longest wait of the sidecar is 60 s.

# ks_request METHOD PATH [BODY] - prints the answer's body; fails for a refusal, whose sentence goes to stderr.
ks_request() {
    if [ $# -gt 2 ]; then
        ks_said=$(printf '%s' "$3" | ks_curl "$1" "$2" -H 'Content-Type: application/json' --data-binary @-)
    else
        ks_said=$(ks_curl "$1" "$2")
    fi || return 1
    ks_code=$(printf '%s' "$ks_said" | sed -n '$p')
    ks_said=$(printf '%s' "$ks_said" | sed '$d')
    case $ks_code in
    2??) printf '%s\n' "$ks_said" ;;
    *)
        echo "kinesis-sidecar: $1 ${2%%\?*}: $ks_code $(ks_text detail "$ks_said")" >&2
        return 1
        ;;
    esac
}

# The answer, and its status in a line of its own. Arguments can be seen by everybody on the machine: no token in them.
ks_curl() {
    ks_method=$1
    ks_path=$2
    shift 2
    curl -q -sS --noproxy '*' --connect-timeout 5 -m "$KS_SECONDS" ${KS_SOCKET:+--unix-socket "$KS_SOCKET"} \
        -X "$ks_method" "$@" -w '\n%{http_code}\n' ${KS_TOKEN_FILE:+-K /dev/fd/4} "$KS_URL$ks_path" 4<<KS_CONFIG
header = "Authorization: Bearer ${KS_TOKEN_FILE:+$(cat "$KS_TOKEN_FILE")}"
KS_CONFIG
}

# ks_text NAME JSON - prints a text member, as long as it has no escapes in it; the last one of that name.
ks_text() {
    printf '%s\n' "$2" | sed -n 's/.*"'"$1"'":"\([^"\\]*\)".*/\1/p'
}

# ks_number NAME JSON - prints a number member.
ks_number() {
    printf '%s\n' "$2" | sed -n 's/.*"'"$1"'":\(-\{0,1\}[0-9]\{1,\}\).*/\1/p'
}

# ks_pull [MAX_RECORDS [WAIT_MS]] - one long poll; prints the batch as one line of JSON.
ks_pull() {
    ks_request GET "/v1/records?max_records=${1:-100}&wait_ms=${2:-10000}&session=$KS_SESSION"
}

# ks_records BATCH - prints the records of a batch, one line of JSON for each.
ks_records() {
    printf '%s\n' "$1" | sed -n -e '/"records":\[\]/d' \
        -e 's/^{"records":\[\(.*\)\],"batch_id":"[^"]*","session":.*/\1/' -e 's/},{"/}\
{"/g' -e p
}

# ks_data RECORD - prints a record's data: any bytes.
ks_data() {
    ks_text data "$1" | base64 -d
}

# ks_put PARTITION_KEY... - puts stdin, a record for each line, into the local stream. The keys take turns.
ks_put() {
    ks_entries=''
    while IFS= read -r ks_line || [ -n "$ks_line" ]; do
        ks_entries=$ks_entries${ks_entries:+,}'{"PartitionKey":"'$1'","Data":"'$(printf '%s' "$ks_line" | base64 | tr -d '\n')'"}'
        set -- "$@" "$1"
        shift
    done
    [ -n "$ks_entries" ] || return 0
    ks_answer=$(ks_request POST /v1/local/records '{"Records":['"$ks_entries"']}') || return 1
    case $ks_answer in
    *'"FailedRecordCount":0'*) ;;
    *)
        echo "kinesis-sidecar: not all records were put: $ks_answer" >&2
        return 1
        ;;
    esac
}

# ks_ack BATCH_ID [wait=persisted] - done with the whole batch. Fails if the sidecar did not take all of it, and, when
# asked to wait, if the lease table does not cover it in time.
ks_ack() {
    ks_answer=$(ks_request POST "/v1/records/ack?batch_id=$1${2:+&$2}") || return 1
    ks_settled "$ks_answer" "${2:-}"
}

# ks_nack BATCH_ID [DELAY_MS] - all of it comes again, not before DELAY_MS.
ks_nack() {
    ks_answer=$(ks_request POST "/v1/records/nack?batch_id=$1&delay_ms=${2:-0}") || return 1
    ks_settled "$ks_answer" ''
}

# ks_close - ends the session: what is unsettled comes again at once.
ks_close() {
    ks_request DELETE "/v1/sessions/$KS_SESSION" >/dev/null
}

# ks_settled ANSWER [wait=persisted] - whether everything was taken, and is durable if that was asked for.
ks_settled() {
    case $1 in
    *'"failed":[]'*) ;;
    *)
        echo "kinesis-sidecar: not all of it was settled: $1" >&2
        return 1
        ;;
    esac
    case $2,$1 in
    wait=persisted*,*'"persisted":false'*)
        echo "kinesis-sidecar: settled, but not durable yet: $1" >&2
        return 1
        ;;
    esac
}

# ks_consume HANDLER [MAX_RECORDS] - pulls for ever, and calls HANDLER for each record, with the data on stdin and with
# KS_SHARD_ID, KS_SEQUENCE_NUMBER, KS_ATTEMPT, KS_ACK_ID and KS_RECORD (its JSON) set. HANDLER runs in a subshell: 0 says
# done, 99 done and no more after this batch, anything else again. The batch is acknowledged at its end, but for the
# records that failed and the later ones of their shards: those come again, in order.
ks_consume() {
    ks_pause=1
    ks_stop=''
    while [ -z "$ks_stop" ]; do
        if ! ks_batch=$(ks_pull "${2:-100}"); then
            sleep "$ks_pause"
            ks_pause=$((ks_pause < 8 ? ks_pause * 2 : 8))
            continue
        fi
        ks_pause=1
        ks_handle_batch "$1" || sleep 1
    done
}

ks_handle_batch() {
    ks_id=$(ks_text batch_id "$ks_batch")
    [ -n "$ks_id" ] || return 0
    ks_failed=''
    ks_blocked=' '
    while IFS= read -r KS_RECORD <&3; do
        # As ks_text and ks_number, without a process; what is long is the data.
        ks_head=${KS_RECORD%%,\"data\":*}
        KS_SHARD_ID=${ks_head##*\"shard_id\":\"} KS_SHARD_ID=${KS_SHARD_ID%%\"*}
        KS_SEQUENCE_NUMBER=${ks_head##*\"sequence_number\":\"} KS_SEQUENCE_NUMBER=${KS_SEQUENCE_NUMBER%%\"*}
        KS_ATTEMPT=${ks_head##*\"attempt\":} KS_ATTEMPT=${KS_ATTEMPT%%[!0-9]*}
        KS_ACK_ID=${ks_head##*\"ack_id\":\"} KS_ACK_ID=${KS_ACK_ID%%\"*}
        case $ks_blocked$ks_stop in
        *" $KS_SHARD_ID "* | *stop) ks_status=1 ;;
        *)
            ks_status=0
            # A handler that does not read is no failure, with pipefail neither.
            { ks_data "$KS_RECORD" || :; } | "$1" 3<&- || ks_status=$?
            ;;
        esac
        case $ks_status in
        0) ;;
        99) ks_stop=stop ;;
        *)
            ks_blocked="$ks_blocked$KS_SHARD_ID "
            ks_failed=$ks_failed${ks_failed:+,}'"'$KS_ACK_ID'"'
            ;;
        esac
    done 3<<KS_RECORDS
$(ks_records "$ks_batch")
KS_RECORDS
    ks_answer=$(ks_request POST /v1/records/settle \
        '{"settlements":[{"batch_id":"'"$ks_id"'","outcome":"ack","failed_ack_ids":['"$ks_failed"']}]}') || return 1
    ks_settled "$ks_answer" '' && [ -z "$ks_failed" ]
}
