/* SPDX-License-Identifier: Apache-2.0 */
#include "vectors/vectors.h"

#include "ks_test.h"

#include <stdio.h>
#include <stdlib.h>

bool vectors_path(const char *name, const char *what, char ret_path[VECTORS_PATH_MAX])
{
    const char *folder = getenv("VECTORS_DIR");
    int size;

    if (folder == NULL) {
        (void)fprintf(stderr, "VECTORS_DIR is not set: read no %s\n", what);
        return false;
    }
    size = snprintf(ret_path, VECTORS_PATH_MAX, "%s/%s", folder, name);
    EXPECT(size > 0 && size < VECTORS_PATH_MAX);
    return true;
}

json_t *vectors_load(const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);

    if (root == NULL)
        FAIL("%s: %s", path, error.text);
    return root;
}

const char *vectors_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text == NULL ? "" : text;
}

void vectors_read(size_t count, size_t least, const char *path)
{
    EXPECT(count >= least);
    (void)fprintf(stderr, "read %zu cases from %s\n", count, path);
}
