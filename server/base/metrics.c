/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define PREFIX "kinesis_sidecar_"

enum type { COUNTER, GAUGE };
/* How many of the stored unit are one of the unit that is shown. */
enum unit { ONE = 1, MILLI = 1000, MICRO = 1000000 };

struct meaning {
    const char *name;
    enum type type;
    enum unit unit;
    const char *label;
    const char *sentence;
};

static const struct meaning meanings[KS_METRICS] = {
#define X(id, name, type, unit, label, sentence)                                                   \
    [KS_METRIC_##id] = {PREFIX name, type, unit, label, sentence},
#include "base/metrics.def"
#undef X
};

/* One number, and the value of the label that it belongs to ("" without one). */
struct series {
    char value[KS_METRIC_VALUE_SIZE];
    int64_t number;
};

/* Of a metric without a label only the first is used. Pages that no metric touches cost nothing. */
static struct series series[KS_METRICS][KS_METRIC_VALUES_MAX];

static const char *type_name(enum type type)
{
    return type == COUNTER ? "counter" : "gauge";
}

static struct series *plain(enum ks_metric metric)
{
    assert(metric < KS_METRICS);
    assert(meanings[metric].label == NULL);
    return &series[metric][0];
}

/* As much of a value as is kept. */
static size_t kept_size(const char *value)
{
    return ks_view_whole_characters(ks_view_of(value, strnlen(value, KS_METRIC_VALUE_SIZE - 1)));
}

/* The series of a value, or the free one where it belongs. */
static struct series *labelled(enum ks_metric metric, const char *value)
{
    struct series *all;
    size_t size = kept_size(value);
    int i;

    assert(metric < KS_METRICS);
    assert(meanings[metric].label != NULL);
    assert(size > 0);
    all = series[metric];
    for (i = 0; i < KS_METRIC_VALUES_MAX - 1 && all[i].value[0] != '\0'; i++) {
        if (strncmp(all[i].value, value, size) == 0 && all[i].value[size] == '\0')
            return &all[i];
    }
    return &all[i];
}

/* The same, and it is there from now on. */
static struct series *labelled_new(enum ks_metric metric, const char *value)
{
    struct series *found = labelled(metric, value);

    if (found->value[0] != '\0')
        return found;
    /* The last place is for all the values that there is no place for. */
    if (found == &series[metric][KS_METRIC_VALUES_MAX - 1])
        value = "other";
    memcpy(found->value, value, kept_size(value));
    return found;
}

static void add(enum ks_metric metric, struct series *to, int64_t n)
{
    assert(n >= 0 || meanings[metric].type == GAUGE);
    to->number += n;
}

void ks_metric_add(enum ks_metric metric, int64_t n)
{
    add(metric, plain(metric), n);
}

void ks_metric_add_labelled(enum ks_metric metric, const char *value, int64_t n)
{
    add(metric, labelled_new(metric, value), n);
}

void ks_metric_set(enum ks_metric metric, int64_t number)
{
    assert(meanings[metric].type == GAUGE);
    plain(metric)->number = number;
}

void ks_metric_set_labelled(enum ks_metric metric, const char *value, int64_t number)
{
    assert(meanings[metric].type == GAUGE);
    labelled_new(metric, value)->number = number;
}

int64_t ks_metric_number(enum ks_metric metric)
{
    return plain(metric)->number;
}

int64_t ks_metric_number_labelled(enum ks_metric metric, const char *value)
{
    return labelled(metric, value)->number;
}

/* The value of a label as the text format wants it. */
static ks_err append_escaped(struct ks_bytes *bytes, const char *value)
{
    for (; *value != '\0'; value++) {
        if (*value == '\\' || *value == '"')
            KS_TRY(ks_bytes_append_byte(bytes, '\\'));
        if (*value == '\n')
            KS_TRY(ks_bytes_append(bytes, KS_VIEW("\\n")));
        else
            KS_TRY(ks_bytes_append_byte(bytes, (uint8_t)*value));
    }
    return KS_OK;
}

/* A number of the table's unit; seconds are written with all their places, and without floating point. */
static ks_err append_number(struct ks_bytes *bytes, int64_t number, enum unit unit)
{
    uint64_t size = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    const char *sign = number < 0 ? "-" : "";
    int places = unit == MILLI ? 3 : 6;

    if (unit == ONE)
        return ks_bytes_format(bytes, " %s%" PRIu64 "\n", sign, size);
    return ks_bytes_format(bytes, " %s%" PRIu64 ".%0*" PRIu64 "\n", sign, size / unit, places,
                           size % unit);
}

static ks_err render_one(struct ks_bytes *bytes, enum ks_metric metric)
{
    const struct meaning *meaning = &meanings[metric];

    KS_TRY(ks_bytes_format(bytes, "# HELP %s %s\n# TYPE %s %s\n", meaning->name, meaning->sentence,
                           meaning->name, type_name(meaning->type)));
    if (meaning->label == NULL) {
        KS_TRY(ks_bytes_append(bytes, ks_view_text(meaning->name)));
        return append_number(bytes, plain(metric)->number, meaning->unit);
    }
    for (int i = 0; i < KS_METRIC_VALUES_MAX && series[metric][i].value[0] != '\0'; i++) {
        KS_TRY(ks_bytes_format(bytes, "%s{%s=\"", meaning->name, meaning->label));
        KS_TRY(append_escaped(bytes, series[metric][i].value));
        KS_TRY(ks_bytes_append(bytes, KS_VIEW("\"}")));
        KS_TRY(append_number(bytes, series[metric][i].number, meaning->unit));
    }
    return KS_OK;
}

ks_err ks_metrics_render(struct ks_bytes *bytes)
{
    for (int metric = 0; metric < KS_METRICS; metric++)
        KS_TRY(render_one(bytes, (enum ks_metric)metric));
    return KS_OK;
}

ks_err ks_metrics_markdown(struct ks_bytes *bytes)
{
    KS_TRY(ks_bytes_append(bytes, KS_VIEW("| metric | type | label | what it says |\n"
                                          "|---|---|---|---|\n")));
    for (int metric = 0; metric < KS_METRICS; metric++) {
        const struct meaning *meaning = &meanings[metric];
        const char *label = meaning->label == NULL ? "" : meaning->label;
        KS_TRY(ks_bytes_format(bytes, "| `%s` | %s | %s | %s |\n", meaning->name,
                               type_name(meaning->type), label, meaning->sentence));
    }
    return KS_OK;
}
