/* SPDX-License-Identifier: MIT */
/* Hashes of the values after a step, and of its launches (copse/train/hash.h): replica 0 computes a
   digest of each variable, and the host reads the digests. */
#include "core/check/probe.h"
#include "core/graph/graph.h"
#include "core/train/trainer.h"

/* A digest reads whole words: a variable that ends within a word is left out. Trained ones have
   whole words. */
static bool is_hashable(const copse_variable *v)
{
    return copse__variable_bytes(v) % COPSE_WORD_BYTES == 0 && copse__variable_values(v, 0).buffer;
}

static size_t hashes_list(const copse_trainer *t, copse_variable **to)
{
    const struct copse_layout *l = &t->recordings.layouts[1];
    size_t count = 0;
    for (size_t i = 0; i < t->trained.count; i++, count++)
        if (to)
            to[count] = t->trained.at[i];
    for (size_t i = 0; i < l->updates.count; i++) {
        if (!is_hashable(l->updates.at[i].variable))
            continue;
        if (to)
            to[count] = l->updates.at[i].variable;
        count++;
    }
    return count;
}

void copse__hashes_free(struct copse_hashes *h, struct copse_mem *mem, bool is_idle)
{
    copse__digests_free(&h->digests, is_idle);
    copse__free(mem, h->variables);
    copse__free(mem, h->results);
    h->variables = NULL;
    h->results = NULL;
    h->count = 0;
}

/* The first step decides which variables are updated. */
static copse_status hashes_make(copse_trainer *t)
{
    struct copse_mem *mem = &t->strategy->ctx->base.mem;
    struct copse_hashes *h = &t->uses.hashes;
    const size_t count = hashes_list(t, NULL);
    if (h->count == count)
        return COPSE_OK;
    copse__hashes_free(h, mem, true);
    h->variables = copse__alloc(mem, count, sizeof(copse_variable *));
    h->results = copse__alloc(mem, count, sizeof *h->results);
    uint64_t *words = copse__alloc(mem, count, sizeof *words);
    copse_status s = h->variables && h->results && words ? COPSE_OK : copse_no_memory("hashes");
    if (s == COPSE_OK) {
        hashes_list(t, h->variables);
        for (size_t i = 0; i < count; i++)
            words[i] = copse__variable_bytes(h->variables[i]) / COPSE_WORD_BYTES;
        s = copse__digests_create(t->strategy->replicas[0].queue, words, (uint32_t)count, 1,
                                  &h->digests);
    }
    copse__free(mem, words);
    if (s == COPSE_OK)
        h->count = count;
    else
        copse__hashes_free(h, mem, true);
    return s;
}

static copse_status hashes_compute(struct copse_hashes *h)
{
    for (size_t i = 0; i < h->count; i++) {
        struct copse_binding at = copse__variable_values(h->variables[i], 0);
        at.size = copse__variable_bytes(h->variables[i]);
        COPSE_TRY(copse__digest_queue(&h->digests, 0, (uint32_t)i, &at));
    }
    COPSE_TRY(copse__digests_read(&h->digests));
    return copse_queue_finish(h->digests.queue);
}

copse_status copse_trainer_hash(copse_trainer *t, struct copse_trainer_hashes *out)
{
    COPSE_TRY(copse_need("trainer", t, out));
    *out = (struct copse_trainer_hashes){ .step = 0 };
    COPSE_TRY(copse__require_no_replica("copse_trainer_hash", t));
    COPSE_TRY(copse__trainer_check(t));
    if (t->optimizer->table->is_sharing)
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "trainer: parameter servers have the variables: their values after a "
                          "step depend on the time, and are not hashed");
    COPSE_TRY(copse_note(hashes_make(t), "while hashing variables"));
    struct copse_hashes *h = &t->uses.hashes;
    COPSE_TRY(copse_note(hashes_compute(h), "while hashing variables"));
    uint64_t all = COPSE_HASH_START;
    for (size_t i = 0; i < h->count; i++) {
        const char *name = h->variables[i]->name;
        const uint64_t hash = copse__digest_hash(&h->digests, 0, (uint32_t)i, COPSE_HASH_START);
        h->results[i] = (struct copse_variable_hash){ name, hash };
        all = copse__hash(all, name, strlen(name) + 1);
        all = copse__hash(all, &hash, sizeof hash);
    }
    *out = (struct copse_trainer_hashes){ t->step, all, h->results, h->count };
    return COPSE_OK;
}

/* ---- launches ---- */

struct hashed_launches {
    const struct copse_hashes *h;
    uint32_t replica;
};

static void launch_note(void *user, size_t number, const char *kernel, uint64_t hash)
{
    const struct hashed_launches *l = user;
    l->h->launch(l->h->launch_user, l->replica, number, kernel, hash);
}

copse_status copse__hashes_launch(const struct copse_hashes *h, copse_strategy *st,
                                  struct copse_program *const *programs)
{
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < st->replica_count && s == COPSE_OK; r++) {
        struct hashed_launches l = { h, r };
        struct copse_probe probe = { .dev = NULL };
        size_t count = 0;
        const uint32_t segments = programs[r] ? copse__program_segments(programs[r]) : 0;
        for (uint32_t i = 0; i < segments && s == COPSE_OK; i++)
            s = copse__probe_clear(copse__program_list(programs[r])[i]);
        for (uint32_t i = 0; i < segments && s == COPSE_OK; i++)
            s = copse__probe_hashes(&probe, copse__program_list(programs[r])[i], &count,
                                    launch_note, &l);
        /* memory that a device may still write to stays */
        if (s == COPSE_OK || copse_queue_finish(st->replicas[r].queue) != COPSE_ERR_TIMEOUT)
            copse__probe_free(&probe);
    }
    return copse_note(s, "while hashing launches");
}

copse_status copse_trainer_hash_launches(copse_trainer *t, uint64_t step, copse_launch_hash_fn *fn,
                                         void *user)
{
    COPSE_TRY(copse_need("trainer", t));
    COPSE_TRY(copse__require_no_replica("copse_trainer_hash_launches", t));
    COPSE_TRY(copse__trainer_check(t));
    struct copse_hashes *h = &t->uses.hashes;
    h->launches_of = fn ? step : 0;
    h->launch = fn;
    h->launch_user = user;
    return COPSE_OK;
}
