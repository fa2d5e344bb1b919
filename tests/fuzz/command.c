/* SPDX-License-Identifier: Apache-2.0 */
/* command.c - any bytes as a credential_process: the words lie within their room, and words in
 * quotes are the same words.
 */
#include "aws/credentials/command.h"

#include "aws/limits.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Appends `word` so that it stands for itself. */
static void quote(struct ks_bytes *line, const char *word)
{
    ks_err err = ks_bytes_append(line, KS_VIEW(" '"));

    for (; *word != '\0' && ks_ok(err); word++)
        err = *word == '\'' ? ks_bytes_append(line, KS_VIEW("'\\''"))
                            : ks_bytes_append_byte(line, (uint8_t)*word);
    if (ks_ok(err))
        err = ks_bytes_append_byte(line, '\'');
    assert(ks_ok(err));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char room[2][KS_COMMAND_MAX + 1];
    char *words[2][KS_COMMAND_WORDS_MAX + 1];
    struct ks_bytes line;
    size_t at = 0;

    if (!ks_ok(ks_command_split(ks_view_of(data, size), room[0], words[0])))
        return 0;
    ks_bytes_init(&line, 5 * KS_COMMAND_MAX);
    for (; words[0][at] != NULL; at++) {
        assert(words[0][at] >= room[0] &&
               words[0][at] + strlen(words[0][at]) < room[0] + sizeof(room[0]));
        quote(&line, words[0][at]);
    }
    assert(at > 0 && at <= KS_COMMAND_WORDS_MAX);
    if (ks_ok(ks_command_split(ks_bytes_view(&line), room[1], words[1]))) {
        for (at = 0; words[0][at] != NULL; at++)
            assert(strcmp(words[0][at], words[1][at]) == 0);
        assert(words[1][at] == NULL);
    } else {
        assert(line.size > KS_COMMAND_MAX);
    }
    ks_bytes_free(&line);
    return 0;
}
