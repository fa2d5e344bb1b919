/* SPDX-License-Identifier: Apache-2.0 */
/* meter.h - what every benchmark needs: clocks, the memory of a process, the machine, one JSON
 * object a line.
 *
 * What is measured on a machine that others use, too, is CPU time of the process or thread under
 * test; wall time only where waiting is the question. For programs of tests/bench; not thread-safe.
 */
#ifndef TESTS_LIB_METER_H
#define TESTS_LIB_METER_H

#include <stddef.h>
#include <stdint.h>

/* Seconds: of CLOCK_MONOTONIC; of CPU time of this thread; of this process with all its threads. */
double meter_now(void);
double meter_thread_cpu(void);
double meter_process_cpu(void);
/* CPU seconds of another process so far. */
double meter_cpu_of(int pid);

/* CPU seconds that one round of `run` costs: it is given as many rounds as make a tenth of a
 * second, five times, and the cheapest counts: what others do to the machine can only add. */
double meter_cost(void (*run)(void *arg, uint64_t rounds), void *arg);

/* Keeps this process on one processor, if there is more than one. */
void meter_pin(unsigned processor);

/* The field of /proc/PID/smaps_rollup or, if it is not there, of /proc/PID/status in bytes ("Rss:",
 * "Private_Dirty:", "VmRSS:"); 0 if there is none. pid 0 is this process. */
uint64_t meter_memory(int pid, const char *field);

/* Sorts `values` and returns the one that `part` (0 .. 1) of them do not exceed. At least one. */
double meter_quantile(double *values, size_t count, double part);

/* Prints {"name":..,"value":..,"unit":..,"parameters":{..},"processors":..,"processor":..}.
 * `parameters` is the inside of the object, as printf. */
void meter_say(const char *name, double value, const char *unit, const char *parameters, ...)
    __attribute__((format(printf, 4, 5)));

/* Says why on stderr and ends the program with 1: a benchmark that cannot measure has failed. */
_Noreturn void meter_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
