/* SPDX-License-Identifier: MIT */
/* Memory and commands of a row exchange, for lists of one length. */
#include "core/device/kernel/divisor.h"
#include "core/reduce/row/row_exchange_internal.h"

struct recorder {
    copse_row_exchange *x;
    copse_queue *queue; /* of the segment that is recorded */
    struct {
        struct copse_command *at;
        size_t count, room;
    } commands;
};

/* ---- memory ---- */

static copse_status row_record_make(copse_queue *q, size_t bytes, copse_buffer **out)
{
    return copse_buffer_create(q->dev, &(struct copse_buffer_params){ .size = bytes }, out);
}

static copse_status make_join(copse_row_exchange *x)
{
    struct copse_row_join *j = &x->join;
    copse_queue *q = x->ranks[x->owner].queue;
    const uint64_t entries = copse__row_entries(x);
    if (x->all == 1) { /* the list is the join */
        j->rows = copse_buffer_retain(x->rows[0]);
        j->terms = copse_buffer_retain(x->terms[0]);
        j->sums = copse_buffer_retain(x->terms[0]);
    } else {
        COPSE_TRY(row_record_make(q, COPSE_WORD_BYTES * entries, &j->rows));
        COPSE_TRY(row_record_make(q, copse__row_bytes(x, entries), &j->terms));
        COPSE_TRY(row_record_make(q, copse__row_bytes(x, entries), &j->sums));
    }
    COPSE_TRY(row_record_make(q, COPSE_WORD_BYTES * entries * x->all, &j->places));
    COPSE_TRY(row_record_make(q, COPSE_WORD_BYTES * entries, &j->leads));
    COPSE_TRY(row_record_make(q, copse__row_bytes(x, entries), &j->values));
    if (x->params.rule.measures > 0) {
        const size_t bytes = COPSE_MEASURE_BYTES * (size_t)(entries * x->params.width / COPSE_UNIT);
        COPSE_TRY(row_record_make(q, bytes, &j->measures));
        COPSE_TRY(copse__reducer_host(x->reducer, &x->measures, bytes));
    }
    return x->params.rule.slots > 0
               ? row_record_make(q, x->params.rule.slots * copse__row_bytes(x, entries), &j->slots)
               : COPSE_OK;
}

static copse_status make_lists(copse_row_exchange *x)
{
    for (uint32_t r = 0; r < x->params.rank_count; r++) {
        copse_queue *q = x->ranks[r].queue;
        COPSE_TRY(row_record_make(q, COPSE_WORD_BYTES * (size_t)x->room, &x->rows[r]));
        COPSE_TRY(row_record_make(q, copse__row_bytes(x, x->room), &x->terms[r]));
        /* is read, where no list has rows */
        COPSE_TRY(copse_queue_fill(q, x->terms[r], 0, copse__row_bytes(x, x->room), 0));
    }
    return COPSE_OK;
}

static copse_status make_memory(copse_row_exchange *x)
{
    for (uint32_t r = 0; r < x->params.rank_count; r++) {
        if (copse__row_is_local(x, r))
            continue;
        COPSE_TRY(row_record_make(x->ranks[r].queue, COPSE_WORD_BYTES * copse__row_entries(x),
                                  &x->leads[r]));
        COPSE_TRY(row_record_make(x->ranks[r].queue, copse__row_bytes(x, copse__row_entries(x)),
                                  &x->news[r]));
    }
    return x->owner == COPSE_ROW_NO_OWNER ? COPSE_OK : make_join(x);
}

/* ---- commands ---- */

static copse_status row_record_push(struct recorder *r, const struct copse_command *c)
{
    return COPSE_PUSH(r->x->mem, &r->commands, *c) ? COPSE_OK : copse_no_memory("exchange");
}

static copse_status command_of(copse_row_exchange *x, copse_device *dev, enum copse_kernel_id id,
                               const void *params, uint64_t count,
                               const struct copse_binding *bindings, size_t binding_count,
                               struct copse_command *out)
{
    const int32_t none[COPSE_MAX_SPECS] = { 0 };
    struct copse_kernel *k;
    COPSE_TRY(copse__kernel_get(dev, id, none, &k));
    const uint64_t each = (uint64_t)k->group_x * k->group_y;
    x->size.invocations = COPSE_MAX(x->size.invocations, count);
    return copse__dispatch_init(out, k, bindings, binding_count, params, (count + each - 1) / each,
                                0);
}

static copse_status row_record_launch(struct recorder *r, enum copse_kernel_id id,
                                      const void *params, uint64_t count,
                                      const struct copse_binding *bindings, size_t binding_count)
{
    struct copse_command c;
    COPSE_TRY(command_of(r->x, r->queue->dev, id, params, count, bindings, binding_count, &c));
    return row_record_push(r, &c);
}

static struct copse_binding all_of(copse_buffer *buffer)
{
    return (struct copse_binding){ buffer, 0, copse_buffer_size(buffer) };
}

/* Rows of `table`, as `leads` names them, are read from it or put there. */
static copse_status take_command(copse_row_exchange *x, copse_device *dev,
                                 struct copse_binding table, struct copse_binding leads,
                                 struct copse_binding to, struct copse_command *out)
{
    struct copse_params_gather p = { .n = (uint32_t)(copse__row_entries(x) * x->params.width),
                                     .width = x->params.width,
                                     .rows = x->params.rows };
    copse__divisor(p.width, &p.m, &p.h);
    return command_of(x, dev, COPSE_KERNEL_gather, &p, p.n,
                      (const struct copse_binding[]){ table, leads, to }, 3, out);
}

static copse_status take_rows(struct recorder *r, struct copse_binding table,
                              struct copse_binding leads, struct copse_binding to)
{
    struct copse_command c;
    COPSE_TRY(take_command(r->x, r->queue->dev, table, leads, to, &c));
    return row_record_push(r, &c);
}

static copse_status put_rows(struct recorder *r, struct copse_binding from,
                             struct copse_binding leads, struct copse_binding table)
{
    const copse_row_exchange *x = r->x;
    struct copse_params_row_put p = { .n = (uint32_t)(copse__row_entries(x) * x->params.width),
                                      .width = x->params.width,
                                      .rows = x->params.rows };
    copse__divisor(p.width, &p.m, &p.h);
    return row_record_launch(r, COPSE_KERNEL_row_put, &p, p.n,
                             (const struct copse_binding[]){ from, leads, table }, 3);
}

static copse_status row_record_call(struct recorder *r, const struct copse_update *u,
                                    copse_status (*fn)(void *, copse_device *,
                                                       const struct copse_update *,
                                                       struct copse_command *))
{
    struct copse_command c;
    if (!fn)
        return COPSE_OK;
    COPSE_TRY(fn(r->x->params.rule.user, r->queue->dev, u, &c));
    return row_record_push(r, &c);
}

/* Place of a rank of this worker in the join. */
static struct copse_binding part_of(const copse_row_exchange *x, copse_buffer *buffer,
                                    uint32_t rank, size_t bytes)
{
    return (struct copse_binding){ buffer, (x->params.group->first + rank) * bytes, bytes };
}

static copse_status row_record_copy(struct recorder *r, struct copse_binding from,
                                    struct copse_binding to)
{
    to.size = from.size;
    return row_record_push(r, &(struct copse_command){ .kind = COPSE_COMMAND_COPY,
                                                       .bindings = { from, to },
                                                       .binding_count = 2 });
}

/* The part of a rank's list in the join that its list does not fill names no row. */
static copse_status fill_rest(struct recorder *r, uint32_t rank)
{
    const copse_row_exchange *x = r->x;
    struct copse_binding rest = part_of(x, x->join.rows, rank, COPSE_WORD_BYTES * (size_t)x->each);
    rest.offset += COPSE_WORD_BYTES * (size_t)x->room;
    rest.size -= COPSE_WORD_BYTES * (size_t)x->room;
    return rest.size == 0 ? COPSE_OK
                          : row_record_push(r, &(struct copse_command){ .kind = COPSE_COMMAND_FILL,
                                                                        .bindings = { rest },
                                                                        .binding_count = 1,
                                                                        .word = x->params.rows });
}

/* The lists of ranks with the owner's queue; others are copied through host memory. */
static copse_status copy_lists(struct recorder *r)
{
    copse_row_exchange *x = r->x;
    for (uint32_t k = 0; x->all > 1 && k < x->params.rank_count; k++) {
        if (copse__row_is_local(x, k)) {
            COPSE_TRY(
                row_record_copy(r, all_of(x->rows[k]),
                                part_of(x, x->join.rows, k, COPSE_WORD_BYTES * (size_t)x->each)));
            COPSE_TRY(row_record_copy(r, all_of(x->terms[k]),
                                      part_of(x, x->join.terms, k, copse__row_bytes(x, x->each))));
        }
        COPSE_TRY(fill_rest(r, k));
    }
    return COPSE_OK;
}

static copse_status row_record_join(struct recorder *r)
{
    copse_row_exchange *x = r->x;
    const struct copse_row_join *j = &x->join;
    const uint32_t entries = (uint32_t)copse__row_entries(x);
    const struct copse_params_row_find find = { entries, x->all, x->each, x->params.rows };
    struct copse_params_row_join sum = { .n = entries * x->params.width,
                                         .entries = entries,
                                         .lists = x->all,
                                         .rows = x->params.rows,
                                         .width = x->params.width };
    copse__divisor(sum.width, &sum.m, &sum.h);
    COPSE_TRY(copy_lists(r));
    COPSE_TRY(row_record_launch(
        r, COPSE_KERNEL_row_find, &find, find.n,
        (const struct copse_binding[]){ all_of(j->rows), all_of(j->leads), all_of(j->places) }, 3));
    if (x->all == 1)
        return COPSE_OK;
    return row_record_launch(r, COPSE_KERNEL_row_join, &sum, sum.n,
                             (const struct copse_binding[]){ all_of(j->leads), all_of(j->places),
                                                             all_of(j->terms), all_of(j->sums) },
                             4);
}

static struct copse_binding slot_of(const copse_row_exchange *x, uint32_t slot)
{
    return (struct copse_binding){ x->slots, slot * x->slot_stride,
                                   copse__row_bytes(x, x->params.rows) };
}

static struct copse_binding slot_rows_of(const copse_row_exchange *x, uint32_t slot)
{
    const size_t bytes = copse__row_bytes(x, copse__row_entries(x));
    return (struct copse_binding){ x->join.slots, slot * bytes, bytes };
}

/* The rule sees the rows one behind another, as it sees a dense range. */
static struct copse_update update_of(const copse_row_exchange *x)
{
    struct copse_update u = { .values = all_of(x->join.values),
                              .gradients = all_of(x->join.sums),
                              .step = x->ranks[x->owner].step,
                              .count = copse__row_entries(x) * x->params.width };
    if (x->join.measures)
        u.measures[0] = all_of(x->join.measures);
    return u;
}

static copse_status row_record_update(struct recorder *r)
{
    copse_row_exchange *x = r->x;
    const struct copse_exchange_rule *rule = &x->params.rule;
    const struct copse_binding leads = all_of(x->join.leads);
    struct copse_update u = update_of(x);
    COPSE_TRY(take_rows(r, x->values[x->owner], leads, u.values));
    for (uint32_t k = 0; k < rule->slots; k++)
        COPSE_TRY(take_rows(r, slot_of(x, k), leads, slot_rows_of(x, k)));
    if (rule->slots > 0)
        u.slots = all_of(x->join.slots);
    COPSE_TRY(row_record_call(r, &u, rule->before));
    COPSE_TRY(row_record_call(r, &u, rule->update));
    for (uint32_t k = 0; k < rule->slots; k++)
        COPSE_TRY(put_rows(r, slot_rows_of(x, k), leads, slot_of(x, k)));
    for (uint32_t k = 0; k < x->params.rank_count; k++)
        if (copse__row_is_local(x, k))
            COPSE_TRY(put_rows(r, u.values, leads, x->values[k]));
    return COPSE_OK;
}

static copse_status row_record_end(struct recorder *r, struct copse_segment **out)
{
    const copse_status s = copse__segment_create(r->queue, r->commands.at, r->commands.count, out);
    r->commands.count = 0;
    return s;
}

static copse_status record_commands(struct recorder *r)
{
    copse_row_exchange *x = r->x;
    if (x->owner != COPSE_ROW_NO_OWNER) {
        r->queue = x->ranks[x->owner].queue;
        const struct copse_update u = update_of(x);
        COPSE_TRY(row_record_join(r));
        if (x->params.rule.measures > 0) {
            COPSE_TRY(row_record_call(r, &u, x->params.rule.measure));
            COPSE_TRY(row_record_end(r, &x->sum));
        }
        COPSE_TRY(row_record_update(r));
        COPSE_TRY(row_record_end(r, &x->update));
    }
    for (uint32_t k = 0; k < x->params.rank_count; k++) {
        if (copse__row_is_local(x, k))
            continue;
        r->queue = x->ranks[k].queue;
        COPSE_TRY(put_rows(r, all_of(x->news[k]), all_of(x->leads[k]), x->values[k]));
        COPSE_TRY(row_record_end(r, &x->adopt[k]));
    }
    return COPSE_OK;
}

/* Between runs the memory of new rows is free. */
static copse_status record_newest(copse_row_exchange *x)
{
    for (uint32_t k = 0; x->all > 1 && k < x->params.rank_count; k++) {
        const bool is_local = copse__row_is_local(x, k);
        const struct copse_binding leads = all_of(is_local ? x->join.leads : x->leads[k]);
        const struct copse_binding to = all_of(is_local ? x->join.values : x->news[k]);
        COPSE_TRY(take_command(x, x->ranks[k].queue->dev, x->values[k], leads, to, &x->newest[k]));
    }
    return COPSE_OK;
}

/* ---- copies between queues of this worker ---- */

static copse_status add_copy(copse_row_exchange *x, struct copse_copies *list, size_t *fill,
                             const struct copse_view *from, const struct copse_view *to,
                             size_t count)
{
    x->size.bytes += from->at.size * (1 + count);
    COPSE_TRY(copse__reducer_staging(x->reducer, from->rank));
    return copse__copies_add(x->mem, list, x->reducer->message_bytes, fill, from, to, count)
               ? COPSE_OK
               : copse_no_memory("exchange");
}

/* A part of the join, of the size of what is copied there. */
static struct copse_view to_part(const copse_row_exchange *x, copse_buffer *buffer, uint32_t rank,
                                 size_t part, const struct copse_view *from)
{
    struct copse_view to = { x->owner, part_of(x, buffer, rank, part), NULL };
    to.at.size = from->at.size;
    return to;
}

static copse_status gather_lists(copse_row_exchange *x)
{
    for (uint32_t k = 0; k < x->params.rank_count; k++) {
        size_t fill = 0;
        if (copse__row_is_local(x, k))
            continue;
        const struct copse_view rows = { k, all_of(x->rows[k]), NULL },
                                terms = { k, all_of(x->terms[k]), NULL };
        const struct copse_view to_rows =
            to_part(x, x->join.rows, k, COPSE_WORD_BYTES * (size_t)x->each, &rows);
        const struct copse_view to_terms =
            to_part(x, x->join.terms, k, copse__row_bytes(x, x->each), &terms);
        COPSE_TRY(add_copy(x, &x->gather, &fill, &rows, &to_rows, 1));
        COPSE_TRY(add_copy(x, &x->gather, &fill, &terms, &to_terms, 1));
    }
    return COPSE_OK;
}

static copse_status spread_rows(copse_row_exchange *x)
{
    struct copse_view leads[COPSE_MAX_REPLICAS], news[COPSE_MAX_REPLICAS];
    size_t count = 0, fill = 0;
    for (uint32_t k = 0; k < x->params.rank_count; k++)
        if (!copse__row_is_local(x, k)) {
            leads[count] = (struct copse_view){ k, all_of(x->leads[k]), NULL };
            news[count++] = (struct copse_view){ k, all_of(x->news[k]), NULL };
        }
    if (count == 0)
        return COPSE_OK;
    const struct copse_view from = { x->owner, all_of(x->join.leads), NULL };
    const struct copse_view values = { x->owner, all_of(x->join.values), NULL };
    COPSE_TRY(add_copy(x, &x->spread, &fill, &from, leads, count));
    return add_copy(x, &x->spread, &fill, &values, news, count);
}

/* ---- all of it ---- */

static copse_status record_rows(copse_row_exchange *x)
{
    struct recorder r = { .x = x };
    COPSE_TRY(make_memory(x));
    const copse_status s = record_commands(&r);
    copse__free(x->mem, r.commands.at);
    COPSE_TRY(s);
    COPSE_TRY(record_newest(x));
    if (x->owner != COPSE_ROW_NO_OWNER)
        COPSE_TRY(gather_lists(x));
    if (!copse__row_has_workers(x))
        return spread_rows(x);
    const uint32_t others = x->owner == COPSE_ROW_NO_OWNER ? 1 : x->params.group->workers - 1;
    x->size.bytes += others * (copse__row_message_bytes(x) + copse__row_new_bytes(x));
    return COPSE_OK;
}

static void join_fini(copse_row_exchange *x)
{
    struct copse_row_join *j = &x->join;
    copse_buffer **const of_join[] = { &j->rows, &j->terms,  &j->places, &j->leads,
                                       &j->sums, &j->values, &j->slots,  &j->measures };
    x->other.segment = NULL;
    copse__segment_release(&x->sum);
    copse__segment_release(&x->update);
    for (uint32_t r = 0; r < x->params.rank_count; r++) {
        copse__segment_release(&x->adopt[r]);
        copse_buffer_release(&x->leads[r]);
        copse_buffer_release(&x->news[r]);
    }
    for (size_t i = 0; i < COPSE_COUNT(of_join); i++)
        copse_buffer_release(of_join[i]);
    copse__copies_fini(x->mem, &x->gather);
    copse__copies_fini(x->mem, &x->spread);
    x->each = 0;
    x->has_newest = false;
}

void copse__row_record_fini(copse_row_exchange *x)
{
    join_fini(x);
    for (uint32_t r = 0; r < x->params.rank_count; r++) {
        copse_buffer_release(&x->rows[r]);
        copse_buffer_release(&x->terms[r]);
    }
    x->room = 0;
}

copse_status copse__row_record_lists(copse_row_exchange *x, uint32_t room)
{
    copse__row_record_fini(x);
    x->room = room;
    const copse_status s = make_lists(x);
    if (s)
        copse__row_record_fini(x);
    return s;
}

copse_status copse__row_record_join(copse_row_exchange *x, uint32_t each)
{
    if ((uint64_t)x->all * each * x->params.width * COPSE_MAX(x->params.rule.slots, 1u) > INT32_MAX)
        return copse_fail(
            COPSE_ERR_UNSUPPORTED,
            "exchange: %u rows of '%s' on each of %u replicas are too many: give smaller "
            "batches",
            each, x->params.name, x->all);
    join_fini(x);
    x->each = each;
    x->size = (struct copse_row_exchange_size){ .places = copse__row_entries(x) };
    const copse_status s = record_rows(x);
    if (s) {
        join_fini(x);
        return s;
    }
    x->is_new = true;
    copse__log(&x->params.ctx->base.log, COPSE_LOG_DEBUG,
               "rows of '%s': %u of %u in each of %u lists, %llu bytes between queues and workers "
               "in a step",
               x->params.name, x->each, x->params.rows, x->all, (unsigned long long)x->size.bytes);
    return COPSE_OK;
}
