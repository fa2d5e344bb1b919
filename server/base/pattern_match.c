/* SPDX-License-Identifier: Apache-2.0 */
#include "base/budget.h"
#include "base/pattern_parts.h"

#include <stdio.h>

enum { NUMBER_SIZE = 32 };

/* The data of a record is read once for each way to match, in parts if the caller limits the work. Between two tests
 * of a value, or two tokens, the walk holds the complete state. An open bracket is a frame. The result of a value is
 * known when its last token is read, and becomes a part of the result of its frame. */

struct result {
    bool matches; /* The value has all that the node requires. */
    /* The lowest rank of the fields that must be absent but have a value, in any element of any list. */
    uint16_t present;
};

struct frame {
    uint16_t node;
    bool array;
    bool matches; /* Of an array: at least one element matches. */
    uint16_t present;
};

enum child_state { CHILD_UNSEEN, CHILD_FAILED, CHILD_MATCHES };

struct walk {
    const struct ks_pattern *pattern;
    struct ks_pattern_reader reader;
    struct ks_pattern_trial trial; /* Of a value of the data .. */
    bool on_trial;                 /* .. while it is not decided. */
    uint64_t spent;                /* Bytes that were looked at, and names that were compared. */
    struct frame frames[KS_PATTERN_DEPTH_MAX];
    uint32_t depth;
    uint32_t skipped; /* Open brackets of a value that the pattern does not name. */
    uint16_t node;    /* Of the value that is read next, or KS_PATTERN_NONE. */
    struct result result;
    /* An enum child_state for each node whose parent is the node of an open object. An object is never inside an object
     * of the same node, so one state for each node is enough. */
    uint8_t children[KS_PATTERN_NODES_MAX];
};

enum reading { READING_NOT_JSON, READING_FAILS, READING_MATCHES, READING_ON };

static bool has_values(const struct ks_pattern_node *node)
{
    return node->value_rank != KS_PATTERN_NONE;
}

static uint16_t lower_rank(uint16_t a, uint16_t b)
{
    return a < b ? a : b;
}

/* Adds the result of a value of `node` to its frame. */
static void give(struct walk *walk, uint16_t node, struct result result)
{
    struct frame *frame;
    uint8_t *state = &walk->children[node];

    if (walk->depth == 0) {
        walk->result = result;
        return;
    }
    frame = &walk->frames[walk->depth - 1];
    frame->present = lower_rank(frame->present, result.present);
    if (frame->array) {
        frame->matches = frame->matches || result.matches;
        return;
    }
    /* If a name comes twice, one value that matches is enough, but a field that must be absent is so in both. */
    if (*state == CHILD_UNSEEN || result.matches == has_values(&walk->pattern->nodes[node]))
        *state = result.matches ? CHILD_MATCHES : CHILD_FAILED;
}

static struct result match_scalar(const struct ks_pattern *pattern,
                                  const struct ks_pattern_node *node,
                                  const struct ks_pattern_token *token)
{
    struct result result = {.matches = false, .present = KS_PATTERN_NONE};
    struct ks_pattern_value value;

    switch (node->kind) {
    case KS_PATTERN_MEMBERS: result.matches = !has_values(node); break;
    case KS_PATTERN_ABSENT: result.present = node->rank; break;
    case KS_PATTERN_VALUES:
        value = ks_pattern_value_of(token);
        result.matches =
            ks_pattern_value_passes(&value, pattern->tests + node->first_test, node->test_count);
        break;
    }
    return result;
}

static void open_value(struct walk *walk, bool array)
{
    const struct ks_pattern_node *nodes = walk->pattern->nodes;
    uint16_t node = walk->node;

    if (node == KS_PATTERN_NONE) {
        walk->skipped = 1;
        return;
    }
    if (!array && nodes[node].kind != KS_PATTERN_MEMBERS) {
        /* An object is not a value. */
        give(walk, node,
             (struct result){.matches = nodes[node].kind == KS_PATTERN_ABSENT,
                             .present = KS_PATTERN_NONE});
        walk->skipped = 1;
        return;
    }
    walk->frames[walk->depth++] =
        (struct frame){.node = node, .array = array, .present = KS_PATTERN_NONE};
    for (uint16_t child = nodes[node].child; !array && child != KS_PATTERN_NONE;
         child = nodes[child].sibling, walk->spent++)
        walk->children[child] = CHILD_UNSEEN;
}

/* Every child matches; a child without a value matches if it requires none. */
static bool object_matches(struct walk *walk, uint16_t node)
{
    const struct ks_pattern_node *nodes = walk->pattern->nodes;

    for (uint16_t child = nodes[node].child; child != KS_PATTERN_NONE;
         child = nodes[child].sibling) {
        uint8_t state = walk->children[child];

        walk->spent++;
        if (state == CHILD_FAILED || (state == CHILD_UNSEEN && has_values(&nodes[child])))
            return false;
    }
    return true;
}

/* One element must match. A field that must be absent is absent in this element if it comes after the first field with
 * values in the order of full names. A field that comes before it must be absent in every element, because no element
 * is chosen yet. */
static bool array_matches(const struct walk *walk, const struct frame *frame)
{
    const struct ks_pattern_node *node = &walk->pattern->nodes[frame->node];

    if (!has_values(node))
        return frame->present == KS_PATTERN_NONE;
    return frame->matches && frame->present > node->value_rank;
}

static void close_value(struct walk *walk)
{
    struct frame *frame = &walk->frames[walk->depth - 1];
    struct result result = {.present = frame->present};

    result.matches = frame->array ? array_matches(walk, frame) : object_matches(walk, frame->node);
    walk->depth--;
    give(walk, frame->node, result);
}

static void take_name(struct walk *walk, const struct ks_pattern_token *token)
{
    const struct ks_pattern_node *nodes = walk->pattern->nodes;
    uint16_t child = nodes[walk->frames[walk->depth - 1].node].child;

    while (child != KS_PATTERN_NONE &&
           !ks_pattern_text_equal(token->text, token->escaped, nodes[child].name)) {
        child = nodes[child].sibling;
        walk->spent++;
    }
    walk->node = child;
}

/* Takes a token inside of a value that the pattern does not name. */
static void skip_token(struct walk *walk, enum ks_pattern_token_kind kind)
{
    if (kind == KS_PATTERN_OBJECT || kind == KS_PATTERN_ARRAY)
        walk->skipped++;
    else if (kind == KS_PATTERN_OBJECT_END || kind == KS_PATTERN_ARRAY_END)
        walk->skipped--;
}

/* A value of a field with tests is tried: go_on() makes them. */
static void take_scalar(struct walk *walk, const struct ks_pattern_token *token)
{
    const struct ks_pattern_node *node = &walk->pattern->nodes[walk->node];

    if (node->kind != KS_PATTERN_VALUES) {
        give(walk, walk->node, match_scalar(walk->pattern, node, token));
        return;
    }
    walk->on_trial = true;
    walk->trial = (struct ks_pattern_trial){.value = ks_pattern_value_of(token),
                                            .tests = walk->pattern->tests + node->first_test,
                                            .count = node->test_count};
}

static void go_on_with_trial(struct walk *walk)
{
    struct result result = {.matches = false, .present = KS_PATTERN_NONE};
    enum ks_pattern_verdict verdict = ks_pattern_trial_step(&walk->trial, &walk->spent);

    if (verdict == KS_PATTERN_UNDECIDED)
        return;
    walk->on_trial = false;
    result.matches = verdict == KS_PATTERN_PASSES;
    give(walk, walk->node, result);
}

static void take_token(struct walk *walk, const struct ks_pattern_token *token)
{
    if (walk->depth > 0 && walk->frames[walk->depth - 1].array)
        walk->node = walk->frames[walk->depth - 1].node;
    switch (token->kind) {
    case KS_PATTERN_OBJECT: open_value(walk, false); break;
    case KS_PATTERN_ARRAY: open_value(walk, true); break;
    case KS_PATTERN_OBJECT_END:
    case KS_PATTERN_ARRAY_END: close_value(walk); break;
    case KS_PATTERN_NAME: take_name(walk, token); break;
    case KS_PATTERN_STRING:
    case KS_PATTERN_NUMBER:
    case KS_PATTERN_TRUE:
    case KS_PATTERN_FALSE:
    case KS_PATTERN_NULL:
        if (walk->node != KS_PATTERN_NONE)
            take_scalar(walk, token);
        break;
    case KS_PATTERN_END:
    case KS_PATTERN_WRONG: break;
    }
}

/* With KS_PATTERN_NONE for `node` any JSON matches. */
static void begin_data(struct walk *walk, const struct ks_pattern *pattern, uint16_t node,
                       ks_view data)
{
    walk->pattern = pattern;
    walk->depth = 0;
    walk->skipped = 0;
    walk->node = node;
    walk->on_trial = false;
    walk->result = (struct result){.matches = true};
    ks_pattern_reader_init(&walk->reader, data);
}

/* Reads the data on, to its end unless `most` is spent before. */
static enum reading read_data(struct walk *walk, uint64_t most)
{
    struct ks_pattern_token token = {.kind = KS_PATTERN_NULL};

    while (walk->spent < most) {
        if (walk->on_trial) {
            go_on_with_trial(walk);
            continue;
        }
        ks_pattern_reader_next(&walk->reader, &token);
        walk->spent += 1 + token.text.size;
        if (token.kind == KS_PATTERN_WRONG)
            return READING_NOT_JSON;
        if (token.kind == KS_PATTERN_END)
            return walk->result.matches ? READING_MATCHES : READING_FAILS;
        if (walk->skipped > 0)
            skip_token(walk, token.kind);
        else
            take_token(walk, &token);
    }
    return READING_ON;
}

/* The fields of a record beside its data. */

static bool read_field(const struct ks_pattern_record *record, ks_view name,
                       char number[NUMBER_SIZE], struct ks_pattern_token *ret_token)
{
    *ret_token = (struct ks_pattern_token){.kind = KS_PATTERN_STRING};
    if (ks_view_equal(name, KS_VIEW("partitionKey"))) {
        ret_token->text = record->partition_key;
    } else if (ks_view_equal(name, KS_VIEW("sequenceNumber"))) {
        ret_token->text = record->sequence_number;
    } else if (ks_view_equal(name, KS_VIEW("kinesisSchemaVersion"))) {
        ret_token->text = KS_VIEW("1.0");
    } else {
        int size = snprintf(number, NUMBER_SIZE, "%lld.%03lld", record->arrival_ms / 1000LL,
                            record->arrival_ms % 1000LL);
        *ret_token = (struct ks_pattern_token){.kind = KS_PATTERN_NUMBER,
                                               .text = ks_view_of(number, (size_t)size)};
        return record->arrival_ms > 0;
    }
    return true;
}

/* What metadata_matches() may look at. */
static uint64_t metadata_units(const struct ks_pattern *pattern, const struct ks_pattern_way *way,
                               const struct ks_pattern_record *record)
{
    uint64_t units = 1;

    for (uint16_t i = pattern->nodes[way->root].child; i != KS_PATTERN_NONE;
         i = pattern->nodes[i].sibling)
        if (i != way->data)
            units +=
                (1 + pattern->nodes[i].test_count) * (NUMBER_SIZE + record->partition_key.size);
    return units;
}

static bool metadata_matches(const struct ks_pattern *pattern, const struct ks_pattern_way *way,
                             const struct ks_pattern_record *record)
{
    for (uint16_t i = pattern->nodes[way->root].child; i != KS_PATTERN_NONE;
         i = pattern->nodes[i].sibling) {
        const struct ks_pattern_node *node = &pattern->nodes[i];
        struct ks_pattern_token token;
        char number[NUMBER_SIZE];
        bool there;

        if (i == way->data)
            continue;
        there = read_field(record, node->name, number, &token);
        if (!there && node->kind == KS_PATTERN_VALUES)
            return false;
        if (there && !match_scalar(pattern, node, &token).matches)
            return false;
    }
    return true;
}

/* ---- A match ---- */

struct ks_pattern_match {
    const struct ks_pattern *pattern;
    struct ks_pattern_record record;
    uint16_t filter; /* That is tried, .. */
    uint16_t way;    /* .. in this way of its own. */
    bool reading;    /* Its data is being read. */
    bool not_json;
    struct walk walk;
};

void ks_pattern_match_begin(struct ks_pattern_match *match, const struct ks_pattern *pattern,
                            const struct ks_pattern_record *record)
{
    match->pattern = pattern;
    match->record = *record;
    match->filter = 0;
    match->way = 0;
    match->reading = false;
    match->not_json = false;
    match->walk.spent = 0;
}

/* The next way that there is to try. False: there is none. */
static bool find_way(struct ks_pattern_match *match)
{
    const struct ks_pattern *pattern = match->pattern;

    while (match->filter < pattern->filter_count) {
        const struct ks_pattern_filter *filter = &pattern->filters[match->filter];

        if (match->way < filter->way_count && !(filter->reads_data && match->not_json))
            return true;
        match->filter++;
        match->way = 0;
    }
    return false;
}

/* Tries the way that find_way() found, as far as `most` goes. */
static enum reading try_way(struct ks_pattern_match *match, uint64_t most)
{
    const struct ks_pattern_filter *filter = &match->pattern->filters[match->filter];
    const struct ks_pattern_way *way = &match->pattern->ways[filter->first_way + match->way];

    if (!match->reading) {
        match->walk.spent += metadata_units(match->pattern, way, &match->record);
        if (!metadata_matches(match->pattern, way, &match->record))
            return READING_FAILS;
        if (!filter->reads_data)
            return READING_MATCHES;
        begin_data(&match->walk, match->pattern, way->data, match->record.data);
        match->reading = true;
    }
    return read_data(&match->walk, most);
}

/* True when it is known whether the record passes. */
static bool go_on(struct ks_pattern_match *match, uint64_t most, bool *ret_passes)
{
    while (find_way(match)) {
        enum reading reading = match->walk.spent < most ? try_way(match, most) : READING_ON;

        if (reading == READING_ON)
            return false;
        *ret_passes = reading == READING_MATCHES;
        if (*ret_passes)
            return true;
        if (match->reading)
            match->not_json = reading == READING_NOT_JSON;
        match->reading = false;
        match->way++;
    }
    *ret_passes = false;
    return true;
}

bool ks_pattern_matches(const struct ks_pattern *pattern, const struct ks_pattern_record *record)
{
    KS_UNFILLED struct ks_pattern_match match;
    bool passes = false;

    ks_pattern_match_begin(&match, pattern, record);
    (void)go_on(&match, UINT64_MAX, &passes);
    return passes;
}

struct ks_pattern_match *ks_pattern_match_new(void)
{
    return ks_alloc(sizeof(struct ks_pattern_match));
}

bool ks_pattern_match_go_on(struct ks_pattern_match *match, uint64_t *units, bool *ret_passes)
{
    bool known;

    match->walk.spent = 0;
    known = go_on(match, *units, ret_passes);
    *units -= match->walk.spent < *units ? match->walk.spent : *units;
    return known;
}
