/* SPDX-License-Identifier: Apache-2.0 */
/* kcl_rb.c - rows of kcl-rb's table: foreign_row.h.
 */
#include "adapters/dialects/kcl_rb.h"

#include "foreign_row.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct foreign_times times = {ks_kcl_rb_get_time, ks_kcl_rb_put_time};

    read_foreign_row(&ks_kcl_rb_dialect, &times, data, size);
    return 0;
}
