/* SPDX-License-Identifier: Apache-2.0 */
/* render OPTIONS|METRICS|AWS|INFRASTRUCTURE|PERMISSIONS|TABLES|OPENAPI - the table of that page of docs/,
 * permissions.json or tables.json of deploy/terraform, or docs/openapi.json, from the code's own tables, on stdout. */
#include <stdio.h>
#include <string.h>

#include "api/openapi.h"
#include "base/metrics.h"
#include "base/options.h"
#include "main/aws_tables.h"
#include "main/permissions.h"

int main(int argc, char **argv)
{
    struct ks_bytes table;
    ks_err err = KS_FAIL(INVALID);

    ks_bytes_init(&table, 1 << 20);
    if (argc == 2 && strcmp(argv[1], "OPTIONS") == 0)
        err = ks_options_markdown(&table);
    if (argc == 2 && strcmp(argv[1], "METRICS") == 0)
        err = ks_metrics_markdown(&table);
    if (argc == 2 && strcmp(argv[1], "AWS") == 0)
        err = ks_permissions_markdown(&table);
    if (argc == 2 && strcmp(argv[1], "INFRASTRUCTURE") == 0)
        err = ks_aws_tables_markdown(&table);
    if (argc == 2 && strcmp(argv[1], "PERMISSIONS") == 0)
        err = ks_permissions_json(&table);
    if (argc == 2 && strcmp(argv[1], "TABLES") == 0)
        err = ks_aws_tables_json(&table);
    if (argc == 2 && strcmp(argv[1], "OPENAPI") == 0)
        err = ks_openapi_write(&table);
    if (!ks_ok(err)) {
        (void)fprintf(stderr,
                      "render OPTIONS|METRICS|AWS|INFRASTRUCTURE|PERMISSIONS|TABLES|OPENAPI: %s\n",
                      ks_err_text(err));
        return 1;
    }
    (void)fwrite(table.data, 1, table.size, stdout);
    ks_bytes_free(&table);
    return 0;
}
