/* SPDX-License-Identifier: MIT */
/* Writing a trainer: its variables alone, or all of its state as a checkpoint. */
#include <math.h>
#include <stdio.h>
#include <zlib.h>

#include "copse/train_step.h"
#include "core/data/array.h"
#include "core/train/places.h"
#include "core/train/state.h"

#define CHUNK_BYTES ((size_t)64 << 10) /* a multiple of every element size */

/* ---- checksum ---- */

static uLong sum_text(uLong sum, const char *text)
{
    return crc32_z(sum, (const Bytef *)text, strlen(text) + 1);
}

static uLong sum_elements(uLong sum, const struct copse_array_view *a, unsigned char *chunk)
{
    const size_t size = copse_element_size(a->type);
    size_t count, bytes;
    copse__shape_size(a->rank, a->shape, size, &count, &bytes);
    for (size_t at = 0; at < bytes; at += CHUNK_BYTES) {
        const size_t n = COPSE_MIN(CHUNK_BYTES, bytes - at);
        memcpy(chunk, (const char *)a->data + at, n);
        copse__swap_from_little(chunk, n / size, size);
        sum = crc32_z(sum, chunk, n);
    }
    return sum;
}

copse_status copse__checksum(struct copse_mem *mem, const struct copse_checkpoint_params *p,
                             char text[16])
{
    uLong sum = crc32_z(0, NULL, 0);
    unsigned char *chunk = copse__alloc(mem, CHUNK_BYTES, 1);
    if (!chunk)
        return copse_fail(COPSE_ERR_NO_MEMORY, "checkpoint: no memory");
    for (size_t i = 0; i < p->metadata_count; i++)
        if (strcmp(p->metadata[i].key, COPSE_CHECKSUM_KEY) != 0) {
            sum = sum_text(sum, p->metadata[i].key);
            sum = sum_text(sum, p->metadata[i].value);
        }
    for (size_t i = 0; i < p->array_count; i++) {
        sum = sum_text(sum, p->arrays[i].name);
        sum = sum_elements(sum, &p->arrays[i].array, chunk);
    }
    copse__free(mem, chunk);
    snprintf(text, 16, "crc32:%08lx", (unsigned long)sum);
    return COPSE_OK;
}

/* ---- metadata ---- */

static void set_text(struct copse_setting *s, const char *key, const char *value)
{
    s->key = key;
    snprintf(s->value, sizeof s->value, "%s", value);
}

/* 9 digits name every float. With a point, whatever the application's locale has. */
static void set_float(struct copse_setting *s, const char *key, float value)
{
    char text[sizeof s->value];
    size_t used = 0;
    snprintf(text, sizeof text, "%.9g", (double)value);
    for (const char *c = text; *c; c++)
        if (strchr("+-0123456789einfa", *c))
            s->value[used++] = *c;
        else if (used > 0 && s->value[used - 1] != '.')
            s->value[used++] = '.';
    s->value[used] = '\0';
    s->key = key;
}

size_t copse__settings(const copse_trainer *t, struct copse_setting list[COPSE_SETTINGS])
{
    const struct copse_optimizer_params *p = &t->rule.params;
    char kernels[COPSE_CHOICES_TEXT];
    size_t n = 0;
    if (!t->params.loss) { /* no trainer: replicated_state.c */
        set_text(&list[n++], "kernels", copse__choices_text(&t->strategy->choices, kernels));
        list[n].key = "replicas";
        snprintf(list[n].value, sizeof list[n].value, "%u", t->strategy->rank_total);
        return n + 1;
    }
    set_text(&list[n++], "optimizer", copse__rule_name(&t->rule));
    if (p->schedule) /* a function: its values are the application's */
        set_text(&list[n++], "learning_rate", "scheduled");
    else
        set_float(&list[n++], "learning_rate", p->learning_rate);
    if (t->rule.slots == 1)
        set_float(&list[n++], "momentum", p->momentum);
    if (t->rule.slots == 2) {
        set_float(&list[n++], "beta1", p->beta1);
        set_float(&list[n++], "beta2", p->beta2);
        set_float(&list[n++], "epsilon", p->epsilon);
    }
    set_float(&list[n++], "weight_decay", p->weight_decay);
    set_text(&list[n++], "reduction", t->params.reduction == COPSE_LOSS_SUM ? "sum" : "mean");
    set_text(&list[n++], "kernels", copse__choices_text(&t->strategy->choices, kernels));
    set_text(&list[n++], "shares", copse_shard_rule_name(t->params.sharing));
    list[n].key = "replicas";
    snprintf(list[n].value, sizeof list[n].value, "%u", t->strategy->rank_total);
    return n + 1;
}

/* ---- writing ---- */

/* Who does not write has no use for the path. */
static bool is_writer(const copse_trainer *t)
{
    return !t->strategy->cluster || copse_cluster_is_chief(t->strategy->cluster);
}

static copse_status check_whole(const copse_trainer *t, const char *path)
{
    if (!t || (is_writer(t) && (!path || !*path)))
        return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: needs a trainer and a path");
    if (t->is_failed)
        return copse_fail(COPSE_ERR_DEVICE_LOST, "checkpoint: the last update was cut short; the "
                                                 "parameters are not a whole step's");
    return COPSE_OK;
}

static copse_status check_finite(const struct copse_state *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct copse_entry *e = &s->entries[i];
        const float *x = e->view.data;
        if (copse__bucket_of(&s->trainer->buckets, e->variable) == COPSE_NO_BUCKET &&
            !copse__towers_train(e->variable))
            continue;
        for (uint64_t k = 0; k < e->variable->count; k++)
            if (!isfinite(x[k]))
                return copse_fail(COPSE_ERR_NONFINITE,
                                  "checkpoint: '%s' is %s at element %llu after step %llu; it was "
                                  "not written",
                                  e->name, isnan(x[k]) ? "NaN" : "infinite", (unsigned long long)k,
                                  (unsigned long long)s->trainer->step);
    }
    return COPSE_OK;
}

static copse_status check_names(const struct copse_state_params *p)
{
    for (size_t i = 0; i < p->array_count; i++)
        if (!p->arrays[i].name || strncmp(p->arrays[i].name, COPSE_APPLICATION_ARRAY,
                                          strlen(COPSE_APPLICATION_ARRAY)) != 0)
            return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: array %zu of the application: its name "
                                                  "must begin with \"" COPSE_APPLICATION_ARRAY "\"", i);
    for (size_t i = 0; i < p->metadata_count; i++)
        if (!p->metadata[i].key || strncmp(p->metadata[i].key, COPSE_APPLICATION_KEY,
                                           strlen(COPSE_APPLICATION_KEY)) != 0)
            return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: metadata %zu of the application: its key "
                                                  "must begin with \"" COPSE_APPLICATION_KEY "\"", i);
    return COPSE_OK;
}

/* What was measured belongs to the job: a run that goes on must not measure again. */
static void describe_shares(const copse_trainer *t, char text[COPSE_SHARES_TEXT])
{
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t r = 0; t->has_weights && r < t->strategy->rank_total; r++) {
        const float weight = (float)t->weights[r];
        uint32_t bits;
        memcpy(&bits, &weight, sizeof bits);
        at += (size_t)snprintf(text + at, COPSE_SHARES_TEXT - at, r ? " %08x" : "%08x", bits);
    }
}

/* A list of arrays and one of metadata, being filled. */
struct writer {
    struct copse_named_array *arrays;
    struct copse_metadata *metadata;
    size_t array_count, metadata_count;
};

static void put(struct writer *w, const char *key, const char *value)
{
    w->metadata[w->metadata_count++] = (struct copse_metadata){ key, value };
}

static copse_status writer_init(struct writer *w, struct copse_state *s,
                                const struct copse_state_params *p)
{
    *w = (struct writer){ 0 };
    w->arrays = copse__arena_alloc(&s->arena, s->count + p->array_count, sizeof *w->arrays);
    w->metadata = copse__arena_alloc(&s->arena, 10 + COPSE_SETTINGS + p->metadata_count,
                                     sizeof *w->metadata);
    if (!w->arrays || !w->metadata)
        return copse_fail(COPSE_ERR_NO_MEMORY, "checkpoint: no memory");
    for (size_t i = 0; i < s->count;) {
        struct copse_named_array *a = &w->arrays[w->array_count++];
        a->name = s->entries[i].name;
        i += copse__state_join(s, i, &a->array); /* their data stand one behind another */
    }
    for (size_t i = 0; i < p->array_count; i++)
        w->arrays[w->array_count++] = p->arrays[i];
    return COPSE_OK;
}

/* What tower optimizers have, behind what is there; with room for `more` lines of metadata. */
static copse_status put_towers(struct writer *w, struct copse_state *s, size_t more)
{
    const struct copse_tower_state *towers = &s->towers;
    struct copse_named_array *arrays = copse__arena_alloc(&s->arena, w->array_count + towers->count + 1,
                                                          sizeof *arrays);
    struct copse_metadata *lines =
        copse__arena_alloc(&s->arena, w->metadata_count + towers->metadata_count + more, sizeof *lines);
    if (!arrays || !lines)
        return copse_fail(COPSE_ERR_NO_MEMORY, "checkpoint: no memory");
    memcpy(arrays, w->arrays, w->array_count * sizeof *arrays);
    memcpy(lines, w->metadata, w->metadata_count * sizeof *lines);
    w->arrays = arrays;
    w->metadata = lines;
    for (size_t i = 0; i < towers->count; i++)
        w->arrays[w->array_count++] = towers->arrays[i].named;
    for (size_t i = 0; i < towers->metadata_count; i++)
        put(w, towers->metadata[i].key, towers->metadata[i].value);
    return COPSE_OK;
}

static copse_status write_file(copse_trainer *t, const char *path, const struct writer *w)
{
    if (!is_writer(t))
        return COPSE_OK;
    return copse_checkpoint_write(t->strategy->ctx, path,
                                  &(struct copse_checkpoint_params){
                                      .arrays = w->arrays,
                                      .array_count = w->array_count,
                                      .metadata = w->metadata,
                                      .metadata_count = w->metadata_count,
                                  });
}

/* What a job with parameter servers has beside; in the arena. */
static copse_status put_servers(struct writer *w, struct copse_state *s, const struct copse_position *mine)
{
    copse_trainer *t = s->trainer;
    char *texts = copse__arena_alloc(&s->arena, 48 + COPSE_PLACES_TEXT, 1);
    const uint64_t global = copse_global_step(t->strategy);
    if (!texts)
        return copse_fail(COPSE_ERR_NO_MEMORY, "checkpoint: no memory");
    snprintf(texts, 24, "%llu", (unsigned long long)copse__pushes_seen_updates(t));
    put(w, COPSE_UPDATES_KEY, texts);
    snprintf(texts + 24, 24, "%llu", (unsigned long long)global);
    if (global > 0)
        put(w, COPSE_GLOBAL_KEY, texts + 24);
    copse__places_text(t, mine, texts + 48);
    if (texts[48])
        put(w, COPSE_PLACES_KEY, texts + 48);
    return COPSE_OK;
}

static copse_status write_state(struct copse_state *s, const char *path,
                                const struct copse_state_params *p)
{
    copse_trainer *t = s->trainer;
    char numbers[4][24], checksum[16], shares[COPSE_SHARES_TEXT];
    struct copse_setting settings[COPSE_SETTINGS];
    const size_t count = copse__settings(t, settings);
    struct writer w;
    COPSE_TRY(copse__across_merge(s));
    COPSE_TRY(copse__towers_read(&s->towers));
    COPSE_TRY(writer_init(&w, s, p));
    const struct { const char *key; uint64_t value; } counters[4] = {
        { "step", t->step },
        { "seed", t->params.seed },
        { "epoch", p->position.epoch },
        { "batch", p->position.batch },
    };
    put(&w, "producer", "copse");
    put(&w, "format", COPSE_CHECKPOINT_FORMAT);
    if (t->pushes)
        COPSE_TRY(put_servers(&w, s, &p->position));
    for (size_t i = 0; i < COPSE_COUNT(counters); i++) {
        snprintf(numbers[i], sizeof numbers[i], "%llu", (unsigned long long)counters[i].value);
        put(&w, counters[i].key, numbers[i]);
    }
    for (size_t i = 0; i < count; i++)
        put(&w, settings[i].key, settings[i].value);
    describe_shares(t, shares);
    if (shares[0])
        put(&w, COPSE_SHARES_KEY, shares);
    COPSE_TRY(put_towers(&w, s, p->metadata_count + 1)); /* and the checksum */
    for (size_t i = 0; i < p->metadata_count; i++)
        put(&w, p->metadata[i].key, p->metadata[i].value ? p->metadata[i].value : "");
    const struct copse_checkpoint_params covered = { w.arrays, w.array_count, w.metadata,
                                                     w.metadata_count };
    COPSE_TRY(copse__checksum(s->arena.mem, &covered, checksum));
    put(&w, COPSE_CHECKSUM_KEY, checksum);
    return write_file(t, path, &w);
}

/* What a worker can find out alone. */
static copse_status prepare(copse_trainer *t, const char *path, const struct copse_state_params *p,
                            struct copse_state *state)
{
    COPSE_TRY(check_whole(t, path));
    if (copse_trainer_gathered(t) > 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "checkpoint: %u micro-batches are gathered since the last update: finish "
                          "it, or call copse_trainer_flush", copse_trainer_gathered(t));
    COPSE_TRY(check_names(p));
    COPSE_TRY(copse__towers_whole(t->strategy));
    COPSE_TRY(copse__state_list(t, true, state));
    COPSE_TRY(copse__towers_list(t->strategy, &state->towers));
    COPSE_TRY(copse__state_read(state));
    return check_finite(state);
}

copse_status copse_trainer_checkpoint(copse_trainer *t, const char *path,
                                      const struct copse_state_params *params)
{
    static const struct copse_state_params none;
    struct copse_state state = { 0 };
    const struct copse_state_params *p = params ? params : &none;
    if (!t || copse__places_is_guest(t))
        return check_whole(t, path);
    copse_status s = prepare(t, path, p, &state);
    s = copse__across_finish(t, s, "before a checkpoint");
    if (s == COPSE_OK)
        s = copse__across_finish(t, write_state(&state, path, p), "checkpoint");
    if (s == COPSE_OK && t->pushes)
        s = copse__places_open(t);
    copse__state_fini(&state);
    return copse_note(s, "while writing the checkpoint of step %llu", (unsigned long long)t->step);
}

copse_status copse_trainer_save(copse_trainer *t, const char *path)
{
    static const struct copse_state_params none;
    struct copse_state state = { 0 };
    struct writer w;
    char step[24];
    copse_status s = check_whole(t, path);
    if (!t)
        return s;
    if (s == COPSE_OK)
        s = copse__state_list(t, false, &state);
    if (s == COPSE_OK)
        s = copse__state_read(&state);
    if (s == COPSE_OK)
        s = writer_init(&w, &state, &none);
    if (s == COPSE_OK) {
        snprintf(step, sizeof step, "%llu", (unsigned long long)t->step);
        put(&w, "producer", "copse");
        put(&w, "step", step);
        s = write_file(t, path, &w);
    }
    copse__state_fini(&state);
    return copse__across_finish(t, s, "save");
}
