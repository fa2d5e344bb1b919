/* SPDX-License-Identifier: Apache-2.0 */
/* records_cbor.c - any bytes as an answer of GetRecords in CBOR: see records_fuzzed.h. */
#include "records_again.h"
#include "records_fuzzed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct records_reader reader = {false, ks_records_cbor, again_cbor};

    read_anywhere(&reader, ks_view_of(data, size));
    read_written(&reader, ks_view_of(data, size));
    return 0;
}
