/* SPDX-License-Identifier: Apache-2.0 */
/* go_kcl.c - rows of vmware-go-kcl's table: foreign_row.h.
 */
#include "adapters/dialects/go_kcl.h"

#include "foreign_row.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct foreign_times times = {ks_go_kcl_get_time, ks_go_kcl_put_time};

    read_foreign_row(&ks_go_kcl_dialect, &times, data, size);
    return 0;
}
