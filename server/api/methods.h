/* SPDX-License-Identifier: Apache-2.0 */
/* methods.h - which handler serves what: one table, api/methods.def. REST routes call the same handlers. */
#ifndef KS_API_METHODS_H
#define KS_API_METHODS_H

#include "api/rpc.h"

/* Of those that go on: the next message, or NULL for the end. */
ks_message_handler ks_next_stream;
ks_message_handler ks_next_reflection;
/* Those that every gRPC server may be asked for: health.c, reflection.c. */
ks_message_handler ks_serve_health_check;
ks_message_handler ks_serve_health_watch;
ks_message_handler ks_serve_reflection;

#define X(service, method, kind, effects, subscription, request, response, handler, next)          \
    ks_message_handler ks_serve_##handler;
#include "api/methods.def"
#undef X

/* All of them. */
const struct ks_rpc_service *ks_methods(void);

#endif
