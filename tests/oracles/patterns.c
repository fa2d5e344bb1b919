/* SPDX-License-Identifier: Apache-2.0 */
/* patterns.c - answers for the lines that Oracle.java of event-ruler/ reads, by base/pattern.h: 1, 0 or x. */
#include "base/pattern.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/pattern_json.h"

/* The bytes that a JSON string stands for; the caller frees them. */
static ks_view read_key(ks_view json)
{
    struct ks_pattern_text text;
    uint8_t *key = malloc(json.size);
    size_t size = 0;
    int byte;

    if (key == NULL)
        abort();
    ks_pattern_text_init(&text, ks_view_of(json.data + 1, json.size - 2), true);
    while ((byte = ks_pattern_text_byte(&text)) != -1)
        key[size++] = (uint8_t)byte;
    return ks_view_of(key, size);
}

static char answer(ks_view line, bool explain)
{
    struct ks_pattern_record record;
    struct ks_pattern *pattern;
    struct ks_detail detail = {""};
    ks_view text = ks_view_cut(&line, '\t');
    ks_view key = ks_view_cut(&line, '\t');
    char verdict;

    if (!ks_ok(ks_pattern_compile(text, &pattern, &detail))) {
        if (explain)
            fprintf(stderr, "%s\n", detail.text);
        return 'x';
    }
    record.partition_key = read_key(key);
    record.sequence_number = ks_view_cut(&line, '\t');
    if (!ks_ok(ks_view_i64(ks_view_cut(&line, '\t'), &record.arrival_ms)))
        abort();
    record.data = line;
    verdict = ks_pattern_matches(pattern, &record) ? '1' : '0';
    free((void *)(uintptr_t)record.partition_key.data);
    ks_pattern_free(pattern);
    return verdict;
}

/* With an argument it writes why a pattern is refused. */
int main(int argc, char **argv)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;

    (void)argv;
    while ((size = getline(&line, &capacity, stdin)) > 0) {
        ks_view view = ks_view_of(line, (size_t)size - (line[size - 1] == '\n'));
        printf("%c\n", answer(view, argc > 1));
    }
    free(line);
    return 0;
}
