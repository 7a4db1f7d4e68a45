/* SPDX-License-Identifier: MIT */
/* A shelf's life and its variables. Queues are in order: what reads a variable sees every update that was
   queued before, so nothing here waits but reads. */
#include <stdio.h>

#include "core/ps/shelf.h"

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "parameter server: no memory");
}

static struct copse_mem *mem_of(struct copse_shelf *s)
{
    return &s->ctx->base.mem;
}

static struct copse_shelf *shelf_of(struct copse_server *s)
{
    return (struct copse_shelf *)(void *)s;
}

/* ---- life ---- */

static void free_variable(struct copse_shelf *s, struct copse_shelf_variable *v)
{
    copse__free(mem_of(s), v->name);
    copse_buffer_release(&v->values);
    copse_buffer_release(&v->gradient);
}

void copse__shelf_release(struct copse_shelf **at)
{
    struct copse_shelf *s = *at;
    if (!s)
        return;
    *at = NULL;
    copse_context *ctx = s->ctx;
    if (s->queue && copse_queue_finish(s->queue) == COPSE_ERR_TIMEOUT)
        s->is_stuck = true;
    for (size_t i = 0; i < s->groups.count; i++)
        copse__shelf_do_drop(&s->server, (uint32_t)i);
    for (size_t i = 0; i < s->variables.count; i++)
        free_variable(s, &s->variables.at[i]);
    copse__free(mem_of(s), s->groups.at);
    copse__free(mem_of(s), s->variables.at);
    if (!s->is_stuck)
        copse__free(mem_of(s), s->landing);
    copse_buffer_release(&s->step);
    copse_queue_release(&s->queue);
    copse_device_release(&s->dev);
    copse__free(mem_of(s), s);
    copse_context_release(&ctx);
}

static copse_status open_device(struct copse_shelf *s, const char *device)
{
    COPSE_TRY(copse_device_open(s->ctx, device, NULL, &s->dev));
    COPSE_TRY(copse_queue_create(s->dev, &s->queue));
    return copse_buffer_create(
        s->dev, &(struct copse_buffer_params){ .size = 4 * COPSE_STEP_WORDS }, &s->step);
}

copse_status copse__shelf_create(copse_context *ctx, const char *device, struct copse_shelf **out)
{
    *out = NULL;
    struct copse_shelf *s = copse__alloc(&ctx->base.mem, 1, sizeof *s);
    if (!s)
        return no_memory();
    s->ctx = copse_context_retain(ctx);
    s->server = (struct copse_server){ &copse__shelf_table, ctx };
    const copse_status status = open_device(s, device);
    if (status) {
        copse__shelf_release(&s);
        return copse_note(status, "while opening the parameter device %s", device);
    }
    *out = s;
    return COPSE_OK;
}

copse_status copse__server_here(copse_context *ctx, const char *device, struct copse_server **out)
{
    struct copse_shelf *s;
    *out = NULL;
    COPSE_TRY(copse__shelf_create(ctx, device, &s));
    *out = &s->server;
    return COPSE_OK;
}

static void shelf_leave(struct copse_server *server)
{
    struct copse_shelf *s = shelf_of(server);
    copse__shelf_release(&s);
}

void copse__server_release(struct copse_server **at)
{
    if (*at)
        (*at)->table->leave(*at);
    *at = NULL;
}

/* ---- what is there ---- */

copse_status copse__shelf_find(struct copse_shelf *s, uint32_t id, struct copse_shelf_variable **out)
{
    *out = NULL;
    if (id >= s->variables.count)
        return copse_fail(COPSE_ERR_ARGUMENT, "parameter server: there is no variable %u of %zu", id,
                          s->variables.count);
    *out = &s->variables.at[id];
    return COPSE_OK;
}

uint32_t copse__shelf_named(const struct copse_shelf *s, const char *name)
{
    for (size_t i = 0; i < s->variables.count; i++)
        if (strcmp(s->variables.at[i].name, name) == 0)
            return (uint32_t)i;
    return UINT32_MAX;
}

/* ---- values ---- */

static copse_status write_values(struct copse_shelf *s, struct copse_shelf_variable *v,
                                 const void *values)
{
    COPSE_TRY(copse_queue_write(s->queue, v->values, 0, values, (size_t)v->count * 4));
    v->version++;
    return copse_queue_submit(s->queue, &(uint64_t){ 0 });
}

copse_status copse__shelf_make_landing(struct copse_shelf *s, size_t bytes)
{
    if (s->is_stuck)
        return copse_fail(COPSE_ERR_DEVICE_LOST, "parameter server: %s does not answer",
                          s->dev->info.id);
    if (bytes <= s->landing_bytes)
        return COPSE_OK;
    copse__free(mem_of(s), s->landing);
    s->landing_bytes = 0;
    s->landing = copse__alloc(mem_of(s), bytes, 1);
    if (!s->landing)
        return no_memory();
    s->landing_bytes = bytes;
    return COPSE_OK;
}

copse_status copse__shelf_land(struct copse_shelf *s)
{
    const copse_status status = copse_queue_finish(s->queue);
    s->is_stuck |= status == COPSE_ERR_TIMEOUT;
    return status;
}

copse_status copse__shelf_look(struct copse_shelf *s, const uint32_t *ids, uint32_t count,
                               const void **values)
{
    struct copse_shelf_variable *v;
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        COPSE_TRY(copse__shelf_find(s, ids[i], &v));
        if (!copse__add(bytes, (size_t)v->count * 4, &bytes))
            return no_memory();
    }
    *values = s->landing;
    if (bytes == 0)
        return COPSE_OK;
    COPSE_TRY(copse__shelf_make_landing(s, bytes));
    bytes = 0;
    copse_status status = COPSE_OK;
    for (uint32_t i = 0; i < count && !status; i++) {
        v = &s->variables.at[ids[i]];
        status = copse_queue_read(s->queue, v->values, 0, (char *)s->landing + bytes,
                                  (size_t)v->count * 4);
        bytes += (size_t)v->count * 4;
    }
    const copse_status landed = copse__shelf_land(s); /* what is queued lands first, whatever failed */
    *values = s->landing;
    return status ? status : landed;
}

static copse_status check_same(const struct copse_shelf_variable *v,
                               const struct copse_server_variable *as)
{
    char mine[96], theirs[96];
    if (v->type == as->type && copse__shape_equal(v->shape, as->shape))
        return COPSE_OK;
    return copse_fail(COPSE_ERR_SHAPE,
                      "variable '%s': the parameter server has it as %s %s, not as %s %s", v->name,
                      v->type == COPSE_I32 ? "i32" : "f32", copse__shape_text(v->shape, mine),
                      as->type == COPSE_I32 ? "i32" : "f32", copse__shape_text(as->shape, theirs));
}

static copse_status fill_variable(struct copse_shelf *s, struct copse_shelf_variable *v,
                                  const struct copse_server_variable *as)
{
    v->name = copse__strdup(mem_of(s), as->name);
    if (!v->name)
        return no_memory();
    v->type = as->type;
    v->shape = as->shape;
    v->count = copse__elements(as->shape);
    COPSE_TRY(copse_buffer_create(
        s->dev, &(struct copse_buffer_params){ .size = (size_t)v->count * 4 }, &v->values));
    return write_values(s, v, as->values);
}

static copse_status shelf_make(struct copse_server *server, const struct copse_server_variable *as,
                               uint32_t *id)
{
    struct copse_shelf *s = shelf_of(server);
    struct copse_shelf_variable v = { .name = NULL };
    *id = copse__shelf_named(s, as->name);
    if (*id != UINT32_MAX)
        return check_same(&s->variables.at[*id], as);
    if (!as->may_begin)
        return COPSE_ERR_TIMEOUT; /* not yet */
    copse_status status = fill_variable(s, &v, as);
    if (!status && !COPSE_PUSH(mem_of(s), &s->variables, v))
        status = no_memory();
    if (status)
        free_variable(s, &v);
    *id = (uint32_t)s->variables.count - 1;
    return copse_note(status, "while making variable '%s' on the parameter server", as->name);
}

static copse_status shelf_read(struct copse_server *server, uint32_t id, void *values)
{
    struct copse_shelf *s = shelf_of(server);
    const void *landed;
    COPSE_TRY(copse__shelf_look(s, &id, 1, &landed));
    memcpy(values, landed, (size_t)s->variables.at[id].count * 4);
    return COPSE_OK;
}

static copse_status shelf_pull(struct copse_server *server, const uint32_t *ids, uint32_t count,
                               uint64_t *seen, void *const *values)
{
    struct copse_shelf *s = shelf_of(server);
    struct copse_shelf_variable *v;
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        COPSE_TRY(copse__shelf_find(s, ids[i], &v));
        if (v->version != seen[i] && !copse__add(bytes, (size_t)v->count * 4, &bytes))
            return no_memory();
    }
    if (bytes == 0)
        return COPSE_OK;
    COPSE_TRY(copse__shelf_make_landing(s, bytes));
    char *at = s->landing;
    copse_status status = COPSE_OK;
    for (uint32_t i = 0; i < count && !status; i++) {
        v = &s->variables.at[ids[i]];
        if (v->version == seen[i])
            continue;
        status = copse_queue_read(s->queue, v->values, 0, at, (size_t)v->count * 4);
        at += v->count * 4;
    }
    const copse_status landed = copse__shelf_land(s);
    COPSE_TRY(status);
    COPSE_TRY(landed);
    at = s->landing;
    for (uint32_t i = 0; i < count; i++) {
        v = &s->variables.at[ids[i]];
        if (v->version == seen[i])
            continue;
        memcpy(values[i], at, (size_t)v->count * 4);
        at += v->count * 4;
        seen[i] = v->version;
    }
    return COPSE_OK;
}

static copse_status shelf_change(struct copse_server *server, uint32_t id, enum copse_change how,
                                 uint64_t count, const void *values)
{
    struct copse_shelf *s = shelf_of(server);
    struct copse_shelf_variable *v;
    const void *now = values;
    (void)count;
    COPSE_TRY(copse__shelf_find(s, id, &v));
    if (how != COPSE_CHANGE_SET) {
        COPSE_TRY(copse__shelf_look(s, &id, 1, &now));
        copse__change_apply(how, v->type, v->count, s->landing, values);
    }
    return write_values(s, v, now);
}

static copse_status check_rows(const struct copse_shelf_variable *v, const struct copse_rows *rows)
{
    const uint32_t all = v->shape.rank > 0 ? v->shape.dims[0] : 0;
    if (v->type != COPSE_F32 || (uint64_t)all * rows->row != v->count)
        return copse_fail(COPSE_ERR_ARGUMENT, "parameter server: '%s' has other rows", v->name);
    for (uint32_t k = 0; k < rows->count; k++)
        if (rows->indices[k] < 0 || (uint32_t)rows->indices[k] >= all)
            return copse_fail(COPSE_ERR_ARGUMENT, "parameter server: '%s' has no row %d of %u", v->name,
                              (int)rows->indices[k], all);
    return COPSE_OK;
}

static copse_status shelf_scatter(struct copse_server *server, uint32_t id, enum copse_change how,
                                  const struct copse_rows *rows)
{
    struct copse_shelf *s = shelf_of(server);
    struct copse_shelf_variable *v;
    const void *now;
    COPSE_TRY(copse__shelf_find(s, id, &v));
    COPSE_TRY(check_rows(v, rows));
    if (rows->count == 0)
        return COPSE_OK;
    COPSE_TRY(copse__shelf_look(s, &id, 1, &now));
    copse__change_rows(how, rows->row, rows->count, rows->indices, rows->values, s->landing);
    return write_values(s, v, now);
}

/* ---- all of it ---- */

static copse_status shelf_counter(struct copse_server *server, bool is_set, uint64_t *value)
{
    struct copse_shelf *s = shelf_of(server);
    s->counter = is_set ? *value : s->counter + *value;
    *value = s->counter;
    return COPSE_OK;
}

const struct copse_server_table copse__shelf_table = {
    .make = shelf_make,
    .pull = shelf_pull,
    .read = shelf_read,
    .change = shelf_change,
    .scatter = shelf_scatter,
    .group = copse__shelf_do_group,
    .drop = copse__shelf_do_drop,
    .push = copse__shelf_do_push,
    .updates = copse__shelf_do_updates,
    .slot = copse__shelf_do_slot,
    .look = copse__shelf_do_look,
    .places = copse__shelf_do_places,
    .counter = shelf_counter,
    .leave = shelf_leave,
};
