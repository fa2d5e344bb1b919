/* SPDX-License-Identifier: Apache-2.0 */
#include "world_redrive.h"

#include <assert.h>
#include <stddef.h>

#include "oracle_share.h"
#include "story.h"
#include "world.h"

static struct sim_letter *find(struct process *process, ks_number number)
{
    for (uint32_t i = 0; i < SIM_LETTERS; i++)
        if (process->letters[i].state != LETTER_NONE && process->letters[i].number == number)
            return &process->letters[i];
    return NULL;
}

/* ---- Orders ---- */

bool world_redrive_begins(struct world *world)
{
    ks_prng_init(&world->redrives, world->seed ^ 0x5EAD);
    return draw_chance(&world->redrives, 250);
}

static void land(struct process *process, struct sim_letter *letter, enum letter_state state)
{
    struct oracle_session *session = &process->truth.sessions[letter->session];

    if (letter->state == LETTER_FLYING) {
        assert(session->in_flight > 0 && session->bytes >= letter->bytes);
        session->in_flight--;
        session->bytes -= letter->bytes;
        session->granted += letter->assignment != 0 && !letter->begun;
        letter->half_way += letter->assignment != 0 && letter->begun;
    }
    letter->assignment = 0;
    letter->state = state;
}

static void redrive(struct world *world, struct process *process, struct sim_letter *letter)
{
    struct ks_prng *prng = &world->redrives;
    struct ks_event event = {.kind = KS_EVENT_REDRIVE};

    process->next_letter += ks_prng_below(prng, 3);
    event.redrive.number = process->next_letter++;
    event.redrive.shard =
        draw_chance(prng, 100) ? KS_SHARD_NONE : (ks_shard)ks_prng_below(prng, SIM_SHARDS);
    event.redrive.bytes = (uint32_t)draw_log(prng, 1, 20000);
    event.redrive.hash = (uint8_t)(event.redrive.bytes * 31);
    event.redrive.attempts = (uint32_t)ks_prng_below(prng, 20);
    event.redrive.stale_s = draw_chance(prng, 700) ? UINT32_MAX : (uint32_t)draw_log(prng, 1, 20);
    *letter = (struct sim_letter){
        .state = LETTER_WAITING,
        .number = event.redrive.number,
        .shard = event.redrive.shard,
        .bytes = event.redrive.bytes,
        .hash = event.redrive.hash,
        .attempts = event.redrive.attempts,
        .stale_at = event.redrive.stale_s == UINT32_MAX
                        ? INT64_MAX
                        : shell_clock(world, process).us + event.redrive.stale_s * SIM_SECOND,
    };
    story_say(world, "fault", "an operator has w%u deliver letter %llu again", process->worker,
              (unsigned long long)letter->number);
    shell_tell(world, process, &event);
}

static void discard(struct world *world, struct process *process, struct sim_letter *letter)
{
    struct ks_event event = {.kind = KS_EVENT_DISCARDED};

    event.letter.number = letter->number;
    story_say(world, "fault", "an operator discards letter %llu of w%u",
              (unsigned long long)event.letter.number, process->worker);
    /* What was due before may be done before. */
    shell_tell(world, process, &event);
    if (letter->number == event.letter.number && letter->state != LETTER_NONE)
        land(process, letter, LETTER_NONE);
    letter->telling = false;
}

sim_time world_redrive_orders(struct world *world, struct process *process)
{
    struct ks_prng *prng = &world->redrives;
    sim_time next = draw_log(prng, 20 * SIM_MS, 4 * SIM_SECOND);
    struct sim_letter *letter;

    if (process == NULL || !process->alive || world->now < process->paused_until)
        return next;
    letter = &process->letters[ks_prng_below(prng, SIM_LETTERS)];
    if (letter->state == LETTER_NONE)
        redrive(world, process, letter);
    else if (draw_chance(prng, 200))
        discard(world, process, letter);
    return next;
}

/* ---- The app ---- */

void world_redrive_handled(struct world *world, struct process *process,
                           const struct happening *job)
{
    struct ks_prng *prng = &world->redrives;
    struct happening wrong = *job;
    uint64_t what = world->peace ? 0 : ks_prng_below(prng, 20);
    sim_time delay = draw_chance(prng, 300)   ? 0
                     : draw_chance(prng, 300) ? KS_DELAY_BY_POLICY.us
                                              : draw_log(prng, SIM_MS, 4 * SIM_SECOND);

    switch (what) {
    case 8:
    case 9:
    case 10:
    case 11: world_app_settle_as(world, process, job, KS_RETRY, delay); return;
    case 12:
    case 13: world_app_settle_as(world, process, job, KS_DEAD_LETTER, 0); return;
    case 14: world_app_settle_as(world, process, job, KS_DROP, 0); return;
    case 15:
    case 16:
        world_app_settle_as(world, process, job, KS_EXTEND,
                            draw_log(prng, SIM_MS, 20 * SIM_SECOND));
        return;
    case 17: return;
    case 18:
        wrong.first += ks_prng_below(prng, 8);
        wrong.assignment = 0; /* No batch names it. */
        break;
    case 19: wrong.session_epoch += draw_chance(prng, 500) ? 1000 : 0; break;
    default: break;
    }
    world_app_settle_as(world, process, &wrong, KS_ACK, 0);
    if (what > 0 && draw_chance(prng, 100))
        world_app_settle_as(world, process, job, draw_chance(prng, 500) ? KS_ACK : KS_DEAD_LETTER,
                            0);
}

/* ---- Writing ---- */

static void wrote_one(struct process *process, struct sim_letter *letter,
                      const struct ks_event *event, ks_instant now)
{
    bool ours = letter->assignment == event->write.assignment;

    switch (event->write.stage) {
    case KS_STAGE_BEGUN: letter->begun |= ours; return;
    case KS_STAGE_WRITTEN:
        letter->got_in[letter->tries % SIM_WRITINGS] = event->write.assignment;
        letter->attempts++;
        letter->tries++;
        letter->half_way -= !ours && letter->half_way > 0;
        if (letter->state != LETTER_FLYING || letter->assignment != 0)
            letter->last_in = event->write.assignment;
        if (!ours)
            return;
        letter->assignment = 0;
        letter->due = now.us + process->truth.sessions[event->write.session].ack_deadline.us;
        return;
    case KS_STAGE_TORN:
    case KS_STAGE_RETURNED:
        if (!ours)
            return;
        letter->begun = false;
        land(process, letter, LETTER_WAITING);
        return;
    }
}

void world_redrive_wrote(struct process *process, const struct ks_event *event, ks_instant now)
{
    for (ks_number n = event->write.first; n < event->write.first + event->write.count; n++) {
        struct sim_letter *letter = find(process, n);

        if (letter != NULL && letter->state != LETTER_ENDING)
            wrote_one(process, letter, event, now);
    }
}

void world_redrive_read(struct world *world, struct process *process, ks_number number,
                        uint32_t attempt)
{
    struct sim_letter *letter = find(process, number);

    if (letter != NULL && !attempt_is_new(&letter->numbers, attempt))
        oracle_fail(world, "apps of w%u read letter %llu twice as attempt %u", process->worker,
                    (unsigned long long)number, attempt);
}

/* ---- Settling ---- */

/* True if the settlement is about the last delivery of the letter. */
static bool is_last(const struct sim_letter *letter, const struct ks_event *event)
{
    return letter->session == event->settle.session &&
           (event->settle.assignment == 0 || letter->last_in == event->settle.assignment);
}

static bool was_written_in(const struct sim_letter *letter, uint64_t assignment)
{
    bool found = letter->tries > SIM_WRITINGS;

    for (uint32_t i = 0; i < SIM_WRITINGS; i++)
        found |= letter->got_in[i] == assignment;
    return found;
}

static void settle_one(struct process *process, struct sim_letter *letter,
                       const struct ks_event *event, ks_instant now)
{
    bool own = is_last(letter, event) && letter->tries > 0;
    bool open = letter->state != LETTER_ENDING;

    switch (event->settle.outcome) {
    case KS_ACK:
    case KS_DROP:
        land(process, letter, LETTER_ENDING);
        letter->acked = true;
        return;
    case KS_DEAD_LETTER:
        letter->asked |= open;
        land(process, letter, LETTER_ENDING);
        return;
    case KS_RETRY:
        if (!open || !own)
            return;
        land(process, letter, LETTER_WAITING);
        letter->not_before = now.us + (event->settle.delay.us < 0 ? 0 : event->settle.delay.us);
        return;
    case KS_EXTEND:
        if (!own || (letter->state != LETTER_FLYING && letter->state != LETTER_DOUBT))
            return;
        if (letter->state == LETTER_DOUBT) {
            /* Back already, or given up for it: then it needs no deadline. */
            letter->due = now.us + event->settle.delay.us;
            return;
        }
        if (letter->assignment == 0)
            letter->due = now.us + event->settle.delay.us;
        return;
    }
}

/* What the answer has to be, where the rules leave no choice. */
static const char *judge(const struct process *process, const struct sim_letter *letter,
                         const struct ks_event *event, enum ks_settle_status status)
{
    const struct oracle_session *session = &process->truth.sessions[event->settle.session];
    bool known = session->live && session->epoch == event->settle.session_epoch;
    bool of_session = status == KS_SETTLE_SESSION_FENCED || status == KS_SETTLE_SESSION_EXPIRED;
    bool takes_back = event->settle.outcome == KS_RETRY;

    if (known == of_session)
        return "is accepted or refused for its session, wrongly";
    if (!known)
        return NULL;
    if ((event->settle.epoch != 0 || event->settle.first >= process->next_letter) !=
        (status == KS_SETTLE_UNKNOWN))
        return "that was never delivered is not unknown, or the other way round";
    if (status == KS_SETTLE_UNKNOWN)
        return NULL;
    if (status == KS_SETTLE_OK && takes_back && (letter == NULL || letter->state == LETTER_ENDING))
        return "takes nothing back and is accepted";
    if (letter == NULL)
        return NULL;
    if (status == KS_SETTLE_OK && takes_back && letter->tries > 0 &&
        letter->state == LETTER_FLYING && !is_last(letter, event))
        return "takes back what is not its session's, or a later delivery";
    if (status == KS_SETTLE_OK && letter->tries > 0 && letter->state != LETTER_ENDING &&
        oracle_seen_in(event) != 0 && !was_written_in(letter, oracle_seen_in(event)))
        return "counts for a letter that it has not got";
    if ((status == KS_SETTLE_EXPIRED || status == KS_SETTLE_SETTLED) &&
        letter->state == LETTER_FLYING && letter->assignment == 0 && is_last(letter, event))
        return "in flight with its session is refused";
    return NULL;
}

void world_redrive_settled(struct world *world, struct process *process,
                           const struct ks_event *event, enum ks_settle_status status,
                           ks_instant now)
{
    struct sim_letter *letter =
        event->settle.epoch == 0 ? find(process, event->settle.first) : NULL;
    const char *wrong = judge(process, letter, event, status);

    if (wrong != NULL)
        oracle_fail(world, "w%u: a settlement of letter %llu %s (status %d)", process->worker,
                    (unsigned long long)event->settle.first, wrong, (int)status);
    /* An id of a letter that was not written names nothing. */
    if (letter != NULL && status == KS_SETTLE_OK && letter->tries > 0)
        settle_one(process, letter, event, now);
}

void world_redrive_requeue(struct process *process, uint32_t session)
{
    for (uint32_t i = 0; i < SIM_LETTERS; i++)
        if (process->letters[i].state == LETTER_FLYING && process->letters[i].session == session)
            land(process, &process->letters[i], LETTER_WAITING);
}

void world_redrive_turn(struct process *process, ks_instant now)
{
    for (uint32_t i = 0; i < SIM_LETTERS; i++)
        if (process->letters[i].state == LETTER_FLYING && process->letters[i].due <= now.us)
            land(process, &process->letters[i], LETTER_DOUBT);
}

/* ---- Deliveries ---- */

static bool is_taken(const struct oracle_session *session, ks_shard shard)
{
    for (uint32_t i = 0; i < session->shard_count; i++)
        if (session->shards[i] == shard)
            return true;
    return session->shard_count == 0;
}

static const char *what_is_wrong(const struct process *process, const struct sim_letter *letter,
                                 const struct ks_effect *effect, ks_instant now)
{
    const struct oracle_process *truth = &process->truth;
    const struct oracle_session *session = &truth->sessions[effect->deliver.session];

    if (truth->event->kind != KS_EVENT_SESSION_PULL ||
        truth->event->pull.session != effect->deliver.session || !session->live)
        return "that nobody pulled";
    if (letter == NULL)
        return "that is none";
    if (letter->state == LETTER_FLYING)
        return "while it is in flight";
    if (letter->state == LETTER_ENDING)
        return "after it was settled";
    if (letter->state == LETTER_WAITING && now.us < letter->not_before)
        return "before the delay of its nack";
    if (!is_next_attempt(effect->deliver.attempt, letter->attempts, letter->half_way) ||
        effect->deliver.epoch != 0 || effect->deliver.count != 1)
        return "with a wrong attempt";
    if (process->draining)
        return "while it drains";
    if (truth->paused ||
        (letter->shard < SIM_SHARDS && ks_instant_before(now, process->paused[letter->shard])))
        return "though its shard is paused";
    if (!is_taken(session, letter->shard))
        return "to a session that did not name its shard";
    if ((oracle_share_lanes(truth, letter->shard) >> letter->hash * truth->lane_count / 256 & 1) !=
        (session->share != 0))
        return "to the wrong side of a share";
    if (session->max_record_bytes != 0 && letter->bytes > session->max_record_bytes)
        return "that is larger than its session takes";
    if (session->in_flight >= session->max_in_flight ||
        (session->in_flight > 0 && session->bytes >= session->max_bytes))
        return "beyond the credit of its session";
    if (session->explicit_credit && session->granted == 0)
        return "beyond what its session granted";
    if (truth->runs >= truth->event->pull.max_runs ||
        truth->records >= truth->event->pull.max_records)
        return "beyond what was pulled";
    if (truth->event->pull.after != 0 && truth->runs == 0 &&
        session->pulled != truth->event->pull.after)
        return "behind another answer than that of its pull";
    if (truth->event->pull.after != 0 && letter->bytes > truth->event->pull.max_bytes)
        return "that is larger than what is left of its answer";
    return NULL;
}

void world_redrive_deliver(struct world *world, struct process *process,
                           const struct ks_effect *effect, ks_instant now)
{
    struct sim_letter *letter = find(process, effect->deliver.first);
    struct oracle_session *session = &process->truth.sessions[effect->deliver.session];
    const char *wrong = what_is_wrong(process, letter, effect, now);

    if (wrong != NULL) {
        oracle_fail(world, "w%u delivers letter %llu %s", process->worker,
                    (unsigned long long)effect->deliver.first, wrong);
        return;
    }
    if (process->truth.runs++ == 0)
        process->truth.first_bytes = letter->bytes;
    process->truth.records++;
    process->truth.bytes += letter->bytes;
    letter->state = LETTER_FLYING;
    letter->session = effect->deliver.session;
    letter->due = INT64_MAX;
    letter->assignment = effect->deliver.assignment;
    letter->begun = false;
    letter->not_before = INT64_MIN;
    session->granted -= session->explicit_credit;
    session->pulled = effect->deliver.assignment;
    session->in_flight++;
    session->bytes += letter->bytes;
}

/* ---- The store ---- */

static bool may_be_given_up(const struct world *world, const struct sim_letter *letter,
                            ks_instant now)
{
    const struct ks_poison_policy *policy = &world->swarm.core.poison;

    if (letter->asked)
        return true;
    if (letter->state == LETTER_FLYING)
        return false;
    return now.us >= letter->stale_at ||
           (policy->max_attempts != 0 && letter->tries >= policy->max_attempts);
}

void world_redrive_letter(struct world *world, struct process *process,
                          const struct ks_effect *effect)
{
    struct sim_letter *letter = find(process, effect->letter.number);
    struct happening answer = {.kind = HAPPENS_LETTER,
                               .process = process->slot,
                               .life = process->life,
                               .first = effect->letter.number};
    const char *wrong = NULL;

    if (letter == NULL)
        wrong = "which is none";
    else if (letter->telling)
        wrong = "twice at once";
    else if (effect->letter.remove && !letter->acked)
        wrong = "for good, and nobody acknowledged it";
    else if (!effect->letter.remove &&
             (letter->acked || !may_be_given_up(world, letter, shell_clock(world, process))))
        wrong = "as given up, and nobody wanted it";
    else if (letter->attempts != effect->letter.attempts)
        wrong = "with wrong attempts";
    if (wrong != NULL) {
        oracle_fail(world, "w%u settles letter %llu %s", process->worker,
                    (unsigned long long)effect->letter.number, wrong);
        return;
    }
    land(process, letter, LETTER_ENDING);
    letter->telling = true;
    answer.count = KS_DONE;
    if (!world->peace && draw_chance(&world->redrives, 200))
        answer.count = draw_chance(&world->redrives, 200) ? KS_REFUSED : KS_UNKNOWN;
    if (answer.count != KS_UNKNOWN || draw_chance(&world->redrives, 500))
        letter->removed |= effect->letter.remove;
    /* Somebody else has discarded it. */
    letter->removed |= answer.count == KS_REFUSED;
    agenda_add(&world->agenda, world->now + 1 + draw_log(&world->redrives, 1, 200 * SIM_MS),
               &answer);
}

void world_redrive_told(struct world *world, struct process *process,
                        const struct happening *answer)
{
    struct sim_letter *letter = find(process, answer->first);
    struct ks_event event = {.kind = KS_EVENT_LETTER};

    if (letter != NULL)
        letter->telling = false;
    event.letter.number = answer->first;
    event.letter.outcome = (enum ks_outcome)answer->count;
    shell_step(world, process, &event);
}

void world_redrive_over(struct world *world, struct process *process,
                        const struct ks_effect *effect)
{
    struct sim_letter *letter = find(process, effect->letter.number);

    if (letter == NULL || letter->state != LETTER_ENDING)
        oracle_fail(world, "w%u ends letter %llu, which was not settled", process->worker,
                    (unsigned long long)effect->letter.number);
    else if (letter->acked && !letter->removed)
        oracle_fail(world, "w%u forgets letter %llu, which was acknowledged and is in the store",
                    process->worker, (unsigned long long)effect->letter.number);
    else
        letter->state = LETTER_NONE;
}

bool world_redrive_is_busy(const struct process *process)
{
    for (uint32_t i = 0; i < SIM_LETTERS; i++)
        if (process->letters[i].state == LETTER_FLYING ||
            process->letters[i].state == LETTER_ENDING)
            return true;
    return false;
}

bool world_redrive_is_done(const struct process *process)
{
    struct ks_self_view self;

    for (uint32_t i = 0; i < SIM_LETTERS; i++)
        if (process->letters[i].state != LETTER_NONE)
            return false;
    ks_core_self(process->core, &self);
    return self.redriven == 0;
}
