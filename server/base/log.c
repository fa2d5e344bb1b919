/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/codec.h"
#include "base/instant.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/plain.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum {
    LINE_MAX_BYTES =
        1000, /* Of a line, without its end: a screen of text, and less than PIPE_BUF. */
    RING_SIZE = 256 << 10 /* A power of two; some thousand lines of a reader that stopped. */
};

static struct {
    int fd;
    enum ks_log_level level;
    enum ks_log_format format;
    uint64_t head; /* Bytes ever taken out of the ring .. */
    uint64_t tail; /* .. and ever put in. */
    uint64_t dropped;
    uint64_t told; /* Of the dropped. */
    char ring[RING_SIZE];
} state = {.fd = STDERR_FILENO, .level = KS_LOG_INFO};

/* A line as it is put together: room for `LINE_MAX_BYTES`, and never more. */
struct line {
    char text[LINE_MAX_BYTES + 1];
    size_t size;
};

/* What closes a line in each form, after the message. */
static const char *const endings[] = {[KS_LOG_TEXT] = "\n", [KS_LOG_JSON] = "\"}\n"};
static const char cut_mark[] = "..";

static const char *const level_names[] = {
    [KS_LOG_DEBUG] = "debug",
    [KS_LOG_INFO] = "info",
    [KS_LOG_WARN] = "warn",
    [KS_LOG_ERROR] = "error",
};
enum { LEVELS = sizeof(level_names) / sizeof(level_names[0]) };

void ks_log_open(int fd, enum ks_log_level level, enum ks_log_format format)
{
    assert(fd >= 0);
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        assert(false);
    state.fd = fd;
    state.level = level;
    state.format = format;
}

enum ks_log_level ks_log_level(void)
{
    return state.level;
}

void ks_log_set_level(enum ks_log_level level)
{
    state.level = level;
}

ks_err ks_log_level_parse(ks_view text, enum ks_log_level *ret_level)
{
    for (size_t i = 0; i < LEVELS; i++) {
        if (ks_view_equal(text, ks_view_text(level_names[i]))) {
            *ret_level = (enum ks_log_level)i;
            return KS_OK;
        }
    }
    return KS_FAIL(INVALID);
}

const char *ks_log_level_name(enum ks_log_level level)
{
    assert((size_t)level < LEVELS);
    return level_names[level];
}

uint64_t ks_log_dropped(void)
{
    return state.dropped;
}

/* Lines. */

static void append(struct line *line, const char *text, size_t size)
{
    assert(line->size + size <= sizeof(line->text));
    memcpy(line->text + line->size, text, size);
    line->size += size;
}

/* One character of the message as it is written: itself, or escaped. Takes it off `rest`. */
static size_t write_character(ks_view *rest, enum ks_log_format format, char buffer[8])
{
    bool json = format == KS_LOG_JSON;
    size_t size = ks_view_character(*rest);
    ks_view taken = {rest->data, size == 0 ? 1 : size};
    uint8_t first = taken.data[0];
    uint32_t code;
    int written;

    *rest = (ks_view){rest->data + taken.size, rest->size - taken.size};
    if (size == 0)
        written = snprintf(buffer, 8, json ? "\\\\x%02x" : "\\x%02x", first);
    else if (ks_plain_is_command(taken, &code))
        written = snprintf(buffer, 8, json || code > 0xff ? "\\u%04x" : "\\x%02x", code);
    else if (json && (first == '"' || first == '\\'))
        written = snprintf(buffer, 8, "\\%c", first);
    else
        written = snprintf(buffer, 8, "%.*s", (int)size, (const char *)taken.data);
    assert(written > 0 && written < 8);
    return (size_t)written;
}

static void append_message(struct line *line, ks_view message)
{
    const char *ending = endings[state.format];
    size_t limit = LINE_MAX_BYTES + 1 - strlen(ending);

    while (message.size > 0) {
        char character[8];
        size_t size = write_character(&message, state.format, character);
        /* What is not the last one must leave room for the mark of a cut. */
        if (line->size + size + (message.size > 0 ? strlen(cut_mark) : 0) > limit) {
            append(line, cut_mark, strlen(cut_mark));
            break;
        }
        append(line, character, size);
    }
    append(line, ending, strlen(ending));
}

static void make_line(struct line *line, enum ks_log_level level, ks_view message)
{
    char time[KS_TIMESTAMP_SIZE];
    int size;

    ks_timestamp_format(ks_wall_now().ms, time);
    if (state.format == KS_LOG_JSON)
        size =
            snprintf(line->text, sizeof(line->text),
                     "{\"time\":\"%s\",\"level\":\"%s\",\"message\":\"", time, level_names[level]);
    else
        size = snprintf(line->text, sizeof(line->text), "%s %-5s ", time, level_names[level]);
    assert(size > 0);
    line->size = (size_t)size;
    append_message(line, message);
}

/* The ring. */

static size_t ring_used(void)
{
    return (size_t)(state.tail - state.head);
}

static bool ring_put(const struct line *line)
{
    size_t at = (size_t)(state.tail % RING_SIZE);
    size_t first = line->size < RING_SIZE - at ? line->size : RING_SIZE - at;

    if (line->size > RING_SIZE - ring_used())
        return false;
    memcpy(state.ring + at, line->text, first);
    memcpy(state.ring, line->text + first, line->size - first);
    state.tail += line->size;
    return true;
}

/* Copies the next whole lines of at most `capacity` bytes, so that no line is torn by another writer of the pipe. */
static size_t ring_peek(char *buffer, size_t capacity)
{
    size_t size = ring_used() < capacity ? ring_used() : capacity;
    size_t at = (size_t)(state.head % RING_SIZE);
    size_t first = size < RING_SIZE - at ? size : RING_SIZE - at;
    const char *end;

    memcpy(buffer, state.ring + at, first);
    memcpy(buffer + first, state.ring, size - first);
    end = memrchr(buffer, '\n', size);
    assert(end != NULL);
    return (size_t)(end - buffer) + 1;
}

static void ring_take(size_t size)
{
    assert(size <= ring_used());
    state.head += size;
    /* An empty ring begins anew, so that a quiet process touches few of its pages. */
    if (state.head == state.tail)
        state.head = state.tail = 0;
}

static void count_dropped(void)
{
    state.dropped++;
    ks_metric_add(KS_METRIC_LOG_LINES_DROPPED, 1);
}

/* Nobody will ever read it. */
static void ring_discard(void)
{
    char lines[PIPE_BUF];

    while (ring_used() > 0) {
        size_t size = ring_peek(lines, sizeof(lines));
        for (size_t i = 0; i < size; i++) {
            if (lines[i] == '\n')
                count_dropped();
        }
        ring_take(size);
    }
}

static void tell_dropped(void)
{
    struct line line;
    char message[64];
    int size;

    if (state.told == state.dropped)
        return;
    size = snprintf(message, sizeof(message), "log: %llu lines dropped, the reader was too slow",
                    (unsigned long long)(state.dropped - state.told));
    assert(size > 0);
    make_line(&line, KS_LOG_WARN, ks_view_of(message, strlen(message)));
    if (ring_put(&line))
        state.told = state.dropped;
}

void ks_log(enum ks_log_level level, const char *format, ...)
{
    char message[LINE_MAX_BYTES + 1];
    struct line line;
    va_list arguments;
    ks_view view;
    int size;

    assert((size_t)level < LEVELS);
    if (level < state.level)
        return;

    va_start(arguments, format);
    size = vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    assert(size >= 0);
    view = ks_view_text(message);
    /* A cut in the middle of a character is no invalid character; the cut itself is told by append_message. */
    if ((size_t)size >= sizeof(message))
        view.size = ks_view_whole_characters(view);

    tell_dropped();
    make_line(&line, level, view);
    if (!ring_put(&line))
        count_dropped();
    /* What somebody should see is not kept for a turn that a crash may never end. */
    if (level >= KS_LOG_WARN)
        (void)ks_log_flush();
}

/* Writes some whole lines if the reader takes them at once. False if it does not. */
static bool write_some(void)
{
    struct pollfd ready = {.fd = state.fd, .events = POLLOUT};
    char lines[PIPE_BUF];
    size_t size;
    ssize_t written;

    if (poll(&ready, 1, 0) != 1)
        return false;
    size = ring_peek(lines, sizeof(lines));
    written = write(state.fd, lines, size);
    if (written < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (written < 0) {
        ring_discard();
        return false;
    }
    ring_take((size_t)written);
    return true;
}

bool ks_log_flush(void)
{
    /* As many writes as empty a full ring, whatever the reader does. */
    for (int i = 0; i < 2 * RING_SIZE / PIPE_BUF && ring_used() > 0; i++) {
        if (!write_some())
            break;
        tell_dropped();
    }
    return ring_used() > 0;
}

void ks_log_close(int wait_ms)
{
    ks_instant until = ks_instant_add(ks_instant_now(), ks_span_ms(wait_ms));

    while (ks_log_flush()) {
        struct pollfd ready = {.fd = state.fd, .events = POLLOUT};
        ks_instant now = ks_instant_now();
        if (ks_instant_reached(now, until))
            return;
        (void)poll(&ready, 1, (int)ks_span_to_ms(ks_instant_since(until, now)) + 1);
    }
}
