/* SPDX-License-Identifier: Apache-2.0 */
/* questions.h - questions that come in a stream: each is served by the handler of its method, and answered in
 * the stream.
 *
 * A handler sees an exchange that has no wire: what it answers, at once or later, becomes a StreamAnswer with the id of
 * the question. Owned by the stream.
 */
#ifndef KS_API_QUESTIONS_H
#define KS_API_QUESTIONS_H

#include "api/message.h"
#include "base/loop.h"

typedef KinesisSidecar__V1__StreamAnswer ks_pb_answer;

enum {
    KS_QUESTIONS_MAX = 64,        /* Of one stream that wait, for a checkpoint to be durable. */
    KS_QUESTIONS_ALL_MAX = 65536, /* Of all streams: each has a timer, of which a loop has 2^18. */
};

struct ks_questions {
    struct ks_exchange *exchange; /* The stream's. */
    void (*answer)(struct ks_exchange *exchange, const ks_pb_answer *answer);
    struct ks_loop *loop;
    struct ks_link list;
    struct ks_timer
        sweep; /* What is answered is forgotten in a turn of its own: its handler may still be at work. */
    uint32_t count;
};

/* `answer` takes an answer out; its texts live as long as the call. */
void ks_questions_init(struct ks_questions *questions, struct ks_exchange *exchange,
                       void (*answer)(struct ks_exchange *exchange, const ks_pb_answer *answer));
/* Lets go of all that wait. */
void ks_questions_free(struct ks_questions *questions);
/* Has `message` served. The arena is moved, or left to the caller. */
void ks_questions_begin(struct ks_questions *questions, uint64_t id, ks_message_handler *handler,
                        const ProtobufCMessage *message, struct ks_arena *arena);
/* The exchange of the stream in which this question came. */
struct ks_exchange *ks_question_stream(struct ks_exchange *question);

#endif
