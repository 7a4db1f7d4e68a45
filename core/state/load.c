/* SPDX-License-Identifier: MIT */
/* Distributes a checkpoint, which the first worker reads, to all workers. */
#include "core/state/state.h"

#include <stdio.h>

#include "core/data/array.h"
#include "core/state/safetensors.h"

struct message {
    uint64_t header; /* bytes of its text */
    uint32_t status, pad;
    char text[512]; /* the error */
};

static copse_status share_status(struct copse_group *g, copse_status mine, uint64_t *header)
{
    struct message m = { .header = *header, .status = (uint32_t)mine };
    if (mine)
        snprintf(m.text, sizeof m.text, "%s", copse_last_error());
    COPSE_TRY(copse__group_broadcast(g, "whether there is a checkpoint", &m, sizeof m, COPSE_OK));
    m.text[sizeof m.text - 1] = '\0';
    if (m.header > COPSE_ST_HEADER_MAX)
        return copse_fail(
            COPSE_ERR_COMM,
            "checkpoint: a header of %llu bytes from the first worker; it has at most %u",
            (unsigned long long)m.header, COPSE_ST_HEADER_MAX);
    *header = m.header;
    if (m.status)
        copse__fail_again(m.text);
    return copse__status_of(m.status);
}

/* The elements of the arrays that are wanted: from the file, or room for them. */
static copse_status load_fetch(const copse_strategy *st, copse_wants_fn *wants,
                               copse_checkpoint *file)
{
    size_t count;
    copse_array *a;
    const struct copse_named_array *list = copse_checkpoint_arrays(file, &count);
    for (size_t i = 0; i < count; i++)
        if (!wants || wants(st, &list[i]))
            COPSE_TRY(copse__checkpoint_array(file, i, &a));
    return COPSE_OK;
}

static copse_status share_arrays(copse_strategy *st, copse_wants_fn *wants, copse_checkpoint *file)
{
    size_t count;
    copse_array *a;
    const struct copse_named_array *list = copse_checkpoint_arrays(file, &count);
    for (size_t i = 0; i < count; i++)
        if (!wants || wants(st, &list[i])) {
            COPSE_TRY(copse__checkpoint_array(file, i, &a));
            COPSE_TRY(
                copse__group_broadcast(&st->group, list[i].name, a->data, a->bytes, COPSE_OK));
        }
    return COPSE_OK;
}

/* Every worker has the header's text and makes the checkpoint from it. */
static copse_status load_share(copse_strategy *st, copse_status mine, const char *path,
                               copse_wants_fn *wants, copse_checkpoint **file)
{
    struct copse_group *g = &st->group;
    const bool is_reader = g->worker == 0;
    char *text = NULL;
    if (g->workers == 1)
        return mine;
    if (is_reader && mine == COPSE_OK)
        mine = copse__checkpoint_header(*file, &text);
    uint64_t size = text ? strlen(text) : 0;
    copse_status s = share_status(g, mine, &size);
    if (s == COPSE_OK && !is_reader)
        text = copse__alloc(&st->ctx->base.mem, (size_t)size, 1);
    if (s == COPSE_OK)
        s = copse__group_vote(g, text ? COPSE_OK : copse_no_memory("checkpoint"),
                              "room for a checkpoint");
    if (s == COPSE_OK)
        s = copse__group_broadcast(g, "the header of a checkpoint", text, (size_t)size, COPSE_OK);
    if (s == COPSE_OK) {
        if (!is_reader)
            s = copse__checkpoint_parse(st->ctx, path, text, (size_t)size, NULL, file);
        if (!is_reader && s == COPSE_OK)
            s = load_fetch(st, wants, *file);
        s = copse__group_vote(g, s, "the header of a checkpoint");
    }
    if (s == COPSE_OK)
        s = share_arrays(st, wants, *file);
    copse__free(&st->ctx->base.mem, text);
    return s;
}

static copse_status load_read(copse_strategy *st, const char *path, copse_wants_fn *wants,
                              copse_checkpoint **file)
{
    if (!path)
        return copse_fail(COPSE_ERR_ARGUMENT, "checkpoint: the path is NULL or empty");
    if (!wants)
        return copse_checkpoint_read(st->ctx, path, file);
    COPSE_TRY(copse_checkpoint_open(st->ctx, path, file));
    const copse_status s = load_fetch(st, wants, *file);
    if (s != COPSE_OK)
        copse_checkpoint_release(file);
    return s;
}

copse_status copse__state_load(copse_strategy *st, const char *path, copse_wants_fn *wants,
                               copse_checkpoint **file)
{
    const copse_status s = st->group.first == 0 ? load_read(st, path, wants, file) : COPSE_OK;
    return load_share(st, s, path ? path : "of the first worker", wants, file);
}
