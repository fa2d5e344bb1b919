/* SPDX-License-Identifier: Apache-2.0 */
/* pattern_parts.h - the parts of a compiled document of event patterns; for pattern.c and pattern_*.c alone.
 *
 * A pattern is first parsed into items: a tree in the order of the text, in which the items inside an item
 * follow it. Each way to choose among the objects of every $or then becomes a tree of names, in which nothing is
 * chosen any more. Views point into `texts`, which does not move.
 */
#ifndef KS_BASE_PATTERN_PARTS_H
#define KS_BASE_PATTERN_PARTS_H

#include "base/pattern.h"
#include "base/pattern_value.h"

enum {
    KS_PATTERN_NONE = 0xFFFF,                         /* No node, no item, no rank. */
    KS_PATTERN_ITEMS_MAX = 4 * KS_PATTERN_FIELDS_MAX, /* Of one pattern. */
    KS_PATTERN_PIECES_MAX = 2 * KS_PATTERN_TESTS_MAX  /* Of all wildcards of a document. */
};

enum ks_pattern_node_kind {
    KS_PATTERN_MEMBERS, /* An object. */
    KS_PATTERN_VALUES,  /* A field one of whose tests must pass. */
    KS_PATTERN_ABSENT   /* A field that must have no value. */
};

struct ks_pattern_node {
    ks_view name;
    enum ks_pattern_node_kind kind;
    uint16_t parent, child, sibling;
    uint16_t first_test, test_count; /* Of KS_PATTERN_VALUES. */
    uint16_t rank;                   /* Of a field: its number in the order of full names. */
    /* The lowest rank of the fields with values at or below this node; KS_PATTERN_NONE if there is none. */
    uint16_t value_rank;
};

/* One choice among all $or of a pattern. */
struct ks_pattern_way {
    uint16_t root; /* The node of the record itself. */
    uint16_t data; /* The node of its data, or KS_PATTERN_NONE. */
};

struct ks_pattern_filter {
    uint16_t first_way, way_count;
    bool reads_data;
};

struct ks_pattern {
    struct ks_pattern_filter filters[KS_PATTERN_FILTERS_MAX];
    struct ks_pattern_way ways[KS_PATTERN_WAYS_MAX];
    struct ks_pattern_node nodes[KS_PATTERN_NODES_MAX];
    struct ks_pattern_test tests[KS_PATTERN_TESTS_MAX];
    struct ks_pattern_piece pieces[KS_PATTERN_PIECES_MAX];
    uint16_t filter_count, way_count, node_count, test_count, piece_count;
    struct ks_bytes texts; /* Names and texts without escapes; never more than the document has. */
    uint16_t *borders;     /* One for each byte of `texts`. */
};

enum ks_pattern_item_kind {
    KS_PATTERN_ITEM_OBJECT,
    KS_PATTERN_ITEM_CHOICE,      /* $or */
    KS_PATTERN_ITEM_ALTERNATIVE, /* An object of a $or. */
    KS_PATTERN_ITEM_VALUES,
    KS_PATTERN_ITEM_ABSENT
};

struct ks_pattern_item {
    enum ks_pattern_item_kind kind;
    bool named;
    ks_view name;
    uint16_t parent;
    uint16_t end; /* The item after all that is inside this one. */
    uint16_t
        number; /* Of an alternative: which one. Of a choice: how many there are. Of a field: its rank. */
    uint16_t chosen; /* Of a choice: the alternative of the way that is made. */
    uint16_t first_test, test_count;
};

/* The pattern that is compiled, one of `filter_count`. */
struct ks_pattern_parser {
    struct ks_pattern *pattern;
    struct ks_pattern_reader reader;
    struct ks_pattern_item items[KS_PATTERN_ITEMS_MAX];
    uint16_t item_count;
    uint16_t open; /* The innermost item that is not at its end. */
    uint16_t fields;
    uint16_t filter; /* From 1 on; 0: the document is one pattern. */
    struct ks_detail *detail;
};

/* Parses a pattern into items, and its tests into the pattern. As ks_pattern_compile(). */
KS_MUST_USE ks_err ks_pattern_parse(struct ks_pattern_parser *parser, ks_view text);

/* Returns `err` with a sentence that begins with the full name of `item`. */
KS_MUST_USE ks_err ks_pattern_refuse(const struct ks_pattern_parser *parser, ks_err err,
                                     uint16_t item, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Adds a token's text without its escapes to `texts`. */
KS_MUST_USE ks_err ks_pattern_keep_text(struct ks_pattern *pattern,
                                        const struct ks_pattern_token *token, ks_view *ret_text);

#endif
