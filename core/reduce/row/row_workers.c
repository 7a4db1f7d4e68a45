/* SPDX-License-Identifier: MIT */
/* Runs of a row exchange with other workers, as one collective: all workers say how long their
 * lists are; the others send their lists to the owner's worker; that one joins and updates, and
 * sends the new rows to all.
 *
 * Use of the memory. Pending messages read `lists` and `new_rows` until the next run, which first
 * waits for them. Receives are posted when this worker has copied what was there before to its
 * devices.
 */
#include <stdio.h>

#include "core/reduce/row/row_exchange_internal.h"

static bool is_owner(const copse_row_exchange *x)
{
    return x->owner != COPSE_ROW_NO_OWNER;
}

static copse_status make_room(copse_row_exchange *x)
{
    const size_t message = copse__row_message_bytes(x);
    if (COPSE_MAX(message, copse__row_new_bytes(x)) > COPSE_TRANSPORT_BYTES)
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "exchange: %llu rows of '%s' on all replicas are too many for a message: give "
            "smaller batches",
            (unsigned long long)copse__row_entries(x), x->params.name);
    COPSE_TRY(copse__reducer_host(x->reducer, &x->new_rows, copse__row_new_bytes(x)));
    return is_owner(x)
               ? copse__reducer_host(x->reducer, &x->others, x->params.group->workers * message)
               : copse__reducer_host(x->reducer, &x->lists, message);
}

/* In a whole job, sent messages still arrive. */
void copse__row_workers_fini(copse_row_exchange *x)
{
    if (!x->messages.group->cluster->is_failed)
        (void)copse__worker_wait_sends(&x->messages, NULL, NULL);
    copse__worker_drop(&x->messages);
}

/* ---- how long the lists are ---- */

static copse_status row_workers_begin(copse_row_exchange *x)
{
    struct copse_group *g = x->params.group;
    char what[COPSE_WHAT_BYTES], form[COPSE_FORM_BYTES];
    copse_reducer *r = x->reducer;
    snprintf(what, sizeof what, "rows of '%.40s'", x->params.name);
    snprintf(form, sizeof form, "f32 [%u, %u]", x->params.rows, x->params.width);
    COPSE_TRY(copse__worker_wait_sends(&x->messages, r->busy, r->user));
    COPSE_TRY(copse__collective_begin_on(g->cluster, what, form,
                                         copse__row_bytes(x, x->params.rows), COPSE_OK));
    return copse__collective_barrier(g->cluster, r->busy, r->user);
}

/* The join has lists as long as the longest one of all workers. 0: no worker's loss depends on the
   variable. */
static copse_status row_workers_agree(copse_row_exchange *x, uint32_t *each)
{
    struct copse_group *g = x->params.group;
    uint32_t rooms[COPSE_MAX_WORKERS];
    *each = 0;
    rooms[g->worker] = x->room;
    COPSE_TRY(copse__group_allgather_each(g, rooms, sizeof *rooms));
    for (uint32_t v = 0; v < g->workers; v++)
        *each = COPSE_MAX(*each, rooms[v]);
    if (*each > 0 && x->room == 0) {
        COPSE_TRY(copse__row_record_lists(x, COPSE_UNIT));
        for (uint32_t r = 0; r < x->params.rank_count; r++)
            COPSE_TRY(copse__row_exchange_give(x, r, NULL, NULL, 0));
    }
    if (*each == x->each)
        return COPSE_OK;
    COPSE_TRY(copse__row_record_join(x, *each));
    return make_room(x);
}

/* ---- lists and new rows ---- */

static copse_status read_list(copse_row_exchange *x, uint32_t rank)
{
    unsigned char *to = x->lists.at + rank * copse__row_list_bytes(x);
    const struct copse_binding rows = { x->rows[rank], 0, COPSE_WORD_BYTES * (size_t)x->room };
    const struct copse_binding terms = { x->terms[rank], 0, copse__row_bytes(x, x->room) };
    for (uint32_t i = x->room; i < x->each; i++)
        memcpy(to + COPSE_WORD_BYTES * (size_t)i, &x->params.rows, sizeof x->params.rows);
    COPSE_TRY(copse__reducer_read(x->reducer, rank, &rows, to));
    return copse__reducer_read(x->reducer, rank, &terms, to + COPSE_WORD_BYTES * (size_t)x->each);
}

static copse_status send_lists(copse_row_exchange *x, const struct copse_worker_slice *slices)
{
    for (uint32_t r = 0; r < x->params.rank_count; r++)
        COPSE_TRY(read_list(x, r));
    COPSE_TRY(copse__reducer_wait_reads(x->reducer, "reading its rows for other workers"));
    return copse__worker_send(&x->messages, COPSE_KIND_SUMS, slices, x->lists.at);
}

/* The lists of all other workers, at the places of their ranks. */
static copse_status write_lists(copse_row_exchange *x)
{
    const struct copse_group *g = x->params.group;
    const size_t rows = COPSE_WORD_BYTES * (size_t)x->each, terms = copse__row_bytes(x, x->each);
    for (uint32_t v = 0, rank = 0; v < g->workers; v++)
        for (uint32_t i = 0; i < g->rank_counts[v]; i++, rank++) {
            const unsigned char *from =
                x->others.at + v * copse__row_message_bytes(x) + i * copse__row_list_bytes(x);
            const struct copse_binding to_rows = { x->join.rows, rank * rows, rows };
            const struct copse_binding to_terms = { x->join.terms, rank * terms, terms };
            if (v == g->worker)
                continue;
            COPSE_TRY(copse__reducer_write(x->reducer, x->owner, &to_rows, from));
            COPSE_TRY(copse__reducer_write(x->reducer, x->owner, &to_terms, from + rows));
        }
    return copse__reducer_submit(x->reducer);
}

static copse_status row_workers_adopt(copse_row_exchange *x)
{
    const size_t leads = COPSE_WORD_BYTES * (size_t)copse__row_entries(x);
    for (uint32_t r = 0; r < x->params.rank_count; r++) {
        if (!x->adopt[r])
            continue;
        const struct copse_binding to_leads = { x->leads[r], 0, leads };
        const struct copse_binding to_values = { x->news[r], 0, copse__row_new_bytes(x) - leads };
        COPSE_TRY(copse__reducer_write(x->reducer, r, &to_leads, x->new_rows.at));
        COPSE_TRY(copse__reducer_write(x->reducer, r, &to_values, x->new_rows.at + leads));
        COPSE_TRY(copse__row_play(x, x->adopt[r], r));
    }
    x->has_newest = true;
    return copse__reducer_submit(x->reducer);
}

/* The owner has the lists of all workers: the first commands. */
static copse_status row_workers_join(copse_row_exchange *x)
{
    copse_reducer *r = x->reducer;
    COPSE_TRY(copse__row_send(x, &x->gather));
    COPSE_TRY(copse__worker_wait_recvs(&x->messages, COPSE_KIND_SUMS, 0, x->params.group->workers,
                                       r->busy, r->user));
    COPSE_TRY(write_lists(x));
    return copse__row_play(x, copse__row_first(x), x->owner);
}

/* The owner sends the new rows to all workers, or another worker receives them. */
static copse_status row_workers_spread(copse_row_exchange *x,
                                       const struct copse_worker_slice *results)
{
    const size_t leads = COPSE_WORD_BYTES * (size_t)copse__row_entries(x);
    copse_reducer *r = x->reducer;
    if (is_owner(x)) {
        const struct copse_binding from_leads = { x->join.leads, 0, leads };
        const struct copse_binding from_values = { x->join.values, 0,
                                                   copse__row_new_bytes(x) - leads };
        COPSE_TRY(copse__reducer_read(r, x->owner, &from_leads, x->new_rows.at));
        COPSE_TRY(copse__reducer_read(r, x->owner, &from_values, x->new_rows.at + leads));
        COPSE_TRY(copse__reducer_wait_reads(r, "updating the rows"));
        COPSE_TRY(copse__worker_send(&x->messages, COPSE_KIND_RESULTS, results, x->new_rows.at));
    } else {
        COPSE_TRY(
            copse__worker_wait_recvs(&x->messages, COPSE_KIND_RESULTS, 0, 1, r->busy, r->user));
    }
    return row_workers_adopt(x);
}

/* ---- a run ---- */

static copse_status row_workers_exchange(copse_row_exchange *x)
{
    struct copse_worker_slice lists[COPSE_MAX_WORKERS] = { { 0, 0 } },
                              results[COPSE_MAX_WORKERS] = { { 0, 0 } };
    const bool measures = x->params.rule.measures > 0;
    uint32_t each;
    COPSE_TRY(row_workers_agree(x, &each));
    if (each == 0)
        return COPSE_OK;
    lists[0].size = copse__row_message_bytes(x); /* the owner's worker is the first one */
    results[0].size = copse__row_new_bytes(x);
    COPSE_TRY(copse__worker_recv_sums(&x->messages, lists, x->others.at));
    if (!measures)
        COPSE_TRY(copse__worker_recv_results(&x->messages, results, x->new_rows.at));
    COPSE_TRY(is_owner(x) ? row_workers_join(x) : send_lists(x, lists));
    return measures ? COPSE_OK : row_workers_spread(x, results);
}

static copse_status row_workers_finish(copse_row_exchange *x)
{
    struct copse_worker_slice results[COPSE_MAX_WORKERS] = { { 0, 0 } };
    results[0].size = copse__row_new_bytes(x);
    COPSE_TRY(copse__worker_recv_results(&x->messages, results, x->new_rows.at));
    if (is_owner(x))
        COPSE_TRY(copse__row_play(x, x->update, x->owner));
    return row_workers_spread(x, results);
}

static copse_status abort_after(copse_row_exchange *x, copse_status s)
{
    if (s) {
        copse__group_abort(x->params.group);
        copse__worker_drop_recvs(&x->messages);
    }
    return s;
}

/* Before the collective has begun nothing has changed on any worker. */
copse_status copse__row_workers_run(copse_row_exchange *x)
{
    COPSE_TRY(row_workers_begin(x));
    return abort_after(x, row_workers_exchange(x));
}

copse_status copse__row_workers_finish(copse_row_exchange *x)
{
    const copse_status s = row_workers_begin(x);
    return abort_after(x, s ? s : row_workers_finish(x));
}
