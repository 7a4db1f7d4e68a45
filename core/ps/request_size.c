/* SPDX-License-Identifier: MIT */
/* Valid sizes of requests. A server checks them before it allocates memory for a payload. */
#include "core/ps/parameter_store.h"
#include "core/ps/protocol.h"

#define MOST_VALUES (((uint64_t)1 << 31) * COPSE_WORD_BYTES) /* bytes of a variable are fewer */
#define NO_SIZE     UINT64_MAX /* the count is wrong, whatever the size */

static const char *const names[COPSE_SERVER_OPS] = {
    [COPSE_SERVER_MAKE] = "make",         [COPSE_SERVER_PULL] = "pull",
    [COPSE_SERVER_READ] = "read",         [COPSE_SERVER_CHANGE] = "change",
    [COPSE_SERVER_SCATTER] = "scatter",   [COPSE_SERVER_GROUP] = "group",
    [COPSE_SERVER_DROP] = "drop",         [COPSE_SERVER_PUSH] = "push",
    [COPSE_SERVER_UPDATES] = "updates",   [COPSE_SERVER_SLOT] = "slot",
    [COPSE_SERVER_SNAPSHOT] = "snapshot", [COPSE_SERVER_PROGRESS] = "progress",
    [COPSE_SERVER_COUNTER] = "counter",   [COPSE_SERVER_LEAVE] = "leave",
};

/* Elements of a variable; 0 for an unknown variable, which the operation refuses. */
static uint64_t elements_of(const struct copse_pstore *s, uint32_t id)
{
    return id < s->variables.count ? s->variables.at[id].count : 0;
}

static const struct copse_pstore_group *group_of(const struct copse_pstore *s, uint32_t group)
{
    return group < s->groups.count && s->groups.at[group].is_used ? &s->groups.at[group] : NULL;
}

static uint64_t rows_size(const struct copse_pstore *s, const struct copse_server_request *r)
{
    const uint64_t all = elements_of(s, r->id);
    const copse_shape shape = all ? s->variables.at[r->id].shape : COPSE_SCALAR;
    /* at most 2^31: of an index and its slice */
    const uint64_t words = shape.rank > 0 ? 1 + all / shape.dims[0] : 0;
    return words == 0 || r->count < NO_SIZE / COPSE_WORD_BYTES / words
               ? r->count * words * COPSE_WORD_BYTES
               : NO_SIZE;
}

/* Bytes of the payload. */
static uint64_t size_of(const struct copse_pstore *s, const struct copse_server_request *r)
{
    const struct copse_pstore_group *g = group_of(s, r->group);
    const bool is_list = r->count > 0 && r->count <= s->variables.count; /* of variables */
    switch ((enum copse_server_op)r->op) {
    case COPSE_SERVER_PULL:
        return is_list ? r->count * sizeof(struct copse_server_seen) : NO_SIZE;
    case COPSE_SERVER_CHANGE:
        return elements_of(s, r->id) * COPSE_WORD_BYTES;
    case COPSE_SERVER_SCATTER:
        return rows_size(s, r);
    case COPSE_SERVER_GROUP:
        return is_list ? sizeof(struct copse_server_rule) + (uint64_t)r->count * COPSE_WORD_BYTES
                       : NO_SIZE;
    case COPSE_SERVER_PUSH:
        return g && !r->value ? g->elements * COPSE_WORD_BYTES : 0;
    case COPSE_SERVER_SLOT:
        return g && r->how && r->id < g->count && r->count < g->rule.slots
                   ? copse__rule_slot_words(&g->rule, r->count, elements_of(s, g->ids[r->id])) *
                         COPSE_WORD_BYTES
                   : 0;
    case COPSE_SERVER_PROGRESS:
        return r->how == COPSE_PROGRESS_SET ? sizeof(struct copse_server_progress) : 0;
    default:
        return 0;
    }
}

copse_status copse__request_check(const struct copse_pstore *s,
                                  const struct copse_server_request *r)
{
    const uint64_t least = sizeof(struct copse_server_making),
                   most = least + COPSE_SERVER_NAME_BYTES + MOST_VALUES;
    uint64_t size;
    if (r->magic != COPSE_SERVER_MAGIC || r->op >= COPSE_SERVER_OPS)
        return copse_fail(COPSE_ERR_COMM, "parameter server: malformed request");
    if (r->op == COPSE_SERVER_MAKE && (r->size < least || r->size > most))
        return copse_fail(
            COPSE_ERR_COMM, "parameter server: request 'make' of %llu bytes; it has %llu to %llu",
            (unsigned long long)r->size, (unsigned long long)least, (unsigned long long)most);
    if (r->op == COPSE_SERVER_MAKE)
        return COPSE_OK;
    size = size_of(s, r);
    if (size == NO_SIZE)
        return copse_fail(
            COPSE_ERR_COMM,
            "parameter server: request '%s' of %llu bytes with a list of %u; the server "
            "has %zu variables",
            names[r->op], (unsigned long long)r->size, r->count, s->variables.count);
    if (r->size != size)
        return copse_fail(COPSE_ERR_COMM,
                          "parameter server: request '%s' of %llu bytes; it has %llu", names[r->op],
                          (unsigned long long)r->size, (unsigned long long)size);
    return COPSE_OK;
}
