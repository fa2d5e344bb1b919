/* SPDX-License-Identifier: Apache-2.0 */
/* example.c - prints the records of a stream until SIGTERM or SIGINT.
 *
 *     cc example.c -o example $(pkg-config --cflags --libs kinesis-sidecar-client)
 */
#include <kinesis-sidecar-client.h>
#include <stdio.h>

static int handle(ks_record *record, void *context)
{
    (void)context;
    if (printf("%s: %s\n", record->partition_key, (const char *)record->data) < 0)
        return ks_record_fail(record, "cannot print"); /* The record is retried. */
    return 0;                                          /* The record is acknowledged. */
}

int main(void)
{
    /* The address: KINESIS_SIDECAR_URL, else http://127.0.0.1:8990. */
    ks_consumer_options options = {.concurrency = 16, .handle_signals = true};
    ks_consumer *consumer = ks_consumer_new("orders", &options);
    ks_client_status status;

    if (consumer == NULL)
        return 1;
    status = ks_consumer_run(consumer, handle, NULL);
    if (status != KS_CLIENT_OK)
        (void)fprintf(stderr, "%s\n", ks_consumer_error(consumer)->message);
    ks_consumer_free(consumer);
    return status != KS_CLIENT_OK;
}
