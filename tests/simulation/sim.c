/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c - runs seeds: the real core in a simulated world.
 *
 *     sim --scale W S     W workers share S shards: see scale.h; 0 0: what fleets cost
 *     sim --shared S N    N seeds from S of a table that we share with others: see shared.h; -1: one seed, told
 *     sim --kcl S N       the same of a table of the KCL 2.x; --kcl3: of 3.x; --kcl-streams and
 *                         --kcl3-streams: of two streams
 *     sim --kinsumer S N  the same of kinsumer's tables; --kcl-rb: of that of kcl-rb
 *     sim [--seed S] [--count N] [--seconds T] [--known FILE] [-v] [-vv]
 *
 * Runs the seeds S .. S+N-1 (1 and 1 by default; --seeds is --count), or as many as fit into T seconds. The seeds that
 * failed once are in tests/simulation/seeds.txt and run first, unless there is only one seed to run. Every 20th seed is
 * run twice: the same seed must tell the same story. -v tells the story, -vv each effect.
 * Ends with the line `N passed, M failed`; at the first violation it prints the seed, what broke, and exits 1.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/budget.h"
#include "costs.h"
#include "scale.h"
#include "shared.h"
#include "world.h"

enum { TWICE_EVERY = 20, RUN_SECONDS_MAX = 60 };

struct plan {
    uint64_t seed;
    uint64_t count;
    uint64_t seconds; /* 0: by count. */
    const char *known;
    int verbose;
};

/* What the signal handler needs to know. */
static struct progress {
    uint64_t seed;
    uint64_t passed;
    uint64_t stories; /* A hash of all that was told. */
} progress;

static void say_failure(const char *sentence)
{
    fflush(stdout);
    fprintf(stdout, "SEED=%" PRIu64 " %s\n", progress.seed, sentence);
    fprintf(stdout, "replay: make sim SEED=%" PRIu64 " N=1, or build/sim --seed %" PRIu64 " -v\n",
            progress.seed, progress.seed);
    fprintf(stdout, "%" PRIu64 " passed, 1 failed\n", progress.passed);
    fflush(stdout);
}

/* An assertion, a fault or an endless loop in the middle of a step: raised by this very thread, so that telling it here
 * is safe enough; the process ends. */
static void crashed(int number)
{
    say_failure(number == SIGABRT   ? "an assertion failed (see above)"
                : number == SIGALRM ? "the run does not end"
                                    : "crashed");
    _exit(1);
}

static bool read_number(const char *text, uint64_t *ret_number)
{
    char *end;

    if (text == NULL || *text < '0' || *text > '9')
        return false;
    *ret_number = strtoull(text, &end, 10);
    return *end == '\0';
}

static bool read_arguments(int count, char **arguments, struct plan *plan)
{
    for (int i = 1; i < count; i++) {
        const char *name = arguments[i];
        const char *value = i + 1 < count ? arguments[i + 1] : NULL;
        uint64_t *number = strcmp(name, "--seed") == 0      ? &plan->seed
                           : strcmp(name, "--count") == 0   ? &plan->count
                           : strcmp(name, "--seeds") == 0   ? &plan->count
                           : strcmp(name, "--seconds") == 0 ? &plan->seconds
                                                            : NULL;

        if (number != NULL && read_number(value, number)) {
            i++;
        } else if (strcmp(name, "-v") == 0 || strcmp(name, "-vv") == 0) {
            plan->verbose = (int)strlen(name) - 1;
        } else if (strcmp(name, "--known") == 0 && value != NULL) {
            plan->known = value;
            i++;
        } else {
            fprintf(stderr,
                    "sim: %s is unknown, or lacks its number; known are --seed --count "
                    "--seconds --known -v -vv\n",
                    name);
            return false;
        }
    }
    return true;
}

static double seconds_since(const struct timespec *start)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

/* Runs a seed, now and then twice. False if something broke. */
static bool run_seed(struct world *world, uint64_t seed, int verbose)
{
    uint64_t hash;

    progress.seed = seed;
    alarm(RUN_SECONDS_MAX);
    if (!world_run(world, seed, verbose)) {
        say_failure(world->sentence);
        return false;
    }
    progress.stories ^= world->hash * (2 * seed + 1);
    if (seed % TWICE_EVERY == 0) {
        hash = world->hash;
        if (!world_run(world, seed, verbose) || world->hash != hash) {
            say_failure(world->failed ? world->sentence : "the same seed told two stories");
            return false;
        }
    }
    progress.passed++;
    return true;
}

/* The seeds that failed once: a number at the beginning of a line, the reason behind it. */
static bool run_known(struct world *world, const struct plan *plan)
{
    FILE *file = fopen(plan->known, "r");
    char line[200];
    bool good = true;

    if (file == NULL) {
        fprintf(stdout, "sim: cannot read %s\n0 passed, 1 failed\n", plan->known);
        return false;
    }
    while (good && fgets(line, sizeof line, file) != NULL)
        if (line[0] >= '0' && line[0] <= '9')
            good = run_seed(world, strtoull(line, NULL, 10), 0);
    fclose(file);
    return good;
}

/* What the runs came across: a simulator that sees nothing finds nothing. */
static void say_seen(const struct world *world)
{
    static const char *const exams[EXAMS] = {"a kill", "a drain", "an app left", "one joined",
                                             "a deploy"};

    fprintf(stdout,
            "records delivered %" PRIu64 ", again %" PRIu64
            "; runs to sessions with a share %" PRIu64
            "; records to sessions with a filter %" PRIu64 ", excluded by it %" PRIu64
            "; numbers given again %" PRIu64 "; done and refused:",
            world->delivered, world->redelivered, world->canaries, world->filtered, world->excluded,
            numbers_given_again());
    for (int i = 0; i < KS_STORE_OPERATIONS; i++)
        if (world->operations[i][0] + world->operations[i][1] > 0)
            fprintf(stdout, " %s %" PRIu64 "+%" PRIu64,
                    world_table_operation_name((enum ks_store_operation)i), world->operations[i][0],
                    world->operations[i][1]);
    fprintf(stdout, "\nall right again, at worst,");
    for (int i = 0; i < EXAMS; i++)
        fprintf(stdout, "%s after %s %.1f s (%" PRIu64 ")", i == 0 ? "" : ",", exams[i],
                (double)world->longest_exam[i] / 1e6, world->exams[i]);
    fprintf(stdout, "\nplanned moves when one joined %" PRIu64 ", the least possible %" PRIu64 "\n",
            world->moves_made, world->moves_least);
}

static bool run_all(struct world *world, const struct plan *plan)
{
    struct timespec start;
    double took;

    clock_gettime(CLOCK_MONOTONIC, &start);
    if ((plan->count > 1 || plan->seconds > 0) && !run_known(world, plan))
        return false;
    for (uint64_t i = 0;
         plan->seconds > 0 ? seconds_since(&start) < (double)plan->seconds : i < plan->count; i++)
        if (!run_seed(world, plan->seed + i, plan->verbose))
            return false;
    took = (double)clock() / CLOCKS_PER_SEC;
    say_seen(world);
    fprintf(stdout,
            "%.2f s of a core, %" PRIu64 " steps, %.2f million a second; stories %016" PRIx64 "\n",
            took, world->steps, (double)world->steps / took / 1e6, progress.stories);
    fprintf(stdout, "%" PRIu64 " passed, 0 failed\n", progress.passed);
    return true;
}

static int run_shared(const struct shared_fleet *fleet, const char *seed, const char *count)
{
    bool told = strcmp(count, "-1") == 0;
    uint64_t first;
    uint64_t seeds = 1;

    if (!read_number(seed, &first) || (!told && !read_number(count, &seeds)))
        return 2;
    return shared_run(fleet, first, seeds, told) ? 0 : 1;
}

int main(int count, char **arguments)
{
    struct plan plan = {.seed = 1, .count = 1, .known = "tests/simulation/seeds.txt"};
    struct world *world;
    bool good;

    if (count == 4 && strcmp(arguments[1], "--scale") == 0) {
        uint64_t workers;
        uint64_t shards;

        if (!read_number(arguments[2], &workers) || !read_number(arguments[3], &shards) ||
            workers > 5000 || shards > 100000)
            return 2;
        return (workers == 0 ? costs_tell() : scale_run((uint32_t)workers, (uint32_t)shards)) ? 0
                                                                                              : 1;
    }
    if (count == 4 && strcmp(arguments[1], "--shared") == 0)
        return run_shared(&shared_go_kcl, arguments[2], arguments[3]);
    if (count == 4 && strcmp(arguments[1], "--kcl") == 0)
        return run_shared(&shared_kcl, arguments[2], arguments[3]);
    if (count == 4 && strcmp(arguments[1], "--kcl3") == 0)
        return run_shared(&shared_kcl3, arguments[2], arguments[3]);
    if (count == 4 && strcmp(arguments[1], "--kcl-streams") == 0)
        return run_shared(&shared_kcl_streams, arguments[2], arguments[3]);
    if (count == 4 && strcmp(arguments[1], "--kcl3-streams") == 0)
        return run_shared(&shared_kcl3_streams, arguments[2], arguments[3]);
    if (count == 4 && strcmp(arguments[1], "--kinsumer") == 0)
        return run_shared(&shared_kinsumer, arguments[2], arguments[3]);
    if (count == 4 && strcmp(arguments[1], "--kcl-rb") == 0)
        return run_shared(&shared_kcl_rb, arguments[2], arguments[3]);
    if (!read_arguments(count, arguments, &plan))
        return 2;
    signal(SIGABRT, crashed);
    signal(SIGSEGV, crashed);
    signal(SIGFPE, crashed);
    signal(SIGALRM, crashed);
    world = ks_alloc(sizeof *world);
    if (world == NULL) {
        fprintf(stderr, "sim: no memory\n");
        return 1;
    }
    good = run_all(world, &plan);
    world_free(world);
    ks_free(world);
    return good ? 0 : 1;
}
