/* SPDX-License-Identifier: Apache-2.0 */
/* lock_file.h - the lock of a pinned worker id as a file on this machine.
 *
 * DIRECTORY/worker-<32 hex digits>.lock, the digits being the first 16 bytes of SHA-256 of "application NUL worker id",
 * for such names may be longer than a file's. The process holds flock(2) on it for life; the system lets go of it when
 * the process is dead, however it died. The file holds one line: the boot as 16 lower-case hex digits. The line is
 * overwritten in place, since the lock hangs on the file and not on its name, and synced; a line that was written in
 * half names no boot that anybody has, and the old row is then watched as usual.
 *
 * The directory must outlive the process and be local to the machine (in Kubernetes: a volume of the pod).
 */
#ifndef KS_ADAPTERS_SYSTEM_LOCK_FILE_H
#define KS_ADAPTERS_SYSTEM_LOCK_FILE_H

#include "base/loop.h"
#include "ports/worker_lock.h"

/* Takes the lock; blocks for the time that a file takes. BUSY: a living process has it, the detail names its boot;
 * NOT_FOUND (the directory), DENIED, DISK, INVALID, SYSTEM, with a detail; NO_MEMORY. */
KS_MUST_USE ks_err ks_lock_file_open(struct ks_loop *loop, const char *directory,
                                     const char *application, const char *worker_id,
                                     struct ks_worker_lock **ret_lock,
                                     struct ks_detail *ret_detail);

#endif
