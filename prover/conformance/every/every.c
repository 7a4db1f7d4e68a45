/* SPDX-License-Identifier: MIT */
/* Tier exhaustive of the modes run and grad: each function of one number for all 2^32 patterns, its
   derivative with slopes of both signs. While the device computes a batch, a thread for each
   processor compares the batch before it. */
#include <math.h>
#include <stdio.h>

#include "prover/conformance/every/every.h"

#define BATCH   ((size_t)1 << 22)
#define BATCHES ((uint32_t)(((uint64_t)1 << 32) / BATCH))
#define START   0x3f800000u /* from 1.0 on, where most numbers of networks are */
#define THREADS 16u
#define NAME    "every number"

struct bench {
    struct copse_every every;
    struct copse_kernel *kernel;
    copse_queue *queue;
    copse_buffer *buffers[3]; /* numbers, slopes of a derivative, results */
    uint32_t *numbers, *got[2];
    float *slopes;
    struct copse_every_part parts[THREADS];
    copse_thread threads[THREADS];
    uint32_t part_count;
};

static uint32_t arg_count(const struct bench *b)
{
    return b->every.is_gradient ? 3 : 2;
}

/* ---- memory ---- */

static void set_slopes(float *slopes)
{
    for (size_t i = 0; i < BATCH; i++) {
        const uint32_t bits = (uint32_t)i * 2654435761u;
        const float x = 0.5f + (float)(bits >> 9) * (1.5f * 0x1p-23f);
        slopes[i] = bits & 1u ? -x : x;
    }
}

static copse_status open_bench(struct copse_conform_run *r, const struct copse_launch *l,
                               struct bench *b)
{
    const size_t bytes = BATCH * COPSE_WORD_BYTES;
    b->every.launch = l;
    b->every.truth = copse_kernel_table[l->form->kernel].law->host;
    b->every.is_gradient = l->form->every == COPSE_EVERY_DERIVATIVE;
    b->every.ulp = copse__launch_limit(l->form).ulp;
    b->every.flushes = !r->dev->limits->keeps_denormals;
    COPSE_TRY(copse__kernel_get(r->dev, l->form->kernel, l->spec, &b->kernel));
    COPSE_TRY(copse_queue_create(r->dev, &b->queue));
    for (uint32_t a = 0; a < arg_count(b); a++)
        COPSE_TRY(copse_buffer_create(r->dev, &(struct copse_buffer_params){ .size = bytes },
                                      &b->buffers[a]));
    COPSE_TRY(copse__conform_memory(r, bytes, 1, &b->numbers));
    COPSE_TRY(copse__conform_memory(r, bytes, 1, &b->got[0]));
    COPSE_TRY(copse__conform_memory(r, bytes, 1, &b->got[1]));
    b->part_count = COPSE_MIN(copse__cpu_count(), THREADS);
    for (uint32_t i = 0; i < b->part_count; i++) {
        b->parts[i].every = &b->every;
        COPSE_TRY(copse__conform_memory(r, BATCH, sizeof *b->parts[i].found, &b->parts[i].found));
    }
    if (!b->every.is_gradient)
        return COPSE_OK;
    COPSE_TRY(copse__conform_memory(r, bytes, 1, &b->slopes));
    set_slopes(b->slopes);
    return copse_queue_write(b->queue, b->buffers[1], 0, b->slopes, bytes);
}

static void close_bench(struct copse_conform_run *r, struct bench *b)
{
    struct copse_mem *mem = &r->ctx->base.mem;
    copse_queue_release(&b->queue); /* waits for reads */
    for (uint32_t a = 0; a < COPSE_COUNT(b->buffers); a++)
        copse_buffer_release(&b->buffers[a]);
    for (uint32_t i = 0; i < b->part_count; i++)
        copse__free(mem, b->parts[i].found);
    copse__free(mem, b->numbers);
    copse__free(mem, b->got[0]);
    copse__free(mem, b->got[1]);
    copse__free(mem, b->slopes);
}

/* ---- the device ---- */

static uint32_t first_of(uint32_t batch)
{
    return START + batch * (uint32_t)BATCH;
}

static copse_status every_compute(struct bench *b, uint32_t batch)
{
    const size_t bytes = BATCH * COPSE_WORD_BYTES;
    const uint32_t count = arg_count(b), group = b->kernel->group_x * b->kernel->group_y;
    struct copse_binding bindings[COPSE_COUNT(b->buffers)];
    struct copse_params_unary p;
    struct copse_command c;
    for (size_t i = 0; i < BATCH; i++)
        b->numbers[i] = first_of(batch) + (uint32_t)i;
    for (uint32_t a = 0; a < count; a++)
        bindings[a] = (struct copse_binding){ b->buffers[a], 0, bytes };
    memcpy(&p, b->every.launch->params, sizeof p);
    p.n = (uint32_t)BATCH;
    COPSE_TRY(copse_queue_write(b->queue, b->buffers[0], 0, b->numbers, bytes));
    COPSE_TRY(copse_queue_fill(b->queue, b->buffers[count - 1], 0, bytes, COPSE_LAUNCH_POISON));
    COPSE_TRY(
        copse__dispatch_init(&c, b->kernel, bindings, count, &p, (BATCH + group - 1) / group, 0));
    COPSE_TRY(copse__queue_encode(b->queue, &c));
    COPSE_TRY(copse_queue_read(b->queue, b->buffers[count - 1], 0, b->got[batch % 2], bytes));
    return copse_queue_finish(b->queue);
}

/* ---- the comparison ---- */

static void every_scan(void *part)
{
    copse__every_scan(part);
}

/* Parts without a thread are compared at once. */
static uint32_t begin_scan(struct bench *b, uint32_t batch)
{
    const size_t blocks = BATCH / COPSE_EVERY_BLOCK;
    uint32_t started = 0;
    for (uint32_t i = 0; i < b->part_count; i++) {
        struct copse_every_part *p = &b->parts[i];
        const size_t begin = blocks * i / b->part_count * COPSE_EVERY_BLOCK;
        p->count = blocks * (i + 1) / b->part_count * COPSE_EVERY_BLOCK - begin;
        p->first = first_of(batch) + (uint32_t)begin;
        p->slope = b->slopes ? b->slopes + begin : NULL;
        p->got = b->got[batch % 2] + begin;
        if (started == i && copse__thread_start(&b->threads[i], every_scan, p) == COPSE_OK)
            started++;
        else
            every_scan(p);
    }
    return started;
}

static void end_scan(struct bench *b, uint32_t started)
{
    for (uint32_t i = 0; i < started; i++)
        copse__thread_join(&b->threads[i]);
}

static uint32_t word_of(float x)
{
    uint32_t word;
    memcpy(&word, &x, sizeof word);
    return word;
}

static float real_of(uint32_t word)
{
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

/* The numbers that were found, compared as those of mode launch. */
static copse_status every_judge(struct copse_conform_run *r, const struct bench *b,
                                const struct copse_every_part *p, struct copse_conform_outcome *out)
{
    const size_t count = p->found_count;
    const uint32_t last = arg_count(b) - 1;
    struct copse_launch l = *b->every.launch;
    struct copse_launch_image image = { .launch = &l, .row = &copse_kernel_table[l.form->kernel] };
    const uint32_t n = (uint32_t)count;
    uint32_t *words;
    if (count == 0)
        return COPSE_OK;
    COPSE_TRY(copse__conform_memory(r, count, 4 * sizeof *words, &words));
    memcpy(l.params, &n, sizeof n); /* the first member */
    l.values = COPSE_VALUES_MIXED;
    l.groups = 1;
    for (uint32_t a = 0; a <= last; a++) {
        l.counts[a] = count;
        image.before[a] = words + a * count;
        image.after[a] = a == last ? words + 3 * count : image.before[a];
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t place = p->found[i];
        words[i] = p->first + place;
        if (p->slope)
            words[count + i] = word_of(p->slope[place]);
        image.after[last][i] = p->got[place];
    }
    const copse_status s = copse__launch_judge(r, &image, r->dev->limits->keeps_denormals, out);
    if (out->result.verdict == COPSE_VERDICT_FAIL && out->result.worst <= out->result.limit)
        /* the mean square error of numbers that were selected means nothing */
        out->result.verdict = COPSE_VERDICT_PASS;
    if (s == COPSE_OK && out->result.verdict == COPSE_VERDICT_FAIL) {
        const uint32_t bits = words[out->result.index];
        out->result.index = bits;
        if (p->slope)
            snprintf(out->text, sizeof out->text,
                     "the derivative at %.9g (%08x), times %.9g, is outside the tolerance",
                     (double)real_of(bits), bits, (double)p->slope[bits - p->first]);
        else
            snprintf(out->text, sizeof out->text,
                     "the result for %.9g (%08x) is outside the tolerance", (double)real_of(bits),
                     bits);
    }
    copse__free(&r->ctx->base.mem, words);
    return s;
}

/* ---- the case ---- */

static copse_status judge_all(struct copse_conform_run *r, struct bench *b,
                              struct copse_conform_outcome *out)
{
    for (uint32_t i = 0; i < b->part_count && out->result.verdict == COPSE_VERDICT_PASS; i++)
        COPSE_TRY(every_judge(r, b, &b->parts[i], out));
    return COPSE_OK;
}

static copse_status run_batches(struct copse_conform_run *r, struct bench *b,
                                struct copse_conform_outcome *out)
{
    uint32_t batch = 0;
    for (; batch <= BATCHES && (batch < 2 || copse__now_ns() < r->deadline_ns); batch++) {
        const uint32_t started = batch > 0 ? begin_scan(b, batch - 1) : 0;
        const copse_status s = batch < BATCHES ? every_compute(b, batch) : COPSE_OK;
        end_scan(b, started);
        COPSE_TRY(s);
        if (batch > 0)
            COPSE_TRY(judge_all(r, b, out));
        if (out->result.verdict != COPSE_VERDICT_PASS)
            return COPSE_OK;
    }
    if (batch <= BATCHES)
        copse__conform_set(out, COPSE_VERDICT_SKIP,
                           "not reached in %g s: %llu of 4294967296 numbers passed",
                           r->params->seconds, (unsigned long long)((batch - 1) * (uint64_t)BATCH));
    return COPSE_OK;
}

static copse_status every_check(struct copse_conform_run *r, void *user,
                                struct copse_conform_outcome *out)
{
    struct copse_launch l = { .form = user,
                              .regime = COPSE_REGIME_ONE,
                              .values = COPSE_VALUES_MIXED };
    struct copse_limits limits = *r->dev->limits;
    struct bench *b;
    copse__launch_size(&l, &limits);
    COPSE_TRY(copse__conform_memory(r, 1, sizeof *b, &b));
    copse_status s = open_bench(r, &l, b);
    if (s == COPSE_OK)
        s = run_batches(r, b, out);
    close_bench(r, b);
    copse__free(&r->ctx->base.mem, b);
    return s;
}

/* "pow, exponent -0.5" is the op pow with the case "every number, exponent -0.5". */
void copse__conform_every(struct copse_conform_run *r, const char *mode, enum copse_every_what what)
{
    char op[32], name[64];
    if (r->wants || (r->params->tier < COPSE_CONFORM_EXHAUSTIVE && !r->params->case_name))
        return;
    for (size_t i = 0; i < copse_launch_elementwise.count && !r->is_stopped; i++) {
        const struct copse_launch_form *f = &copse_launch_elementwise.forms[i];
        const size_t length = strcspn(f->name, ",");
        if (f->every != what)
            continue;
        snprintf(op, sizeof op, "%.*s", (int)length, f->name);
        snprintf(name, sizeof name, NAME "%s", f->name + length);
        copse__conform_one(r, &(struct copse_conform_case){ mode, op, name, "" }, every_check,
                           (void *)(uintptr_t)f);
    }
}
