/* SPDX-License-Identifier: Apache-2.0 */
#include "main/reload.h"

#include "base/budget.h"
#include "base/log.h"

#include <string.h>
#include <sys/stat.h>

/* A file that was written is looked at within this time. */
enum { LOOK_MS = 2000 };

/* By this a file that was written again, or replaced, is told from the one before. */
struct version {
    bool exists;
    struct timespec modified;
    off_t size;
    ino_t number;
};

struct ks_reload {
    struct ks_loop *loop;
    const struct ks_command_line *line;
    struct ks_options *options;
    void (*changed)(void *arg);
    void *arg;
    struct ks_timer timer;
    struct ks_job job;
    bool working; /* The job is under way. */
    bool asked;   /* SIGHUP; again after the job, if it came meanwhile. */
    bool closing;
    struct version seen;
    /* The job's own. */
    bool must;
    bool read;
    struct version found;
    struct ks_options fresh;
    struct ks_detail detail;
    ks_err err;
};

static struct version look(const char *path)
{
    struct version version = {.exists = false};
    struct stat status;

    if (path[0] == '\0' || stat(path, &status) != 0)
        return version;
    version.exists = true;
    version.modified = status.st_mtim;
    version.size = status.st_size;
    version.number = status.st_ino;
    return version;
}

static bool is_same(const struct version *a, const struct version *b)
{
    return a->exists == b->exists && a->modified.tv_sec == b->modified.tv_sec &&
           a->modified.tv_nsec == b->modified.tv_nsec && a->size == b->size &&
           a->number == b->number;
}

/* ---- What differs. ---- */

static bool differs(const struct ks_options *before, const struct ks_options *after,
                    enum ks_option option)
{
    struct ks_option_view one;
    struct ks_option_view two;

    /* Some defaults are drawn anew each time. */
    if (before->sources[option] == KS_OPTION_DEFAULT && after->sources[option] == KS_OPTION_DEFAULT)
        return false;
    ks_option_show(before, option, &one);
    ks_option_show(after, option, &two);
    return strcmp(one.value, two.value) != 0;
}

static void tell_waiting(const struct ks_options *options, enum ks_option option, const char *whose)
{
    struct ks_option_view view;

    ks_option_show(options, option, &view);
    ks_warn("config: %s%s%s is %s in the file now; it needs a restart", whose,
            whose[0] == '\0' ? "" : ": ", view.name, view.value);
}

static void tell_subscriptions(const struct ks_reload *reload)
{
    const struct ks_options *before = reload->options;
    const struct ks_options *after = &reload->fresh;

    if (before->listed_count != after->listed_count) {
        ks_warn("config: there are %u subscriptions in the file now; that needs a restart",
                after->listed_count);
        return;
    }
    for (uint32_t i = 0; i < before->listed_count; i++)
        for (int option = 0; option < KS_OPTIONS; option++)
            if (before->listed[i].sources[option] == KS_OPTION_SUBSCRIPTION &&
                differs(&before->listed[i], &after->listed[i], (enum ks_option)option))
                tell_waiting(&after->listed[i], (enum ks_option)option, before->listed[i].name);
}

static void apply(struct ks_reload *reload)
{
    uint32_t count = 0;

    for (int i = 0; i < KS_OPTIONS; i++) {
        enum ks_option option = (enum ks_option)i;
        struct ks_option_view view;

        if (!differs(reload->options, &reload->fresh, option))
            continue;
        if (!ks_option_is_live(option)) {
            tell_waiting(&reload->fresh, option, "");
            continue;
        }
        ks_option_take(reload->options, &reload->fresh, option);
        ks_option_show(reload->options, option, &view);
        ks_info("config: %s is %s now", view.name, view.value);
        count++;
    }
    tell_subscriptions(reload);
    if (count > 0)
        reload->changed(reload->arg);
}

/* ---- Reading. ---- */

static void job_run(struct ks_job *job)
{
    struct ks_reload *reload = KS_LIST_ENTRY(job, struct ks_reload, job);

    reload->found = look(reload->options->config);
    reload->read = reload->must || !is_same(&reload->found, &reload->seen);
    if (reload->read)
        reload->err = ks_options_read(reload->line->argc, reload->line->argv,
                                      reload->line->environment, &reload->fresh, &reload->detail);
}

static void begin(struct ks_reload *reload)
{
    reload->must = reload->asked;
    reload->asked = false;
    reload->working = true;
    ks_loop_timer_clear(reload->loop, &reload->timer);
    ks_loop_submit(reload->loop, &reload->job);
}

static void look_later(struct ks_reload *reload)
{
    if (reload->options->config[0] != '\0')
        ks_loop_timer_set(reload->loop, &reload->timer,
                          ks_instant_add(ks_loop_now(reload->loop), ks_span_ms(LOOK_MS)));
}

static void job_done(struct ks_job *job)
{
    struct ks_reload *reload = KS_LIST_ENTRY(job, struct ks_reload, job);

    reload->working = false;
    reload->seen = reload->found;
    if (reload->read && ks_ok(reload->err)) {
        if (!reload->closing)
            apply(reload);
        ks_options_free(&reload->fresh);
    } else if (reload->read && !reload->closing) {
        ks_warn("config: not read again, all stays as it was: %s", reload->detail.text);
    }
    if (reload->closing) {
        ks_reload_free(reload);
        return;
    }
    if (reload->asked)
        begin(reload);
    else
        look_later(reload);
}

static void timer_due(struct ks_timer *timer)
{
    begin(KS_LIST_ENTRY(timer, struct ks_reload, timer));
}

/* ---- Life. ---- */

ks_err ks_reload_new(struct ks_loop *loop, const struct ks_command_line *line,
                     struct ks_options *options, void (*changed)(void *arg), void *arg,
                     struct ks_reload **ret_reload)
{
    struct ks_reload *reload = ks_alloc(sizeof *reload);

    if (reload == NULL)
        return KS_FAIL(NO_MEMORY);
    reload->loop = loop;
    reload->line = line;
    reload->options = options;
    reload->changed = changed;
    reload->arg = arg;
    reload->timer.due = timer_due;
    reload->job = (struct ks_job){.run = job_run, .done = job_done};
    /* What was read may be older than what is there now: the first look reads it, whatever it finds. */
    look_later(reload);
    *ret_reload = reload;
    return KS_OK;
}

void ks_reload_now(struct ks_reload *reload)
{
    reload->asked = true;
    if (!reload->working)
        begin(reload);
}

void ks_reload_free(struct ks_reload *reload)
{
    if (reload == NULL)
        return;
    ks_loop_timer_clear(reload->loop, &reload->timer);
    reload->closing = true;
    if (reload->working)
        return;
    ks_free(reload);
}
