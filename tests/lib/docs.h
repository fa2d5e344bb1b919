/* SPDX-License-Identifier: Apache-2.0 */
/* docs.h - pages whose table is rendered from the code's own (`make docs`). */
#ifndef KS_TEST_DOCS_H
#define KS_TEST_DOCS_H

#include "base/bytes.h"

/* The file at `path`, seen from the top of the tree, where tests run, ends with what `markdown` appends. */
void docs_expect_table(const char *path, ks_err (*markdown)(struct ks_bytes *table));

#endif
