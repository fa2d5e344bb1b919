/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sqlite/dead_letters.h"
#include "contract/dead_letters_rig.h"

static void nothing(void)
{
}

/* Its file is in the test's own directory. */
static ks_err open_file(struct ks_dead_letters **ret_store, struct ks_detail *ret_detail)
{
    static const char *path;
    const struct ks_letters_key key = {.application = "app"};

    path = path == NULL ? ks_test_path("letters.db") : path;
    return ks_sqlite_letters_open(letters_loop, path, &key, ret_store, ret_detail);
}

const struct letters_adapter letters_sqlite = {
    .name = "sqlite", .set_up = nothing, .open = open_file, .tear_down = nothing};
