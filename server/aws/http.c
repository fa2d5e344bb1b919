/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/http.h"

#include "aws/limits.h"
#include "aws/silence.h"
#include "aws/trust.h"
#include "base/budget.h"
#include "base/list.h"
#include "base/log.h"

#include <assert.h>
#include <curl/curl.h>
#include <stdio.h>
#include <sys/epoll.h>

/* Sockets of one transfer at a time: two addresses that are tried at once, and the one that wakes
 * the resolver. */
enum { WATCHES_PER_CALL = 4 };
/* curl's handles that are kept: each costs about 6 KB and saves 5 us. */
enum { HANDLES_KEPT = 64 };
/* Kept connections older than this are not used again: servers close idle ones, and a request that
 * meets the close is lost. DynamoDB and Kinesis close after a minute or more. */
enum { IDLE_SECONDS_MAX = 45 };
/* Where the options do not say; see http.h. */
enum { CONNECTIONS_KEPT = 64, CONNECT_TIMEOUT_MS = 3100 };
/* There are as many streams as shards, and a frame of HTTP/2 is no longer. As much is held to send with, which curl
 * makes 64 KiB by itself and keeps for as long as the stream is open. */
static const long STREAM_BUFFER_BYTES = 16 * 1024;
/* Each connection that lies idle costs some ten kilobytes. */
enum { BUSY_KEPT_MAX = 256 };

struct socket_watch {
    struct ks_watch watch; /* First: `ready` gets its address. */
    struct ks_http *http;
    struct ks_link link; /* In http->watches or http->spare_watches. */
};

struct ks_http {
    struct ks_loop *loop;
    CURLM *multi;
    struct ks_timer timer;
    char *ca_bundle;
    struct ks_proxies proxies;
    long connect_timeout_ms;
    struct ks_link calls;
    struct ks_link watches;
    struct ks_link spare_watches;
    uint32_t call_count;
    uint32_t watch_count; /* In both lists. */
    uint32_t busiest;     /* The most calls that there were at once. */
    uint32_t connections_kept;
    CURL *handles[HANDLES_KEPT];
    uint32_t handle_count;
    bool working; /* curl is at work: nothing may be cancelled now. */
};

struct ks_http_call {
    struct ks_http *http;
    struct ks_link link;
    CURL *handle;
    struct curl_slist *headers;
    ks_view body; /* What is still to be sent. */
    bool sent;    /* The connection stands; from here on bytes of the request leave. */
    bool kept;    /* And it was made for an earlier request. */
    bool again;   /* curl wanted to send it once more. */
    bool fine;    /* curl ended it, and without an error. */
    struct ks_http_sink sink;
    bool has_sink;
    bool sinking; /* The response is a 2xx and goes to the sink. */
    bool begun;
    bool stream;
    struct ks_silence silence; /* Deaf while its sink is busy. */
    ks_span silence_kept;
    ks_span silence_stream;
    size_t response_max;
    size_t received;
    struct ks_bytes head;
    struct ks_bytes response;
    ks_err err; /* Ours, when we end a transfer. */
    void (*done)(void *arg, const struct ks_http_answer *answer);
    void *arg;
    char text[CURL_ERROR_SIZE];
};

/* --- Errors --- */

/* Their codes die here. What is not listed failed on the way. */
static ks_err err_of(CURLcode code)
{
    switch (code) {
    case CURLE_OK: return KS_OK;
    case CURLE_OPERATION_TIMEDOUT: return KS_FAIL(TIMEOUT);
    case CURLE_OUT_OF_MEMORY: return KS_FAIL(NO_MEMORY);
    case CURLE_URL_MALFORMAT:
    case CURLE_SSL_CACERT_BADFILE: return KS_FAIL(INVALID);
    case CURLE_PEER_FAILED_VERIFICATION: return KS_FAIL(DENIED);
    /* An answer that is no HTTP/1.1; "protocol" is what curl says about one without a status line.
     */
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING: return KS_FAIL(SERVER);
    default: return KS_FAIL(CONNECTION);
    }
}

/* --- The response, as curl brings it --- */

static long status_of(const struct ks_http_call *call)
{
    long status = 0;

    (void)curl_easy_getinfo(call->handle, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

/* Keeps the first failure; the return value that makes curl end the transfer. */
static size_t refuse(struct ks_http_call *call, ks_err err)
{
    if (ks_ok(call->err))
        call->err = err;
    return 0;
}

static size_t on_head(char *data, size_t one, size_t size, void *arg)
{
    struct ks_http_call *call = arg;
    ks_view line = ks_view_of(data, one * size);

    ks_silence_broken(&call->silence);
    /* A status line: what came before was an interim response (1xx). */
    if (ks_view_starts(line, KS_VIEW("HTTP/")))
        ks_bytes_clear(&call->head);
    ks_err err = ks_bytes_append(&call->head, line);
    if (!ks_ok(err))
        return refuse(call, err);
    return line.size;
}

/* Nobody asked for gzip, and nobody here opens it. */
static bool is_encoded(const struct ks_http_call *call)
{
    ks_view encoding = ks_head_find(ks_bytes_view(&call->head), "Content-Encoding");

    return encoding.size > 0 && !ks_view_equal_nocase(encoding, KS_VIEW("identity"));
}

static bool is_endless(const struct ks_http_call *call)
{
    return call->stream && call->sinking;
}

static ks_err begin_body(struct ks_http_call *call)
{
    long status = status_of(call);
    curl_off_t size = -1;

    call->begun = true;
    if (is_encoded(call))
        return KS_FAIL(SERVER);
    call->sinking = call->has_sink && status >= 200 && status < 300;
    if (is_endless(call) && call->silence_stream.us > 0)
        ks_silence_limit(&call->silence, call->silence_stream);
    (void)curl_easy_getinfo(call->handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &size);
    if (!is_endless(call) && size > 0 && (uint64_t)size > call->response_max)
        return KS_FAIL(FULL);
    if (call->sinking)
        return call->sink.begin == NULL
                   ? KS_OK
                   : call->sink.begin(call->sink.arg, ks_bytes_view(&call->head), size);
    return size > 0 ? ks_bytes_reserve(&call->response, (size_t)size) : KS_OK;
}

static size_t on_body(char *data, size_t one, size_t size, void *arg)
{
    struct ks_http_call *call = arg;
    ks_view bytes = ks_view_of(data, one * size);
    ks_err err = call->begun ? KS_OK : begin_body(call);

    if (ks_ok(err) && !is_endless(call) && bytes.size > call->response_max - call->received)
        err = KS_FAIL(FULL);
    if (ks_ok(err))
        err = call->sinking ? call->sink.part(call->sink.arg, bytes)
                            : ks_bytes_append(&call->response, bytes);
    call->silence.deaf = is_endless(call) && ks_err_is(err, KS_ERR_BUSY);
    if (call->silence.deaf)
        return CURL_WRITEFUNC_PAUSE;
    if (!ks_ok(err))
        return refuse(call, err);
    ks_silence_broken(&call->silence);
    call->received += bytes.size;
    return bytes.size;
}

/* The body of the request. curl is given no way to rewind it: were a kept connection dead, curl
 * would send the whole request again by itself, and nobody would know which of the two the server
 * had done. */
static size_t on_send(char *buffer, size_t one, size_t size, void *arg)
{
    struct ks_http_call *call = arg;
    size_t room = one * size;
    size_t taken = call->body.size < room ? call->body.size : room;

    if (taken > 0)
        memcpy(buffer, call->body.data, taken);
    call->body = ks_view_of(call->body.data + taken, call->body.size - taken);
    ks_silence_broken(&call->silence);
    return taken;
}

/* Called when the connection stands, through a proxy and with TLS where they are, and before the first
 * byte of the request. A second time it is curl that sends by itself what a dead connection took. */
static int on_connected(void *arg, char *to, char *from, int to_port, int from_port)
{
    struct ks_http_call *call = arg;
    long made = 1;

    (void)to;
    (void)from;
    (void)to_port;
    (void)from_port;
    call->again = call->sent;
    if (call->again)
        return CURL_PREREQFUNC_ABORT;
    (void)curl_easy_getinfo(call->handle, CURLINFO_NUM_CONNECTS, &made);
    call->kept = made == 0;
    call->sent = true;
    if (call->kept && call->silence_kept.us > 0)
        ks_silence_limit(&call->silence, call->silence_kept);
    return CURL_PREREQFUNC_OK;
}

/* --- Ends of calls --- */

/* curl counts connections in use, too: were so many not added, each answer would close a connection and each request
 * open one as soon as more are busy than are kept. Those that are idle go by their age. */
static ks_err keep_connections(struct ks_http *http)
{
    long most = (long)http->connections_kept + (long)http->busiest;

    return curl_multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, most) == CURLM_OK
               ? KS_OK
               : KS_FAIL(NO_MEMORY);
}

/* Takes the call out of everything and frees it. */
static void forget(struct ks_http_call *call)
{
    struct ks_http *http = call->http;

    ks_silence_end(&call->silence);
    if (call->handle != NULL) {
        (void)curl_multi_remove_handle(http->multi, call->handle);
        curl_easy_reset(call->handle);
        /* Of a name that was not found 7.88 keeps its buffer, and refuses to be given a size for it ever again. */
        if (call->fine && http->handle_count < HANDLES_KEPT)
            http->handles[http->handle_count++] = call->handle;
        else
            curl_easy_cleanup(call->handle);
    }
    curl_slist_free_all(call->headers);
    ks_bytes_free(&call->head);
    ks_bytes_free(&call->response);
    ks_list_remove(&call->link);
    http->call_count--;
    ks_free(call);
}

/* Whether a connection that was made for an earlier request failed without a byte. */
static bool is_stale(const struct ks_http_call *call, ks_err err)
{
    return call->kept && call->head.size == 0 &&
           (ks_err_is(err, KS_ERR_TIMEOUT) || ks_err_is(err, KS_ERR_CONNECTION));
}

static bool head_is_whole(const struct ks_http_call *call)
{
    size_t size = call->head.size;

    return size > 2 && (memcmp(call->head.data + size - 2, "\n\n", 2) == 0 ||
                        memcmp(call->head.data + size - 3, "\n\r\n", 3) == 0);
}

static void explain(const struct ks_http_call *call, CURLcode code, struct ks_detail *ret_detail)
{
    if (call->again)
        ks_detail_set(ret_detail, "its kept connection was dead");
    else if (code == CURLE_OK || !ks_ok(call->err))
        ks_detail_set(ret_detail, "its response was not taken: %s (%zu bytes came, %zu may)",
                      ks_err_text(call->err), call->received, call->response_max);
    else
        ks_detail_set(ret_detail, "%s",
                      call->text[0] != '\0' ? call->text : curl_easy_strerror(code));
}

/* Ends the call and tells its caller, in this order: the caller may do what it likes. */
static void tell(struct ks_http_call *call, CURLcode code)
{
    void (*done)(void *arg, const struct ks_http_answer *answer) = call->done;
    void *arg = call->arg;

    call->fine = code == CURLE_OK;
    /* To curl a response that ends within its head is whole. */
    if (code == CURLE_OK && !head_is_whole(call))
        code = CURLE_PARTIAL_FILE;
    /* A response without a body begins, too: the sink waits for it. */
    if (code == CURLE_OK && !call->begun)
        call->err = begin_body(call);

    struct ks_bytes head = call->head;
    struct ks_bytes body = call->response;
    struct ks_http_answer answer = {
        .err = ks_ok(call->err) ? err_of(code) : call->err,
        .status = (int)status_of(call),
        .sent = call->sent,
        .received = call->received,
        .head = ks_bytes_view(&head),
        .body = ks_bytes_view(&body),
    };
    answer.stale = is_stale(call, answer.err);
    if (!ks_ok(answer.err))
        explain(call, code, &answer.detail);
    ks_bytes_init(&call->head, 0);
    ks_bytes_init(&call->response, 0);
    forget(call);

    done(arg, &answer);
    ks_bytes_free(&head);
    ks_bytes_free(&body);
}

/* Tells those whose transfers ended. Called from the loop only, never from within ks_http_send. */
static void tell_finished(struct ks_http *http)
{
    int left = 0;
    CURLMsg *message;

    while ((message = curl_multi_info_read(http->multi, &left)) != NULL) {
        struct ks_http_call *call = NULL;
        CURLcode code = message->data.result;

        assert(message->msg == CURLMSG_DONE);
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&call);
        assert(call != NULL);
        tell(call, code);
    }
}

/* --- Silence --- */

static void silent(void *arg)
{
    struct ks_http_call *call = arg;
    long long ms = (long long)ks_span_to_ms(call->silence.most);

    if (!ks_ok(call->err)) {
        tell(call, CURLE_WRITE_ERROR);
        return;
    }
    (void)snprintf(call->text, sizeof(call->text), "nothing came for %lld ms", ms);
    tell(call, CURLE_OPERATION_TIMEDOUT);
}

void ks_http_resume(struct ks_http_call *call)
{
    struct ks_http *http = call->http;

    assert(!http->working);
    if (!call->silence.deaf)
        return;
    call->silence.deaf = false;
    ks_silence_broken(&call->silence);
    http->working = true;
    CURLcode code = curl_easy_pause(call->handle, CURLPAUSE_CONT);
    http->working = false;
    if (code == CURLE_OK)
        return;
    /* What it brought was refused; nobody is told from within. */
    if (ks_ok(call->err))
        call->err = err_of(code);
    ks_silence_call(&call->silence);
}

/* --- curl on the loop --- */

static void work(struct ks_http *http, curl_socket_t fd, int events)
{
    int running = 0;

    http->working = true;
    CURLMcode code = curl_multi_socket_action(http->multi, fd, events, &running);
    http->working = false;
    /* It fails for our mistakes only. */
    assert(code == CURLM_OK);
    tell_finished(http);
}

static void on_ready(struct ks_watch *watch, uint32_t events)
{
    struct socket_watch *socket = (struct socket_watch *)watch;
    int ready = ((events & EPOLLIN) != 0 ? CURL_CSELECT_IN : 0) |
                ((events & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0) |
                ((events & (EPOLLERR | EPOLLHUP)) != 0 ? CURL_CSELECT_ERR : 0);

    work(socket->http, watch->fd, ready);
}

static void on_due(struct ks_timer *timer)
{
    work(KS_LIST_ENTRY(timer, struct ks_http, timer), CURL_SOCKET_TIMEOUT, 0);
}

static int on_timer(CURLM *multi, long timeout_ms, void *arg)
{
    struct ks_http *http = arg;

    (void)multi;
    if (timeout_ms < 0)
        ks_loop_timer_clear(http->loop, &http->timer);
    else
        ks_loop_timer_set(http->loop, &http->timer,
                          ks_instant_add(ks_loop_now(http->loop), ks_span_ms(timeout_ms)));
    return 0;
}

static struct socket_watch *new_watch(struct ks_http *http)
{
    struct socket_watch *socket = ks_alloc(sizeof(*socket));

    if (socket == NULL)
        return NULL;
    socket->http = http;
    socket->watch.ready = on_ready;
    ks_link_init(&socket->link);
    ks_list_append(&http->spare_watches, &socket->link);
    http->watch_count++;
    return socket;
}

/* Enough watches for the calls in flight and one more: curl is never to be refused one, because it
 * would refuse all work from then on. */
static ks_err reserve_watches(struct ks_http *http)
{
    while (http->watch_count < (http->call_count + 1) * WATCHES_PER_CALL) {
        if (new_watch(http) == NULL)
            return KS_FAIL(NO_MEMORY);
    }
    return KS_OK;
}

static void move_watch(struct socket_watch *socket, struct ks_link *list)
{
    ks_list_remove(&socket->link);
    ks_list_append(list, &socket->link);
}

static int on_socket(CURL *handle, curl_socket_t fd, int what, void *arg, void *of_socket)
{
    struct ks_http *http = arg;
    struct socket_watch *socket = of_socket;
    uint32_t events = (what & CURL_POLL_IN ? (uint32_t)EPOLLIN : 0) |
                      (what & CURL_POLL_OUT ? (uint32_t)EPOLLOUT : 0);

    (void)handle;
    if (what == CURL_POLL_REMOVE) {
        if (socket != NULL) {
            ks_loop_unwatch(http->loop, &socket->watch);
            move_watch(socket, &http->spare_watches);
        }
        return 0;
    }
    if (socket == NULL) {
        /* Without a watch the transfer runs into its timeout, and only that one. */
        if (ks_list_empty(&http->spare_watches) && new_watch(http) == NULL)
            return 0;
        socket = KS_LIST_ENTRY(http->spare_watches.next, struct socket_watch, link);
        move_watch(socket, &http->watches);
        socket->watch.fd = fd;
        (void)curl_multi_assign(http->multi, fd, socket);
    }
    ks_err err = ks_loop_watch(http->loop, &socket->watch, events);
    if (!ks_ok(err))
        ks_warn("http: a socket is not watched (%s), its request will time out", ks_err_text(err));
    return 0;
}

/* --- Calls --- */

static bool is_url(const char *url)
{
    return strlen(url) <= KS_HTTP_URL_MAX && ks_head_is_line(ks_view_text(url)) &&
           (ks_view_starts(ks_view_text(url), KS_VIEW("http://")) ||
            ks_view_starts(ks_view_text(url), KS_VIEW("https://")));
}

static ks_err add_line(struct ks_http_call *call, const char *line)
{
    struct curl_slist *longer = curl_slist_append(call->headers, line);

    if (longer == NULL)
        return KS_FAIL(NO_MEMORY);
    call->headers = longer;
    return KS_OK;
}

static ks_err add_headers(struct ks_http_call *call, const struct ks_http_request *request)
{
    char line[KS_HTTP_HEADER_MAX + KS_HTTP_NAME_MAX + 4];

    if (request->header_count > KS_HTTP_HEADERS_MAX)
        return KS_FAIL(INVALID);
    for (uint32_t at = 0; at < request->header_count; at++) {
        const struct ks_http_header *header = &request->headers[at];

        if (!ks_head_is_token(header->name) || !ks_head_is_line(header->value) ||
            header->name.size > KS_HTTP_NAME_MAX || header->value.size > KS_HTTP_HEADER_MAX)
            return KS_FAIL(INVALID);
        /* A header without a value ends with ';' in curl's list; with ':' it would be left out. */
        snprintf(line, sizeof(line), "%.*s%s%.*s", (int)header->name.size,
                 (const char *)header->name.data, header->value.size == 0 ? ";" : ": ",
                 (int)header->value.size, (const char *)header->value.data);
        KS_TRY(add_line(call, line));
    }
    KS_TRY(add_line(call, "Accept-Encoding:"));
    KS_TRY(add_line(call, "Transfer-Encoding:"));
    return add_line(call, "Expect:");
}

/* Every option is set, none is left to its default, but that of .netrc files: they are ignored by default, and a
 * libcurl that is built without them refuses the option. */
static const struct option {
    CURLoption name;
    long value;
} TRANSPORT[] = {
    {CURLOPT_FOLLOWLOCATION, 0},
    {CURLOPT_PATH_AS_IS, 1}, /* As it was signed. */
    {CURLOPT_HTTP_CONTENT_DECODING, 0},
    {CURLOPT_NOSIGNAL, 1},
    {CURLOPT_NOPROGRESS, 1},
    {CURLOPT_TCP_NODELAY, 1},
    {CURLOPT_TCP_KEEPALIVE, 1},
    {CURLOPT_TCP_KEEPIDLE, 30},
    {CURLOPT_TCP_KEEPINTVL, 10},
    {CURLOPT_MAXAGE_CONN, IDLE_SECONDS_MAX},
    {CURLOPT_QUICK_EXIT, 1}, /* A cancel does not wait for the resolver's thread. */
    {CURLOPT_BUFFERSIZE, 64 * 1024},
    {CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2},
    {CURLOPT_SSL_VERIFYPEER, 1},
    {CURLOPT_SSL_VERIFYHOST, 2},
    {CURLOPT_PROXY_SSLVERSION, CURL_SSLVERSION_TLSv1_2},
    {CURLOPT_PROXY_SSL_VERIFYPEER, 1},
    {CURLOPT_PROXY_SSL_VERIFYHOST, 2},
    {CURLOPT_PROXYAUTH, (long)CURLAUTH_BASIC},
    {CURLOPT_HEADEROPT, CURLHEADER_SEPARATE}, /* What is signed is not for the proxy. */
    {CURLOPT_SUPPRESS_CONNECT_HEADERS, 1},
};

/* All of it: a failure is a lack of memory. */
static bool set_transport(const struct ks_http *http, CURL *handle)
{
    for (size_t at = 0; at < sizeof(TRANSPORT) / sizeof(TRANSPORT[0]); at++) {
        if (curl_easy_setopt(handle, TRANSPORT[at].name, TRANSPORT[at].value) != CURLE_OK)
            return false;
    }
    /* With a CA path curl keeps no parsed bundle, and each new connection would cost 27 ms of CPU.
     */
    return curl_easy_setopt(handle, CURLOPT_CAPATH, NULL) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_CAINFO, http->ca_bundle) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, http->connect_timeout_ms) ==
               CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_PROXY_CAPATH, NULL) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_PROXY_CAINFO, http->ca_bundle) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
}

/* Both said, or curl would look for them in the environment. */
static bool set_proxy(const struct ks_http *http, CURL *handle,
                      const struct ks_http_request *request)
{
    struct ks_url url;
    bool direct = request->direct || !ks_ok(ks_url_split(ks_view_text(request->url), &url));

    return curl_easy_setopt(handle, CURLOPT_PROXY,
                            direct ? "" : ks_proxies_find(&http->proxies, &url)) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_NOPROXY, "") == CURLE_OK;
}

static bool set_body(struct ks_http_call *call, const struct ks_http_request *request)
{
    CURL *handle = call->handle;

    if (strcmp(request->method, "GET") == 0)
        return curl_easy_setopt(handle, CURLOPT_HTTPGET, 1L) == CURLE_OK;
    return curl_easy_setopt(handle, CURLOPT_POST, 1L) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request->method) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.size) ==
               CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_READFUNCTION, on_send) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_READDATA, call) == CURLE_OK;
}

/* A connection of its own for each stream: with several on one, curl 7.88 stalls those that were paused, and cannot use
 * one again at all where HTTP/2 was taken for granted. */
static bool set_protocol(CURL *handle, const struct ks_http_request *request)
{
    bool tls = ks_view_starts(ks_view_text(request->url), KS_VIEW("https:"));
    long h2 = tls ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE;
    long ms = (long)ks_span_to_ms(request->timeout);

    if (!request->stream)
        return curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) ==
                   CURLE_OK &&
               curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, ms < 1 ? 1L : ms) == CURLE_OK;
    return curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, STREAM_BUFFER_BYTES) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_UPLOAD_BUFFERSIZE, STREAM_BUFFER_BYTES) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, h2) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_FRESH_CONNECT, 1L) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_FORBID_REUSE, 1L) == CURLE_OK;
}

/* curl counts the life of a connection in whole seconds: one less, and a new one where none is left. */
static bool set_age(CURL *handle, ks_span age_max)
{
    long seconds = (long)(ks_span_to_ms(age_max) / 1000) - 1;
    bool fresh = age_max.us > 0 && seconds < 1;

    return curl_easy_setopt(handle, CURLOPT_FRESH_CONNECT, (long)fresh) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_MAXLIFETIME_CONN, seconds < 1 ? 0L : seconds) ==
               CURLE_OK;
}

static bool set_request(struct ks_http_call *call, const struct ks_http_request *request)
{
    CURL *handle = call->handle;

    return set_age(handle, request->connection_age_max) && set_protocol(handle, request) &&
           curl_easy_setopt(handle, CURLOPT_URL, request->url) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_HTTPHEADER, call->headers) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_PREREQFUNCTION, on_connected) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_PREREQDATA, call) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, on_head) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_HEADERDATA, call) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_WRITEDATA, call) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_PRIVATE, call) == CURLE_OK &&
           curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, call->text) == CURLE_OK;
}

static ks_err start(struct ks_http *http, struct ks_http_call *call,
                    const struct ks_http_request *request)
{
    KS_TRY(reserve_watches(http));
    if (http->call_count > http->busiest && http->busiest < BUSY_KEPT_MAX) {
        http->busiest = http->call_count;
        KS_TRY(keep_connections(http));
    }
    KS_TRY(add_headers(call, request));
    call->handle = http->handle_count > 0 ? http->handles[--http->handle_count] : curl_easy_init();
    if (call->handle == NULL || !set_transport(http, call->handle) ||
        !set_proxy(http, call->handle, request) || !set_request(call, request) ||
        !set_body(call, request))
        return KS_FAIL(NO_MEMORY);
    return curl_multi_add_handle(http->multi, call->handle) == CURLM_OK ? KS_OK
                                                                        : KS_FAIL(NO_MEMORY);
}

ks_err ks_http_send(struct ks_http *http, const struct ks_http_request *request,
                    struct ks_http_call **ret_call)
{
    bool known = strcmp(request->method, "GET") == 0 || strcmp(request->method, "POST") == 0 ||
                 strcmp(request->method, "PUT") == 0 || strcmp(request->method, "DELETE") == 0;

    assert(!http->working && known);
    assert(!request->stream || request->sink != NULL);
    if (http->call_count >= KS_HTTP_CALLS_MAX)
        return KS_FAIL(FULL);
    if (!is_url(request->url))
        return KS_FAIL(INVALID);

    struct ks_http_call *call = ks_alloc(sizeof(*call));
    if (call == NULL)
        return KS_FAIL(NO_MEMORY);
    call->http = http;
    call->body = request->body;
    call->response_max = request->response_max;
    call->has_sink = request->sink != NULL;
    if (call->has_sink)
        call->sink = *request->sink;
    call->done = request->done;
    call->arg = request->arg;
    ks_bytes_init(&call->head, KS_HTTP_HEAD_MAX);
    ks_bytes_init(&call->response, request->response_max);
    call->response.secret = request->secret;
    ks_link_init(&call->link);
    ks_list_append(&http->calls, &call->link);
    http->call_count++;

    call->stream = request->stream;
    call->silence_kept = request->silence_kept;
    call->silence_stream = request->silence_stream;
    ks_silence_begin(&call->silence, http->loop, request->silence, silent, call);
    ks_err err = start(http, call, request);
    if (!ks_ok(err)) {
        forget(call);
        return err;
    }
    *ret_call = call;
    return KS_OK;
}

void ks_http_cancel(struct ks_http_call *call)
{
    assert(!call->http->working);

    forget(call);
}

uint32_t ks_http_open_calls(const struct ks_http *http)
{
    return http->call_count;
}

/* --- The client --- */

static ks_err set_multi(struct ks_http *http)
{
    CURLM *multi = http->multi;
    bool set = curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket) == CURLM_OK &&
               curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, http) == CURLM_OK &&
               curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer) == CURLM_OK &&
               curl_multi_setopt(multi, CURLMOPT_TIMERDATA, http) == CURLM_OK &&
               curl_multi_setopt(multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING) == CURLM_OK;

    return set ? keep_connections(http) : KS_FAIL(NO_MEMORY);
}

ks_err ks_http_new(struct ks_loop *loop, const struct ks_http_options *options,
                   struct ks_http **ret_http, struct ks_detail *detail)
{
    const char *bundle = NULL;

    KS_TRY(ks_trust_find(options->ca_bundle, &bundle, detail));
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return KS_FAIL(NO_MEMORY);
    struct ks_http *http = ks_alloc(sizeof(*http));
    if (http == NULL) {
        curl_global_cleanup();
        return KS_FAIL(NO_MEMORY);
    }
    http->loop = loop;
    http->timer.due = on_due;
    ks_link_init(&http->calls);
    ks_link_init(&http->watches);
    ks_link_init(&http->spare_watches);
    int64_t connect_ms = ks_span_to_ms(options->connect_timeout);
    http->connections_kept =
        options->connections_kept == 0 ? CONNECTIONS_KEPT : options->connections_kept;
    http->connect_timeout_ms = connect_ms > 0 ? (long)connect_ms : CONNECT_TIMEOUT_MS;
    http->ca_bundle = ks_strdup(bundle);
    if (options->proxies != NULL)
        http->proxies = *options->proxies;
    http->multi = curl_multi_init();

    ks_err err =
        http->ca_bundle == NULL || http->multi == NULL ? KS_FAIL(NO_MEMORY) : set_multi(http);
    if (!ks_ok(err)) {
        ks_http_free(http);
        return err;
    }
    *ret_http = http;
    return KS_OK;
}

static void free_watches(struct ks_http *http, struct ks_link *list)
{
    while (!ks_list_empty(list)) {
        struct socket_watch *socket = KS_LIST_ENTRY(list->next, struct socket_watch, link);
        ks_loop_unwatch(http->loop, &socket->watch);
        ks_list_remove(&socket->link);
        ks_free(socket);
    }
}

void ks_http_free(struct ks_http *http)
{
    if (http == NULL)
        return;
    assert(!http->working);
    while (!ks_list_empty(&http->calls))
        forget(KS_LIST_ENTRY(http->calls.next, struct ks_http_call, link));
    while (http->handle_count > 0)
        curl_easy_cleanup(http->handles[--http->handle_count]);
    /* It closes kept connections, and says so to on_socket. */
    (void)curl_multi_cleanup(http->multi);
    ks_loop_timer_clear(http->loop, &http->timer);
    free_watches(http, &http->watches);
    free_watches(http, &http->spare_watches);
    ks_free(http->ca_bundle);
    ks_free(http);
    curl_global_cleanup();
}
