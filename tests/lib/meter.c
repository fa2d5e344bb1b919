/* SPDX-License-Identifier: Apache-2.0 */
#include "meter.h"

#include <assert.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MODEL_SIZE = 128, REPEATS = 5 };

/* ---- Clocks ---- */

static double read_clock(clockid_t clock)
{
    struct timespec at;

    if (clock_gettime(clock, &at) != 0)
        meter_fail("cannot read clock %d", (int)clock);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

double meter_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double meter_thread_cpu(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

double meter_process_cpu(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

double meter_cpu_of(int pid)
{
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) != 0)
        meter_fail("no CPU clock of process %d", pid);
    return read_clock(clock);
}

static double cpu_of(void (*run)(void *arg, uint64_t rounds), void *arg, uint64_t rounds)
{
    double before = meter_thread_cpu();

    run(arg, rounds);
    return meter_thread_cpu() - before;
}

double meter_cost(void (*run)(void *arg, uint64_t rounds), void *arg)
{
    const double enough = 0.1;
    uint64_t rounds = 1;
    double least = cpu_of(run, arg, rounds);

    while (least < enough) {
        double scale = least < enough / 16 ? 8 : 1.2 * enough / least;

        rounds = (uint64_t)((double)rounds * scale) + 1;
        least = cpu_of(run, arg, rounds);
    }
    for (int i = 1; i < REPEATS; i++) {
        double cpu = cpu_of(run, arg, rounds);

        least = cpu < least ? cpu : least;
    }
    return least / (double)rounds;
}

/* ---- The machine ---- */

void meter_pin(unsigned processor)
{
    cpu_set_t set;

    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        return;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fprintf(stderr, "cannot stay on processor %u; going on without\n", processor);
}

/* The rest of the first line of `path` that begins with `field`. */
static int find_field(const char *path, const char *field, char *buffer, size_t size)
{
    FILE *file = fopen(path, "r");
    char line[512];
    int found = 0;

    if (file == NULL)
        return 0;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, field, strlen(field)) != 0)
            continue;
        snprintf(buffer, size, "%s", line + strlen(field));
        found = 1;
    }
    fclose(file);
    return found;
}

uint64_t meter_memory(int pid, const char *field)
{
    static const char *const files[] = {"smaps_rollup", "status"};
    char path[64];
    char value[64];

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", pid == 0 ? (int)getpid() : pid, files[i]);
        if (find_field(path, field, value, sizeof value))
            return strtoull(value, NULL, 10) * 1024;
    }
    return 0;
}

/* The model's name without what JSON would need to escape. */
static const char *processor_model(void)
{
    static char model[MODEL_SIZE];
    char line[MODEL_SIZE];
    size_t size = 0;

    if (model[0] != '\0' || !find_field("/proc/cpuinfo", "model name", line, sizeof line))
        return model;
    for (const char *c = line + strspn(line, "\t :"); *c >= ' '; c++)
        if (*c != '"' && *c != '\\' && size + 1 < sizeof model)
            model[size++] = *c;
    return model;
}

/* ---- Saying ---- */

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

double meter_quantile(double *values, size_t count, double part)
{
    size_t place = (size_t)((double)count * part);

    assert(count > 0);
    qsort(values, count, sizeof *values, compare);
    return values[place < count ? place : count - 1];
}

void meter_say(const char *name, double value, const char *unit, const char *parameters, ...)
{
    va_list list;

    printf("{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\",\"parameters\":{", name, value, unit);
    va_start(list, parameters);
    vprintf(parameters, list);
    va_end(list);
    printf("},\"processors\":%ld,\"processor\":\"%s\"}\n", sysconf(_SC_NPROCESSORS_ONLN),
           processor_model());
    fflush(stdout);
}

void meter_fail(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    exit(1);
}
