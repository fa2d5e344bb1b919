/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sqlite/file.h"

#include "base/loop.h"

#include <assert.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int ks_sqlite_harden(sqlite3 *db)
{
    static const struct {
        int option, value;
    } options[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},      {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}, {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
        {SQLITE_DBCONFIG_DQS_DML, 0},        {SQLITE_DBCONFIG_DQS_DDL, 0},
    };

    for (size_t at = 0; at < sizeof(options) / sizeof(options[0]); at++) {
        const int code = sqlite3_db_config(db, options[at].option, options[at].value, (int *)NULL);

        if (code != SQLITE_OK)
            return code;
    }
    return SQLITE_OK;
}

/* --- The log --- */

int ks_sqlite_use_wal(sqlite3 *db, enum ks_sqlite_durability durability, ks_instant deadline)
{
    static const char sql[] = "PRAGMA journal_mode = WAL";
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);

    while ((code & 0xFF) == SQLITE_BUSY && !ks_instant_reached(ks_instant_now(), deadline)) {
        (void)sqlite3_sleep(1);
        code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    }
    if (code != SQLITE_OK)
        return code;
    /* FULL syncs the log in each commit, within the write lock; NORMAL only before it is moved into the file. */
    return sqlite3_exec(db,
                        durability == KS_SQLITE_DURABLE_COMMITS ? "PRAGMA synchronous = FULL"
                                                                : "PRAGMA synchronous = NORMAL",
                        NULL, NULL, NULL);
}

static int sync_log(sqlite3 *db)
{
    sqlite3_file *log = NULL;
    int code = sqlite3_file_control(db, NULL, SQLITE_FCNTL_JOURNAL_POINTER, &log);

    if (code != SQLITE_OK)
        return code;
    if (log == NULL || log->pMethods == NULL)
        return SQLITE_IOERR_FSYNC;
    return log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
}

int ks_sqlite_sync(sqlite3 *db, bool *failed)
{
    int code;

    if (*failed)
        code = sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    else
        code = sync_log(db);
    *failed = code != SQLITE_OK;
    return code;
}

/* --- Its place --- */

/* The file's own path, and by its name in full those beside it. */
static bool stat_files(sqlite3 *db, const char *path, struct stat ret_files[KS_SQLITE_FILES])
{
    const char *const full = sqlite3_db_filename(db, "main");
    char name[PATH_MAX + sizeof("-shm")];

    if (full == NULL || strlen(full) > PATH_MAX || stat(path, &ret_files[0]) != 0)
        return false;
    (void)snprintf(name, sizeof name, "%s-wal", full);
    if (stat(name, &ret_files[1]) != 0)
        return false;
    (void)snprintf(name, sizeof name, "%s-shm", full);
    return stat(name, &ret_files[2]) == 0;
}

/* True if the name under which SQLite opened the database names something else now. */
static bool has_moved(sqlite3 *db)
{
    int moved = 0;

    return sqlite3_file_control(db, NULL, SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK ||
           moved != 0;
}

ks_err ks_sqlite_place_note(sqlite3 *db, const char *path, struct ks_sqlite_place *ret_place,
                            struct ks_detail *ret_detail)
{
    struct ks_sqlite_place place;
    struct stat files[KS_SQLITE_FILES];

    /* A read opens the log and its shared memory, which stay until the connection is closed. */
    if (sqlite3_exec(db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL) != SQLITE_OK ||
        !stat_files(db, path, files) || has_moved(db)) {
        ks_detail_set(ret_detail, "%s: the file was moved or removed while it was opened", path);
        return KS_FAIL(DISK);
    }
    for (size_t at = 0; at < KS_SQLITE_FILES; at++) {
        place.files[at].device = files[at].st_dev;
        place.files[at].inode = files[at].st_ino;
    }
    *ret_place = place;
    return KS_OK;
}

bool ks_sqlite_place_holds(sqlite3 *db, const char *path, const struct ks_sqlite_place *place)
{
    struct stat files[KS_SQLITE_FILES];

    if (has_moved(db) || !stat_files(db, path, files))
        return false;
    for (size_t at = 0; at < KS_SQLITE_FILES; at++)
        if (files[at].st_dev != place->files[at].device ||
            files[at].st_ino != place->files[at].inode || files[at].st_nlink == 0)
            return false;
    return true;
}

ks_err ks_sqlite_place_check(sqlite3 *db, const char *path, const struct ks_sqlite_place *place,
                             struct ks_detail *ret_detail)
{
    if (ks_sqlite_place_holds(db, path, place))
        return KS_OK;
    ks_detail_set(ret_detail,
                  "%s: the file, its -wal or its -shm was moved or removed while it was open; put "
                  "it back, or start again",
                  path);
    return KS_FAIL(DISK);
}

void ks_sqlite_close(sqlite3 *db)
{
    int code;

    if (db == NULL)
        return;
    /* SQLite does this itself when it closes a file, unless the file was moved. */
    if (has_moved(db))
        (void)sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    code = sqlite3_close(db);
    assert(code == SQLITE_OK);
    (void)code;
}

/* --- Who has it locked --- */

/* What a writer locks: a byte of the shared memory (sqlite.org/walformat.html), or bytes from this one on of a file
 * without a log (sqlite.org/lockingv3.html). */
enum { WRITE_LOCK_BYTE = 120, FILE_LOCKS_FROM = 0x40000000 };

/* The name and the state of a process, by the line of /proc/PID/stat: "PID (NAME) STATE ..". */
static void describe_process(int pid, char ret_text[KS_SQLITE_HOLDER_SIZE])
{
    char path[32];
    char name[17] = "?"; /* At most 15 characters (prctl(2), PR_SET_NAME). */
    char state = '?';
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    file = fopen(path, "re");
    if (file != NULL) {
        if (fscanf(file, "%*d (%16[^)]) %c", name, &state) != 2)
            state = '?';
        (void)fclose(file);
    }
    (void)snprintf(ret_text, KS_SQLITE_HOLDER_SIZE, ", held by process %d (%s, %s%s)", pid, name,
                   state == 'T' || state == 't' ? "stopped"
                   : state == 'D'               ? "waiting for its disk"
                   : state == '?'               ? "gone"
                                                : "running",
                   pid == (int)getpid() ? ": this one" : "");
}

/* The process that a line of /proc/locks names, if it has the lock of a writer on one of the files; 0: it has not.
 * "1: POSIX  ADVISORY  WRITE 4711 fe:00:9977947 120 120"; the device is not compared, for a file of an overlay has
 * another one there than for stat(2). */
static int holder_in(const char *line, const struct stat *file, const struct stat *memory)
{
    unsigned long long inode, from;
    unsigned long long to = ULLONG_MAX; /* "EOF" is no number. */
    int pid;
    int fields =
        sscanf(line, "%*d: POSIX %*s WRITE %d %*x:%*x:%llu %llu %llu", &pid, &inode, &from, &to);

    if (fields < 3 || pid <= 0)
        return 0;
    if (inode == memory->st_ino && from <= WRITE_LOCK_BYTE && WRITE_LOCK_BYTE <= to)
        return pid;
    return inode == file->st_ino && from >= FILE_LOCKS_FROM ? pid : 0;
}

void ks_sqlite_holder(sqlite3 *db, char ret_text[KS_SQLITE_HOLDER_SIZE])
{
    const char *const full = sqlite3_db_filename(db, "main");
    struct stat files[KS_SQLITE_FILES];
    char line[128];
    FILE *locks;
    int pid = 0;

    ret_text[0] = '\0';
    if (full == NULL || !stat_files(db, full, files))
        return;
    /* A descriptor of our own for F_GETLK would drop SQLite's locks when it is closed. */
    locks = fopen("/proc/locks", "re");
    if (locks == NULL)
        return;
    while (pid == 0 && fgets(line, sizeof line, locks) != NULL)
        pid = holder_in(line, &files[0], &files[2]);
    (void)fclose(locks);
    if (pid != 0)
        describe_process(pid, ret_text);
}
