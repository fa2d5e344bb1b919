/* SPDX-License-Identifier: Apache-2.0 */
/* records_json.c - any bytes as an answer of GetRecords in JSON: see records_fuzzed.h. The second reader is jansson,
 * where it takes them. */
#include "records_again.h"
#include "records_fuzzed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct records_reader reader = {true, ks_records_json, again_json};

    read_anywhere(&reader, ks_view_of(data, size));
    read_written(&reader, ks_view_of(data, size));
    return 0;
}
