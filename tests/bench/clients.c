/* SPDX-License-Identifier: Apache-2.0 */
/* clients.c - records a second and CPU time of clients that others wrote.
 *
 * The house of bench_house.h in this process, on a stream of 1 KB records that costs nearly nothing; on the other
 * processor a program of tests/clients, which acknowledges everything, batch by batch, and says how many records it has
 * seen. Who of the two spent more CPU time was the bottleneck. The first rows are the reader in C.
 */
#include "bench_house.h"
#include "http_client.h"
#include "memory_source.h"
#include "meter.h"

#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEASE_MS = 1500, SHARDS = 8, RECORD_BYTES = 1024, BATCHES_PER_ACK = 16 };
static const double warm_seconds = 2; /* From the first record: some compile what is hot. */
static const double measured_seconds = 3;

struct racer {
    const char *name;
    const char *folder; /* Of its `run`; NULL: the reader in C. */
    const char *way;
};

/* ---- The client's side ---- */

/* CPU seconds of a process and of the children that it has waited for, if it is of the group; else 0. */
static double cpu_of_member(const char *pid, int group)
{
    char path[300];
    char line[1024] = "";
    unsigned long spent[4];
    int of_group;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    file = fopen(path, "r");
    if (file == NULL)
        return 0;
    if (fgets(line, sizeof line, file) == NULL)
        line[0] = '\0';
    fclose(file);
    if (strrchr(line, ')') == NULL ||
        sscanf(strrchr(line, ')') + 1,
               " %*c %*d %d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu", &of_group, &spent[0],
               &spent[1], &spent[2], &spent[3]) != 5 ||
        of_group != group)
        return 0;
    return (double)(spent[0] + spent[1] + spent[2] + spent[3]) / (double)sysconf(_SC_CLK_TCK);
}

static double cpu_of_group(int group)
{
    DIR *all = opendir("/proc");
    double cpu = 0;

    if (all == NULL)
        meter_fail("no /proc: %s", strerror(errno));
    for (struct dirent *entry; (entry = readdir(all)) != NULL;)
        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
            cpu += cpu_of_member(entry->d_name, group);
    closedir(all);
    return cpu;
}

static pid_t start(const struct racer *racer, uint16_t port, FILE **ret_said)
{
    char run[128];
    char address[32];
    int said[2];
    pid_t pid;

    snprintf(run, sizeof run, "tests/clients/%s/run", racer->folder);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    if (pipe2(said, O_CLOEXEC) != 0 || (pid = fork()) < 0)
        meter_fail("no client: %s", strerror(errno));
    if (pid == 0) {
        (void)setpgid(0, 0);
        (void)dup2(said[1], STDOUT_FILENO);
        execl(run, run, address, "1", "0", "0", "0", racer->way, racer->name, (char *)NULL);
        meter_fail("%s: %s", run, strerror(errno));
    }
    (void)setpgid(pid, pid);
    close(said[1]);
    *ret_said = fdopen(said[0], "r");
    return pid;
}

/* The records that it has seen until now. */
static uint64_t hear(FILE *said, const struct racer *racer)
{
    char line[64];

    if (fgets(line, sizeof line, said) == NULL)
        meter_fail("%s has ended", racer->name);
    return strtoull(line, NULL, 10);
}

/* Until a stream would not be refused any more. */
static void wait_ready(uint16_t port)
{
    static char buffer[64 << 10];
    int fd = http_connect(port);
    bool ready = false;

    while (!ready) {
        http_request(fd, "GET", "/v1/status", "", "", 0);
        ready = strstr(http_wait(fd, buffer, sizeof buffer).body, "\"ready\":true") != NULL;
        (void)poll(NULL, 0, 20);
    }
    close(fd);
}

static void run_racer(const struct stream_job *job, uint16_t port)
{
    const struct racer *racer = job->arg;
    struct stream_count count = {0};
    uint64_t before;
    double began;
    double cpu;
    FILE *said;
    pid_t pid;

    wait_ready(port);
    pid = start(racer, port, &said);

    (void)hear(said, racer);
    for (began = meter_now(); meter_now() - began < warm_seconds;)
        before = hear(said, racer);
    before = hear(said, racer);
    cpu = cpu_of_group(pid);
    stream_consumer_say(&count);
    began = meter_now();
    do
        count.records = hear(said, racer) - before;
    while (meter_now() - began < measured_seconds);
    count.seconds = meter_now() - began;
    count.consumer_cpu = cpu_of_group(pid) - cpu;
    stream_consumer_say(&count);
    (void)kill(-pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* ---- Rows ---- */

static struct ks_stream_source *open_source(struct ks_loop *loop, void *arg)
{
    const struct memory_source_config config = {
        .shards = SHARDS, .record_bytes = RECORD_BYTES, .copies = true};

    (void)arg;
    return memory_source_new(loop, &config);
}

static void measure(const struct racer *racer, const char *folder)
{
    struct stream_job job = {.format = racer->way,
                             .record_bytes = RECORD_BYTES,
                             .batches_per_ack = BATCHES_PER_ACK,
                             .in_flight_bytes = STREAM_IN_FLIGHT_BYTES,
                             .warm_seconds = warm_seconds,
                             .measured_seconds = measured_seconds,
                             .run = racer->folder == NULL ? NULL : run_racer,
                             .arg = racer};
    struct stream_watcher watcher;
    const struct stream_count *count = &watcher.count;
    char path[256];
    struct bench_house_config house = {
        .store_path = path, .budget_bytes = 256 << 20, .lease_ms = LEASE_MS, .open = open_source};

    snprintf(path, sizeof path, "%s/%s-%s.db", folder, racer->name, racer->way);
    bench_house_run(&house, &job, &watcher);
    meter_say("api/client", (double)count->records / count->seconds, "records/s",
              "\"client\":\"%s\",\"way\":\"%s\",\"record_bytes\":%d,\"sidecar_used\":%.3f,"
              "\"client_used\":%.3f,\"sidecar_us_per_record\":%.3f,\"client_us_per_record\":%.3f,"
              "\"client_per_sidecar_cpu\":%.1f",
              racer->name, racer->way, RECORD_BYTES, watcher.cpu / count->seconds,
              count->consumer_cpu / count->seconds, watcher.cpu / (double)count->records * 1e6,
              count->consumer_cpu / (double)count->records * 1e6,
              count->consumer_cpu / watcher.cpu);
}

/* clients [NAME..]: these, or all. From the project's folder. */
int main(int argc, char **argv)
{
    static const struct racer racers[] = {
        {"c", NULL, "watch"},           {"c", NULL, "ndjson"},
        {"grpcio", "grpcio", "watch"},  {"grpc-go", "go", "watch"},
        {"grpc-java", "java", "watch"}, {"grpc-js", "node", "watch"},
        {"connect-go", "go", "watch"},  {"connect-es", "node", "watch"},
        {"http", "http", "rest"},       {"curl", "curl", "rest"},
    };
    char folder[] = "/tmp/ks-bench-XXXXXX";
    char command[64];

    if (mkdtemp(folder) == NULL)
        meter_fail("no folder: %s", strerror(errno));
    (void)signal(SIGPIPE, SIG_IGN);
    ks_log_open(STDERR_FILENO, KS_LOG_ERROR, KS_LOG_TEXT);
    stream_consumer_stay_away();
    for (size_t i = 0; i < sizeof racers / sizeof *racers; i++) {
        bool wanted = argc == 1;

        for (int arg = 1; arg < argc; arg++)
            wanted = wanted || strcmp(argv[arg], racers[i].name) == 0;
        if (wanted)
            measure(&racers[i], folder);
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}
