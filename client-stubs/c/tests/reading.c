/* SPDX-License-Identifier: Apache-2.0 */
#include "reading.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 1 << 16 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char journal[TEXT_BYTES_MAX];
static char events[TEXT_BYTES_MAX];
static ks_consumer *running;
static ks_record_handler *handling;
static pthread_t thread;
static ks_client_status result;

static void append(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void append(char *text, const char *format, ...)
{
    va_list arguments;
    size_t used;

    (void)pthread_mutex_lock(&mutex);
    used = strlen(text);
    if (used > 0 && used + 1 < TEXT_BYTES_MAX)
        text[used++] = ' ';
    va_start(arguments, format);
    (void)vsnprintf(text + used, TEXT_BYTES_MAX - used, format, arguments);
    va_end(arguments);
    (void)pthread_mutex_unlock(&mutex);
}

static const char *copy_of(const char *text, char copy[TEXT_BYTES_MAX])
{
    (void)pthread_mutex_lock(&mutex);
    (void)snprintf(copy, TEXT_BYTES_MAX, "%s", text);
    (void)pthread_mutex_unlock(&mutex);
    return copy;
}

static int handle(ks_record *record, void *context)
{
    append(journal, "%s/%" PRIu32, record->sequence_number, record->attempt);
    return handling == NULL ? 0 : handling(record, context);
}

static void *run(void *context)
{
    (void)context;
    result = ks_consumer_run(running, handle, NULL);
    return NULL;
}

void reading_start(ks_consumer *consumer, ks_record_handler *handler)
{
    running = consumer;
    handling = handler;
    EXPECT(pthread_create(&thread, NULL, run, NULL) == 0);
}

ks_client_status reading_wait(void)
{
    EXPECT(pthread_join(thread, NULL) == 0);
    return result;
}

ks_client_status reading_stop(void)
{
    ks_consumer_stop(running);
    return reading_wait();
}

void reading_note(const char *word)
{
    append(journal, "%s", word);
}

const char *reading_journal(void)
{
    static char copy[TEXT_BYTES_MAX];

    return copy_of(journal, copy);
}

bool reading_has(const char *record)
{
    const char *text = reading_journal();
    size_t size = strlen(record);

    for (const char *at = text; (at = strstr(at, record)) != NULL; at += size)
        if ((at == text || at[-1] == ' ') && (at[size] == ' ' || at[size] == '\0'))
            return true;
    return false;
}

void reading_note_event(const ks_event *event, void *context)
{
    (void)context;
    append(events, "%s(%s%s%s%s)", event->type, event->shard_id, event->reason, event->ack_id,
           event->retry_in_ms >= 1000 ? "; in a second or more" : "");
}

const char *reading_events(void)
{
    static char copy[TEXT_BYTES_MAX];

    return copy_of(events, copy);
}

bool reading_has_event(const char *part)
{
    return strstr(reading_events(), part) != NULL;
}
