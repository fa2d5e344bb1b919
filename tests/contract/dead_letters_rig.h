/* SPDX-License-Identifier: Apache-2.0 */
/* dead_letters_rig.h - a store of dead letters, and a way to ask it and wait.
 *
 * The suite (dead_letters_suite.h) knows only this; what lies behind it is in dead_letters_sqlite.c and
 * dead_letters_dynamodb.c. Letters are named by their sequence numbers: all are of one shard, unless a test says
 * another. Everything that goes wrong in here fails the test.
 */
#ifndef TESTS_CONTRACT_DEAD_LETTERS_RIG_H
#define TESTS_CONTRACT_DEAD_LETTERS_RIG_H

#include "base/loop.h"
#include "ports/dead_letters.h"

#include "ks_test.h"

enum { LETTERS_HEARD_MAX = 64, LETTERS_MIB = 1 << 20 };

struct letters_adapter {
    const char *name;
    bool pointers; /* What is written has no data. */
    const char
        *throttle; /* What its server refuses with when it is asked too much: "503 SlowDown". */
    void (*set_up)(void);
    /* One more store on the same file or table, that can be asked. */
    ks_err (*open)(struct ks_dead_letters **ret_store, struct ks_detail *ret_detail);
    void (*tear_down)(void);
    /* Behind the store: the claim on the letter has been over for long. NULL: there are no claims. */
    void (*end_claim)(const char *sequence, const char *claim);
};

extern const struct letters_adapter letters_sqlite;
extern const struct letters_adapter letters_dynamodb;
extern const struct letters_adapter letters_s3;

/* Of the test that runs. */
extern const struct letters_adapter *letters_of;
extern struct ks_loop *letters_loop;
extern struct ks_dead_letters *letters_store;
extern struct ks_detail letters_why; /* Why the last store could not be opened. */

/* What was answered last. */
struct letters_heard {
    uint32_t calls;
    enum ks_outcome outcome;
    uint32_t count;
    bool more;
    char sequences[LETTERS_HEARD_MAX][KS_SEQUENCE_MAX + 1];
    struct ks_letter first; /* Without its views. */
    size_t data_size;       /* Of the first, as what follows. */
    uint8_t data_end;       /* Its last byte. */
    char shard[KS_SHARD_ID_MAX + 1];
    char key[64];
    char reason[64];
    char claim[64];
    char detail[KS_DETAIL_SIZE];
};
extern struct letters_heard heard;

/* Runs a test of the suite on a fresh file or table, and checks that no memory is left. */
void letters_rig_run(const struct letters_adapter *adapter, void (*test)(void));
/* The same with a fault proxy before its server (letters_faults.h). */
void letters_rig_run_under_faults(const struct letters_adapter *adapter, void (*test)(void),
                                  uint64_t seed);
/* Opens the loop and the store; the test fails if it cannot be. */
void letters_begin(void);
void letters_end(void);
void letters_restart(void);

/* A letter of so much data, which is text. Its texts live until as many more were made as a test may have. */
struct ks_letter letters_make(const char *sequence, size_t data_size);
struct ks_letter letters_make_of(const char *shard, const char *sequence, int64_t sub);
const char *letters_id(const char *sequence);

/* Each asks the store and waits. Under faults a call is made again while its outcome is unknown, or a write was
 * refused. Not so a removal and a change that names a claim: once done, they are refused. Their answers are not
 * lost. */
enum ks_outcome letters_write(const struct ks_letter *letters, uint32_t count);
enum ks_outcome letters_write_one(const char *sequence, size_t data_size);
/* Behind the letter of this id; "": from the first. */
enum ks_outcome letters_list(const char *after, uint32_t most);
enum ks_outcome letters_find(const char *sequence);
enum ks_outcome letters_find_id(const char *id);
enum ks_outcome letters_remove(const char *sequence);
enum ks_outcome letters_remove_id(const char *id, const char *claim);
enum ks_outcome letters_amend(const char *sequence, uint32_t attempts);
enum ks_outcome letters_amend_with(const struct ks_letter *said);
enum ks_outcome letters_claim(const struct ks_letter *claimed);
enum ks_outcome letters_keep(const char *sequence, size_t data_size);
/* The answer that comes next, in any of the calls above. */
ks_letters_answered letters_answered;
void letters_await(uint32_t calls_before);

#endif
