/* SPDX-License-Identifier: MIT */
/* A rehearsal of a row exchange, for a cross-check: the commands that a rank replays, with made-up
   lists. They bind the end of the table and of its slots instead of all of them, so that a table of
   any size can be compared. */
#include "core/reduce/row/row_exchange_internal.h"

#define PART_BYTES ((size_t)4 << 20) /* of a table, at least */
#define JUNK       0x7fc00000u       /* no row, and no place */

struct rehearsal {
    copse_row_exchange *x;
    uint32_t rank;
    copse_replay_fn *visit;
    void *user;
    uint32_t *rows, *leads, *places; /* of the join, one after another in one block of memory */
};

/* The rows of the part of the table; lists name only these. */
static uint32_t part_rows(const copse_row_exchange *x)
{
    const uint64_t rows = COPSE_MAX(copse__row_entries(x), PART_BYTES / copse__row_bytes(x, 1));
    return (uint32_t)COPSE_MIN(rows, x->params.rows);
}

/* ---- lists ---- */

/* Place `i` of list `list`: each row twice, from the first to the last row of the part, or side by
   side at its beginning or end; the last places name no row. */
static uint32_t row_at(const copse_row_exchange *x, uint32_t list, uint32_t i)
{
    const uint64_t rows = part_rows(x), used = x->each - x->each / 8, pairs = (used + 1) / 2,
                   pair = i / 2;
    const uint64_t spread = pair * (rows - 1) / (pairs - 1),
                   last = COPSE_MAX(rows, pairs) - pairs + pair;
    const uint64_t row = list % 3 == 0 ? spread : list % 3 == 1 ? pair : last;
    return i < used && row < rows ? (uint32_t)row : x->params.rows;
}

static copse_status make_lists(struct rehearsal *r)
{
    const copse_row_exchange *x = r->x;
    const uint32_t entries = (uint32_t)copse__row_entries(x);
    const struct copse_params_row_find p = { entries, x->all, x->each, x->params.rows };
    r->rows = copse__alloc(x->mem, (size_t)entries * (2 + x->all), sizeof *r->rows);
    COPSE_TRY(copse_need_memory(r->rows, "cross-check"));
    r->leads = r->rows + entries;
    r->places = r->leads + entries;
    for (uint32_t i = 0; i < entries; i++)
        r->rows[i] = row_at(x, i / x->each, i % x->each);
    copse_law_row_find.host(
        &p, NULL,
        (struct copse_host_arg[]){ { r->rows, entries, false },
                                   { r->leads, entries, false },
                                   { r->places, (size_t)entries * x->all, false } });
    return COPSE_OK;
}

static copse_status row_rehearsal_write(const struct rehearsal *r, copse_buffer *to,
                                        const uint32_t *words)
{
    return copse_queue_write(r->x->ranks[r->rank].queue, to, 0, words, copse_buffer_size(to));
}

/* The launches that find the rows write leads and places: these are wrong before and right
   after. */
static copse_status write_before(const struct rehearsal *r)
{
    const struct copse_row_join *j = &r->x->join;
    copse_queue *q = r->x->ranks[r->rank].queue;
    COPSE_TRY(row_rehearsal_write(r, j->rows, r->rows));
    COPSE_TRY(copse_queue_fill(q, j->leads, 0, copse_buffer_size(j->leads), JUNK));
    return copse_queue_fill(q, j->places, 0, copse_buffer_size(j->places), JUNK);
}

static copse_status write_behind(const struct rehearsal *r)
{
    COPSE_TRY(row_rehearsal_write(r, r->x->join.leads, r->leads));
    return row_rehearsal_write(r, r->x->join.places, r->places);
}

/* ---- segments ---- */

static bool is_table(const copse_row_exchange *x, const copse_buffer *buffer)
{
    bool is = buffer == x->slots;
    for (uint32_t k = 0; k < x->params.rank_count; k++)
        is |= buffer == x->values[k].buffer;
    return is;
}

/* Bind the end of the table or of a slot. */
static void row_rehearsal_narrow(const copse_row_exchange *x, struct copse_command *c)
{
    const size_t all = copse__row_bytes(x, x->params.rows),
                 part = copse__row_bytes(x, part_rows(x));
    const size_t skipped = (all - part) / COPSE_ALIGNMENT * COPSE_ALIGNMENT;
    for (uint32_t i = 0; i < c->binding_count; i++)
        if (is_table(x, c->bindings[i].buffer)) {
            c->bindings[i].offset += skipped;
            c->bindings[i].size -= skipped;
        }
}

/* Commands [first, end) of a part of a segment. */
static copse_status visit_commands(const struct rehearsal *r, const struct copse_segment *part,
                                   size_t first, size_t end)
{
    struct copse_segment some = { .queue = part->queue, .count = end - first };
    if (first == end)
        return COPSE_OK;
    some.commands = copse__alloc(r->x->mem, some.count, sizeof *some.commands);
    COPSE_TRY(copse_need_memory(some.commands, "cross-check"));
    for (size_t i = first; i < end; i++) {
        some.commands[i - first] = part->commands[i];
        row_rehearsal_narrow(r->x, &some.commands[i - first]);
    }
    const copse_status s = r->visit(r->user, r->rank, &some);
    copse__free(r->x->mem, some.commands);
    return s;
}

static bool finds_rows(const struct copse_command *c)
{
    return c->kind == COPSE_COMMAND_DISPATCH && c->kernel->id == COPSE_KERNEL_row_find;
}

static copse_status visit_segment(const struct rehearsal *r, const struct copse_segment *segment)
{
    for (const struct copse_segment *part = segment; part; part = part->rest) {
        size_t first = 0;
        for (size_t i = 0; i < part->count; i++)
            if (finds_rows(&part->commands[i])) {
                COPSE_TRY(visit_commands(r, part, first, i + 1));
                COPSE_TRY(write_behind(r));
                first = i + 1;
            }
        COPSE_TRY(visit_commands(r, part, first, part->count));
    }
    return COPSE_OK;
}

static copse_status row_rehearsal_rehearse(const struct rehearsal *r)
{
    const copse_row_exchange *x = r->x;
    if (r->rank == x->owner) {
        COPSE_TRY(write_before(r));
        if (x->sum)
            COPSE_TRY(visit_segment(r, x->sum));
        return visit_segment(r, x->update);
    }
    COPSE_TRY(row_rehearsal_write(r, x->leads[r->rank], r->leads));
    return visit_segment(r, x->adopt[r->rank]);
}

copse_status copse__row_exchange_rehearse(copse_row_exchange *x, uint32_t rank,
                                          copse_replay_fn *visit, void *user)
{
    struct rehearsal r = { .x = x, .rank = rank, .visit = visit, .user = user };
    if (x->each == 0 || (rank != x->owner && !x->adopt[rank]))
        return COPSE_OK;
    x->has_newest = false;
    copse_status s = make_lists(&r);
    if (!s)
        s = row_rehearsal_rehearse(&r);
    copse__free(x->mem, r.rows);
    return copse_note(s, "in the update of rows of '%s'", x->params.name);
}
