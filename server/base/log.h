/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - the story on stderr, one line for each decision.
 *
 * Lines go through a ring, so that a reader of stderr that stops never stalls the loop: what does not fit is dropped
 * and counted, and the count is written as soon as there is room. Info = decisions; debug = traffic; warn = somebody
 * may want to look; error = somebody must. Never a secret: types that hold one are printed as ***.
 * Text form:  2026-11-21T00:40:00.123Z info  shard-3: taken from pod-b, not renewed for 10 s
 * JSON form:  {"time":"..","level":"info","message":".."}   (one object a line)
 * Loop thread only.
 */
#ifndef KS_BASE_LOG_H
#define KS_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

enum ks_log_level { KS_LOG_DEBUG, KS_LOG_INFO, KS_LOG_WARN, KS_LOG_ERROR };
enum ks_log_format { KS_LOG_TEXT, KS_LOG_JSON };

/* Lines go to `fd`. Without this call they go to stderr as text from info up. From now on SIGPIPE is ignored: a reader
 * that has left costs its lines, not the process. */
void ks_log_open(int fd, enum ks_log_level level, enum ks_log_format format);
enum ks_log_level ks_log_level(void);
void ks_log_set_level(enum ks_log_level level);
/* "debug" | "info" | "warn" | "error". INVALID otherwise. */
KS_MUST_USE ks_err ks_log_level_parse(ks_view text, enum ks_log_level *ret_level);
const char *ks_log_level_name(enum ks_log_level level);

/* Writes one line. Commands (base/plain.h) and invalid UTF-8 are escaped; a line is cut at 1,000 bytes ("..").
 * Warnings and errors are flushed at once, for a crash may follow; the rest at the end of the turn. */
void ks_log(enum ks_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define ks_debug(...) ks_log(KS_LOG_DEBUG, __VA_ARGS__)
#define ks_info(...) ks_log(KS_LOG_INFO, __VA_ARGS__)
#define ks_warn(...) ks_log(KS_LOG_WARN, __VA_ARGS__)
#define ks_error(...) ks_log(KS_LOG_ERROR, __VA_ARGS__)

/* Moves what the ring holds to the fd as far as it takes it without blocking (poll before each write of at most
 * PIPE_BUF bytes). The loop calls it once a turn. True while something is left. */
bool ks_log_flush(void);
/* Waits up to `wait_ms` for the reader: the last words before exit. */
void ks_log_close(int wait_ms);
/* Lines dropped since the start. */
uint64_t ks_log_dropped(void);

#endif
