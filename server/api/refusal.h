/* SPDX-License-Identifier: Apache-2.0 */
/* refusal.h - an error that is said on the bare socket, where no HTTP library can say it: before a
 * connection belongs to one, or in the middle of a request body. */
#ifndef KS_API_REFUSAL_H
#define KS_API_REFUSAL_H

#include "api/problem.h"

/* Sends a whole answer with the error body and "Connection: close", and ends our side of `fd`; the
 * caller closes it. Best effort: what does not fit into the socket's buffer is not said. */
void ks_refuse(int fd, enum ks_problem problem, const char *detail);

#endif
