/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics.h"

#include "base/limits.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define PREFIX "kinesis_sidecar_"

enum type { COUNTER, GAUGE, HISTOGRAM };
/* How many of the stored unit are one of the unit that is shown. */
enum unit { ONE = 1, MILLI = 1000, MICRO = 1000000 };

struct meaning {
    const char *name;
    enum type type;
    enum unit unit;
    const char *label; /* NULL: none. Two have a comma between them. */
    const char *sentence;
};

static const struct meaning meanings[KS_METRICS] = {
#define X(id, name, type, unit, label, sentence)                                                   \
    [KS_METRIC_##id] = {PREFIX name, type, unit, label, sentence},
#include "base/metrics.def"
#undef X
};

/* Upper bounds of a histogram in microseconds, and as the text format names them: those that Prometheus
 * takes for requests, and two below for a table that answers in a few milliseconds. */
static const struct bound {
    int64_t us;
    const char *seconds;
} bounds[] = {
    {1000, "0.001"},  {2500, "0.0025"}, {5000, "0.005"},  {10000, "0.01"}, {25000, "0.025"},
    {50000, "0.05"},  {100000, "0.1"},  {250000, "0.25"}, {500000, "0.5"}, {1000000, "1"},
    {2500000, "2.5"}, {5000000, "5"},   {10000000, "10"},
};
enum { BOUNDS = sizeof(bounds) / sizeof(bounds[0]) };

enum { NAME_SIZE = KS_METRIC_VALUE_SIZE + KS_METRIC_SECOND_SIZE };

/* One number, and the value of the label that it belongs to; of two labels with a comma between them. Of a histogram
 * the number is the sum. */
struct series {
    struct series *next; /* Of the same metric, in the order in which they came. */
    char value[NAME_SIZE];
    int64_t number;
    uint64_t
        observed[BOUNDS +
                 1]; /* How many up to each bound and above the one before; the last: above all. */
};

/* Those of all labelled metrics, given out one after the other and never taken back. Pages that no metric touches cost
 * nothing. */
static struct series pool[KS_METRIC_SERIES_MAX];
static uint32_t pool_used;
static struct series *first[KS_METRICS];
/* Of a metric without a label: its number. With one: that of all values that there is no place for. */
static struct series rest[KS_METRICS];

static const char *type_name(enum type type)
{
    switch (type) {
    case COUNTER: return "counter";
    case GAUGE: return "gauge";
    case HISTOGRAM: return "histogram";
    }
    assert(false);
    return NULL;
}

static struct series *plain(enum ks_metric metric)
{
    assert(metric < KS_METRICS);
    assert(meanings[metric].label == NULL);
    return &rest[metric];
}

static bool is_of_subscription(const struct meaning *meaning)
{
    return meaning->label != NULL &&
           ks_view_starts(ks_view_text(meaning->label), KS_VIEW("subscription"));
}

/* As much of a value as is kept in so many bytes with a NUL. */
static int kept_size(const char *value, size_t capacity)
{
    size_t size = strnlen(value, capacity - 1);

    return (int)ks_view_whole_characters(ks_view_of(value, size));
}

/* What a series is known by. `second` is NULL where there is one label. */
static void name_of(const char *one, const char *second, char ret_name[NAME_SIZE])
{
    int size = kept_size(one, KS_METRIC_VALUE_SIZE);

    assert(one[0] != '\0');
    if (second == NULL)
        (void)snprintf(ret_name, NAME_SIZE, "%.*s", size, one);
    else
        (void)snprintf(ret_name, NAME_SIZE, "%.*s,%.*s", size, one,
                       kept_size(second, KS_METRIC_SECOND_SIZE), second);
}

/* The series of a name, NULL: it was never counted. `ret_count`: how many of the metric there are before it. */
static struct series *find(enum ks_metric metric, const char *name, uint32_t *ret_count)
{
    struct series *one;

    assert(metric < KS_METRICS);
    assert(meanings[metric].label != NULL);
    *ret_count = 0;
    for (one = first[metric]; one != NULL && strcmp(one->value, name) != 0; one = one->next)
        (*ret_count)++;
    return one;
}

/* How many values there are places for, the rest excepted. */
static uint32_t places(const struct meaning *meaning)
{
    return (KS_METRIC_VALUES_MAX - 1) * (is_of_subscription(meaning) ? KS_SUBSCRIPTIONS_MAX : 1);
}

/* The series of a value, which is there from now on, or the rest. */
static struct series *labelled(enum ks_metric metric, const char *one, const char *second)
{
    struct series **end = &first[metric];
    char name[NAME_SIZE];
    uint32_t count;

    name_of(one, second, name);
    struct series *found = find(metric, name, &count);
    if (found != NULL)
        return found;
    if (count >= places(&meanings[metric]) || pool_used == KS_METRIC_SERIES_MAX) {
        memcpy(rest[metric].value, "other", sizeof("other"));
        return &rest[metric];
    }
    while (*end != NULL)
        end = &(*end)->next;
    *end = &pool[pool_used++];
    memcpy((*end)->value, name, sizeof(name));
    return *end;
}

static void add(enum ks_metric metric, struct series *to, int64_t n)
{
    assert(n >= 0 || meanings[metric].type == GAUGE);
    assert(meanings[metric].type != HISTOGRAM);
    to->number += n;
}

void ks_metric_add(enum ks_metric metric, int64_t n)
{
    add(metric, plain(metric), n);
}

void ks_metric_add_labelled(enum ks_metric metric, const char *value, int64_t n)
{
    add(metric, labelled(metric, value, NULL), n);
}

void ks_metric_add_pair(enum ks_metric metric, const char *one, const char *second, int64_t n)
{
    add(metric, labelled(metric, one, second), n);
}

void ks_metric_set(enum ks_metric metric, int64_t number)
{
    assert(meanings[metric].type == GAUGE);
    plain(metric)->number = number;
}

void ks_metric_set_labelled(enum ks_metric metric, const char *value, int64_t number)
{
    assert(meanings[metric].type == GAUGE);
    labelled(metric, value, NULL)->number = number;
}

void ks_metric_set_pair(enum ks_metric metric, const char *one, const char *second, int64_t number)
{
    assert(meanings[metric].type == GAUGE);
    labelled(metric, one, second)->number = number;
}

void ks_metric_observe_pair(enum ks_metric metric, const char *one, const char *second, int64_t us)
{
    struct series *to = labelled(metric, one, second);
    size_t at = 0;

    assert(meanings[metric].type == HISTOGRAM);
    assert(us >= 0);
    while (at < BOUNDS && us > bounds[at].us)
        at++;
    to->observed[at]++;
    to->number += us;
}

int64_t ks_metric_number(enum ks_metric metric)
{
    assert(metric < KS_METRICS);
    int64_t sum = rest[metric].number;

    for (const struct series *one = first[metric]; one != NULL; one = one->next)
        sum += one->number;
    return sum;
}

void ks_metrics_begin(const char *subscription)
{
    for (int metric = 0; metric < KS_METRICS; metric++) {
        const char *label = meanings[metric].label;
        if (label != NULL && strcmp(label, "subscription") == 0)
            (void)labelled((enum ks_metric)metric, subscription, NULL);
    }
}

int64_t ks_metric_number_labelled(enum ks_metric metric, const char *value)
{
    uint32_t ignored;
    const struct series *found = find(metric, value, &ignored);

    if (found != NULL)
        return found->number;
    return strcmp(value, "other") == 0 ? rest[metric].number : 0;
}

/* The value of a label as the text format wants it. */
static ks_err append_escaped(struct ks_bytes *bytes, ks_view value)
{
    for (size_t at = 0; at < value.size; at++) {
        if (value.data[at] == '\\' || value.data[at] == '"')
            KS_TRY(ks_bytes_append_byte(bytes, '\\'));
        if (value.data[at] == '\n')
            KS_TRY(ks_bytes_append(bytes, KS_VIEW("\\n")));
        else
            KS_TRY(ks_bytes_append_byte(bytes, value.data[at]));
    }
    return KS_OK;
}

/* `name="value"`, for each of the labels; a comma in the last value is its own. A value that is not there is the rest
 * of all values. */
static ks_err append_labels(struct ks_bytes *bytes, const char *label, const char *value)
{
    ks_view names = ks_view_text(label);
    ks_view values = ks_view_text(value);
    ks_view name = ks_view_cut(&names, ',');

    for (;;) {
        ks_view one = names.data != NULL ? ks_view_cut(&values, ',') : values;

        KS_TRY(ks_bytes_append(bytes, name));
        KS_TRY(ks_bytes_append(bytes, KS_VIEW("=\"")));
        KS_TRY(append_escaped(bytes, one.size == 0 ? KS_VIEW("other") : one));
        KS_TRY(ks_bytes_append_byte(bytes, '"'));
        if (names.data == NULL)
            return KS_OK;
        KS_TRY(ks_bytes_append_byte(bytes, ','));
        name = ks_view_cut(&names, ',');
    }
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

/* `name_suffix{labels`; the caller closes the brace. */
static ks_err append_series(struct ks_bytes *bytes, const struct meaning *meaning,
                            const char *suffix, const struct series *one)
{
    KS_TRY(ks_bytes_format(bytes, "%s%s{", meaning->name, suffix));
    return append_labels(bytes, meaning->label, one->value);
}

static ks_err render_histogram(struct ks_bytes *bytes, const struct meaning *meaning,
                               const struct series *one)
{
    uint64_t count = 0;

    for (size_t at = 0; at <= BOUNDS; at++) {
        count += one->observed[at];
        KS_TRY(append_series(bytes, meaning, "_bucket", one));
        KS_TRY(ks_bytes_format(bytes, ",le=\"%s\"} %" PRIu64 "\n",
                               at < BOUNDS ? bounds[at].seconds : "+Inf", count));
    }
    KS_TRY(append_series(bytes, meaning, "_sum", one));
    KS_TRY(ks_bytes_append_byte(bytes, '}'));
    KS_TRY(append_number(bytes, one->number, meaning->unit));
    KS_TRY(append_series(bytes, meaning, "_count", one));
    return ks_bytes_format(bytes, "} %" PRIu64 "\n", count);
}

static struct ks_link keepers = {&keepers, &keepers};

void ks_metrics_join(struct ks_metric_keeper *keeper)
{
    ks_list_append(&keepers, &keeper->link);
}

void ks_metrics_leave(struct ks_metric_keeper *keeper)
{
    ks_list_remove(&keeper->link);
}

static bool is_of_shards(const struct meaning *meaning)
{
    return meaning->label != NULL && strcmp(meaning->label, "subscription,shard") == 0;
}

static ks_err render_kept(struct ks_bytes *bytes, enum ks_metric metric,
                          struct ks_metric_keeper *keeper)
{
    const struct meaning *meaning = &meanings[metric];
    const char *shard = NULL;
    int64_t number = 0;

    for (uint32_t at = 0; keeper->number(keeper, metric, at, &shard, &number); at++) {
        if (shard == NULL)
            continue;
        KS_TRY(ks_bytes_format(bytes, "%s{", meaning->name));
        KS_TRY(append_labels(bytes, "subscription", keeper->subscription));
        KS_TRY(ks_bytes_append_byte(bytes, ','));
        KS_TRY(append_labels(bytes, "shard", shard));
        KS_TRY(ks_bytes_append_byte(bytes, '}'));
        KS_TRY(append_number(bytes, number, meaning->unit));
    }
    return KS_OK;
}

static ks_err render_shards(struct ks_bytes *bytes, enum ks_metric metric)
{
    struct ks_link *link;
    struct ks_link *after;

    KS_LIST_EACH(link, after, &keepers)
    KS_TRY(render_kept(bytes, metric, KS_LIST_ENTRY(link, struct ks_metric_keeper, link)));
    return KS_OK;
}

static ks_err render_series(struct ks_bytes *bytes, const struct meaning *meaning,
                            const struct series *one)
{
    if (meaning->type == HISTOGRAM)
        return render_histogram(bytes, meaning, one);
    KS_TRY(append_series(bytes, meaning, "", one));
    KS_TRY(ks_bytes_append_byte(bytes, '}'));
    return append_number(bytes, one->number, meaning->unit);
}

static ks_err render_one(struct ks_bytes *bytes, enum ks_metric metric)
{
    const struct meaning *meaning = &meanings[metric];

    if (is_of_shards(meaning) && ks_list_empty(&keepers))
        return KS_OK;
    KS_TRY(ks_bytes_format(bytes, "# HELP %s %s\n# TYPE %s %s\n", meaning->name, meaning->sentence,
                           meaning->name, type_name(meaning->type)));
    if (meaning->label == NULL) {
        KS_TRY(ks_bytes_append(bytes, ks_view_text(meaning->name)));
        return append_number(bytes, plain(metric)->number, meaning->unit);
    }
    if (is_of_shards(meaning))
        return render_shards(bytes, metric);
    for (const struct series *one = first[metric]; one != NULL; one = one->next)
        KS_TRY(render_series(bytes, meaning, one));
    return rest[metric].value[0] == '\0' ? KS_OK : render_series(bytes, meaning, &rest[metric]);
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
