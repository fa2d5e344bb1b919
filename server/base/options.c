/* SPDX-License-Identifier: Apache-2.0 */
#include "base/options.h"

#include "base/budget.h"
#include "base/flat_json.h"
#include "base/metrics.h"
#include "base/options_check.h"
#include "base/options_derive.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum {
    CONFIG_BYTES_MAX = 64 << 10, /* Of the config file: many times all that one would write. */
    NAME_SIZE = 48               /* Of an option's name with its NUL. */
};

enum type { U32, U64, TEXT, ENUM, SECRET };

struct meaning {
    const char *name;
    enum type type;
    bool own;  /* A subscription may have its own. */
    bool live; /* It may change while the sidecar runs. */
    const char *preset;
    uint64_t min;
    uint64_t max;
    const char *words; /* With " | " between them. NULL = none. */
    const char *sentence;
    size_t offset; /* In struct ks_options. */
};

static const struct meaning meanings[KS_OPTIONS] = {
#define X(name, type, preset, min, max, words, sentence)                                           \
    {#name, type, false, false,    preset,                                                         \
     min,   max,  words, sentence, offsetof(struct ks_options, name)},
#define X_LIVE(name, type, preset, min, max, words, sentence)                                      \
    {#name, type, false, true,     preset,                                                         \
     min,   max,  words, sentence, offsetof(struct ks_options, name)},
#define X_OWN(name, type, preset, min, max, words, sentence)                                       \
    {#name, type, true,  false,    preset,                                                         \
     min,   max,  words, sentence, offsetof(struct ks_options, name)},
#include "base/options.def"
#undef X
};

static const char *const source_names[] = {
    [KS_OPTION_DEFAULT] = "default",           [KS_OPTION_FILE] = "file",
    [KS_OPTION_ENVIRONMENT] = "environment",   [KS_OPTION_FLAG] = "flag",
    [KS_OPTION_SUBSCRIPTION] = "subscription",
};

/* What is being read, and the flags as they were found. */
struct reading {
    struct ks_options *options;
    const char *flags[KS_OPTIONS]; /* NULL = not given. */
    char *const *environment;
    struct ks_bytes file; /* The config file. */
    bool in_list;         /* Of subscriptions, while the file is read. */
    bool has_list;
    uint32_t listed; /* Subscriptions so far. */
    struct ks_detail *detail;
};

static bool is_number(enum type type)
{
    return type == U32 || type == U64;
}

/* Names. */

static void derive_flag(const char *name, char flag[NAME_SIZE + 2])
{
    int size = snprintf(flag, NAME_SIZE + 2, "--%s", name);

    assert(size > 2 && size < NAME_SIZE + 2);
    for (char *c = flag; *c != '\0'; c++)
        *c = *c == '_' ? '-' : *c;
}

static void derive_variable(const char *name, char variable[NAME_SIZE + 16])
{
    int size = snprintf(variable, NAME_SIZE + 16, "KINESIS_SIDECAR_%s", name);

    assert(size > 0 && size < NAME_SIZE + 16);
    for (char *c = variable; *c != '\0'; c++)
        *c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
}

/* The option with this name; KS_OPTIONS if there is none. In a flag, - stands for _. */
static enum ks_option find(ks_view name, bool flag)
{
    for (int option = 0; option < KS_OPTIONS; option++) {
        char derived[NAME_SIZE + 2];
        derive_flag(meanings[option].name, derived);
        if (ks_view_equal(name, ks_view_text(flag ? derived + 2 : meanings[option].name)))
            return (enum ks_option)option;
    }
    return KS_OPTIONS;
}

/* How many characters must be put in, taken out or changed to make `b` of `a` (Levenshtein). */
static size_t distance(ks_view a, const char *b)
{
    size_t row[NAME_SIZE];
    size_t b_size = strlen(b);

    assert(b_size < NAME_SIZE);
    for (size_t j = 0; j <= b_size; j++)
        row[j] = j;
    for (size_t i = 0; i < a.size; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b_size; j++) {
            char have = a.data[i] == '-' ? '_' : (char)a.data[i];
            size_t best = diagonal + (have != b[j]);
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j + 1] + 1 < best ? row[j + 1] + 1 : best;
            diagonal = row[j + 1];
            row[j + 1] = best;
        }
    }
    return row[b_size];
}

/* The config file has the name itself as its key, not the flag. */
static ks_err refuse_unknown(const struct reading *reading, ks_view name, bool in_file)
{
    char nearest[NAME_SIZE + 2];
    char quoted[KS_QUOTE_SIZE];
    int best = 0;

    /* A name that is far too long is near to nothing. */
    name.size = name.size < NAME_SIZE ? name.size : NAME_SIZE;
    for (int option = 1; option < KS_OPTIONS; option++) {
        if (distance(name, meanings[option].name) < distance(name, meanings[best].name))
            best = option;
    }
    derive_flag(meanings[best].name, nearest);
    ks_option_quote(name, quoted);
    if (in_file)
        ks_detail_set(reading->detail,
                      "unknown option %s in the config file; the nearest is \"%s\"", quoted,
                      meanings[best].name);
    else
        ks_detail_set(reading->detail, "unknown option %s; the nearest is %s", quoted, nearest);
    return KS_FAIL(INVALID);
}

/* Values. */

/* Begins a sentence about an option: "--log-level (environment): ". */
static void name_option(enum ks_option option, enum ks_option_source source, char text[96])
{
    char flag[NAME_SIZE + 2];
    bool told = source != KS_OPTION_DEFAULT && source != KS_OPTION_FLAG;

    derive_flag(meanings[option].name, flag);
    (void)snprintf(text, 96, told ? "%s (%s)" : "%s", flag, source_names[source]);
}

static ks_err parse_number(const struct meaning *meaning, ks_view text, uint64_t *ret_value)
{
    uint64_t value;

    KS_TRY(ks_view_u64(text, &value));
    if (value < meaning->min || value > meaning->max)
        return KS_FAIL(INVALID);
    *ret_value = value;
    return KS_OK;
}

static bool is_one_of(const char *words, ks_view text)
{
    ks_view rest = ks_view_text(words);

    while (rest.data != NULL) {
        if (ks_view_equal(ks_view_trim(ks_view_cut(&rest, '|')), text))
            return true;
    }
    return false;
}

static bool is_plain_text(ks_view text)
{
    if (!ks_view_is_utf8(text))
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < 0x20 || text.data[i] == 0x7F)
            return false;
    }
    return true;
}

/* The parts of set(): each stores a value of its types, or refuses it with a sentence. */

static ks_err set_number(struct ks_options *options, enum ks_option option, ks_view text,
                         const char *named, struct ks_detail *detail)
{
    const struct meaning *meaning = &meanings[option];
    char *member = (char *)options + meaning->offset;
    char quoted[KS_QUOTE_SIZE];
    uint64_t number;
    uint32_t narrow;

    if (!ks_ok(parse_number(meaning, text, &number))) {
        ks_option_quote(text, quoted);
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "%s: %s is not a number from %" PRIu64 " to %" PRIu64, named, quoted,
                              meaning->min, meaning->max);
    }
    narrow = (uint32_t)number;
    if (meaning->type == U32)
        memcpy(member, &narrow, sizeof(narrow));
    else
        memcpy(member, &number, sizeof(number));
    return KS_OK;
}

static ks_err set_text(struct ks_options *options, enum ks_option option, ks_view text,
                       const char *named, struct ks_detail *detail)
{
    const struct meaning *meaning = &meanings[option];
    char quoted[KS_QUOTE_SIZE];

    if (meaning->type == ENUM && !is_one_of(meaning->words, text)) {
        ks_option_quote(text, quoted);
        return ks_err_because(KS_FAIL(INVALID), detail, "%s: %s is not one of %s", named, quoted,
                              meaning->words);
    }
    if (meaning->type != ENUM && (text.size < meaning->min || text.size > meaning->max)) {
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "%s: wants %" PRIu64 " to %" PRIu64 " bytes, not %zu", named,
                              meaning->min, meaning->max, text.size);
    }
    if (!is_plain_text(text)) {
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "%s: wants UTF-8 text without control characters", named);
    }
    return ks_view_copy_text(text, (char *)options + meaning->offset, KS_OPTION_TEXT_SIZE);
}

static ks_err set(struct reading *reading, enum ks_option option, enum ks_option_source source,
                  const char *value)
{
    char named[96];
    ks_view text = ks_view_text(value);

    name_option(option, source, named);
    if (is_number(meanings[option].type))
        KS_TRY(set_number(reading->options, option, text, named, reading->detail));
    else
        KS_TRY(set_text(reading->options, option, text, named, reading->detail));
    reading->options->sources[option] = source;
    return KS_OK;
}

/* Where values come from. */

static ks_err set_defaults(struct reading *reading)
{
    for (int option = 0; option < KS_OPTIONS; option++)
        KS_TRY(set(reading, (enum ks_option)option, KS_OPTION_DEFAULT, meanings[option].preset));
    return KS_OK;
}

/* The value of an option's variable, or NULL. */
static const char *variable_of(const struct reading *reading, enum ks_option option)
{
    char variable[NAME_SIZE + 16];
    size_t size;

    derive_variable(meanings[option].name, variable);
    size = strlen(variable);
    for (char *const *entry = reading->environment; *entry != NULL; entry++) {
        if (strncmp(*entry, variable, size) == 0 && (*entry)[size] == '=')
            return (*entry)[size + 1] == '\0' ? NULL : *entry + size + 1;
    }
    return NULL;
}

static bool is_variable(ks_view name)
{
    for (int option = 0; option < KS_OPTIONS; option++) {
        char variable[NAME_SIZE + 16];

        derive_variable(meanings[option].name, variable);
        if (ks_view_equal(name, ks_view_text(variable)))
            return true;
    }
    return false;
}

/* Of a service of our name Kubernetes makes _PORT and _SERVICE_ variables. Clients of ours read _URL. */
static bool is_of_others(ks_view name)
{
    return ks_view_equal(name, KS_VIEW("KINESIS_SIDECAR_URL")) ||
           ks_view_starts(name, KS_VIEW("KINESIS_SIDECAR_PORT")) ||
           ks_view_starts(name, KS_VIEW("KINESIS_SIDECAR_SERVICE_"));
}

bool ks_options_stray(char *const **at, ks_view *ret_name)
{
    for (; **at != NULL; (*at)++) {
        ks_view rest = ks_view_text(**at);
        ks_view name = ks_view_cut(&rest, '=');

        if (!ks_view_starts(name, KS_VIEW("KINESIS_SIDECAR_")) || is_variable(name) ||
            is_of_others(name))
            continue;
        (*at)++;
        *ret_name = name;
        return true;
    }
    return false;
}

static ks_err set_from_environment(struct reading *reading)
{
    for (int option = 0; option < KS_OPTIONS; option++) {
        const char *value = variable_of(reading, (enum ks_option)option);
        if (value != NULL)
            KS_TRY(set(reading, (enum ks_option)option, KS_OPTION_ENVIRONMENT, value));
    }
    return KS_OK;
}

/* Takes one flag off the arguments, with its value. */
static ks_err find_flag(struct reading *reading, int argc, char *const *argv, int *at)
{
    ks_view rest = ks_view_text(argv[*at]);
    char quoted[KS_QUOTE_SIZE];
    enum ks_option option;
    ks_view name;

    if (!ks_view_starts(rest, KS_VIEW("--"))) {
        ks_option_quote(rest, quoted);
        return ks_err_because(KS_FAIL(INVALID), reading->detail,
                              "unexpected argument %s: options look like --name value", quoted);
    }
    name = ks_view_cut(&rest, '=');
    name = ks_view_of(name.data + 2, name.size - 2);
    option = find(name, true);
    if (option == KS_OPTIONS)
        return refuse_unknown(reading, name, false);
    if (reading->flags[option] != NULL) {
        return ks_err_because(KS_FAIL(INVALID), reading->detail, "%.*s is given twice",
                              (int)name.size + 2, argv[*at]);
    }

    if (rest.data != NULL) {
        reading->flags[option] = (const char *)rest.data;
        return KS_OK;
    }
    if (*at + 1 == argc || strncmp(argv[*at + 1], "--", 2) == 0) {
        return ks_err_because(KS_FAIL(INVALID), reading->detail, "%s wants a value: %s", argv[*at],
                              meanings[option].sentence);
    }
    *at += 1;
    reading->flags[option] = argv[*at];
    return KS_OK;
}

static ks_err find_flags(struct reading *reading, int argc, char *const *argv)
{
    for (int at = 1; at < argc; at++)
        KS_TRY(find_flag(reading, argc, argv, &at));
    return KS_OK;
}

static ks_err set_from_flags(struct reading *reading)
{
    for (int option = 0; option < KS_OPTIONS; option++) {
        if (reading->flags[option] != NULL)
            KS_TRY(set(reading, (enum ks_option)option, KS_OPTION_FLAG, reading->flags[option]));
    }
    return KS_OK;
}

/* The config file. */

static ks_err set_from_member(struct reading *reading, const char *name,
                              enum ks_flat_json_kind kind, const char *value,
                              enum ks_option_source source)
{
    enum ks_option option = find(ks_view_text(name), false);
    bool number;

    if (option == KS_OPTIONS)
        return refuse_unknown(reading, ks_view_text(name), true);
    if (source == KS_OPTION_SUBSCRIPTION && !meanings[option].own)
        return ks_err_because(KS_FAIL(INVALID), reading->detail,
                              "--config: \"%s\" is an option of the process, not of a subscription",
                              name);
    if (option == KS_OPTION_config || reading->options->sources[option] == source) {
        return ks_err_because(KS_FAIL(INVALID), reading->detail,
                              "--config: the file says \"%s\" %s", name,
                              option == KS_OPTION_config ? "itself" : "twice");
    }
    number = is_number(meanings[option].type);
    if (kind != (number ? KS_FLAT_JSON_NUMBER : KS_FLAT_JSON_TEXT)) {
        return ks_err_because(KS_FAIL(INVALID), reading->detail, "--config: \"%s\" wants a %s",
                              name, number ? "number" : "text in quotation marks");
    }
    return set(reading, option, source, value);
}

/* Takes what the process has, and counts the subscriptions: they are read when the rest is known. */
static ks_err take_process(void *arg, const char *name, enum ks_flat_json_kind kind,
                           const char *value)
{
    struct reading *reading = arg;
    bool list = kind == KS_FLAT_JSON_LIST;
    bool named = strcmp(name, "subscriptions") == 0;

    if (kind == KS_FLAT_JSON_END || kind == KS_FLAT_JSON_OBJECT) {
        reading->in_list = kind == KS_FLAT_JSON_OBJECT;
        reading->listed += kind == KS_FLAT_JSON_OBJECT;
        return KS_OK;
    }
    if (reading->in_list)
        return KS_OK;
    if (list && !named)
        return ks_err_because(KS_FAIL(INVALID), reading->detail,
                              "--config: \"%s\" is not a list of objects", name);
    if (named && (!list || reading->has_list))
        return ks_err_because(KS_FAIL(INVALID), reading->detail,
                              "--config: \"%s\" wants to be a list of objects, once", name);
    reading->has_list = reading->has_list || list;
    return list ? KS_OK : set_from_member(reading, name, kind, value, KS_OPTION_FILE);
}

/* Takes what the subscriptions have. `arg`: a reading whose options are those of the process. */
static ks_err take_subscription(void *arg, const char *name, enum ks_flat_json_kind kind,
                                const char *value)
{
    struct reading *reading = arg;
    struct reading own = {.detail = reading->detail};

    switch (kind) {
    case KS_FLAT_JSON_LIST:
    case KS_FLAT_JSON_END: reading->in_list = kind == KS_FLAT_JSON_LIST; return KS_OK;
    case KS_FLAT_JSON_OBJECT: reading->listed++; return KS_OK;
    case KS_FLAT_JSON_TEXT:
    case KS_FLAT_JSON_NUMBER:
    case KS_FLAT_JSON_BOOLEAN: break;
    }
    if (!reading->in_list)
        return KS_OK;
    assert(reading->listed > 0);
    own.options = &reading->options->listed[reading->listed - 1];
    return set_from_member(&own, name, kind, value, KS_OPTION_SUBSCRIPTION);
}

/* Reads all of an open file, of at most `bytes->max` bytes. */
static ks_err read_all(int fd, struct ks_bytes *bytes)
{
    for (;;) {
        ssize_t size;
        KS_TRY(ks_bytes_reserve(bytes, 1));
        size = read(fd, bytes->data + bytes->size, bytes->capacity - bytes->size);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            return KS_FAIL(SYSTEM);
        if (size == 0)
            return KS_OK;
        bytes->size += (size_t)size;
    }
}

static ks_err load(const char *path, struct ks_bytes *bytes, struct ks_detail *detail)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ks_err err = fd < 0 ? KS_FAIL(SYSTEM) : read_all(fd, bytes);
    int reason = errno;
    char quoted[KS_QUOTE_SIZE];

    ks_option_quote(ks_view_text(path), quoted);
    if (fd >= 0)
        (void)close(fd);
    if (ks_err_is(err, KS_ERR_NO_MEMORY))
        return ks_err_because(err, detail, "--config: there is no memory to read it");
    if (ks_err_is(err, KS_ERR_SYSTEM))
        ks_detail_set(detail, "--config: %s cannot be read: %s", quoted, strerror(reason));
    else if (!ks_ok(err))
        ks_detail_set(detail, "--config: %s has more than %d bytes", quoted, CONFIG_BYTES_MAX);
    return ks_ok(err) ? KS_OK : KS_FAIL(INVALID);
}

static ks_err set_from_file(struct reading *reading)
{
    const char *flag = reading->flags[KS_OPTION_config];
    const char *path = flag != NULL ? flag : variable_of(reading, KS_OPTION_config);
    struct ks_detail why;
    ks_err err;

    if (path == NULL)
        return KS_OK;
    KS_TRY(load(path, &reading->file, reading->detail));
    err = ks_flat_json_read(ks_bytes_view(&reading->file), take_process, reading, &why);
    if (ks_err_is(err, KS_ERR_MALFORMED)) {
        ks_detail_set(reading->detail, "--config: %s, %s", path, why.text);
        err = KS_FAIL(INVALID);
    }
    return err;
}

/* Subscriptions. */

static ks_err blame(uint32_t index, ks_err err, struct ks_detail *detail)
{
    struct ks_detail why;

    if (ks_ok(err) || detail == NULL)
        return err;
    why = *detail;
    ks_detail_set(detail, "subscription %" PRIu32 ": %s", index + 1, why.text);
    return err;
}

static ks_err set_subscriptions(struct reading *reading)
{
    struct ks_options *options = reading->options;
    uint32_t count = reading->listed;
    struct ks_options *listed;
    struct ks_detail why;
    ks_err err;

    if (!reading->has_list)
        return KS_OK;
    if (count == 0 || count > KS_SUBSCRIPTIONS_MAX)
        return ks_err_because(KS_FAIL(INVALID), reading->detail,
                              "--config: 1 to %d subscriptions are wanted, not %" PRIu32,
                              KS_SUBSCRIPTIONS_MAX, count);
    listed = ks_alloc(count * sizeof(*listed));
    if (listed == NULL)
        return KS_FAIL(NO_MEMORY);
    for (uint32_t i = 0; i < count; i++)
        listed[i] = *options;
    options->listed = listed;
    options->listed_count = count;
    reading->listed = 0;
    err = ks_flat_json_read(ks_bytes_view(&reading->file), take_subscription, reading, &why);
    assert(!ks_err_is(err, KS_ERR_MALFORMED)); /* It was read before. */
    KS_TRY(blame(reading->listed - 1, err, reading->detail));
    for (uint32_t i = 0; i < count; i++)
        KS_TRY(blame(i, ks_options_derive(&listed[i], reading->detail), reading->detail));
    return KS_OK;
}

void ks_options_free(struct ks_options *options)
{
    ks_free(options->listed);
    options->listed = NULL;
    options->listed_count = 0;
}

/* The KCL has tables of several streams. */
bool ks_options_are_kin(const struct ks_options *a, const struct ks_options *b)
{
    return strcmp(a->dialect, "kcl") == 0 && strcmp(b->dialect, "kcl") == 0 &&
           strcmp(a->application, b->application) == 0;
}

/* An application has one lease table, and that one subscription, unless it is one of several streams; a name means one,
 * in metrics, too. */
static ks_err check_twins(const struct ks_options *options, uint32_t index,
                          struct ks_detail *detail)
{
    const struct ks_options *one = ks_options_subscription(options, index);

    if (options->listed_count > 1 && strlen(one->name) >= KS_METRIC_VALUE_SIZE)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "its name, by default that of the application, has more than %d "
                              "characters: give it a \"name\"",
                              KS_METRIC_VALUE_SIZE - 1);
    for (uint32_t i = 0; i < index; i++) {
        const struct ks_options *other = ks_options_subscription(options, i);
        bool names = strcmp(one->name, other->name) == 0;
        bool same_stream = ks_option_same_stream(one->stream, other->stream);
        if (!names && (strcmp(one->application, other->application) != 0 ||
                       (ks_options_are_kin(one, other) && !same_stream)))
            continue;
        return ks_err_because(KS_FAIL(INVALID), detail, "%s %s is that of subscription %" PRIu32,
                              names ? "its name" : "its application",
                              names ? one->name : one->application, i + 1);
    }
    return KS_OK;
}

/* Of all subscriptions; `whole`: nothing that is required is missing. */
static ks_err check_all(const struct ks_options *options, bool whole, struct ks_detail *detail)
{
    for (uint32_t i = 0; i < ks_options_subscriptions(options); i++) {
        const struct ks_options *one = ks_options_subscription(options, i);
        ks_err err = ks_options_check(one, detail);
        if (ks_ok(err) && whole)
            err = ks_options_check_required(one, detail);
        if (ks_ok(err))
            err = check_twins(options, i, detail);
        if (!ks_ok(err))
            return options->listed == NULL ? err : blame(i, err, detail);
    }
    return KS_OK;
}

static ks_err read_values(int argc, char *const *argv, struct reading *reading)
{
    KS_TRY(set_defaults(reading));
    KS_TRY(find_flags(reading, argc, argv));
    KS_TRY(set_from_file(reading));
    KS_TRY(set_from_environment(reading));
    KS_TRY(set_from_flags(reading));
    ks_options_name_worker(reading->options);
    KS_TRY(set_subscriptions(reading));
    return ks_options_derive(reading->options, reading->detail);
}

static ks_err read_options(int argc, char *const *argv, char *const *environment, bool whole,
                           struct ks_options *ret_options, struct ks_detail *detail)
{
    struct ks_options options;
    struct reading reading = {.options = &options, .environment = environment, .detail = detail};
    ks_err err;

    memset(&options, 0, sizeof(options));
    ks_bytes_init(&reading.file, CONFIG_BYTES_MAX + 1);
    err = read_values(argc, argv, &reading);
    ks_bytes_free(&reading.file);
    if (ks_ok(err))
        err = check_all(&options, whole, detail);
    if (!ks_ok(err)) {
        ks_options_free(&options);
        return err;
    }
    *ret_options = options;
    return KS_OK;
}

ks_err ks_options_read_partly(int argc, char *const *argv, char *const *environment,
                              struct ks_options *ret_options, struct ks_detail *detail)
{
    return read_options(argc, argv, environment, false, ret_options, detail);
}

ks_err ks_options_read(int argc, char *const *argv, char *const *environment,
                       struct ks_options *ret_options, struct ks_detail *detail)
{
    return read_options(argc, argv, environment, true, ret_options, detail);
}

/* Told to people. */

void ks_option_show(const struct ks_options *options, enum ks_option option,
                    struct ks_option_view *ret_view)
{
    const struct meaning *meaning = &meanings[option];
    const char *member = (const char *)options + meaning->offset;
    uint32_t narrow;
    uint64_t number;

    assert(option < KS_OPTIONS);
    *ret_view = (struct ks_option_view){
        .name = meaning->name,
        .sentence = meaning->sentence,
        .source = source_names[options->sources[option]],
        .number = is_number(meaning->type),
    };
    derive_flag(meaning->name, ret_view->flag);
    derive_variable(meaning->name, ret_view->environment);

    switch (meaning->type) {
    case U32:
        memcpy(&narrow, member, sizeof(narrow));
        (void)snprintf(ret_view->value, sizeof(ret_view->value), "%" PRIu32, narrow);
        return;
    case U64:
        memcpy(&number, member, sizeof(number));
        (void)snprintf(ret_view->value, sizeof(ret_view->value), "%" PRIu64, number);
        return;
    case TEXT:
    case ENUM: memcpy(ret_view->value, member, KS_OPTION_TEXT_SIZE); return;
    case SECRET:
        (void)snprintf(ret_view->value, sizeof(ret_view->value), "%s",
                       *member == '\0' ? "" : "***");
        return;
    }
    assert(false);
}

/* What is allowed, for people: the words, the range, or the longest text. */
static void describe_allowed(const struct meaning *meaning, char text[96])
{
    if (meaning->words != NULL)
        (void)snprintf(text, 96, "%s", meaning->words);
    else if (is_number(meaning->type))
        (void)snprintf(text, 96, "%" PRIu64 " to %" PRIu64, meaning->min, meaning->max);
    else
        (void)snprintf(text, 96, "up to %" PRIu64 " bytes", meaning->max);
}

ks_err ks_options_help(struct ks_bytes *bytes)
{
    for (int option = 0; option < KS_OPTIONS; option++) {
        const struct meaning *meaning = &meanings[option];
        char flag[NAME_SIZE + 2];
        char allowed[96];
        derive_flag(meaning->name, flag);
        describe_allowed(meaning, allowed);
        KS_TRY(ks_bytes_format(bytes, "  %s %s\n      %s", flag,
                               is_number(meaning->type) ? "NUMBER" : "TEXT", meaning->sentence));
        KS_TRY(ks_bytes_format(bytes, "\n      %s", allowed));
        if (meaning->preset[0] != '\0')
            KS_TRY(ks_bytes_format(bytes, "; default %s", meaning->preset));
        KS_TRY(ks_bytes_append_byte(bytes, '\n'));
    }
    return KS_OK;
}

/* Within a cell of a table a | is written \|. */
static ks_err append_cell(struct ks_bytes *bytes, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '|')
            KS_TRY(ks_bytes_append_byte(bytes, '\\'));
        KS_TRY(ks_bytes_append_byte(bytes, (uint8_t)*text));
    }
    return KS_OK;
}

ks_err ks_options_markdown(struct ks_bytes *bytes)
{
    KS_TRY(ks_bytes_append(
        bytes,
        KS_VIEW(
            "| flag, variable | default | allowed | of a subscription | while it runs | what it "
            "is for |\n|---|---|---|---|---|---|\n")));
    for (int option = 0; option < KS_OPTIONS; option++) {
        const struct meaning *meaning = &meanings[option];
        const char *quote = meaning->preset[0] == '\0' ? "" : "`";
        char flag[NAME_SIZE + 2], variable[NAME_SIZE + 16], allowed[96];
        derive_flag(meaning->name, flag);
        derive_variable(meaning->name, variable);
        describe_allowed(meaning, allowed);
        KS_TRY(ks_bytes_format(bytes, "| `%s`<br>`%s` | %s%s%s | ", flag, variable, quote,
                               meaning->preset, quote));
        KS_TRY(append_cell(bytes, allowed));
        KS_TRY(ks_bytes_format(bytes, " | %s | %s | %s |\n", meaning->own ? "yes" : "",
                               meaning->live ? "yes" : "", meaning->sentence));
    }
    return KS_OK;
}

/* ---- While it runs. ---- */

static size_t size_of(enum type type)
{
    switch (type) {
    case U32: return sizeof(uint32_t);
    case U64: return sizeof(uint64_t);
    case TEXT:
    case ENUM:
    case SECRET: return KS_OPTION_TEXT_SIZE;
    }
    assert(false);
    return 0;
}

bool ks_option_is_live(enum ks_option option)
{
    return meanings[option].live;
}

void ks_option_take(struct ks_options *to, const struct ks_options *from, enum ks_option option)
{
    const struct meaning *meaning = &meanings[option];

    memcpy((char *)to + meaning->offset, (const char *)from + meaning->offset,
           size_of(meaning->type));
    to->sources[option] = from->sources[option];
}
