/* SPDX-License-Identifier: Apache-2.0 */
#include "main/call.h"

#include "base/json_load.h"
#include "base/plain.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- What is said. ---- */

static ks_err write_all(int fd, ks_view bytes)
{
    while (bytes.size > 0) {
        ssize_t written = write(fd, bytes.data, bytes.size);

        if (written < 0 && errno != EINTR)
            return KS_FAIL(SYSTEM);
        if (written > 0)
            bytes = ks_view_of(bytes.data + written, bytes.size - (size_t)written);
    }
    return KS_OK;
}

/* Writes what others may have said, so that it commands no terminal; lines stay lines. */
static ks_err write_plain(int fd, ks_view text)
{
    char shown[4096];
    size_t size = 0;

    while (text.size > 0) {
        if (size + KS_PLAIN_SIZE > sizeof shown) {
            KS_TRY(write_all(fd, ks_view_of(shown, size)));
            size = 0;
        }
        if (text.data[0] == '\n') {
            shown[size++] = '\n';
            text = ks_view_of(text.data + 1, text.size - 1);
        } else {
            size += ks_plain_next(&text, shown + size);
        }
    }
    return write_all(fd, ks_view_of(shown, size));
}

void ks_call_complain(const char *format, ...)
{
    enum { LINE_MAX_SIZE = 8192 };
    char line[LINE_MAX_SIZE] = "kinesis-sidecar: ";
    size_t length = strlen(line);
    va_list arguments;
    ks_err said;

    va_start(arguments, format);
    (void)vsnprintf(line + length, sizeof line - length - 1, format, arguments);
    va_end(arguments);
    length = strlen(line);
    line[length] = '\n';
    said = write_plain(STDERR_FILENO, ks_view_of(line, length + 1));
    (void)said; /* Nobody is left to tell. */
}

ks_err ks_call_print(void *arg, ks_view bytes)
{
    (void)arg;
    return write_all(STDOUT_FILENO, bytes);
}

ks_err ks_call_show(ks_view text)
{
    return isatty(STDOUT_FILENO) == 1 ? write_plain(STDOUT_FILENO, text)
                                      : write_all(STDOUT_FILENO, text);
}

ks_err ks_call_keep(void *arg, ks_view bytes)
{
    return ks_bytes_append(arg, bytes);
}

/* ---- Words and flags. ---- */

/* The flag that `text` names, `--name` or `--name=value`; -1 if it is none of ours. */
static int find_flag(const struct ks_call_flag *flags, const char *text)
{
    size_t length = strcspn(text, "=");

    for (int i = 0; flags[i].name != NULL; i++) {
        if (strlen(flags[i].name) == length && strncmp(flags[i].name, text, length) == 0)
            return i;
    }
    return -1;
}

/* Takes the flag at argv[at] and gives the index behind it; -1: it complained. */
static int take_flag(int argc, char *const *argv, int at, const struct ks_call_flag *flag,
                     const char **value)
{
    const char *equals = strchr(argv[at], '=');

    if (*value != NULL) {
        ks_call_complain("%s: given twice", flag->name);
        return -1;
    }
    if (!flag->takes_value) {
        *value = "";
        if (equals == NULL)
            return at + 1;
        ks_call_complain("%s: takes no value", flag->name);
        return -1;
    }
    if (equals != NULL) {
        *value = equals + 1;
        return at + 1;
    }
    if (at + 1 == argc) {
        ks_call_complain("%s: needs a value", flag->name);
        return -1;
    }
    *value = argv[at + 1];
    return at + 2;
}

/* What is left of a command line for base/options. */
struct rest {
    char *options[2 * KS_OPTIONS + 2];
    int count;
};
enum { REST_MAX = 2 * KS_OPTIONS + 2 };

/* Takes the option at argv[at] with its value and gives the index behind it; -1: it complained. */
static int take_option(int argc, char *const *argv, int at, struct rest *rest)
{
    const bool whole = strchr(argv[at], '=') != NULL;

    for (int i = 0; i < (whole ? 1 : 2) && at < argc; i++) {
        if (rest->count == REST_MAX) {
            ks_call_complain("%s: too many options", argv[0]);
            return -1;
        }
        rest->options[rest->count++] = argv[at++];
    }
    return at;
}

/* False: it complained. */
static bool take_word(char *const *argv, int at, uint32_t words_max, struct ks_call *call)
{
    if (call->word_count == words_max) {
        ks_call_complain("%s: does not take %s", argv[0], argv[at]);
        return false;
    }
    call->words[call->word_count++] = argv[at];
    return true;
}

/* Sorts the command line. False: it complained. */
static bool sort_line(int argc, char *const *argv, const struct ks_call_flag *flags,
                      uint32_t words_max, struct ks_call *call, struct rest *rest)
{
    int at = 1;

    assert(words_max <= KS_CALL_WORDS_MAX);

    *call = (struct ks_call){.word_count = 0};
    *rest = (struct rest){.options = {argv[0]}, .count = 1};
    while (at >= 0 && at < argc) {
        int flag = find_flag(flags, argv[at]);

        assert(flag < KS_CALL_FLAGS_MAX);
        if (flag >= 0)
            at = take_flag(argc, argv, at, &flags[flag], &call->values[flag]);
        else if (strncmp(argv[at], "--", 2) == 0)
            at = take_option(argc, argv, at, rest);
        else
            at = take_word(argv, at, words_max, call) ? at + 1 : -1;
    }
    return at >= 0;
}

bool ks_call_read(int argc, char *const *argv, char *const *environment,
                  const struct ks_call_flag *flags, uint32_t words_max, struct ks_call *ret_call)
{
    struct ks_detail detail;
    struct rest rest;

    if (!sort_line(argc, argv, flags, words_max, ret_call, &rest))
        return false;
    if (ks_ok(ks_options_read_partly(rest.count, rest.options, environment, &ret_call->options,
                                     &detail))) {
        ks_options_free(&ret_call->options); /* Who asks needs no subscriptions' options. */
        return true;
    }
    ks_call_complain("%s", detail.text);
    return false;
}

bool ks_call_read_whole(int argc, char *const *argv, char *const *environment,
                        const struct ks_call_flag *flags, struct ks_call *ret_call)
{
    struct ks_detail detail;
    struct rest rest;

    if (!sort_line(argc, argv, flags, 0, ret_call, &rest))
        return false;
    if (ks_ok(ks_options_read(rest.count, rest.options, environment, &ret_call->options, &detail)))
        return true;
    ks_call_complain("%s", detail.text);
    return false;
}

/* ---- A call. ---- */

enum { TOKEN_MAX = 4096 };

/* The bearer token, the operator's if there is one, "" without any. False: it complained. */
static bool read_token(const struct ks_options *options, char ret_token[TOKEN_MAX])
{
    bool operator= options->operator_token_file[0] != '\0';
    const char *path = operator? options->operator_token_file : options->token_file;
    ssize_t size;
    int fd;

    ret_token[0] = '\0';
    if (path[0] == '\0')
        return true;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    size = fd < 0 ? -1 : read(fd, ret_token, TOKEN_MAX - 1);
    if (fd >= 0)
        (void)close(fd);
    if (size < 0) {
        ks_call_complain("--%stoken-file: %s cannot be read", operator? "operator-" : "", path);
        return false;
    }
    ret_token[size] = '\0';
    ret_token[strcspn(ret_token, "\r\n")] = '\0';
    return true;
}

/* Tells an answer from an error. */
struct sorter {
    const struct ks_call_request *request;
    struct ks_bytes error;
    struct ks_bytes answer; /* To be shown: at last the beginning of a character. */
    const int *status;      /* Known before the first part. */
};

/* Shows what has come of an answer; what its part may have cut in two waits for the next one. */
static ks_err show_part(struct ks_bytes *answer, ks_view bytes)
{
    size_t whole;

    KS_TRY(ks_bytes_append(answer, bytes));
    whole = ks_view_whole_characters(ks_bytes_view(answer));
    KS_TRY(ks_call_show(ks_view_of(answer->data, whole)));
    ks_bytes_consume(answer, whole);
    return KS_OK;
}

static ks_err sort_part(void *arg, ks_view bytes)
{
    struct sorter *sorter = arg;

    if (*sorter->status / 100 == 2)
        return sorter->request->part == NULL ? show_part(&sorter->answer, bytes)
                                             : sorter->request->part(sorter->request->arg, bytes);
    /* What is too long for a line is cut. */
    if (sorter->error.size + bytes.size > sorter->error.max)
        bytes.size = sorter->error.max - sorter->error.size;
    return ks_bytes_append(&sorter->error, bytes);
}

/* The sentence of a problem (RFC 9457), or the whole body where it is none. */
static void complain_of(int status, ks_view body)
{
    json_error_t error;
    json_t *problem = NULL;
    const char *sentence = NULL;

    if (ks_ok(ks_json_load(body, 0, &problem, &error)))
        sentence = json_string_value(json_object_get(problem, "detail"));
    if (sentence != NULL)
        ks_call_complain("the sidecar answers %d: %s", status, sentence);
    else
        ks_call_complain("the sidecar answers %d: %.*s", status, (int)body.size,
                         body.size > 0 ? (const char *)body.data : "");
    json_decref(problem);
}

bool ks_call_send(const struct ks_call *call, const struct ks_call_request *request)
{
    enum { ERROR_MAX = 4096, PART_MAX = 1 << 20 };
    struct ks_address addresses[KS_ADDRESSES_MAX];
    struct ks_detail detail = {""};
    struct sorter sorter = {.request = request};
    struct ks_client_request sent = {
        .method = request->method,
        .target = request->target,
        .accept = request->accept,
        .body = request->body,
        .timeout = request->timeout,
        .part = sort_part,
        .arg = &sorter,
    };
    char token[TOKEN_MAX];
    uint32_t count;
    int status = 0;
    ks_err err;

    if (!read_token(&call->options, token))
        return false;
    err = ks_address_parse_list(
        ks_view_text(request->ops ? call->options.ops_listen : call->options.listen), addresses,
        &count, &detail);
    assert(ks_ok(err)); /* The options were checked. */

    sent.token = token;
    sorter.status = &status;
    ks_bytes_init(&sorter.error, ERROR_MAX);
    ks_bytes_init(&sorter.answer, PART_MAX);
    err = ks_client_call(addresses, count, &sent, &status, &detail);
    if (ks_ok(err))
        err = ks_call_show(ks_bytes_view(&sorter.answer));
    if (!ks_ok(err))
        ks_call_complain("%s", detail.text[0] != '\0' ? detail.text : ks_err_text(err));
    else if (status / 100 != 2)
        complain_of(status, ks_view_trim(ks_bytes_view(&sorter.error)));
    ks_bytes_free(&sorter.error);
    ks_bytes_free(&sorter.answer);
    return ks_ok(err) && status / 100 == 2;
}
