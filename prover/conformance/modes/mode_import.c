/* SPDX-License-Identifier: MIT */
/* Mode import: the cases on a device that an application lends and continues to use from its own
   thread, on the same queue. The library plays the application: it opens its own device and imports
   the driver's objects of that device. Results must have the bits of the library's own device,
   results of the application must be correct, and its lock must be taken for every case, never
   twice, and released. */
#include <stdio.h>

#include "prover/conformance/modes/modes.h"

#define WORDS    1024u
#define PAUSE_NS 200000u
#define START_NS 30000000000ull

/* ---- the application's lock, which watches who takes it ---- */

static COPSE_THREAD_LOCAL char thread; /* its address identifies the thread */

struct watch {
    copse_mutex lock;
    _Atomic(const char *) holder;
    atomic_uint taken; /* by threads other than the application's */
    atomic_uint nested, unbalanced;
    _Atomic(const char *) own; /* the application's thread */
};

static void take_lock(void *user)
{
    struct watch *w = user;
    if (atomic_load(&w->holder) == &thread) {
        atomic_fetch_add(&w->nested, 1u);
        return;
    }
    copse__mutex_lock(&w->lock);
    atomic_store(&w->holder, &thread);
    if (atomic_load(&w->own) != &thread)
        atomic_fetch_add(&w->taken, 1u);
}

static void give_lock(void *user)
{
    struct watch *w = user;
    if (atomic_load(&w->holder) != &thread) {
        atomic_fetch_add(&w->unbalanced, 1u);
        return;
    }
    atomic_store(&w->holder, NULL);
    copse__mutex_unlock(&w->lock);
}

/* ---- the application ---- */

struct copse_lending {
    copse_device *own;  /* the application's */
    copse_queue *queue; /* used by the application's thread */
    copse_buffer *buffers[2];
    copse_device *lent; /* the same device, lent */
    struct watch watch;
    copse_thread thread;
    bool has_lock, has_thread;
    atomic_bool is_over;
    atomic_uint rounds;
    atomic_int status; /* of the thread, which owns the text until it has ended or failed */
    char text[256];
};

static copse_status mode_import_work(struct copse_lending *l, uint32_t round)
{
    uint32_t got[WORDS] = { 0 };
    COPSE_TRY(copse_queue_fill(l->queue, l->buffers[0], 0, sizeof got, round));
    COPSE_TRY(copse_queue_copy(l->queue, l->buffers[0], 0, l->buffers[1], 0, sizeof got));
    COPSE_TRY(copse_queue_read(l->queue, l->buffers[1], 0, got, sizeof got));
    COPSE_TRY(copse_queue_finish(l->queue));
    for (uint32_t i = 0; i < WORDS; i++)
        if (got[i] != round)
            return copse_fail(COPSE_ERR_INTERNAL,
                              "conformance: word %u of the application's own is %08x in round %u",
                              i, got[i], round);
    return COPSE_OK;
}

static void use_queue(void *user)
{
    struct copse_lending *l = user;
    atomic_store(&l->watch.own, &thread);
    for (uint32_t round = 1; !atomic_load(&l->is_over); round++) {
        const copse_status s = mode_import_work(l, round);
        if (s) {
            snprintf(l->text, sizeof l->text, "%s", copse_last_error());
            atomic_store(&l->status, (int)s);
            return;
        }
        atomic_fetch_add(&l->rounds, 1u);
        copse__sleep_ns(PAUSE_NS);
    }
}

static void mode_import_stop(struct copse_lending *l)
{
    atomic_store(&l->is_over, true);
    if (l->has_thread)
        copse__thread_join(&l->thread);
    copse_device_release(&l->lent);
    copse_buffer_release(&l->buffers[0]);
    copse_buffer_release(&l->buffers[1]);
    copse_queue_release(&l->queue);
    copse_device_release(&l->own);
    if (l->has_lock)
        copse__mutex_fini(&l->watch.lock);
    *l = (struct copse_lending){ .has_lock = false };
}

/* Overrides of library kernels on r->dev also apply on the lent device. */
static copse_status replace_kernels(const copse_device *from, copse_device *to)
{
    for (size_t i = 0; from->overrides && i < copse_kernel_count; i++)
        if (from->overrides[i])
            COPSE_TRY(copse__kernel_override(to, (enum copse_kernel_id)i, from->overrides[i]));
    return COPSE_OK;
}

static copse_status mode_import_start(struct copse_conform_run *r, struct copse_lending *l)
{
    const struct copse_queue_guard guard = { take_lock, give_lock, &l->watch };
    const struct copse_buffer_params size = { .size = COPSE_WORD_BYTES * WORDS };
    if (!r->dev->backend->lend || r->dev->foreign)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "conformance: %s is nothing that could be lent",
                          r->dev->info.id);
    COPSE_TRY(copse__mutex_init(&l->watch.lock));
    l->has_lock = true;
    COPSE_TRY(copse_device_open(r->ctx, r->dev->info.id, NULL, &l->own));
    COPSE_TRY(copse_queue_create(l->own, &l->queue));
    COPSE_TRY(copse_buffer_create(l->own, &size, &l->buffers[0]));
    COPSE_TRY(copse_buffer_create(l->own, &size, &l->buffers[1]));
    COPSE_TRY(r->dev->backend->lend(l->queue, &guard, &l->lent));
    l->lent->tries_blocked = true;
    COPSE_TRY(replace_kernels(r->dev, l->lent));
    COPSE_TRY(copse__thread_start(&l->thread, use_queue, l));
    l->has_thread = true;
    const uint64_t deadline = copse__now_ns() + START_NS;
    while (!atomic_load(&l->rounds) && !atomic_load(&l->status) && copse__now_ns() < deadline)
        copse__sleep_ns(PAUSE_NS);
    if (!atomic_load(&l->rounds) && !atomic_load(&l->status))
        return copse_fail(COPSE_ERR_TIMEOUT,
                          "conformance: the application does not come to do its "
                          "own work on %s",
                          r->dev->info.id);
    return COPSE_OK;
}

/* Lends at the first case, and again after the device was lost. */
static copse_status mode_import_lend(struct copse_conform_run *r)
{
    struct copse_lending *l = r->lending;
    if (l->lent && !copse__device_check(l->lent))
        return COPSE_OK;
    mode_import_stop(l);
    const copse_status s = mode_import_start(r, l);
    if (s)
        mode_import_stop(l);
    return s;
}

/* ---- ops ---- */

static copse_status run_on(struct copse_rig *rig, copse_device *dev, const char *variant,
                           struct copse_rig_program **p, struct copse_conform_outcome *out)
{
    COPSE_TRY(copse__rig_program_open(rig, dev, variant, p));
    return copse__rig_program_run(*p, out);
}

static void compare_bits(const struct copse_rig *rig, const struct copse_rig_program *own,
                         const struct copse_rig_program *lent, struct copse_conform_outcome *out)
{
    uint64_t hash = COPSE_HASH_START;
    for (size_t i = 0; i < rig->out_count; i++) {
        const size_t count = (size_t)copse__elements(rig->out[i]->shape);
        const uint32_t *a = copse__rig_program_bits(own, i), *b = copse__rig_program_bits(lent, i);
        hash = copse__hash(hash, b, COPSE_WORD_BYTES * count);
        for (size_t k = 0; k < count; k++)
            if (a[k] != b[k])
                copse__conform_set(out, COPSE_VERDICT_FAIL,
                                   "element %zu of result %zu is %08x on the lent device, %08x on "
                                   "the library's own",
                                   k, i, b[k], a[k]);
    }
    copse__conform_digest(out, &hash, sizeof hash);
}

/* Check the application's side; `before`: the number of lock calls before the case. */
static void check_application(const struct copse_lending *l, unsigned before,
                              struct copse_conform_outcome *out)
{
    const unsigned nested = atomic_load(&l->watch.nested);
    const unsigned unbalanced = atomic_load(&l->watch.unbalanced);
    if (atomic_load(&l->watch.taken) == before)
        copse__conform_set(out, COPSE_VERDICT_FAIL,
                           "work was submitted without the application's lock");
    if (nested || unbalanced)
        copse__conform_set(out, COPSE_VERDICT_FAIL,
                           "the application's lock was taken %u times by a thread that had it, and "
                           "given back %u times by one that had it not",
                           nested, unbalanced);
    if (atomic_load(&l->status))
        copse__conform_set(out, COPSE_VERDICT_FAIL, "the application's own work fails: %s",
                           l->text);
}

static copse_status mode_import_op(struct copse_conform_run *r, const struct copse_case *c,
                                   const char *variant, struct copse_conform_outcome *out)
{
    struct copse_rig rig;
    struct copse_rig_program *own = NULL, *lent = NULL;
    copse_status s;
    COPSE_TRY(mode_import_lend(r));
    const unsigned before = atomic_load(&r->lending->watch.taken);
    COPSE_TRY_OR(done, s,
                 copse__rig_open(r->ctx, c, out->result.seed, copse__case_has_gradient(c), &rig));
    COPSE_TRY_OR(done, s, run_on(&rig, r->dev, variant, &own, out));
    COPSE_TRY_OR(done, s, run_on(&rig, r->lending->lent, variant, &lent, out));
    compare_bits(&rig, own, lent, out);
    check_application(r->lending, before, out);
    COPSE_TRY_OR(done, s, copse__rig_expect(&rig));
    s = copse__rig_judge(lent, 0, out);
done:
    copse__rig_program_close(&own);
    copse__rig_program_close(&lent);
    copse__rig_close(&rig);
    return s;
}

/* ---- training, first in order: a time box may end the run ---- */

struct training {
    /* the second replica's device; "" = the lent one again; NULL = one replica */
    const char *beside;
};

static copse_status mode_import_train(struct copse_conform_run *r, void *user,
                                      struct copse_conform_outcome *out)
{
    const struct training *t = user;
    uint64_t own = 0, lent = 0;
    COPSE_TRY(mode_import_lend(r));
    const unsigned before = atomic_load(&r->lending->watch.taken);
    const char *const id = r->lending->lent->info.id, *const ids[] = { id, t->beside };
    if (t->beside && !*t->beside) {
        COPSE_TRY(copse__conform_train_hash(r, (const char *[]){ id, id }, 2, &lent));
    } else {
        COPSE_TRY(copse__conform_train_hash(r, ids, t->beside ? 2 : 1, &lent));
        COPSE_TRY(copse__conform_train_hash(r, (const char *[]){ r->dev->info.id, t->beside },
                                            t->beside ? 2 : 1, &own));
        out->result.metric = "bits";
        if (own != lent)
            copse__conform_set(out, COPSE_VERDICT_FAIL,
                               "training ends with other bits than on the library's own device");
    }
    copse__conform_digest(out, &lent, sizeof lent);
    check_application(r->lending, before, out);
    return COPSE_OK;
}

copse_status copse__conform_import(struct copse_conform_run *r)
{
    static const struct {
        const char *name;
        struct training training;
    } trainings[] = {
        { "1 replica", { NULL } },
        { "with host:0", { "host:0" } },
        { "2 replicas on one lent device", { "" } },
    };
    struct copse_lending lending = { .has_lock = false };
    r->lending = &lending;
    for (size_t i = 0; i < COPSE_COUNT(trainings); i++) {
        struct training t = trainings[i].training;
        copse__conform_one(r,
                           &(struct copse_conform_case){ "import", "mlp", trainings[i].name, NULL },
                           mode_import_train, &t);
    }
    copse__conform_walk(r, "import", NULL, mode_import_op);
    mode_import_stop(&lending);
    r->lending = NULL;
    return COPSE_OK;
}
