/* SPDX-License-Identifier: Apache-2.0 */
/* letters_faults.h - a fault proxy between a store of dead letters and its server, for the rig of dead_letters_rig.h.
 *
 * The proxy is tests/doubles/fault_proxy.c. Before each call of the store the next fault is drawn from a seed; after
 * the answer the proxy heals. Whatever goes wrong in here fails the test.
 */
#ifndef TESTS_CONTRACT_LETTERS_FAULTS_H
#define TESTS_CONTRACT_LETTERS_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

/* The store goes through the proxy from here on, and has faults from this seed; `throttle` is what the proxy refuses
 * with: "503 SlowDown". */
void letters_faults_begin(uint64_t seed, const char *throttle);
void letters_faults_end(void);
bool letters_faults_are_on(void);
/* Where the store asks instead of `url`: the proxy, which is started if it is not there. `url` without faults. */
const char *letters_faults_url(const char *url);

/* Without faults for a while. Returns what was so before. */
bool letters_faults_rest(bool rests);
/* The next call may be refused; its answer may be lost or its connections cut only if `may_be_lost`. */
void letters_faults_next(bool may_be_lost);
/* A turn of the loop is over: what was cut heals after some of them. */
void letters_faults_turn(void);
void letters_faults_heal(void);
/* The next request of this operation (as `only` of the proxy has it) is done, and its answer is lost. */
void letters_faults_lose(const char *operation);
/* Calls so far, and those that had a fault. */
uint32_t letters_faults_calls(void);
uint32_t letters_faults_met(void);

#endif
