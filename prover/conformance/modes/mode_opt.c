/* SPDX-License-Identifier: MIT */
/* Mode opt: every update rule against its definition in double precision. Each of 1 or 10 steps is
   compared separately, starting from the device's state (1000 of rules with codes, too): within 8 u
   of the change plus half a unit of the parameter, 16 u for rules with quotients of roots; so is
   each of some steps beyond 1000, from the first state of the slots. After 1000 steps of both on
   the same gradients the norms differ by at most 1e-5. */
#include <math.h>
#include <stdio.h>

#include "core/base/random.h"
#include "core/rule/eight_bit.h"
#include "core/rule/rule.h"
#include "core/rule/squares.h"
#include "prover/conformance/modes/modes.h"

#define MOST   16389u /* elements: 4 groups of 128 invocations and a tail */
#define SHORT  1237u  /* elements of 1000 steps, a multiple of no power of two */
#define PADDED ((MOST + COPSE_UNIT - 1) / COPSE_UNIT * COPSE_UNIT)
#define LATE   137u                                 /* elements of steps beyond 1000 */
#define SETS   8u                                   /* different gradients, used in turn */
#define STRIDE (COPSE_ALIGNMENT / COPSE_WORD_BYTES) /* words from one step's buffer to the next */
#define BAND   0xa5a5a5a5u
#define UNIT   0x1p-24
#define SCALE  0.5f /* factor on gradients */

struct state {
    double value[MOST], slots[COPSE_RULE_MOMENTS][MOST];
};

#define BLOCKS (PADDED / COPSE_RULE_BLOCK)
#define PARTS  (2 * BLOCKS * COPSE_WORD_BYTES) /* bytes of a measure of a rule that trusts */

struct numbers {
    double scaled[MOST]; /* gradients of the step */
    float parts[2][2 * BLOCKS], factors[BLOCKS];
    float start[MOST], gradients[SETS][PADDED];
    struct state before, after, want;
    double size[MOST];  /* of the changes */
    bool is_open[MOST]; /* rounding has decided a sign of a change */
    uint32_t image[(1 + COPSE_RULE_MOMENTS) * (PADDED + 2 * STRIDE)];
};

struct work {
    const struct copse_conform_rule_setup *setup;
    uint32_t steps;
    uint32_t count; /* elements */
    bool is_late;   /* it runs the steps of late_steps */
};

/* Their numbers: the sums of a thousand steps, biases near 1, and a number that single precision
   does not have. */
static const uint32_t late_steps[] = { 1001, 1002, 100003, 16777219 };

static uint32_t number_of(const struct work *w, uint32_t step)
{
    return w->is_late ? late_steps[step - 1] : step;
}

/* n->want goes on by a step. */
static void mode_opt_advance(const struct copse_rule *rule, const struct work *w, struct numbers *n,
                             uint32_t step)
{
    const uint32_t count = w->count;
    struct state *s = &n->want;
    const struct copse_conform_variable v = {
        count, s->value, { s->slots[0], s->slots[1], s->slots[2] }, n->size
    };
    for (uint32_t i = 0; i < count; i++)
        n->scaled[i] = (double)SCALE * (double)n->gradients[step % SETS][i];
    copse__conform_update(rule, number_of(w, step), n->scaled, &v);
}

/* ---- the device ---- */

/* One buffer [band][values][band], one [band][slots][band], gradients, and a step buffer of
   STRIDE words for every step. */
struct rig {
    copse_queue *queue;
    copse_buffer *values, *slots, *gradients, *words, *parts;
    struct copse_rule rule;
    uint32_t count;
    size_t slot_words;
};

/* Four groups and a tail of the kernel that updates; as it is launched: 32 elements for an
   invocation. */
static uint32_t count_of(const copse_device *dev, const struct copse_conform_rule_setup *s)
{
    const struct copse_rule_row *row = copse__rule_row(s->params.kind);
    uint32_t x, y;
    copse__kernel_group(dev->limits, row->kernel->id, &x, &y);
    return COPSE_MIN(4 * x * y * COPSE_RULE_PER + 5, MOST);
}

static copse_status mode_opt_make(copse_device *dev, size_t words, copse_buffer **out)
{
    return copse_buffer_create(
        dev, &(struct copse_buffer_params){ .size = COPSE_WORD_BYTES * words }, out);
}

static copse_status open_rig(struct copse_conform_run *r, const struct work *w,
                             const struct numbers *n, struct rig *g)
{
    copse_device *dev = r->dev;
    COPSE_TRY(copse__rule_init(&w->setup->params, &g->rule));
    g->count = w->count;
    g->slot_words = (size_t)copse__rule_words_of(&g->rule, g->count);
    COPSE_TRY(copse_queue_create(dev, &g->queue));
    COPSE_TRY(mode_opt_make(dev, g->count + 2 * STRIDE, &g->values));
    COPSE_TRY(mode_opt_make(dev, g->slot_words + 2 * STRIDE, &g->slots));
    COPSE_TRY(mode_opt_make(dev, SETS * PADDED, &g->gradients));
    COPSE_TRY(mode_opt_make(dev, w->steps * STRIDE, &g->words));
    COPSE_TRY(mode_opt_make(dev, 2 * PARTS / COPSE_WORD_BYTES + STRIDE, &g->parts));
    COPSE_TRY(copse_queue_fill(g->queue, g->values, 0, copse_buffer_size(g->values), BAND));
    COPSE_TRY(copse_queue_fill(g->queue, g->slots, 0, copse_buffer_size(g->slots), BAND));
    for (uint32_t k = 0; k < g->rule.slots; k++) {
        uint32_t word;
        memcpy(&word, &g->rule.slot_starts[k], sizeof word);
        COPSE_TRY(copse_queue_fill(
            g->queue, g->slots,
            COPSE_WORD_BYTES * (STRIDE + (size_t)copse__rule_slot_at(&g->rule, k, g->count)),
            COPSE_WORD_BYTES * (size_t)copse__rule_slot_words(&g->rule, k, g->count), word));
    }
    COPSE_TRY(copse_queue_write(g->queue, g->values, COPSE_WORD_BYTES * STRIDE, n->start,
                                COPSE_WORD_BYTES * g->count));
    COPSE_TRY(copse_queue_write(g->queue, g->gradients, 0, n->gradients, sizeof n->gradients));
    for (uint32_t step = 1; step <= w->steps; step++) {
        uint32_t words[COPSE_STEP_WORDS] = { 0 };
        const float scale = SCALE;
        memcpy(&words[COPSE_STEP_SCALE], &scale, sizeof scale);
        words[COPSE_STEP_NUMBER] = number_of(w, step);
        copse__rule_step(&g->rule, number_of(w, step), words);
        COPSE_TRY(copse_queue_write(g->queue, g->words,
                                    COPSE_WORD_BYTES * STRIDE * (size_t)(step - 1), words,
                                    sizeof words));
    }
    return COPSE_OK;
}

static void close_rig(struct rig *g)
{
    copse_buffer_release(&g->values);
    copse_buffer_release(&g->slots);
    copse_buffer_release(&g->gradients);
    copse_buffer_release(&g->words);
    copse_buffer_release(&g->parts);
    copse_queue_release(&g->queue);
}

struct range {
    struct copse_binding values, slots, gradients, words, parts[2];
};

/* Of a rule that trusts: measure, and write the factors. */
static copse_status mode_opt_measure(copse_device *dev, struct rig *g, struct numbers *n,
                                     const struct range *at)
{
    struct copse_command c[2];
    struct copse_squares sums[2] = { { { 0 } }, { { 0 } } };
    const size_t blocks = (g->count + COPSE_RULE_BLOCK - 1) / COPSE_RULE_BLOCK;
    COPSE_TRY(copse__rule_measure_trust(&g->rule, dev, &at->values, &at->gradients, &at->slots,
                                        &at->words, at->parts, g->count, c));
    for (int k = 0; k < 2; k++) {
        COPSE_TRY(copse__queue_encode(g->queue, &c[k]));
        COPSE_TRY(copse_queue_read(g->queue, g->parts, at->parts[k].offset, n->parts[k],
                                   at->parts[k].size));
    }
    COPSE_TRY(copse_queue_finish(g->queue));
    for (int k = 0; k < 2; k++)
        copse__squares_add(&sums[k], n->parts[k], blocks);
    for (size_t b = 0; b < blocks; b++)
        n->factors[b] = copse__rule_trust(&g->rule, copse__squares_root(&sums[0]),
                                          copse__squares_root(&sums[1]), SCALE);
    return copse_queue_write(g->queue, g->parts, 0, n->factors, blocks * sizeof *n->factors);
}

static copse_status step_once(copse_device *dev, struct rig *g, struct numbers *n, uint32_t step)
{
    const size_t parts = copse__round_up(PARTS, COPSE_ALIGNMENT);
    const struct range at = {
        .values = { g->values, COPSE_WORD_BYTES * STRIDE, COPSE_WORD_BYTES * g->count },
        .slots = { g->slots, COPSE_WORD_BYTES * STRIDE, COPSE_WORD_BYTES * g->slot_words },
        .gradients = { g->gradients, COPSE_WORD_BYTES * PADDED * (size_t)(step % SETS),
                       COPSE_WORD_BYTES * g->count },
        .words = { g->words, COPSE_WORD_BYTES * STRIDE * (size_t)(step - 1),
                   COPSE_WORD_BYTES * COPSE_STEP_WORDS },
        .parts = { { g->parts, 0, PARTS }, { g->parts, parts, PARTS } },
    };
    struct copse_command c;
    if (g->rule.trusts)
        COPSE_TRY(mode_opt_measure(dev, g, n, &at));
    COPSE_TRY(copse__rule_command(&g->rule, dev, &at.values, &at.gradients, &at.slots, &at.words,
                                  &at.parts[0], g->count, &c));
    return copse__queue_encode(g->queue, &c);
}

/* Read [band][...][band] and report a damaged band. */
static copse_status read_guarded(struct rig *g, copse_buffer *from, uint32_t *image,
                                 struct copse_conform_outcome *out)
{
    const size_t words = copse_buffer_size(from) / COPSE_WORD_BYTES;
    COPSE_TRY(copse_queue_read(g->queue, from, 0, image, COPSE_WORD_BYTES * words));
    COPSE_TRY(copse_queue_finish(g->queue));
    for (size_t i = 0; i < STRIDE; i++)
        if (image[i] != BAND || image[words - 1 - i] != BAND)
            copse__conform_set(out, COPSE_VERDICT_FAIL, "a write out of range: %s the %s",
                               image[i] != BAND ? "before" : "behind",
                               from == g->values ? "values" : "slots");
    return COPSE_OK;
}

static double mode_opt_real(uint32_t word)
{
    float f;
    memcpy(&f, &word, sizeof f);
    return (double)f;
}

static bool is_coded(const struct rig *g)
{
    return g->rule.slots > 0 && g->rule.slot_kinds[0] == COPSE_SLOT_CODES;
}

/* The numbers that codes and scales stand for. */
static void mode_opt_decode(const struct rig *g, const uint32_t *words, struct state *to)
{
    const uint32_t *at[4];
    for (uint32_t k = 0; k < 4; k++)
        at[k] = words + copse__rule_slot_at(&g->rule, k, g->count);
    for (uint32_t i = 0; i < g->count; i++) {
        const uint32_t block = i / COPSE_RULE_BLOCK;
        to->slots[0][i] =
            (double)copse__code_mean(copse__code_at(at[0], i), (float)mode_opt_real(at[1][block]));
        to->slots[1][i] = (double)copse__code_square(copse__code_at(at[2], i),
                                                     (float)mode_opt_real(at[3][block]));
        to->slots[2][i] = 0.0;
    }
}

static copse_status read_state(struct rig *g, struct numbers *n, struct state *to,
                               struct copse_conform_outcome *out)
{
    uint32_t *slots = n->image + g->count + 2 * STRIDE;
    COPSE_TRY(read_guarded(g, g->values, n->image, out));
    COPSE_TRY(read_guarded(g, g->slots, slots, out));
    copse__conform_digest(out, n->image + STRIDE, COPSE_WORD_BYTES * g->count);
    for (uint32_t i = 0; i < g->count; i++) {
        to->value[i] = mode_opt_real(n->image[STRIDE + i]);
        for (uint32_t k = 0; k < COPSE_RULE_MOMENTS && !is_coded(g); k++)
            to->slots[k][i] =
                k < g->rule.slots ? mode_opt_real(slots[STRIDE + k * g->count + i]) : 0.0;
    }
    if (is_coded(g))
        mode_opt_decode(g, slots + STRIDE, to);
    return COPSE_OK;
}

/* ---- the two comparisons ---- */

static double mode_opt_ulp(double x)
{
    int exponent;
    frexp(x, &exponent);
    return ldexp(1.0, exponent - 24);
}

/* The numbers of codes 0 to 2^bits - 1, from the definition: 2^f equal steps in the decade that
   ends at 10^(f + 1 - bits). */
static void list_codes(uint32_t bits, double *to)
{
    *to++ = 0.0;
    for (uint32_t f = 0; f < bits; f++)
        for (uint32_t k = 1; k <= 1u << f; k++)
            *to++ = pow(10.0, (double)f + 1.0 - (double)bits) * (0.1 + 0.9 * k / (1u << f));
}

/* The distance of y to the nearest number. A square that is not 0 is never coded as 0. */
static double nearest_off(const double *list, double y, uint32_t bits)
{
    double least = INFINITY;
    for (uint32_t c = bits == COPSE_CODE_SQUARE_BITS && y > 0.0; c < 1u << bits; c++)
        least = fmin(least, fabs(y - list[c]));
    return least;
}

static void compare_codes(const struct rig *g, const struct numbers *n, uint32_t step,
                          struct copse_conform_outcome *out)
{
    double list[2][256];
    list_codes(COPSE_CODE_MEAN_BITS, list[0]);
    list_codes(COPSE_CODE_SQUARE_BITS, list[1]);
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t first = 0; first < g->count; first += COPSE_RULE_BLOCK) {
            const uint32_t end = COPSE_MIN(first + COPSE_RULE_BLOCK, g->count);
            double most = 0.0;
            for (uint32_t i = first; i < end; i++)
                most = fmax(most, fabs(n->want.slots[k][i]));
            for (uint32_t i = first; i < end; i += 1 + i % 7) { /* most of them */
                const double is = n->after.slots[k][i], want = n->want.slots[k][i];
                const double off = most > 0.0 ? fabs(is - want) / most : fabs(is);
                const double y = most > 0.0 ? fabs(want) / most : 0.0;
                if (!(off <=
                      nearest_off(list[k], y, k ? COPSE_CODE_SQUARE_BITS : COPSE_CODE_MEAN_BITS) +
                          1e-6))
                    copse__conform_set(out, COPSE_VERDICT_FAIL,
                                       "step %u, element %u: slot %s is %.9g, expected near %.17g",
                                       step, i, k ? "v" : "m", is, want);
            }
        }
}

static copse_status few_steps(struct copse_conform_run *r, const struct work *w, struct rig *g,
                              struct numbers *n, struct copse_conform_outcome *out)
{
    out->result.metric = "R";
    /* of the law, 8 if it promises the bits: the definition is in double */
    out->result.limit = fmax(copse_kernel_table[g->rule.row->kernel->id].law->limit.ratio, 8.0);
    for (uint32_t step = 1; step <= w->steps; step++) {
        COPSE_TRY(read_state(g, n, &n->before, out));
        COPSE_TRY(step_once(r->dev, g, n, step));
        COPSE_TRY(read_state(g, n, &n->after, out));
        n->want = n->before;
        mode_opt_advance(&g->rule, w, n, step);
        for (uint32_t i = 0; i < g->count; i++) {
            const double off = fabs(n->after.value[i] - n->want.value[i]);
            const double excess = fmax(off - 0.5 * mode_opt_ulp(n->want.value[i]), 0.0);
            const double units = isnan(off)          ? off
                                 : excess == 0.0     ? 0.0
                                 : n->size[i] == 0.0 ? INFINITY
                                                     : excess / (UNIT * n->size[i]);
            if (!copse__conform_measure(out, units, i, n->after.value[i], n->want.value[i]))
                copse__conform_set(out, COPSE_VERDICT_FAIL,
                                   "step %u, element %u: %.9g, expected %.17g (the change is %.3g)",
                                   number_of(w, step), i, n->after.value[i], n->want.value[i],
                                   n->size[i]);
        }
        if (is_coded(g))
            compare_codes(g, n, number_of(w, step), out);
    }
    return COPSE_OK;
}

static copse_status many_steps(struct copse_conform_run *r, const struct work *w, struct rig *g,
                               struct numbers *n, struct copse_conform_outcome *out)
{
    double difference = 0.0, size = 0.0, worst = 0.0;
    uint32_t at = 0, open = 0;
    memset(n->is_open, 0, sizeof n->is_open);
    memset(&n->want, 0, sizeof n->want);
    for (uint32_t i = 0; i < g->count; i++)
        n->want.value[i] = (double)n->start[i];
    for (uint32_t k = 0; k < g->rule.slots; k++)
        for (uint32_t i = 0; i < g->count; i++)
            n->want.slots[k][i] = (double)g->rule.slot_starts[k];
    for (uint32_t step = 1; step <= w->steps; step++) {
        COPSE_TRY(step_once(r->dev, g, n, step));
        if (step % 100 == 0) /* a driver need not keep a thousand commands */
            COPSE_TRY(copse_queue_submit(g->queue, NULL));
        mode_opt_advance(&g->rule, w, n, step);
        for (uint32_t i = 0; i < g->count; i++)
            n->is_open[i] |= isinf(n->size[i]);
    }
    COPSE_TRY(read_state(g, n, &n->after, out));
    for (uint32_t i = 0; i < g->count; i++) {
        open += n->is_open[i];
        if (n->is_open[i])
            continue;
        const double d = n->after.value[i] - n->want.value[i];
        if (!(fabs(d) <= worst)) {
            worst = fabs(d);
            at = i;
        }
        difference += d * d;
        size += n->want.value[i] * n->want.value[i];
    }
    out->result.metric = "norm";
    out->result.limit = 1e-5;
    out->result.nmse = difference / size;
    if (!copse__conform_measure(out, sqrt(difference / size), at, n->after.value[at],
                                n->want.value[at]))
        copse__conform_set(out, COPSE_VERDICT_FAIL, "after %u steps the parameters are %.3g off",
                           w->steps, sqrt(difference / size));
    if (open > g->count / 8)
        copse__conform_set(out, COPSE_VERDICT_MISTRUSTED,
                           "rounding decides the sign of %u of %u changes: proves little", open,
                           g->count);
    return COPSE_OK;
}

static copse_status mode_opt_check(struct copse_conform_run *r, void *user,
                                   struct copse_conform_outcome *out)
{
    struct work *w = user;
    struct rig g = { .queue = NULL };
    struct numbers *n;
    struct copse_stream s;
    COPSE_TRY(copse__conform_memory(r, 1, sizeof *n, &n));
    copse__stream_init(&s, out->result.seed, 0);
    w->count = w->is_late ? LATE : w->steps > 10 ? SHORT : count_of(r->dev, w->setup);
    for (uint32_t i = 0; i < w->count; i++) {
        n->start[i] = copse__stream_normal(&s);
        for (uint32_t k = 0; k < SETS; k++)
            n->gradients[k][i] = copse__stream_normal(&s) * (i % 3 ? 1.0f : 1e-3f);
    }
    copse_status status = open_rig(r, w, n, &g);
    if (!status)
        status = w->steps > 10 && !is_coded(&g) ? many_steps(r, w, &g, n, out)
                                                : few_steps(r, w, &g, n, out);
    close_rig(&g);
    copse__free(&r->ctx->base.mem, n);
    return status;
}

copse_status copse__conform_opt(struct copse_conform_run *r)
{
    static const uint32_t steps[] = { 1, 10, 1000 };
    for (size_t i = 0; i < copse_conform_rule_setup_count; i++)
        for (size_t k = 0; k <= COPSE_COUNT(steps); k++) {
            char name[48];
            const bool is_late = k == COPSE_COUNT(steps);
            struct work w = { .setup = &copse_conform_rule_setups[i],
                              .steps = is_late ? COPSE_COUNT(late_steps) : steps[k],
                              .is_late = is_late };
            if (w.steps == 1000 && r->params->tier < w.setup->tier && !r->params->case_name)
                continue;
            if (is_late)
                snprintf(name, sizeof name, "%s, steps beyond 1000", w.setup->name);
            else
                snprintf(name, sizeof name, "%s, %u step%s", w.setup->name, w.steps,
                         w.steps == 1 ? "" : "s");
            copse__conform_one(
                r,
                &(struct copse_conform_case){
                    "opt", copse__rule_row(w.setup->params.kind)->info.name, name, NULL },
                mode_opt_check, &w);
        }
    return COPSE_OK;
}
