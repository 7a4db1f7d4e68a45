/* SPDX-License-Identifier: MIT */
/* Compares a state with a file: everything is checked before anything is changed. */
#include "core/state/state.h"

copse_status copse__state_check_checksum(const struct copse_state *s)
{
    struct copse_checkpoint_params p = { 0 };
    char text[16];
    const char *stored = copse__state_line(s, COPSE_CHECKSUM_KEY);
    p.arrays = copse_checkpoint_arrays(s->file, &p.array_count);
    p.metadata = copse_checkpoint_metadata(s->file, &p.metadata_count);
    COPSE_TRY(copse__checksum(&s->strategy->ctx->base.mem, &p, text));
    if (stored && strcmp(stored, text) == 0)
        return COPSE_OK;
    return copse_fail(COPSE_ERR_FORMAT,
                      "checkpoint: %s is damaged: its checksum is %s, what it holds "
                      "has %s",
                      s->path, stored ? stored : "missing", text);
}

copse_status copse__state_open(struct copse_state *s, const char *path,
                               const copse_checkpoint *file, struct copse_state_counters *out)
{
    uint64_t epoch = 0;
    s->path = path ? path : "of the first worker";
    s->file = file;
    const char *format = copse__state_line(s, "format");
    if (!format)
        return copse_fail(COPSE_ERR_FORMAT,
                          "checkpoint: %s has no training state: it holds arrays "
                          "alone",
                          s->path);
    if (strcmp(format, COPSE_CHECKPOINT_FORMAT) != 0)
        return copse_fail(COPSE_ERR_FORMAT,
                          "checkpoint: %s is of format \"%.40s\", this version "
                          "reads \"" COPSE_CHECKPOINT_FORMAT "\"",
                          s->path, format);
    COPSE_TRY(copse__state_check_checksum(s));
    *out = (struct copse_state_counters){ .step = 0 };
    COPSE_TRY(copse__state_number(s, "step", UINT64_MAX, &out->step));
    COPSE_TRY(copse__state_number(s, "seed", UINT64_MAX, &out->seed));
    COPSE_TRY(copse__state_number(s, "batch", UINT64_MAX, &out->position.batch));
    COPSE_TRY(copse__state_number(s, "epoch", UINT32_MAX, &epoch));
    out->position.epoch = (uint32_t)epoch;
    out->updates = out->step;
    if (copse__state_line(s, COPSE_UPDATES_KEY))
        COPSE_TRY(copse__state_number(s, COPSE_UPDATES_KEY, UINT64_MAX, &out->updates));
    return copse__state_line(s, COPSE_GLOBAL_KEY)
               ? copse__state_number(s, COPSE_GLOBAL_KEY, UINT64_MAX, &out->global)
               : COPSE_OK;
}

copse_status copse__state_check_settings(const struct copse_state *s, bool is_loud)
{
    for (size_t i = 0; i < s->setting_count; i++) {
        const struct copse_setting *here = &s->settings[i];
        const char *stored = copse__state_line(s, here->key);
        if (!stored && strcmp(here->key, "kernels") == 0)
            stored = copse__state_line(s, "matmul"); /* the key in older files */
        if (stored && strcmp(stored, here->value) == 0)
            continue;
        if (strcmp(here->key, "optimizer") == 0)
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "checkpoint: %s was made with the optimizer %s, the "
                              "trainer has %s",
                              s->path, stored ? stored : "(none)", here->value);
        const bool is_layout = strcmp(here->key, "replicas") == 0;
        if (is_loud)
            copse__log(&s->strategy->ctx->base.log, is_layout ? COPSE_LOG_INFO : COPSE_LOG_WARN,
                       "checkpoint: %s was made with %s %s, the run continues with %s", s->path,
                       here->key, stored ? stored : "(none)", here->value);
    }
    return COPSE_OK;
}

/* Entry i in the file: an array, or the parts of one that follow in the list; or, as in older
 * files, a single part. count: the number of entries covered. */
static copse_status match_entry(struct copse_state *s, size_t i, size_t *count)
{
    struct copse_state_entry *e = &s->entries.at[i];
    struct copse_array_view wanted;
    const struct copse_array_view *a = copse_checkpoint_find(s->file, e->name);
    *count = copse__state_whole(s, i, &wanted);
    if (!a && e->part_name) {
        a = copse_checkpoint_find(s->file, e->part_name);
        wanted = e->view;
        *count = 1;
    }
    COPSE_TRY(copse__state_check_array(s, e->name, a, &wanted));
    for (size_t k = 0; k < *count; k++)
        e[k].view.data = (const char *)a->data + (*count > 1 ? 4 * e[k].variable->part_first : 0);
    return COPSE_OK;
}

static bool is_known(const struct copse_state *s, const char *name)
{
    if (strncmp(name, COPSE_APPLICATION_ARRAY, strlen(COPSE_APPLICATION_ARRAY)) == 0)
        return true;
    for (size_t i = 0; i < s->entries.count; i++) {
        const struct copse_state_entry *e = &s->entries.at[i];
        if (strcmp(e->name, name) == 0 || (e->part_name && strcmp(e->part_name, name) == 0))
            return true;
    }
    return copse__state_is_component(s->strategy, name);
}

copse_status copse__state_match(struct copse_state *s)
{
    size_t count;
    for (size_t i = 0; i < s->entries.count; i += count)
        COPSE_TRY(match_entry(s, i, &count));
    COPSE_TRY(copse__state_match_named(s));
    const struct copse_named_array *list = copse_checkpoint_arrays(s->file, &count);
    for (size_t i = 0; i < count; i++)
        if (!is_known(s, list[i].name))
            return copse_fail(COPSE_ERR_ARGUMENT,
                              "checkpoint: %s has '%s', which the trainer has not", s->path,
                              list[i].name);
    return COPSE_OK;
}
