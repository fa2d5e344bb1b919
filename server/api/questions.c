/* SPDX-License-Identifier: Apache-2.0 */
#include "api/questions.h"

#include <assert.h>

#include "api/server.h"
#include "base/budget.h"

struct question {
    struct ks_exchange exchange;
    struct ks_questions *questions;
    struct ks_link link;
    uint64_t id;
};

static struct question *question_of(struct ks_exchange *exchange)
{
    return (struct question *)(void *)((char *)exchange - offsetof(struct question, exchange));
}

/* ---- Answers ---- */

static void tell(struct question *question, ks_pb_answer *answer)
{
    struct ks_questions *questions = question->questions;

    answer->id = question->id;
    questions->answer(questions->exchange, answer);
    ks_loop_timer_set(questions->loop, &questions->sweep, ks_loop_now(questions->loop));
}

static void told_message(struct ks_exchange *exchange, const ProtobufCMessage *message)
{
    static const struct {
        const ProtobufCMessageDescriptor *type;
        KinesisSidecar__V1__StreamAnswer__AnswerCase which;
    } kinds[] = {
        {&kinesis_sidecar__v1__settle_response__descriptor,
         KINESIS_SIDECAR__V1__STREAM_ANSWER__ANSWER_SETTLED},
        {&kinesis_sidecar__v1__checkpoint_response__descriptor,
         KINESIS_SIDECAR__V1__STREAM_ANSWER__ANSWER_CHECKPOINTED},
        {&kinesis_sidecar__v1__grant_response__descriptor,
         KINESIS_SIDECAR__V1__STREAM_ANSWER__ANSWER_GRANTED},
        {&kinesis_sidecar__v1__session_limits__descriptor,
         KINESIS_SIDECAR__V1__STREAM_ANSWER__ANSWER_UPDATED},
    };
    ks_pb_answer answer;

    kinesis_sidecar__v1__stream_answer__init(&answer);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (message->descriptor == kinds[i].type)
            answer.answer_case = kinds[i].which;
    assert(answer.answer_case != KINESIS_SIDECAR__V1__STREAM_ANSWER__ANSWER__NOT_SET);
    /* All members of the oneof are pointers to messages, at one place. */
    answer.settled = (ks_pb_settle_response *)(uintptr_t)message;
    tell(question_of(exchange), &answer);
}

static void told_problem(struct ks_exchange *exchange, enum ks_problem problem, const char *text)
{
    KinesisSidecar__V1__Problem told;
    ks_pb_answer answer;

    kinesis_sidecar__v1__stream_answer__init(&answer);
    ks_problem_fill(problem, text, &told);
    answer.answer_case = KINESIS_SIDECAR__V1__STREAM_ANSWER__ANSWER_PROBLEM;
    answer.problem = &told;
    tell(question_of(exchange), &answer);
}

static void wake(struct ks_exchange *exchange)
{
    (void)exchange; /* It was told. */
}

struct ks_exchange *ks_question_stream(struct ks_exchange *exchange)
{
    return question_of(exchange)->questions->exchange;
}

/* ---- Life ---- */

static void question_free(struct question *question)
{
    question->questions->count--;
    question->questions->exchange->api->questions--;
    ks_list_remove(&question->link);
    ks_exchange_end(&question->exchange);
    ks_free(question);
}

static void sweep(struct ks_timer *timer)
{
    struct ks_questions *questions = KS_LIST_ENTRY(timer, struct ks_questions, sweep);
    struct ks_link *cursor;
    struct ks_link *after;

    KS_LIST_EACH(cursor, after, &questions->list)
    {
        struct question *question = KS_LIST_ENTRY(cursor, struct question, link);
        if (question->exchange.answered)
            question_free(question);
    }
}

void ks_questions_init(struct ks_questions *questions, struct ks_exchange *exchange,
                       void (*answer)(struct ks_exchange *exchange, const ks_pb_answer *answer))
{
    *questions =
        (struct ks_questions){.exchange = exchange, .answer = answer, .loop = exchange->api->loop};
    questions->sweep.due = sweep;
    ks_link_init(&questions->list);
}

void ks_questions_free(struct ks_questions *questions)
{
    ks_loop_timer_clear(questions->loop, &questions->sweep);
    while (!ks_list_empty(&questions->list))
        question_free(KS_LIST_ENTRY(questions->list.next, struct question, link));
}

void ks_questions_begin(struct ks_questions *questions, uint64_t id, ks_message_handler *handler,
                        const ProtobufCMessage *message, struct ks_arena *arena)
{
    static const struct ks_transport transport = {.wake = wake};
    static const struct ks_inner inner = {.message = told_message, .problem = told_problem};
    struct ks_api *api = questions->exchange->api;
    bool full = questions->count == KS_QUESTIONS_MAX || api->questions == KS_QUESTIONS_ALL_MAX;
    struct question *question = full ? NULL : ks_alloc(sizeof(*question));

    if (question == NULL) {
        ks_exchange_problem(questions->exchange, KS_PROBLEM_EXHAUSTED,
                            "more than %d questions of the stream wait for their answers, or %d of "
                            "all streams",
                            KS_QUESTIONS_MAX, KS_QUESTIONS_ALL_MAX);
        return;
    }
    ks_exchange_init(&question->exchange, api, &transport);
    question->exchange.inner = &inner;
    question->exchange.subscription = questions->exchange->subscription;
    question->questions = questions;
    question->id = id;
    ks_list_append(&questions->list, &question->link);
    questions->count++;
    api->questions++;
    handler(&question->exchange, message, arena);
    /* Most are answered at once: in one turn there may be any number of those. */
    if (question->exchange.answered)
        question_free(question);
}
