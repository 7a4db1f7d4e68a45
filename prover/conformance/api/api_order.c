/* SPDX-License-Identifier: MIT */
/* Mode api, queues: commands of a queue run in order, also over submissions; later commands see the
   effects of earlier ones. */
#include "core/reduce/tree.h"
#include "prover/conformance/api/api.h"

/* ---- chains of dispatches ---- */

/* s = -(s + 1), -(s + 2), ...: each dispatch changes the result, and no two of them can change
   places. */
#define LINKS ((size_t)256)
#define COUNT ((size_t)1021) /* words of a sum */
#define RANKS 2u
/* bytes of a range, a multiple of COPSE_ALIGNMENT */
#define RANGE ((size_t)COPSE_WORD_BYTES * 1024)

struct chain {
    struct copse_api_rig rig;
    copse_buffer *sums[2]; /* of the rig */
};

static copse_status open_chain(struct chain *c, struct copse_conform_run *r,
                               struct copse_conform_outcome *out)
{
    COPSE_TRY(copse__api_open(r, out, LINKS * RANGE, &c->rig));
    c->sums[0] = c->rig.buffers[1];
    c->sums[1] = c->rig.buffers[2];
    for (size_t k = 0; k < LINKS; k++)
        COPSE_TRY(copse_queue_fill(c->rig.queue, c->rig.buffers[0], k * RANGE, RANGE,
                                   copse__api_word((float)(k + 1))));
    return copse_queue_fill(c->rig.queue, c->sums[0], 0, RANGE, 0);
}

static copse_status add_link(struct chain *c, size_t k, struct copse_command *to)
{
    const size_t bytes = COPSE_WORD_BYTES * COUNT;
    return copse__accumulate_command(c->rig.run->dev, RANKS,
                                     (struct copse_binding){ c->rig.buffers[0], k * RANGE, bytes },
                                     (struct copse_binding){ c->sums[k % 2], 0, bytes }, COUNT, to);
}

static copse_status encode_link(struct chain *c, size_t k)
{
    struct copse_command add;
    COPSE_TRY(add_link(c, k, &add));
    COPSE_TRY(copse__queue_encode(c->rig.queue, &add));
    return copse__api_negate(&c->rig, c->rig.queue, c->sums[k % 2], 0, c->sums[(k + 1) % 2], 0,
                             COUNT);
}

static copse_status check_chain(struct chain *c)
{
    float s = 0.0f, got;
    for (size_t k = 0; k < LINKS; k++)
        s = -(s + (float)(k + 1));
    COPSE_TRY(copse_queue_read(c->rig.queue, c->sums[LINKS % 2], 0, c->rig.words,
                               COPSE_WORD_BYTES * COUNT));
    COPSE_TRY(copse_queue_finish(c->rig.queue));
    for (size_t i = 0; i < COUNT; i++)
        if (c->rig.words[i] != copse__api_word(s)) {
            memcpy(&got, &c->rig.words[i], sizeof got);
            copse__conform_set(
                c->rig.out, COPSE_VERDICT_FAIL,
                "element %zu is %g, not %g: a dispatch was lost, repeated or run in another place",
                i, (double)got, (double)s);
            break;
        }
    return COPSE_OK;
}

static copse_status run_chain(struct copse_conform_run *r, bool submits,
                              struct copse_conform_outcome *out)
{
    struct chain c = { .rig = { .run = NULL } };
    copse_status s;
    COPSE_TRY_OR(done, s, open_chain(&c, r, out));
    for (size_t k = 0; k < LINKS; k++) {
        COPSE_TRY_OR(done, s, encode_link(&c, k));
        if (submits)
            COPSE_TRY_OR(done, s, copse_queue_submit(c.rig.queue, NULL));
    }
    s = check_chain(&c);
done:
    copse__api_close(&c.rig);
    return s;
}

copse_status copse__api_chain(struct copse_conform_run *r, void *user,
                              struct copse_conform_outcome *out)
{
    (void)user;
    return run_chain(r, false, out);
}

copse_status copse__api_submissions(struct copse_conform_run *r, void *user,
                                    struct copse_conform_outcome *out)
{
    (void)user;
    return run_chain(r, true, out);
}

/* A sum and a copy of it, recorded once and replayed many times; a copy back between replays. */
copse_status copse__api_replays(struct copse_conform_run *r, void *user,
                                struct copse_conform_outcome *out)
{
    enum { TURNS = 200 };
    const size_t bytes = COPSE_WORD_BYTES * COUNT;
    const uint32_t expected = copse__api_word((float)TURNS);
    struct chain c = { .rig = { .run = NULL } };
    struct copse_command commands[2];
    struct copse_segment *segment = NULL;
    copse_status s;
    (void)user;
    COPSE_TRY_OR(done, s, open_chain(&c, r, out));
    COPSE_TRY_OR(done, s, add_link(&c, 0, &commands[0])); /* adds 1 */
    commands[1] = (struct copse_command){
        .kind = COPSE_COMMAND_COPY,
        .binding_count = 2,
        .bindings = { { c.sums[0], 0, bytes }, { c.sums[1], 0, bytes } },
    };
    COPSE_TRY_OR(done, s, copse__segment_create(c.rig.queue, commands, 2, &segment));
    for (int turn = 0; turn < TURNS; turn++) {
        COPSE_TRY_OR(done, s, copse__segment_replay(segment));
        COPSE_TRY_OR(done, s, copse_queue_copy(c.rig.queue, c.sums[1], 0, c.sums[0], 0, bytes));
    }
    COPSE_TRY_OR(done, s, copse_queue_read(c.rig.queue, c.sums[0], 0, c.rig.words, bytes));
    COPSE_TRY_OR(done, s, copse_queue_finish(c.rig.queue));
    for (size_t i = 0; i < COUNT; i++)
        if (c.rig.words[i] != expected) {
            copse__conform_set(out, COPSE_VERDICT_FAIL,
                               "element %zu has the bits %08x after %d replays, not %08x", i,
                               c.rig.words[i], TURNS, expected);
            break;
        }
done:
    copse__segment_release(&segment);
    copse__api_close(&c.rig);
    return s;
}

/* ---- pairs of commands without a wait between them ---- */

enum command { FILL, WRITE, COPY, DISPATCH, COMMANDS };
static const char *const names[COMMANDS] = { "fill", "write", "copy", "dispatch" };

/* The buffers of the rig by use. */
enum { A, B, SOURCE, NEGATED };

/* What a command writes to A: each another value, so that it shows which one was last. */
static float api_order_written(enum command how, float value)
{
    return value + 0.125f * (float)how;
}

/* A becomes written(how, value): FILL and WRITE from the host, COPY from SOURCE, DISPATCH from
   NEGATED. */
static copse_status api_order_produce(struct copse_api_rig *g, enum command how, float value)
{
    copse_queue *q = g->queue;
    const uint32_t word = copse__api_word(api_order_written(how, value));
    switch (how) {
    case FILL:
        return copse_queue_fill(q, g->buffers[A], 0, g->bytes, word);
    case WRITE:
        for (size_t i = 0; i < g->bytes / COPSE_WORD_BYTES; i++)
            g->words[i] = word;
        return copse_queue_write(q, g->buffers[A], 0, g->words, g->bytes);
    case COPY:
        return copse_queue_copy(q, g->buffers[SOURCE], 0, g->buffers[A], 0, g->bytes);
    default:
        return copse__api_negate(g, q, g->buffers[NEGATED], 0, g->buffers[A], 0,
                                 g->bytes / COPSE_WORD_BYTES);
    }
}

/* B becomes A, or -A. */
static copse_status api_order_consume(struct copse_api_rig *g, enum command how)
{
    return how == COPY ? copse_queue_copy(g->queue, g->buffers[A], 0, g->buffers[B], 0, g->bytes)
                       : copse__api_negate(g, g->queue, g->buffers[A], 0, g->buffers[B], 0,
                                           g->bytes / COPSE_WORD_BYTES);
}

/* A has `before`, and sources have what commands copy from them, when all earlier work is
   complete. */
static copse_status api_order_prepare(struct copse_api_rig *g, float before, float value)
{
    const float copied = api_order_written(COPY, value),
                negated = -api_order_written(DISPATCH, value);
    COPSE_TRY(copse_queue_fill(g->queue, g->buffers[A], 0, g->bytes, copse__api_word(before)));
    COPSE_TRY(copse_queue_fill(g->queue, g->buffers[B], 0, g->bytes, 0));
    COPSE_TRY(copse_queue_fill(g->queue, g->buffers[SOURCE], 0, g->bytes, copse__api_word(copied)));
    COPSE_TRY(
        copse_queue_fill(g->queue, g->buffers[NEGATED], 0, g->bytes, copse__api_word(negated)));
    return copse_queue_finish(g->queue);
}

static copse_status check_pair(struct copse_api_rig *g, enum command first, enum command second,
                               float *number)
{
    const float before = *number, value = *number + 1.0f;
    char what[96];
    *number += 2.0f;
    if (second == COPY || second == DISPATCH) {
        const float sign = second == COPY ? 1.0f : -1.0f;
        COPSE_TRY(api_order_prepare(g, before, value));
        COPSE_TRY(api_order_produce(g, first, value));
        COPSE_TRY(api_order_consume(g, second));
        snprintf(what, sizeof what, "a %s reads what a %s wrote", names[second], names[first]);
        COPSE_TRY(copse__api_expect(g, g->queue, g->buffers[B],
                                    sign * api_order_written(first, value), what));
    }
    if (first == COPY || first == DISPATCH) {
        const float sign = first == COPY ? 1.0f : -1.0f;
        COPSE_TRY(api_order_prepare(g, before, value));
        COPSE_TRY(api_order_consume(g, first));
        COPSE_TRY(api_order_produce(g, second, value));
        snprintf(what, sizeof what, "a %s reads what a later %s writes", names[first],
                 names[second]);
        COPSE_TRY(copse__api_expect(g, g->queue, g->buffers[B], sign * before, what));
        COPSE_TRY(
            copse__api_expect(g, g->queue, g->buffers[A], api_order_written(second, value), what));
    }
    COPSE_TRY(api_order_prepare(g, before, value));
    COPSE_TRY(api_order_produce(g, first, value));
    COPSE_TRY(api_order_produce(g, second, value));
    snprintf(what, sizeof what, "a %s writes behind a %s", names[second], names[first]);
    return copse__api_expect(g, g->queue, g->buffers[A], api_order_written(second, value), what);
}

copse_status copse__api_hazards(struct copse_conform_run *r, void *user,
                                struct copse_conform_outcome *out)
{
    struct copse_api_rig g;
    float number = 1.0f;
    copse_status s;
    (void)user;
    COPSE_TRY_OR(done, s, copse__api_open(r, out, COPSE_API_BYTES, &g));
    for (int first = 0; first < COMMANDS; first++)
        for (int second = 0; second < COMMANDS; second++)
            COPSE_TRY_OR(done, s,
                         check_pair(&g, (enum command)first, (enum command)second, &number));
done:
    copse__api_close(&g);
    return s;
}

/* ---- tickets and queues ---- */

copse_status copse__api_tickets(struct copse_conform_run *r, void *user,
                                struct copse_conform_outcome *out)
{
    enum { TURNS = 32 };
    uint64_t tickets[TURNS];
    struct copse_api_rig g;
    copse_status s;
    (void)user;
    COPSE_TRY_OR(done, s, copse__api_open(r, out, COPSE_API_BYTES, &g));
    for (uint32_t i = 0; i < TURNS; i++) {
        COPSE_TRY_OR(
            done, s,
            copse_queue_fill(g.queue, g.buffers[0], 0, g.bytes, copse__api_word((float)i)));
        COPSE_TRY_OR(done, s,
                     copse_queue_read(g.queue, g.buffers[0], 0, g.words + i, COPSE_WORD_BYTES));
        COPSE_TRY_OR(done, s, copse_queue_submit(g.queue, &tickets[i]));
        if (i > 0 && tickets[i] <= tickets[i - 1])
            copse__conform_set(out, COPSE_VERDICT_FAIL, "ticket %u does not follow ticket %u", i,
                               i - 1);
    }
    /* the middle first: earlier tickets are reached then, too */
    for (uint32_t k = 0; k < TURNS; k++) {
        const uint32_t i = (k + TURNS / 2) % TURNS;
        COPSE_TRY_OR(done, s, copse__queue_await(g.queue, tickets[i]));
        for (uint32_t at = 0; at <= i; at++)
            if (g.words[at] != copse__api_word((float)at))
                copse__conform_set(out, COPSE_VERDICT_FAIL,
                                   "ticket %u is reached before the read of submission %u", i, at);
        if (copse_queue_wait(g.queue, tickets[i / 2], 0) != COPSE_OK)
            copse__conform_set(out, COPSE_VERDICT_FAIL, "ticket %u is reached before ticket %u", i,
                               i / 2);
    }
done:
    copse__api_close(&g);
    return s;
}

/* Each queue has its own work, without a wait between them; then the second one reads what the
   first one wrote. */
copse_status copse__api_two_queues(struct copse_conform_run *r, void *user,
                                   struct copse_conform_outcome *out)
{
    struct copse_api_rig g;
    copse_queue *second = NULL;
    uint64_t ticket;
    copse_status s;
    (void)user;
    COPSE_TRY_OR(done, s, copse__api_open(r, out, COPSE_API_BYTES, &g));
    COPSE_TRY_OR(done, s, copse_queue_create(r->dev, &second));
    for (int turn = 1; turn <= 16; turn++) {
        const float x = (float)turn;
        COPSE_TRY_OR(done, s,
                     copse_queue_fill(g.queue, g.buffers[0], 0, g.bytes, copse__api_word(x)));
        COPSE_TRY_OR(
            done, s,
            copse_queue_fill(second, g.buffers[2], 0, g.bytes, copse__api_word(-2.0f * x)));
        COPSE_TRY_OR(
            done, s,
            copse__api_negate(&g, g.queue, g.buffers[0], 0, g.buffers[1], 0, COPSE_API_WORDS));
        COPSE_TRY_OR(done, s, copse_queue_copy(second, g.buffers[2], 0, g.buffers[3], 0, g.bytes));
        COPSE_TRY_OR(done, s, copse_queue_submit(second, NULL));
        COPSE_TRY_OR(done, s, copse_queue_submit(g.queue, &ticket));
        COPSE_TRY_OR(done, s,
                     copse__api_expect(&g, second, g.buffers[3], -2.0f * x, "the second queue"));
        COPSE_TRY_OR(done, s, copse__queue_wait_for(second, g.queue, ticket));
        COPSE_TRY_OR(done, s, copse_queue_copy(second, g.buffers[1], 0, g.buffers[3], 0, g.bytes));
        COPSE_TRY_OR(done, s,
                     copse__api_expect(&g, second, g.buffers[3], -x,
                                       "the second queue, behind the first one"));
    }
done:
    copse_queue_release(&second);
    copse__api_close(&g);
    return s;
}
