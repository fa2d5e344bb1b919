/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sqlite/file.h"

#include "base/bytes.h"
#include "base/loop.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
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

/* --- Who may read it --- */

static const gid_t no_group = (gid_t)-1;
static gid_t shared_with = (gid_t)-1;

void ks_sqlite_share_with(gid_t group)
{
    assert(shared_with == no_group);
    shared_with = group;
}

static ks_err fail_private(const char *path, const char *why, struct ks_detail *ret_detail)
{
    ks_detail_set(ret_detail, "%s: %s", path, why);
    return KS_FAIL(DISK);
}

/* Files that are there already are not opened: to close one would give up the locks that SQLite has on it. */
ks_err ks_sqlite_make_private(const char *path, struct ks_detail *ret_detail)
{
    struct stat file;
    bool shared;
    int fd;

    if (lstat(path, &file) == 0)
        return S_ISLNK(file.st_mode)
                   ? fail_private(path, "a symbolic link; name the file itself", ret_detail)
                   : KS_OK;
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return KS_OK;
    shared = shared_with == no_group ||
             (fchown(fd, (uid_t)-1, shared_with) == 0 && fchmod(fd, 0660) == 0);
    (void)close(fd);
    return shared ? KS_OK
                  : fail_private(path, "cannot be given to the group of --state-group", ret_detail);
}

const char *ks_sqlite_open_advice(sqlite3 *db)
{
    return (sqlite3_errcode(db) & 0xFF) == SQLITE_CANTOPEN ? ": " KS_SQLITE_CANTOPEN_ADVICE : "";
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

/* SQLite gives the log and the shared memory the file's mode, and the group of the process that made them. Where the
 * group cannot be changed, SQLite tells the others of the group that they cannot open these files. */
static void share_log(sqlite3 *db, const struct stat files[KS_SQLITE_FILES])
{
    static const char *const ends[KS_SQLITE_FILES] = {"", "-wal", "-shm"};
    const char *const full = sqlite3_db_filename(db, "main");
    char name[PATH_MAX + sizeof("-shm")];

    for (size_t at = 1; shared_with != no_group && at < KS_SQLITE_FILES; at++) {
        (void)snprintf(name, sizeof name, "%s%s", full, ends[at]);
        if (files[at].st_uid != geteuid() || files[at].st_gid == files[0].st_gid)
            continue;
        if (lchown(name, (uid_t)-1, files[0].st_gid) != 0)
            return;
    }
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
    const int code = sqlite3_exec(db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);

    if ((code & 0xFF) == SQLITE_NOMEM)
        return KS_FAIL(NO_MEMORY);
    if (code != SQLITE_OK || !stat_files(db, path, files) || has_moved(db)) {
        ks_detail_set(ret_detail, "%s: the file was moved or removed while it was opened", path);
        return KS_FAIL(DISK);
    }
    share_log(db, files);
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

/* The next of the words between blanks; empty at the end. */
static ks_view next_word(ks_view *line)
{
    ks_view word = KS_VIEW("");

    while (word.size == 0 && line->size > 0)
        word = ks_view_cut(line, ' ');
    return word;
}

static const char *state_name(uint8_t state)
{
    switch (state) {
    case 'T':
    case 't': return "stopped";
    case 'D': return "waiting for its disk";
    case '?': return "gone";
    default: return "running";
    }
}

/* The name and the state of a process, by the line of /proc/PID/stat: "PID (NAME) STATE ..". */
static void describe_process(uint64_t pid, char ret_text[KS_SQLITE_HOLDER_SIZE])
{
    char path[40];
    char line[128] = "";
    ks_view name = KS_VIEW("");
    ks_view rest = KS_VIEW("");
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    file = fopen(path, "re");
    if (file != NULL) {
        if (fgets(line, sizeof line, file) != NULL) {
            rest = ks_view_text(line);
            (void)ks_view_cut(&rest, '(');
            name = ks_view_cut(&rest, ')');
            rest = next_word(&rest);
        }
        (void)fclose(file);
    }
    (void)snprintf(ret_text, KS_SQLITE_HOLDER_SIZE, ", held by process %llu (%.*s, %s%s)",
                   (unsigned long long)pid, name.size < 16 ? (int)name.size : 16,
                   name.size == 0 ? "" : (const char *)name.data,
                   state_name(rest.size == 0 ? '?' : rest.data[0]),
                   pid == (uint64_t)getpid() ? ": this one" : "");
}

/* The process that a line of /proc/locks names, if it has the lock of a writer on one of the files; 0: it has not.
 * "1: POSIX  ADVISORY  WRITE 4711 fe:00:9977947 120 120"; the device is not compared, for a file of an overlay has
 * another one there than for stat(2). */
static uint64_t holder_in(ks_view line, const struct stat *file, const struct stat *memory)
{
    uint64_t pid, inode, from, to;
    ks_view place;

    (void)next_word(&line);
    if (!ks_view_equal(next_word(&line), KS_VIEW("POSIX")))
        return 0;
    (void)next_word(&line);
    if (!ks_view_equal(next_word(&line), KS_VIEW("WRITE")) ||
        !ks_ok(ks_view_u64(next_word(&line), &pid))) /* A negative one is unknown. */
        return 0;
    place = next_word(&line);
    (void)ks_view_cut(&place, ':');
    (void)ks_view_cut(&place, ':');
    if (!ks_ok(ks_view_u64(place, &inode)) || !ks_ok(ks_view_u64(next_word(&line), &from)))
        return 0;
    if (!ks_ok(ks_view_u64(next_word(&line), &to)))
        to = UINT64_MAX; /* "EOF". */
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
    uint64_t pid = 0;

    ret_text[0] = '\0';
    if (full == NULL || !stat_files(db, full, files))
        return;
    /* A descriptor of our own for F_GETLK would drop SQLite's locks when it is closed. */
    locks = fopen("/proc/locks", "re");
    if (locks == NULL)
        return;
    while (pid == 0 && fgets(line, sizeof line, locks) != NULL)
        pid = holder_in(ks_view_trim(ks_view_text(line)), &files[0], &files[2]);
    (void)fclose(locks);
    if (pid != 0)
        describe_process(pid, ret_text);
}
