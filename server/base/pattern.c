/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pattern.h"

#include "base/budget.h"
#include "base/pattern_parts.h"

void ks_pattern_free(struct ks_pattern *pattern)
{
    if (pattern == NULL)
        return;
    ks_bytes_free(&pattern->texts);
    ks_free(pattern->borders);
    ks_free(pattern);
}

bool ks_pattern_reads_data(const struct ks_pattern *pattern)
{
    for (uint16_t i = 0; i < pattern->filter_count; i++) {
        if (pattern->filters[i].reads_data)
            return true;
    }
    return false;
}

/* The order of full names, as they are with a dot between the names of objects. */

struct chain {
    ks_view names[KS_PATTERN_DEPTH_MAX + 1]; /* The outermost last. */
    size_t count;
};

static void read_chain(const struct ks_pattern_parser *parser, uint16_t item,
                       struct chain *ret_chain)
{
    ret_chain->count = 0;
    for (; item != KS_PATTERN_NONE; item = parser->items[item].parent) {
        if (parser->items[item].named)
            ret_chain->names[ret_chain->count++] = parser->items[item].name;
    }
}

/* Reads a full name in parts: names, and dots between them. */
struct full_name {
    const struct chain *chain;
    size_t level; /* Names that are not read. */
    bool dot;     /* A dot comes before the next name. */
    ks_view rest; /* Of the part that is read. */
};

/* Returns false at the end. */
static bool fill_rest(struct full_name *name)
{
    while (name->rest.size == 0 && name->level > 0) {
        if (name->dot)
            name->rest = KS_VIEW(".");
        else
            name->rest = name->chain->names[--name->level];
        name->dot = !name->dot;
    }
    return name->rest.size > 0;
}

static bool is_before(const struct chain *a, const struct chain *b)
{
    struct full_name left = {.chain = a, .level = a->count};
    struct full_name right = {.chain = b, .level = b->count};

    while (fill_rest(&left) && fill_rest(&right)) {
        size_t size = left.rest.size < right.rest.size ? left.rest.size : right.rest.size;
        int order = memcmp(left.rest.data, right.rest.data, size);
        if (order != 0)
            return order < 0;
        left.rest = ks_view_of(left.rest.data + size, left.rest.size - size);
        right.rest = ks_view_of(right.rest.data + size, right.rest.size - size);
    }
    return !fill_rest(&left) && fill_rest(&right);
}

static bool is_field(const struct ks_pattern_item *item)
{
    return item->kind == KS_PATTERN_ITEM_VALUES || item->kind == KS_PATTERN_ITEM_ABSENT;
}

/* Numbers the fields by their full names: the number of fields that come before. */
static void rank_fields(struct ks_pattern_parser *parser)
{
    for (uint16_t i = 0; i < parser->item_count; i++) {
        struct chain chain, other;
        uint16_t rank = 0;

        if (!is_field(&parser->items[i]))
            continue;
        read_chain(parser, i, &chain);
        for (uint16_t j = 0; j < parser->item_count; j++) {
            if (!is_field(&parser->items[j]))
                continue;
            read_chain(parser, j, &other);
            rank = (uint16_t)(rank + is_before(&other, &chain));
        }
        parser->items[i].number = rank;
    }
}

/* Ways. */

static uint16_t find_child(const struct ks_pattern *pattern, uint16_t parent, ks_view name)
{
    uint16_t child = pattern->nodes[parent].child;

    while (child != KS_PATTERN_NONE && !ks_view_equal(pattern->nodes[child].name, name))
        child = pattern->nodes[child].sibling;
    return child;
}

static ks_err add_node(struct ks_pattern_parser *parser, uint16_t parent, ks_view name,
                       uint16_t *ret_node)
{
    struct ks_pattern *pattern = parser->pattern;
    uint16_t node = pattern->node_count;

    if (node == KS_PATTERN_NODES_MAX)
        return ks_pattern_refuse(parser, KS_FAIL(FULL), KS_PATTERN_NONE,
                                 "the ways in which it can match have more than %d names; "
                                 "write fewer alternatives or fields",
                                 KS_PATTERN_NODES_MAX);
    pattern->node_count++;
    pattern->nodes[node] = (struct ks_pattern_node){.name = name,
                                                    .kind = KS_PATTERN_MEMBERS,
                                                    .parent = parent,
                                                    .child = KS_PATTERN_NONE,
                                                    .sibling = KS_PATTERN_NONE,
                                                    .value_rank = KS_PATTERN_NONE};
    if (parent != KS_PATTERN_NONE) {
        pattern->nodes[node].sibling = pattern->nodes[parent].child;
        pattern->nodes[parent].child = node;
    }
    *ret_node = node;
    return KS_OK;
}

/* Copies a field to its node, and its rank to the nodes above. */
static void fill_field(struct ks_pattern *pattern, uint16_t node,
                       const struct ks_pattern_item *item)
{
    struct ks_pattern_node *field = &pattern->nodes[node];

    field->rank = item->number;
    if (item->kind == KS_PATTERN_ITEM_ABSENT) {
        field->kind = KS_PATTERN_ABSENT;
        return;
    }
    field->kind = KS_PATTERN_VALUES;
    field->first_test = item->first_test;
    field->test_count = item->test_count;
    for (; node != KS_PATTERN_NONE; node = pattern->nodes[node].parent) {
        if (pattern->nodes[node].value_rank > item->number)
            pattern->nodes[node].value_rank = item->number;
    }
}

/* Adds a field of the pattern, and the objects that it is in. */
static ks_err add_field(struct ks_pattern_parser *parser, uint16_t root, uint16_t item)
{
    struct ks_pattern *pattern = parser->pattern;
    struct chain chain;
    uint16_t node = root;

    read_chain(parser, item, &chain);
    for (size_t i = chain.count; i > 0; i--) {
        uint16_t child = find_child(pattern, node, chain.names[i - 1]);
        bool last = i == 1;
        if (child != KS_PATTERN_NONE && (last || pattern->nodes[child].kind != KS_PATTERN_MEMBERS))
            return ks_pattern_refuse(parser, KS_FAIL(INVALID), item,
                                     "named twice in a way to match; put its values into one "
                                     "list, or its fields into one object");
        if (child == KS_PATTERN_NONE)
            KS_TRY(add_node(parser, node, chain.names[i - 1], &child));
        node = child;
    }
    fill_field(pattern, node, &parser->items[item]);
    return KS_OK;
}

/* The next item of the chosen way from `item` on. */
static uint16_t skip_unchosen(const struct ks_pattern_parser *parser, uint16_t item)
{
    while (item < parser->item_count && parser->items[item].kind == KS_PATTERN_ITEM_ALTERNATIVE &&
           parser->items[parser->items[item].parent].chosen != parser->items[item].number)
        item = parser->items[item].end;
    return item;
}

static ks_err add_way(struct ks_pattern_parser *parser)
{
    struct ks_pattern *pattern = parser->pattern;
    struct ks_pattern_way *way = &pattern->ways[pattern->way_count];

    if (pattern->way_count == KS_PATTERN_WAYS_MAX)
        return ks_pattern_refuse(parser, KS_FAIL(FULL), KS_PATTERN_NONE,
                                 "it can match in more than %d ways; each $or multiplies them, "
                                 "so write fewer alternatives",
                                 KS_PATTERN_WAYS_MAX);
    KS_TRY(add_node(parser, KS_PATTERN_NONE, KS_VIEW_NONE, &way->root));
    pattern->way_count++;
    for (uint16_t i = 0; i < parser->item_count; i = skip_unchosen(parser, (uint16_t)(i + 1))) {
        if (is_field(&parser->items[i]))
            KS_TRY(add_field(parser, way->root, i));
    }
    way->data = find_child(pattern, way->root, KS_VIEW("data"));
    return KS_OK;
}

/* Chooses the next way: the last choice that has one more alternative takes it, all choices after it begin anew. Only
 * choices that the way has count. False if there is none. */
static bool choose_next(struct ks_pattern_parser *parser)
{
    uint16_t last = KS_PATTERN_NONE;

    for (uint16_t i = 0; i < parser->item_count; i = skip_unchosen(parser, (uint16_t)(i + 1))) {
        const struct ks_pattern_item *item = &parser->items[i];
        if (item->kind == KS_PATTERN_ITEM_CHOICE && item->chosen + 1 < item->number)
            last = i;
    }
    if (last == KS_PATTERN_NONE)
        return false;
    parser->items[last].chosen++;
    for (uint16_t i = (uint16_t)(last + 1); i < parser->item_count; i++)
        parser->items[i].chosen = 0;
    return true;
}

/* Compiles one pattern of the document. */
static ks_err add_filter(struct ks_pattern_parser *parser, ks_view text)
{
    struct ks_pattern *pattern = parser->pattern;
    struct ks_pattern_filter *filter;

    if (pattern->filter_count == KS_PATTERN_FILTERS_MAX)
        return ks_pattern_refuse(parser, KS_FAIL(FULL), KS_PATTERN_NONE,
                                 "\"Filters\" has at most %d filters; put alternatives into "
                                 "one with $or",
                                 KS_PATTERN_FILTERS_MAX);
    KS_TRY(ks_pattern_parse(parser, text));
    rank_fields(parser);
    filter = &pattern->filters[pattern->filter_count++];
    filter->first_way = pattern->way_count;
    do {
        KS_TRY(add_way(parser));
    } while (choose_next(parser));
    filter->way_count = (uint16_t)(pattern->way_count - filter->first_way);
    for (uint16_t i = filter->first_way; i < pattern->way_count; i++)
        filter->reads_data = filter->reads_data || pattern->ways[i].data != KS_PATTERN_NONE;
    return KS_OK;
}

/* Documents. */

static ks_err refuse_document(const struct ks_pattern_parser *parser)
{
    return ks_pattern_refuse(parser, KS_FAIL(INVALID), KS_PATTERN_NONE,
                             "a document is {\"Filters\": [{\"Pattern\": \"..\"}]} with at least "
                             "one filter, in which each Pattern is a string");
}

/* Reads a token of the document itself. */
static ks_err next(const struct ks_pattern_parser *parser, struct ks_pattern_reader *reader,
                   struct ks_pattern_token *token)
{
    ks_pattern_reader_next(reader, token);
    if (token->kind == KS_PATTERN_WRONG)
        return ks_pattern_refuse(parser, KS_FAIL(MALFORMED), KS_PATTERN_NONE,
                                 "not JSON at byte %zu: %s", reader->at, reader->wrong);
    return KS_OK;
}

static ks_err expect(const struct ks_pattern_parser *parser, struct ks_pattern_reader *reader,
                     enum ks_pattern_token_kind kind, struct ks_pattern_token *token)
{
    KS_TRY(next(parser, reader, token));
    return token->kind == kind ? KS_OK : refuse_document(parser);
}

static ks_err expect_name(const struct ks_pattern_parser *parser, struct ks_pattern_reader *reader,
                          const char *name)
{
    struct ks_pattern_token token;

    KS_TRY(expect(parser, reader, KS_PATTERN_NAME, &token));
    return ks_pattern_text_equal(token.text, token.escaped, ks_view_text(name))
               ? KS_OK
               : refuse_document(parser);
}

/* Reads `"Pattern": "..."}` and compiles the string. */
static ks_err read_filter(struct ks_pattern_parser *parser, struct ks_pattern_reader *reader,
                          struct ks_bytes *source)
{
    struct ks_pattern_token token;
    struct ks_pattern_text text;
    int byte;

    parser->filter++;
    KS_TRY(expect_name(parser, reader, "Pattern"));
    KS_TRY(expect(parser, reader, KS_PATTERN_STRING, &token));
    ks_bytes_clear(source);
    ks_pattern_text_init(&text, token.text, token.escaped);
    while ((byte = ks_pattern_text_byte(&text)) != -1)
        KS_TRY(ks_bytes_append_byte(source, (uint8_t)byte));
    KS_TRY(add_filter(parser, ks_bytes_view(source)));
    return expect(parser, reader, KS_PATTERN_OBJECT_END, &token);
}

/* Reads the document after "Filters". */
static ks_err read_filters(struct ks_pattern_parser *parser, struct ks_pattern_reader *reader,
                           struct ks_bytes *source)
{
    struct ks_pattern_token token;

    KS_TRY(expect(parser, reader, KS_PATTERN_ARRAY, &token));
    for (;;) {
        KS_TRY(next(parser, reader, &token));
        if (token.kind == KS_PATTERN_ARRAY_END)
            break;
        if (token.kind != KS_PATTERN_OBJECT)
            return refuse_document(parser);
        KS_TRY(read_filter(parser, reader, source));
    }
    if (parser->filter == 0)
        return refuse_document(parser);
    parser->filter = 0;
    KS_TRY(expect(parser, reader, KS_PATTERN_OBJECT_END, &token));
    return expect(parser, reader, KS_PATTERN_END, &token);
}

static ks_err read_document(struct ks_pattern_parser *parser, ks_view text, struct ks_bytes *source)
{
    struct ks_pattern_reader reader;
    struct ks_pattern_token token;

    ks_pattern_reader_init(&reader, text);
    KS_TRY(expect(parser, &reader, KS_PATTERN_OBJECT, &token));
    ks_pattern_reader_next(&reader, &token);
    if (token.kind != KS_PATTERN_NAME ||
        !ks_pattern_text_equal(token.text, token.escaped, KS_VIEW("Filters")))
        return add_filter(parser, text);
    return read_filters(parser, &reader, source);
}

/* Allocates for a document of `size` bytes; its texts without escapes are not longer. */
static struct ks_pattern *allocate(size_t size)
{
    struct ks_pattern *pattern = ks_alloc(sizeof(*pattern));

    if (pattern == NULL)
        return NULL;
    ks_bytes_init(&pattern->texts, size);
    pattern->borders = ks_alloc((size + 1) * sizeof(*pattern->borders));
    if (pattern->borders != NULL && ks_ok(ks_bytes_reserve(&pattern->texts, size)))
        return pattern;
    ks_pattern_free(pattern);
    return NULL;
}

ks_err ks_pattern_compile(ks_view text, struct ks_pattern **ret, struct ks_detail *ret_detail)
{
    struct ks_pattern_parser *parser;
    struct ks_bytes source;
    ks_err err = KS_FAIL(NO_MEMORY);

    if (text.size > KS_PATTERN_TEXT_MAX)
        return ks_err_because(KS_FAIL(FULL), ret_detail,
                              "event patterns of %zu bytes; at most %d are allowed", text.size,
                              KS_PATTERN_TEXT_MAX);
    ks_bytes_init(&source, text.size);
    parser = ks_alloc(sizeof(*parser));
    if (parser == NULL)
        return err;
    parser->detail = ret_detail;
    parser->pattern = allocate(text.size);
    if (parser->pattern != NULL)
        err = read_document(parser, text, &source);
    if (ks_ok(err))
        *ret = parser->pattern;
    else
        ks_pattern_free(parser->pattern);
    ks_bytes_free(&source);
    ks_free(parser);
    return err;
}
