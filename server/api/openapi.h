/* SPDX-License-Identifier: Apache-2.0 */
/* openapi.h - GET /v1/openapi.json: the REST API as OpenAPI 3.1, from the tables that the API itself runs on.
 *
 * Paths, methods, parameters and sentences come from api/routes.def, bodies from the descriptors of the messages, both
 * tied together by api/openapi.def.
 */
#ifndef KS_API_OPENAPI_H
#define KS_API_OPENAPI_H

#include "base/bytes.h"

/* Appends the document. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_openapi_write(struct ks_bytes *document);

#endif
