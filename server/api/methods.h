/* SPDX-License-Identifier: Apache-2.0 */
/* methods.h - which handler serves what: one table, api/methods.def. REST routes call the same handlers. */
#ifndef KS_API_METHODS_H
#define KS_API_METHODS_H

#include "api/rpc.h"

#define X(service, method, kind, effects, subscription, request, response, handler)                \
    ks_message_handler ks_serve_##handler;
#include "api/methods.def"
#undef X

/* All of them. */
const struct ks_rpc_service *ks_methods(void);

#endif
