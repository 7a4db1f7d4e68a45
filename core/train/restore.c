/* SPDX-License-Identifier: MIT */
/* Restoring a trainer from a checkpoint: everything is checked before anything is changed. */
#include <stdio.h>
#include <stdlib.h>

#include "copse/train_step.h"
#include "core/train/places.h"
#include "core/train/state.h"

struct loaded {
    const char *path;
    copse_checkpoint *file;
    uint64_t step, seed;
    uint64_t updates, global; /* of servers */
    struct copse_position position;
    struct copse_server_places places; /* the same */
};

/* ---- metadata ---- */

const char *copse__state_text(const copse_checkpoint *file, const char *key)
{
    size_t count;
    const struct copse_metadata *list = copse_checkpoint_metadata(file, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].key, key) == 0)
            return list[i].value;
    return NULL;
}

static const char *find(const struct loaded *l, const char *key)
{
    return copse__state_text(l->file, key);
}

/* Digits only, as written: one text per number. */
copse_status copse__state_number(const char *path, const copse_checkpoint *file, const char *key, uint64_t most,
                                 uint64_t *out)
{
    const char *text = copse__state_text(file, key);
    uint64_t v = 0;
    bool ok = text && *text && (text[0] != '0' || text[1] == '\0');
    for (const char *c = text; ok && *c; c++) {
        const uint64_t digit = (uint64_t)(*c - '0');
        ok = *c >= '0' && *c <= '9' && v <= (most - digit) / 10;
        v = 10 * v + digit;
    }
    if (!ok)
        return copse_fail(COPSE_ERR_FORMAT, "checkpoint: %s: \"%s\" is missing or no number", path, key);
    *out = v;
    return COPSE_OK;
}

static copse_status number(const struct loaded *l, const char *key, uint64_t most, uint64_t *out)
{
    return copse__state_number(l->path, l->file, key, most, out);
}

static copse_status check_checksum(struct copse_mem *mem, const struct loaded *l)
{
    struct copse_checkpoint_params p = { 0 };
    char text[16];
    const char *stored = find(l, COPSE_CHECKSUM_KEY);
    p.arrays = copse_checkpoint_arrays(l->file, &p.array_count);
    p.metadata = copse_checkpoint_metadata(l->file, &p.metadata_count);
    COPSE_TRY(copse__checksum(mem, &p, text));
    if (stored && strcmp(stored, text) == 0)
        return COPSE_OK;
    return copse_fail(COPSE_ERR_FORMAT, "checkpoint: %s is damaged: its checksum is %s, what it holds "
                                        "has %s", l->path, stored ? stored : "missing", text);
}

static copse_status read_metadata(struct copse_mem *mem, struct loaded *l)
{
    uint64_t epoch = 0;
    const char *format = find(l, "format");
    if (!format)
        return copse_fail(COPSE_ERR_FORMAT, "checkpoint: %s has no training state: it holds arrays "
                                            "alone", l->path);
    if (strcmp(format, COPSE_CHECKPOINT_FORMAT) != 0)
        return copse_fail(COPSE_ERR_FORMAT, "checkpoint: %s is of format \"%.40s\", this version "
                                            "reads \"" COPSE_CHECKPOINT_FORMAT "\"", l->path, format);
    COPSE_TRY(check_checksum(mem, l));
    COPSE_TRY(number(l, "step", UINT64_MAX, &l->step));
    COPSE_TRY(number(l, "seed", UINT64_MAX, &l->seed));
    COPSE_TRY(number(l, "batch", UINT64_MAX, &l->position.batch));
    COPSE_TRY(number(l, "epoch", UINT32_MAX, &epoch));
    l->position.epoch = (uint32_t)epoch;
    l->updates = l->step;
    if (find(l, COPSE_UPDATES_KEY))
        COPSE_TRY(number(l, COPSE_UPDATES_KEY, UINT64_MAX, &l->updates));
    return find(l, COPSE_GLOBAL_KEY) ? number(l, COPSE_GLOBAL_KEY, UINT64_MAX, &l->global) : COPSE_OK;
}

/* The optimizer must be the same; what else differs changes the run, and may on purpose. */
static copse_status check_settings(const copse_trainer *t, const struct loaded *l, bool is_loud)
{
    struct copse_setting list[COPSE_SETTINGS];
    const size_t count = copse__settings(t, list);
    for (size_t i = 0; i < count; i++) {
        const char *stored = find(l, list[i].key);
        if (!stored && strcmp(list[i].key, "kernels") == 0)
            stored = find(l, "matmul"); /* the key in older files */
        if (stored && strcmp(stored, list[i].value) == 0)
            continue;
        if (strcmp(list[i].key, "optimizer") == 0)
            return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: %s was made with the optimizer %s, the "
                                                  "trainer has %s",
                              l->path, stored ? stored : "(none)", list[i].value);
        const bool is_layout = strcmp(list[i].key, "replicas") == 0;
        if (is_loud)
            copse__log(&t->strategy->ctx->base.log, is_layout ? COPSE_LOG_INFO : COPSE_LOG_WARN,
                       "checkpoint: %s was made with %s %s, the run goes on with %s", l->path,
                       list[i].key, stored ? stored : "(none)", list[i].value);
    }
    return COPSE_OK;
}

/* ---- arrays ---- */

static void describe(const struct copse_array_view *a, char text[160])
{
    int n = snprintf(text, 160, "%s [", copse_element_name(a->type));
    for (uint32_t i = 0; i < a->rank; i++)
        n += snprintf(text + n, (size_t)(160 - n), i ? ", %zu" : "%zu", a->shape[i]);
    snprintf(text + n, (size_t)(160 - n), "]");
}

static bool is_same_shape(const struct copse_array_view *a, const struct copse_array_view *b)
{
    bool is_same = a->type == b->type && a->rank == b->rank;
    for (uint32_t i = 0; is_same && i < a->rank; i++)
        is_same = a->shape[i] == b->shape[i];
    return is_same;
}

/* Entry i in the file: an array, or the parts of one that follow in the list; or, as older files have them,
   a part alone. *count: entries that this is about. */
static copse_status match_entry(struct copse_state *s, size_t i, const struct loaded *l, size_t *count)
{
    char theirs[160], ours[160];
    struct copse_entry *e = &s->entries[i];
    struct copse_array_view wanted;
    const struct copse_array_view *a = copse_checkpoint_find(l->file, e->name);
    *count = copse__state_join(s, i, &wanted);
    if (!a && e->part_name) {
        a = copse_checkpoint_find(l->file, e->part_name);
        wanted = e->view;
        *count = 1;
    }
    if (!a)
        return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: %s has no '%s'", l->path, e->name);
    if (!is_same_shape(a, &wanted)) {
        describe(a, theirs);
        describe(&wanted, ours);
        return copse_fail(COPSE_ERR_SHAPE, "checkpoint: %s: '%s' is %s, the trainer's is %s", l->path,
                          e->name, theirs, ours);
    }
    for (size_t k = 0; k < *count; k++)
        e[k].view.data = (const char *)a->data + (*count > 1 ? 4 * e[k].variable->part_first : 0);
    return COPSE_OK;
}

static copse_status match(struct copse_state *s, const struct loaded *l)
{
    size_t count;
    for (size_t i = 0; i < s->count; i += count)
        COPSE_TRY(match_entry(s, i, l, &count));
    return COPSE_OK;
}

static copse_status check_extra(const struct copse_state *s, const struct loaded *l)
{
    size_t count;
    const struct copse_named_array *list = copse_checkpoint_arrays(l->file, &count);
    for (size_t i = 0; i < count; i++) {
        bool is_known = strncmp(list[i].name, COPSE_APPLICATION_ARRAY,
                                strlen(COPSE_APPLICATION_ARRAY)) == 0 ||
                        copse__towers_know(&s->towers, list[i].name);
        for (size_t k = 0; k < s->count && !is_known; k++)
            is_known = strcmp(s->entries[k].name, list[i].name) == 0 ||
                       (s->entries[k].part_name && strcmp(s->entries[k].part_name, list[i].name) == 0);
        if (!is_known)
            return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: %s has '%s', which the trainer has not",
                              l->path, list[i].name);
    }
    return COPSE_OK;
}

copse_status copse__state_find(const char *path, const copse_checkpoint *file, struct copse_named_array *as)
{
    char theirs[160], ours[160];
    const struct copse_array_view *a = copse_checkpoint_find(file, as->name);
    if (!a)
        return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: %s has no '%s'", path, as->name);
    if (!is_same_shape(a, &as->array)) {
        describe(a, theirs);
        describe(&as->array, ours);
        return copse_fail(COPSE_ERR_SHAPE, "checkpoint: %s: '%s' is %s, the trainer's is %s", path, as->name,
                          theirs, ours);
    }
    as->array.data = a->data;
    return COPSE_OK;
}

/* ---- taking over ---- */

/* Measured shares are those of the job, as long as it has as many replicas. */
static copse_status take_shares(copse_trainer *t, const struct loaded *l)
{
    const char *text = find(l, COPSE_SHARES_KEY);
    float weights[COPSE_MAX_REPLICAS];
    uint32_t count = 0;
    char *end;
    if (!text || t->params.sharing != COPSE_SHARD_MEASURED)
        return COPSE_OK;
    for (const char *c = text; *c && count < COPSE_MAX_REPLICAS; c = end) {
        const uint32_t bits = (uint32_t)strtoul(c, &end, 16);
        memcpy(&weights[count++], &bits, sizeof bits);
        if (end == c)
            return copse_fail(COPSE_ERR_FORMAT, "checkpoint: %s: \"" COPSE_SHARES_KEY "\" is no list "
                                                "of weights", l->path);
    }
    if (count != t->strategy->rank_total)
        return COPSE_OK; /* measured anew */
    return copse_note(copse_trainer_set_shares(t, weights), "while restoring %s", l->path);
}

/* What belongs to another past. */
static void forget(copse_trainer *t)
{
    t->infeed.count = 0;
    copse__gathered_drop(t);
    for (size_t i = 0; i < t->ring; i++)
        t->slots[i].step = 0;
}

static copse_status take_over(copse_trainer *t, const struct copse_state *s, const struct loaded *l)
{
    const bool was_failed = t->is_failed;
    t->is_failed = true; /* until all is there */
    copse_status status = copse__state_write(s);
    uint64_t updates = l->updates;
    struct copse_server_places places = l->places;
    if (status == COPSE_OK && t->pushes)
        status = copse__pushes_updates(t, true, &updates);
    if (status == COPSE_OK && t->pushes)
        status = copse__pushes_places(t, COPSE_PLACES_SET, &places);
    if (status != COPSE_OK)
        return copse_note(status, "while restoring %s%s", l->path,
                          was_failed ? "" : "; the trainer is not usable any more");
    forget(t);
    t->step = t->taken = l->step;
    t->params.seed = l->seed;
    t->is_failed = false;
    if (!t->pushes)
        return COPSE_OK;
    if (l->global > 0)
        copse_global_step_set(t->strategy, l->global);
    return copse__places_open(t);
}

/* Everything that can be wrong, before anything is changed. */
static copse_status examine(copse_trainer *t, struct loaded *l, struct copse_state *state)
{
    COPSE_TRY(read_metadata(&t->strategy->ctx->base.mem, l));
    COPSE_TRY(check_settings(t, l, false));
    COPSE_TRY(copse__places_read(t, l->path, t->pushes ? find(l, COPSE_PLACES_KEY) : NULL, l->step,
                                 &l->position, &l->places));
    l->places.seed = l->seed;
    COPSE_TRY(copse__state_list(t, true, state));
    COPSE_TRY(match(state, l));
    COPSE_TRY(copse__towers_match(t->strategy, &state->towers, l->path, l->file));
    return check_extra(state, l);
}

static copse_status restore(copse_trainer *t, struct loaded *l)
{
    struct copse_state state = { 0 };
    copse_status s = examine(t, l, &state);
    s = copse__across_finish(t, s, "a checkpoint");
    if (s == COPSE_OK) {
        s = take_shares(t, l);
        if (s == COPSE_OK)
            s = take_over(t, &state, l);
        s = copse__across_finish(t, s, "restoring");
    }
    if (s == COPSE_OK)
        s = check_settings(t, l, true);
    copse__state_fini(&state);
    return s;
}

static copse_status no_path(void)
{
    return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: needs a trainer and a path");
}

/* With several workers the first reads it, and the others get it from there. */
static copse_status load(copse_trainer *t, struct loaded *l)
{
    copse_status s = COPSE_OK;
    if (t->strategy->rank_first == 0)
        s = l->path ? copse_checkpoint_read(t->strategy->ctx, l->path, &l->file) : no_path();
    else if (!l->path)
        l->path = "of the first worker";
    return copse__across_checkpoint(t, s, l->path, &l->file);
}

/* A worker beside the chief of a job with parameter servers. */
static copse_status restore_guest(copse_trainer *t, struct copse_position *position)
{
    struct copse_position at;
    COPSE_TRY(copse__places_await(t, &at));
    forget(t);
    copse__towers_forget(t->strategy);
    t->is_failed = false; /* what counts is with the servers */
    if (position)
        *position = at;
    return COPSE_OK;
}

copse_status copse_trainer_restore(copse_trainer *t, const char *path,
                                   struct copse_position *position, copse_checkpoint **file)
{
    struct loaded l = { .path = path && *path ? path : NULL };
    if (file)
        *file = NULL;
    if (!t)
        return no_path();
    if (copse__places_is_guest(t))
        return restore_guest(t, position);
    copse_status s = load(t, &l);
    if (s == COPSE_OK)
        s = restore(t, &l);
    if (s == COPSE_OK && position)
        *position = l.position;
    if (s == COPSE_OK && file)
        *file = l.file;
    else
        copse_checkpoint_release(&l.file);
    return s;
}
