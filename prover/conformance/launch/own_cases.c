/* SPDX-License-Identifier: MIT */
/* Cases of a user's kernel with its own grid: a launch for each class of values, and repeated
   launches. With a reference the results are compared; without one every word of the guards and of
   the buffers that are only read is. */
#include <stdio.h>

#include "prover/conformance/launch/launch.h"
#include "prover/conformance/verdict/own_launch.h"

struct own_work {
    const struct copse_own_launch *own;
    enum copse_values values;
    bool is_repeated;
};

/* The launch as mode launch has it, and the one of the reference: other buffers, parameters and
   constants. */
struct own_pair {
    struct copse_launch_form form, reference_form;
    struct copse_launch launch, reference;
};

static void own_plan(const struct own_work *w, uint32_t kernel, uint64_t seed, struct own_pair *out)
{
    const struct copse_own_launch *o = w->own;
    *out = (struct own_pair){ .form = { .kernel = kernel, .name = "" } };
    struct copse_launch *l = &out->launch;
    *l = (struct copse_launch){ .form = &out->form,
                                .regime = COPSE_REGIME_MANY,
                                .values = w->values,
                                .seed = seed,
                                .group_x = o->group[0],
                                .group_y = o->group[1],
                                .per = 1,
                                .groups = (uint64_t)o->grid[0] * o->grid[1],
                                .grid = { o->grid[0], o->grid[1] } };
    memcpy(l->params, o->params, sizeof l->params);
    memcpy(l->spec, o->spec, sizeof l->spec);
    for (uint32_t i = 0; i < o->buffer_count; i++) {
        const struct copse_own_buffer *b = &o->buffers[i];
        l->counts[i] = b->words;
        l->range = COPSE_MAX(l->range, b->below);
        out->form.contents[i] = b->is_whole
                                    ? (!b->is_read ? COPSE_CONTENT_WORDS : COPSE_CONTENT_WHOLE)
                                    : (!b->is_read ? COPSE_CONTENT_RESULT : COPSE_CONTENT_VALUES);
    }
}

static void plan_reference(const struct own_work *w, struct own_pair *out)
{
    const struct copse_own_launch *o = w->own;
    const struct copse_kernel_row *row = &copse_kernel_table[o->reference];
    struct copse_limit limit;
    copse__law_limit(row->law, NULL, o->reference_spec, &limit);
    out->reference_form = (struct copse_launch_form){ .kernel = (enum copse_kernel_id)o->reference,
                                                      .name = "",
                                                      .is_single = limit.is_single };
    out->reference = out->launch;
    out->reference.form = &out->reference_form;
    memcpy(out->reference.params, o->reference_params, sizeof o->reference_params);
    memcpy(out->reference.spec, o->reference_spec, sizeof o->reference_spec);
    for (uint32_t a = 0; a < row->arg_count; a++) {
        const int32_t at = o->buffer_of[a];
        const bool is_whole = row->args[a].kind == COPSE_ARG_I32;
        out->reference.counts[a] = at < 0 ? 0 : o->buffers[at].words;
        out->reference_form.contents[a] = is_whole ? COPSE_CONTENT_WHOLE : COPSE_CONTENT_VALUES;
    }
}

/* i32 with a limit. */
static void fill_indices(const struct copse_own_launch *o, uint64_t seed,
                         struct copse_launch_rig *g)
{
    for (uint32_t i = 0; i < o->buffer_count; i++)
        for (uint64_t k = 0; o->buffers[i].below > 0 && k < o->buffers[i].words; k++) {
            const uint64_t key[] = { seed, i, k };
            copse__launch_words(g->before[i])[k] =
                (uint32_t)((copse__hash(COPSE_HASH_START, key, sizeof key) >> 24) %
                           o->buffers[i].below);
        }
}

static copse_status own_judge(struct copse_conform_run *r, const struct own_work *w,
                              const struct own_pair *p, const struct copse_launch_rig *g,
                              struct copse_conform_outcome *out)
{
    const struct copse_kernel_row *row = &copse_kernel_table[w->own->reference];
    struct copse_launch_image image = { .launch = &p->reference,
                                        .limit = &w->own->limit,
                                        .row = row };
    for (uint32_t a = 0; a < row->arg_count; a++) {
        const int32_t at = w->own->buffer_of[a];
        image.before[a] = at < 0 ? NULL : copse__launch_words(g->before[at]);
        image.after[a] = at < 0 ? NULL : copse__launch_words(g->after[at]);
    }
    return copse__launch_judge(r, &image, g->dev->limits->keeps_denormals, out);
}

static void check_written(const struct copse_own_launch *o, const struct copse_launch_rig *g,
                          struct copse_conform_outcome *out)
{
    for (uint32_t i = 0; i < o->buffer_count; i++)
        if (o->buffers[i].is_written &&
            memcmp(copse__launch_words(g->before[i]), copse__launch_words(g->after[i]),
                   COPSE_WORD_BYTES * (size_t)o->buffers[i].words) == 0)
            copse__conform_set(out, COPSE_VERDICT_FAIL,
                               "the kernel changed no word of buffer %u, which is a result",
                               (unsigned)i);
}

/* More runs must leave the bits of the first one. */
static copse_status own_repeat(struct copse_conform_run *r, const struct own_work *w,
                               const struct copse_launch *l, struct copse_kernel *k,
                               struct copse_launch_rig *g, struct copse_conform_outcome *out)
{
    const struct copse_own_launch *o = w->own;
    uint32_t *first[COPSE_MAX_BINDINGS] = { NULL };
    copse_status s = COPSE_OK;
    for (uint32_t i = 0; i < o->buffer_count && s == COPSE_OK; i++) {
        s = copse__conform_memory(r, o->buffers[i].words, COPSE_WORD_BYTES, &first[i]);
        if (s == COPSE_OK)
            memcpy(first[i], copse__launch_words(g->after[i]),
                   COPSE_WORD_BYTES * (size_t)o->buffers[i].words);
    }
    for (uint32_t run = 1;
         run < o->runs && s == COPSE_OK && out->result.verdict == COPSE_VERDICT_PASS; run++) {
        s = copse__launch_run(l, k, g);
        for (uint32_t i = 0; i < o->buffer_count && s == COPSE_OK; i++)
            for (size_t n = 0; n < o->buffers[i].words; n++)
                if (copse__launch_words(g->after[i])[n] != first[i][n]) {
                    copse__conform_set(
                        out, COPSE_VERDICT_FAIL,
                        "run %u of the same launch has other bits: word %zu of buffer %u "
                        "is %#010x, in the first run %#010x",
                        (unsigned)run + 1, n, (unsigned)i,
                        (unsigned)copse__launch_words(g->after[i])[n], (unsigned)first[i][n]);
                    break;
                }
    }
    for (uint32_t i = 0; i < o->buffer_count; i++)
        copse__free(&r->ctx->base.mem, first[i]);
    return s;
}

static copse_status get_kernel(struct copse_conform_run *r, const struct copse_own_launch *o,
                               struct copse_kernel **out)
{
    uint32_t id;
    copse__own_row_launch(r->own, &id);
    COPSE_TRY(copse__kernel_get(r->dev, (enum copse_kernel_id)id, o->spec, out));
    if ((*out)->group_x != o->group[0] || (*out)->group_y != o->group[1])
        return copse_fail(COPSE_ERR_UNSUPPORTED,
                          "a group of %ux%u: %s runs up to %u invocations in a group",
                          (unsigned)o->group[0], (unsigned)o->group[1], r->dev->info.id,
                          r->dev->limits->max_group_size);
    const uint32_t most = r->dev->limits->max_group_count;
    if (o->grid[0] > most || o->grid[1] > most)
        return copse_fail(COPSE_ERR_UNSUPPORTED, "%ux%u groups: %s has up to %u along an axis",
                          (unsigned)o->grid[0], (unsigned)o->grid[1], r->dev->info.id,
                          (unsigned)most);
    return COPSE_OK;
}

static copse_status own_check(struct copse_conform_run *r, void *user,
                              struct copse_conform_outcome *out)
{
    const struct own_work *w = user;
    struct copse_launch_rig g = { .queue = NULL };
    struct own_pair *p;
    struct copse_kernel *k;
    out->result.metric = "";
    COPSE_TRY(get_kernel(r, w->own, &k));
    COPSE_TRY(copse__conform_memory(r, 1, sizeof *p, &p));
    own_plan(w, k->id, out->result.seed, p);
    if (w->own->has_reference)
        plan_reference(w, p);
    copse_status s = copse__launch_open(r, r->dev, &p->launch, w->own->buffer_count, &g);
    if (s == COPSE_OK) {
        fill_indices(w->own, out->result.seed, &g);
        s = copse__launch_run(&p->launch, k, &g);
    }
    if (s == COPSE_OK) {
        copse__launch_check_untouched(&p->launch, k->row, &g, out);
        check_written(w->own, &g, out);
        s = w->is_repeated          ? own_repeat(r, w, &p->launch, k, &g, out)
            : w->own->has_reference ? own_judge(r, w, p, &g, out)
                                    : COPSE_OK;
    }
    copse__launch_close(r, &g);
    copse__free(&r->ctx->base.mem, p);
    return s;
}

static void own_take(struct copse_conform_run *r, const struct own_work *w, const char *name)
{
    struct own_work work = *w;
    if (!r->is_stopped)
        copse__conform_one(
            r, &(struct copse_conform_case){ "launch", w->own->kernel, name, w->own->kernel },
            own_check, &work);
}

copse_status copse__own_launch_cases(struct copse_conform_run *r)
{
    struct copse_own_launch o;
    char name[64];
    COPSE_TRY(copse__own_launch_read(&r->ctx->base.mem, r->params->own, &o));
    for (unsigned v = 0; v < COPSE_VALUES_COUNT; v++) {
        if (!(o.values & COPSE_BIT(v)))
            continue;
        snprintf(name, sizeof name, "%ux%u groups, %s", (unsigned)o.grid[0], (unsigned)o.grid[1],
                 copse_values_names[v]);
        own_take(r, &(struct own_work){ &o, (enum copse_values)v, false }, name);
    }
    snprintf(name, sizeof name, "%u runs, the same bits", (unsigned)o.runs);
    own_take(r, &(struct own_work){ &o, COPSE_VALUES_USUAL, true }, name);
    return COPSE_OK;
}
