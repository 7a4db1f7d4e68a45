/* SPDX-License-Identifier: MIT */
/* Reads from the file that a state is compared with: lines of metadata, and arrays of a type and
   shape. */
#include "core/state/state.h"

#include "core/data/array.h"

/* ---- metadata ---- */

const char *copse__state_line(const struct copse_state *s, const char *key)
{
    size_t count;
    const struct copse_metadata *list = copse_checkpoint_metadata(s->file, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].key, key) == 0)
            return list[i].value;
    return NULL;
}

/* Only digits, as written: each number has one text. */
copse_status copse__state_number(const struct copse_state *s, const char *key, uint64_t most,
                                 uint64_t *out)
{
    const char *text = copse__state_line(s, key);
    uint64_t v = 0;
    bool ok = text && *text && (text[0] != '0' || text[1] == '\0');
    for (const char *c = text; ok && *c; c++) {
        const uint64_t digit = (uint64_t)(*c - '0');
        ok = *c >= '0' && *c <= '9' && v <= (most - digit) / 10;
        v = 10 * v + digit;
    }
    if (!ok)
        return copse_fail(COPSE_ERR_FORMAT, "checkpoint: %s: \"%s\" is missing or no number",
                          s->path, key);
    *out = v;
    return COPSE_OK;
}

/* ---- arrays ---- */

static bool is_same_shape(const struct copse_array_view *a, const struct copse_array_view *b)
{
    bool is_same = a->type == b->type && a->rank == b->rank;
    for (uint32_t i = 0; is_same && i < a->rank; i++)
        is_same = a->shape[i] == b->shape[i];
    return is_same;
}

copse_status copse__state_check_array(const struct copse_state *s, const char *name,
                                      const struct copse_array_view *found,
                                      const struct copse_array_view *like)
{
    char theirs[160], ours[160];
    if (!found)
        return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: %s has no '%s'", s->path, name);
    if (is_same_shape(found, like))
        return COPSE_OK;
    copse__array_describe(found, theirs);
    copse__array_describe(like, ours);
    return copse_fail(COPSE_ERR_SHAPE, "checkpoint: %s: '%s' is %s, the trainer's is %s", s->path,
                      name, theirs, ours);
}

copse_status copse__state_find(const struct copse_state *s, const char *name,
                               const struct copse_array_view *like, const void **data)
{
    const struct copse_array_view *a = copse_checkpoint_find(s->file, name);
    COPSE_TRY(copse__state_check_array(s, name, a, like));
    *data = a->data;
    return COPSE_OK;
}
