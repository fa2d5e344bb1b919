/* SPDX-License-Identifier: Apache-2.0 */
/* kinesis.c - a small Kinesis for tests: what no emulator does, and as fast as memory.
 *
 *     kinesis PORT [TLS_PORT CERTIFICATE KEY]
 *
 * Listens on 127.0.0.1; a port of 0 is any, and what it got is written to the file $KS_PORTS, a line each, the plain
 * one first. Both ports speak HTTP/1.1 and HTTP/2 (by ALPN, or with prior knowledge), JSON and CBOR. Who asks must
 * sign with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN as they were when it started, for
 * AWS_REGION; without them, anybody may. It lives in memory and dies with its parent.
 *
 * What it does can be changed, and asked, while it runs. GET /_control tells counts and knobs. POST /_control takes an
 * object of any of these, in this order of use:
 *
 *     {"iterator_span": 1000, ..}     a knob: KNOBS in kinesis.h
 *     {"heal": true}                  no more faults
 *     {"faults": [{"kind": "error", "operation": "GetRecords", "code": "KMSThrottlingException", "count": 3}, ..]}
 *     {"credentials": [{"access_key": .., "secret_key": .., "token": .., "expires_ms": .., "denied": OPERATION}, ..]}
 *     {"volume": {"stream": S, "bytes": 1024, "records": N, "per_second": N}}
 *
 * A fault has a kind (fault_names in kinesis_rules.c) and may have: operation, shard (else any); code, message, status,
 * header ("x-amz-retry-after: 100"); delay_ms; skip and count (of those that it could hit; count 1 if not said),
 * percent. A volume makes the records of a stream that has none, in each shard: all at once, or so many per second.
 */
#include "kinesis.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

void read_clock(void)
{
    struct timespec now;

    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        die("no clock");
    now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + knobs.clock_ms;
}

static uint16_t read_port(const char *text)
{
    char *end = NULL;
    long port = strtol(text, &end, 10);

    if (*text == '\0' || *end != '\0' || port < 0 || port > 65535)
        die("not a port: %s", text);
    return (uint16_t)port;
}

static void use_environment(void)
{
    const char *access_key = getenv("AWS_ACCESS_KEY_ID");
    const char *secret_key = getenv("AWS_SECRET_ACCESS_KEY");
    const char *token = getenv("AWS_SESSION_TOKEN");

    region = getenv("AWS_REGION") != NULL ? getenv("AWS_REGION") : region;
    if (access_key == NULL || secret_key == NULL)
        return;
    json_t *list = json_pack("[{s:s, s:s, s:s*}]", "access_key", access_key, "secret_key",
                             secret_key, "token", token);
    if (list == NULL || credentials_set(list) != NULL)
        die("credentials that cannot be used");
    json_decref(list);
}

static void tell_port(uint16_t port)
{
    const char *path = getenv("KS_PORTS");
    FILE *file = path == NULL ? stdout : fopen(path, "a");

    if (file == NULL || fprintf(file, "%u\n", port) < 0 || fflush(file) != 0)
        die("the port cannot be told");
    if (file != stdout)
        fclose(file);
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 5)
        die("usage: kinesis PORT [TLS_PORT CERTIFICATE KEY]");
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_IGN);
    /* Answers of megabytes come and go: their memory stays. */
    (void)mallopt(M_MMAP_THRESHOLD, 256 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
    read_clock();
    use_environment();
    tell_port(net_listen(read_port(argv[1]), NULL, NULL));
    if (argc == 5)
        tell_port(net_listen(read_port(argv[2]), argv[3], argv[4]));
    for (;;) {
        int64_t store_ms = store_turn();
        int64_t fanout_ms = fanout_turn();
        int64_t calls_ms = calls_turn();
        int64_t until_ms = store_ms < fanout_ms ? store_ms : fanout_ms;

        net_turn(until_ms < calls_ms ? until_ms : calls_ms);
    }
}
