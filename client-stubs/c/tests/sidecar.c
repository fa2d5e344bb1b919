/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700 /* For P_tmpdir. */
#include "sidecar.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "buffer.h"

enum { PATH_BYTES_MAX = 128, ADDRESS_BYTES_MAX = 160 };

static char folder[PATH_BYTES_MAX];
static char address[ADDRESS_BYTES_MAX]; /* Of --listen. */
static char url[ADDRESS_BYTES_MAX + 8];
static char token_file[ADDRESS_BYTES_MAX];
static char header[ADDRESS_BYTES_MAX];
static pid_t pid;

static int free_port(void)
{
    struct sockaddr_in found = {.sin_family = AF_INET};
    socklen_t size = sizeof(found);
    int probe = socket(AF_INET, SOCK_STREAM, 0);

    found.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT(bind(probe, (struct sockaddr *)&found, sizeof(found)) == 0);
    EXPECT(getsockname(probe, (struct sockaddr *)&found, &size) == 0);
    EXPECT(close(probe) == 0);
    return ntohs(found.sin_port);
}

static void set_option(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Sets an option of the sidecar. */
static void set_option(const char *name, const char *format, ...)
{
    char value[ADDRESS_BYTES_MAX + PATH_BYTES_MAX];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(value, sizeof(value), format, arguments);
    va_end(arguments);
    EXPECT(setenv(name, value, 1) == 0);
}

static _Noreturn void become_sidecar(const char *binary)
{
    char path[ADDRESS_BYTES_MAX];
    int log;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* A test that fails leaves no process behind. */
    set_option("KINESIS_SIDECAR_SOURCE", "local:%s/stream.db", folder);
    set_option("KINESIS_SIDECAR_LOCAL_SHARDS", "2");
    set_option("KINESIS_SIDECAR_STREAM", "demo");
    set_option("KINESIS_SIDECAR_APPLICATION", "demo");
    set_option("KINESIS_SIDECAR_INITIAL_POSITION", "trim_horizon");
    set_option("KINESIS_SIDECAR_STATE_DIR", "%s", folder);
    set_option("KINESIS_SIDECAR_WORKER_ID", "one");
    set_option("KINESIS_SIDECAR_LISTEN", "%s", address);
    set_option("KINESIS_SIDECAR_OPS_LISTEN", "unix:%s/ops.sock", folder);
    set_option("KINESIS_SIDECAR_LEASE_DURATION_MS", "2000");
    set_option("KINESIS_SIDECAR_RETRY_BACKOFF_MS", "50");
    set_option("KINESIS_SIDECAR_CHECKPOINT_INTERVAL_MS", "200");
    set_option("KINESIS_SIDECAR_TOKEN_FILE", "%s", token_file);
    (void)snprintf(path, sizeof(path), "%s/log", folder);
    log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (dup2(log, STDOUT_FILENO) >= 0 && dup2(log, STDERR_FILENO) >= 0)
        (void)execl(binary, binary, (char *)NULL);
    _exit(1);
}

static size_t take(char *data, size_t one, size_t size, void *answer)
{
    (void)one;
    ks_buffer_add(answer, data, size);
    return size;
}

/* Returns the status; 0: there was no answer. */
static long call(const char *socket, const char *path, const char *body, struct ks_buffer *answer)
{
    CURL *easy = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(NULL, header);
    char target[ADDRESS_BYTES_MAX * 2];
    long status = 0;

    (void)snprintf(target, sizeof(target), "%s%s", socket == NULL ? url : "http://localhost", path);
    ks_buffer_clear(answer);
    (void)curl_easy_setopt(easy, CURLOPT_URL, target);
    (void)curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, socket);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)CHECK_PATIENCE_MS);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, answer);
    if (body != NULL)
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    if (curl_easy_perform(easy) == CURLE_OK)
        (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    curl_easy_cleanup(easy);
    EXPECT(ks_buffer_text(answer) != NULL);
    return status;
}

static const char *socket_path(void)
{
    return strncmp(url, "unix:", 5) == 0 ? url + 5 : NULL;
}

static bool is_ready(void)
{
    struct ks_buffer answer = {0};
    char ops[ADDRESS_BYTES_MAX];
    int status;
    long code;

    EXPECT_EQ(waitpid(pid, &status, WNOHANG), 0);
    (void)snprintf(ops, sizeof(ops), "%s/ops.sock", folder);
    code = call(ops, "/readyz", NULL, &answer);
    ks_buffer_free(&answer);
    return code == 200;
}

static void spawn(void)
{
    const char *binary = getenv("KINESIS_SIDECAR_BIN");

    EXPECT(binary != NULL && access(binary, X_OK) == 0);
    pid = fork();
    if (pid == 0)
        become_sidecar(binary);
    EXPECT(pid > 0);
    EVENTUALLY(is_ready());
}

/* Makes a folder with a short name: the path of a Unix socket has 107 bytes at most. */
static void make_folder(void)
{
    const char *parent = getenv("TMPDIR");

    (void)snprintf(folder, sizeof(folder), "%.90s/ks-XXXXXX", parent == NULL ? P_tmpdir : parent);
    EXPECT(mkdtemp(folder) != NULL);
    (void)atexit(sidecar_end);
}

void sidecar_start(const char *token)
{
    make_folder();
    (void)snprintf(address, sizeof(address), "unix:%s/api.sock", folder);
    (void)snprintf(url, sizeof(url), "%s", address);
    if (token != NULL) {
        FILE *file;
        (void)snprintf(token_file, sizeof(token_file), "%s/token", folder);
        file = fopen(token_file, "w");
        EXPECT(file != NULL && fchmod(fileno(file), 0600) == 0);
        EXPECT(fprintf(file, "%s\n", token) > 0 && fclose(file) == 0);
        (void)snprintf(header, sizeof(header), "Authorization: Bearer %s", token);
    } else {
        (void)snprintf(header, sizeof(header), "X-None: none");
    }
    spawn();
}

void sidecar_start_on_port(void)
{
    make_folder();
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", free_port());
    (void)snprintf(url, sizeof(url), "http://%s", address);
    (void)snprintf(header, sizeof(header), "X-None: none");
    spawn();
}

static void end_process(int number)
{
    int status;

    if (pid > 0 && kill(pid, number) == 0)
        (void)waitpid(pid, &status, 0);
    pid = 0;
}

void sidecar_restart(void)
{
    end_process(SIGKILL);
    spawn();
}

void sidecar_end(void)
{
    pid_t remover;
    int status;

    end_process(SIGKILL);
    remover = fork();
    if (remover == 0) {
        (void)execlp("rm", "rm", "-rf", folder, (char *)NULL);
        _exit(1);
    }
    (void)waitpid(remover, &status, 0);
}

const char *sidecar_url(void)
{
    return url;
}

const char *sidecar_token_file(void)
{
    return token_file;
}

static void add_base64(struct ks_buffer *text, const char *data)
{
    static const char LETTERS[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t size = strlen(data);

    for (size_t i = 0; i < size; i += 3) {
        unsigned bits = 0;
        for (size_t j = 0; j < 3; j++)
            bits = bits << 8 | (i + j < size ? (unsigned char)data[i + j] : 0U);
        for (size_t j = 0; j < 4; j++)
            ks_buffer_print(text, "%c", i + j > size ? '=' : LETTERS[bits >> (18 - 6 * j) & 63]);
    }
}

void sidecar_put(int count, int keys)
{
    struct ks_buffer body = {0}, answer = {0};

    EXPECT(count <= 500); /* In one request. */
    ks_buffer_print(&body, "{\"Records\":[");
    for (int number = 0; number < count; number++) {
        char data[16];
        (void)snprintf(data, sizeof(data), "%d", number);
        ks_buffer_print(&body, "%s{\"PartitionKey\":\"key-%d\",\"Data\":\"", number == 0 ? "" : ",",
                        number % keys);
        add_base64(&body, data);
        ks_buffer_print(&body, "\"}");
    }
    ks_buffer_print(&body, "]}");
    EXPECT_EQ(call(socket_path(), "/v1/local/records", ks_buffer_text(&body), &answer), 200);
    EXPECT_CONTAINS(ks_buffer_text(&answer), "\"FailedRecordCount\":0");
    ks_buffer_free(&body);
    ks_buffer_free(&answer);
}

const char *sidecar_get(const char *path)
{
    static struct ks_buffer answer;

    EXPECT_EQ(call(socket_path(), path, NULL, &answer), 200);
    return ks_buffer_text(&answer);
}

long sidecar_sum(const char *member)
{
    const char *at = sidecar_get("/v1/shards");
    char name[64];
    long sum = 0;

    (void)snprintf(name, sizeof(name), "\"%s\":", member);
    while ((at = strstr(at, name)) != NULL) {
        at += strlen(name);
        sum += strtol(at, NULL, 10);
    }
    return sum;
}
