/* SPDX-License-Identifier: Apache-2.0 */
/* reading.h - a consumer that a test runs in a thread, and what it was told. There is one for
 * each test. */
#ifndef READING_H
#define READING_H

#include "check.h"
#include "kinesis-sidecar-client.h"

/* Starts ks_consumer_run() in a thread. The journal gets "SEQUENCE/ATTEMPT" of each record
 * before the handler is called. */
void reading_start(ks_consumer *consumer, ks_record_handler *handler);

/* Stops the run and waits for it. Returns its status. */
ks_client_status reading_stop(void);

/* Waits for the run, which ends by itself. Returns its status. */
ks_client_status reading_wait(void);

/* What was handled, in the order of the begins, like "1/1 2/1". */
const char *reading_journal(void);
bool reading_has(const char *record);

/* For the option on_event: notes events like "disconnected(reason)". */
void reading_note_event(const ks_event *event, void *context);

/* A copy of the events. */
const char *reading_events(void);
bool reading_has_event(const char *part);

/* Adds a word to the journal. */
void reading_note(const char *word);

#endif
