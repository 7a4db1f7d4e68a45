/* SPDX-License-Identifier: MIT */
/* Mode stress, memory and queues: the largest binding, a store larger than it, offsets past 2 GiB,
   exhausted memory, many submissions. A case too large for this device or tier is a SKIP. */
#include <stdio.h>

#include "copse/ops.h"
#include "copse/train/audit.h"
#include "copse/trainer.h"
#include "core/reduce/tree.h"
#include "core/variable/flat_store.h"
#include "prover/conformance/stress/stress.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

/* Bytes that a case may use: little in `quick`, and never more than half of the memory. */
static uint64_t stress_memory_budget(const struct copse_conform_run *r)
{
    const uint64_t memory = r->dev->info.memory_bytes;
    const uint64_t most = r->params->tier == COPSE_CONFORM_QUICK      ? 288 * MIB
                          : r->params->tier == COPSE_CONFORM_STANDARD ? 5 * GIB
                                                                      : 16 * GIB;
    return memory ? COPSE_MIN(most, memory / 2) : COPSE_MIN(most, GIB);
}

static bool has_room(const struct copse_conform_run *r, uint64_t bytes,
                     struct copse_conform_outcome *out)
{
    if (bytes <= stress_memory_budget(r))
        return true;
    copse__conform_set(
        out, COPSE_VERDICT_SKIP, "takes %llu MiB, here and in this tier %llu are used",
        (unsigned long long)(bytes / MIB), (unsigned long long)(stress_memory_budget(r) / MIB));
    return false;
}

/* ---- bindings ---- */

/* Negate `count` elements at `offset` of buffers of `size` bytes. */
static copse_status negate_at(struct copse_conform_run *r, uint64_t size, uint64_t offset,
                              uint64_t count, struct copse_conform_outcome *out)
{
    const struct copse_buffer_params how = { .size = (size_t)size };
    copse_queue *q = NULL;
    copse_buffer *x = NULL, *y = NULL;
    copse_status s;
    COPSE_TRY_OR(done, s, copse_queue_create(r->dev, &q));
    COPSE_TRY_OR(done, s, copse_buffer_create(r->dev, &how, &x));
    COPSE_TRY_OR(done, s, copse_buffer_create(r->dev, &how, &y));
    s = copse__stress_negate(r, q, x, y, (size_t)offset, (size_t)count, out);
done:
    copse_buffer_release(&x);
    copse_buffer_release(&y);
    copse_queue_release(&q);
    return s;
}

static copse_status largest_binding(struct copse_conform_run *r, void *user,
                                    struct copse_conform_outcome *out)
{
    const uint64_t bytes = r->dev->limits->max_binding_bytes;
    (void)user;
    if (bytes / COPSE_WORD_BYTES >= (uint64_t)1 << 31) {
        copse__conform_set(out, COPSE_VERDICT_SKIP,
                           "a kernel may see %llu MiB, more than any tensor has",
                           (unsigned long long)(bytes / MIB));
        return COPSE_OK;
    }
    return has_room(r, 2 * bytes, out) ? negate_at(r, bytes, 0, bytes / COPSE_WORD_BYTES, out)
                                       : COPSE_OK;
}

static copse_status past_2_gib(struct copse_conform_run *r, void *user,
                               struct copse_conform_outcome *out)
{
    const uint64_t offset = 2 * GIB + COPSE_ALIGNMENT, count = 100003;
    const uint64_t size = offset + COPSE_WORD_BYTES * count + COPSE_ALIGNMENT;
    (void)user;
    if (size > r->dev->limits->max_buffer_bytes) {
        copse__conform_set(out, COPSE_VERDICT_SKIP, "the largest buffer has %llu MiB",
                           (unsigned long long)(r->dev->limits->max_buffer_bytes / MIB));
        return COPSE_OK;
    }
    return has_room(r, 2 * size, out) ? negate_at(r, size, offset, count, out) : COPSE_OK;
}

/* ---- a store larger than a binding ---- */

#define VARIABLES 4

struct store_work {
    uint64_t limit; /* lower the largest binding to this; 0 = the device's limit */
    uint32_t replicas;
    copse_tensor *tensors[VARIABLES];
};

/* Sum of c w over all elements: the gradient is c, the number of the variable. */
static copse_tensor *stress_memory_loss(copse_graph *g, const copse_batch *in, void *user)
{
    const struct store_work *w = user;
    copse_tensor *sum = NULL;
    (void)in;
    for (uint32_t v = 0; v < VARIABLES; v++) {
        copse_tensor *part = copse_multiply_by(g, w->tensors[v], (float)(v + 1));
        part = copse_sum(g, part, NULL, 0, false);
        if (sum)
            sum = copse_add(g, sum, part);
        else
            sum = part;
    }
    return sum;
}

static float stress_memory_start(size_t i)
{
    return (float)(i % 23) - 11.0f;
}

static copse_status check_variable(struct copse_conform_run *r, copse_variable *v, uint32_t index,
                                   uint32_t replicas, size_t count,
                                   struct copse_conform_outcome *out)
{
    float *values;
    copse_status s = COPSE_OK;
    COPSE_TRY(copse__conform_memory(r, count, sizeof *values, &values));
    for (uint32_t k = 0; k < replicas && !s; k++) {
        s = copse_variable_read(v, k, values);
        for (size_t i = 0; i < count && !s; i++) /* two steps with rate 1/2 */
            if (values[i] != stress_memory_start(i) - (float)(index + 1))
                copse__conform_set(out, COPSE_VERDICT_FAIL,
                                   "variable %u on replica %u: element %zu is %.9g, not %.9g",
                                   index, k, i, (double)values[i],
                                   (double)(stress_memory_start(i) - (float)(index + 1)));
    }
    copse__free(&r->ctx->base.mem, values);
    return s;
}

static copse_status make_variables(struct copse_conform_run *r, copse_strategy *st, size_t count,
                                   struct store_work *w, copse_variable **variables)
{
    float *values;
    copse_status s = COPSE_OK;
    COPSE_TRY(copse__conform_memory(r, count, sizeof *values, &values));
    for (size_t i = 0; i < count; i++)
        values[i] = stress_memory_start(i);
    for (uint32_t v = 0; v < VARIABLES && !s; v++) {
        char name[8];
        snprintf(name, sizeof name, "v%u", v);
        s = copse_variable_create(
            st,
            &(struct copse_variable_params){
                .name = name, .shape = COPSE_SHAPE((uint32_t)count), .values = values },
            &variables[v]);
        w->tensors[v] = s ? NULL : copse_variable_tensor(variables[v]);
    }
    copse__free(&r->ctx->base.mem, values);
    return s;
}

static copse_status lower_all(copse_strategy *st, uint64_t limit)
{
    for (uint32_t k = 0; limit && k < st->replica_count; k++) {
        struct copse_limits l = st->replicas[k].dev->info.limits;
        l.max_binding_bytes = limit;
        COPSE_TRY(copse__device_limit(st->replicas[k].dev, &l));
    }
    return COPSE_OK;
}

static copse_status large_store(struct copse_conform_run *r, void *user,
                                struct copse_conform_outcome *out)
{
    struct store_work *w = user;
    const uint64_t binding = w->limit ? w->limit : r->dev->limits->max_binding_bytes;
    const size_t count = (size_t)(binding / 8); /* a variable is half a binding */
    const char *ids[] = { r->dev->info.id, r->dev->info.id };
    copse_variable *variables[VARIABLES];
    copse_strategy *st = NULL;
    copse_trainer *t = NULL;
    copse_status s;
    const struct copse_trainer_params params = {
        .loss = stress_memory_loss,
        .user = w,
        .optimizer = { .kind = COPSE_SGD, .learning_rate = 0.5f },
    };
    const float x[2] = { 0.0f, 0.0f };
    /* Values, gradients, the products of the loss and its intermediate results. */
    if (count >= (size_t)1 << 31 || !has_room(r, 4 * VARIABLES * w->replicas * binding / 2, out)) {
        copse__conform_set(out, COPSE_VERDICT_SKIP, "bindings are larger than tensors");
        return COPSE_OK;
    }
    COPSE_TRY_OR(done, s, copse_mirrored_create(r->ctx, ids, w->replicas, NULL, &st));
    COPSE_TRY_OR(done, s, lower_all(st, w->limit));
    COPSE_TRY_OR(done, s, make_variables(r, st, count, w, variables));
    COPSE_TRY_OR(done, s, copse_trainer_create(st, &params, &t));
    COPSE_TRY_OR(
        done, s,
        copse_trainer_audit(t, &(struct copse_audit_params){ .is_cross_check_off = true }));
    for (int step = 0; step < 2; step++)
        COPSE_TRY_OR(done, s,
                     copse_trainer_step(t, &(struct copse_host_batch){
                                               COPSE_COLUMNS({ "x", COPSE_F32, COPSE_SHAPE(1), x }),
                                               .count = 2 }));
    if (st->store->piece_count < 2)
        copse__conform_set(out, COPSE_VERDICT_MISTRUSTED, "the store stood in one binding");
    for (uint32_t v = 0; v < VARIABLES; v++)
        COPSE_TRY_OR(done, s, check_variable(r, variables[v], v, w->replicas, count, out));
done:
    copse_trainer_release(&t);
    copse_strategy_release(&st);
    return s;
}

/* ---- memory exhausted ---- */

#define MOST_BUFFERS 256

/* Allocate until memory is exhausted. Drivers may report it only when the memory is used. */
static copse_status take_all(struct copse_conform_run *r, copse_queue *q, copse_buffer **taken,
                             bool *is_refused)
{
    const struct copse_buffer_params how = { .size = (size_t)r->dev->limits->max_buffer_bytes };
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < MOST_BUFFERS && bytes <= 4 * r->dev->info.memory_bytes; i++) {
        copse_status s = copse_buffer_create(r->dev, &how, &taken[i]);
        if (!s)
            s = copse_queue_fill(q, taken[i], 0, how.size, 1);
        if (!s)
            s = copse_queue_finish(q);
        *is_refused = s == COPSE_ERR_NO_DEVICE_MEMORY;
        if (s)
            return *is_refused ? COPSE_OK : s;
        bytes += how.size;
    }
    return COPSE_OK;
}

static copse_status memory_exhausted(struct copse_conform_run *r, void *user,
                                     struct copse_conform_outcome *out)
{
    const uint64_t largest = r->dev->limits->max_buffer_bytes;
    copse_buffer *taken[MOST_BUFFERS] = { NULL };
    copse_queue *q = NULL;
    bool is_refused = false;
    (void)user;
    /* No machine has 2^48 bytes, so one buffer suffices and no memory is filled. */
    if (largest < (uint64_t)1 << 48 &&
        (r->dev->info.kind != COPSE_DEVICE_DISCRETE || r->params->tier == COPSE_CONFORM_QUICK)) {
        copse__conform_set(out, COPSE_VERDICT_SKIP, "%s is not filled up%s",
                           r->dev->info.kind == COPSE_DEVICE_DISCRETE ? "the device's memory"
                                                                      : "the host's memory",
                           r->dev->info.kind == COPSE_DEVICE_DISCRETE ? " in this tier" : "");
        return COPSE_OK;
    }
    COPSE_TRY(copse_queue_create(r->dev, &q));
    const copse_status s = take_all(r, q, taken, &is_refused);
    for (uint32_t i = 0; i < MOST_BUFFERS; i++)
        copse_buffer_release(&taken[i]);
    copse_queue_release(&q);
    if (s)
        return s;
    if (!is_refused)
        copse__conform_set(out, COPSE_VERDICT_SKIP, "the driver gives more than there is");
    return copse_note(negate_at(r, 65536, 512, 10007, out), "after memory was exhausted");
}

/* ---- many submissions ---- */

static copse_status many_submissions(struct copse_conform_run *r, void *user,
                                     struct copse_conform_outcome *out)
{
    enum { COUNT = 1000, RANKS = 2 };
    const uint32_t turns = r->params->tier == COPSE_CONFORM_QUICK ? 1000 : 20000;
    const struct copse_buffer_params how = { .size = COPSE_WORD_BYTES * COUNT };
    copse_queue *q = NULL;
    copse_buffer *x = NULL, *sum = NULL;
    struct copse_command c;
    float got[COUNT];
    copse_status s;
    (void)user;
    COPSE_TRY_OR(done, s, copse_queue_create(r->dev, &q));
    COPSE_TRY_OR(done, s, copse_buffer_create(r->dev, &how, &x));
    COPSE_TRY_OR(done, s, copse_buffer_create(r->dev, &how, &sum));
    COPSE_TRY_OR(done, s,
                 copse__accumulate_command(r->dev, RANKS, (struct copse_binding){ x, 0, how.size },
                                           (struct copse_binding){ sum, 0, how.size }, COUNT, &c));
    COPSE_TRY_OR(done, s, copse_queue_fill(q, x, 0, how.size, 0x3f800000u));
    COPSE_TRY_OR(done, s, copse_queue_fill(q, sum, 0, how.size, 0));
    for (uint32_t i = 0; i < turns; i++) {
        COPSE_TRY_OR(done, s, copse__queue_encode(q, &c));
        COPSE_TRY_OR(done, s, copse_queue_submit(q, NULL));
    }
    COPSE_TRY_OR(done, s, copse_queue_read(q, sum, 0, got, sizeof got));
    COPSE_TRY_OR(done, s, copse_queue_finish(q));
    for (uint32_t i = 0; i < COUNT; i++)
        if (got[i] != (float)turns)
            copse__conform_set(out, COPSE_VERDICT_FAIL, "element %u counts %g of %u submissions", i,
                               (double)got[i], turns);
done:
    copse_buffer_release(&x);
    copse_buffer_release(&sum);
    copse_queue_release(&q);
    return s;
}

void copse__stress_memory(struct copse_conform_run *r)
{
    struct store_work pretended = { .limit = 2 * MIB, .replicas = 1 };
    struct store_work mirrored = { .limit = 2 * MIB, .replicas = 2 };
    struct store_work own = { .replicas = 1 };
    const struct {
        const char *op, *name;
        copse_conform_fn *run;
        void *user;
    } cases[] = {
        { "binding", "the largest", largest_binding, NULL },
        { "binding", "offsets past 2 GiB", past_2_gib, NULL },
        { "store", "larger than a binding of 2 MiB", large_store, &pretended },
        { "store", "larger than a binding of 2 MiB, 2 replicas", large_store, &mirrored },
        { "store", "larger than the largest binding", large_store, &own },
        { "memory", "exhausted", memory_exhausted, NULL },
        { "queue", "many submissions", many_submissions, NULL },
    };
    for (size_t i = 0; i < COPSE_COUNT(cases); i++)
        copse__conform_one(
            r, &(struct copse_conform_case){ "stress", cases[i].op, cases[i].name, NULL },
            cases[i].run, cases[i].user);
}
