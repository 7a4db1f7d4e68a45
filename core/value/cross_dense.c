/* SPDX-License-Identifier: MIT */
/* Dense leaves of a batch over the replicas of this worker: those of one type together, or one by one with the
   application's own accumulation. */
#include "core/value/cross_batch.h"

#define SMALL_GROUP 10

static copse_status no_memory(void)
{
    return copse_fail(COPSE_ERR_NO_MEMORY, "reduce: no memory");
}

static uint32_t divisor_of(const struct copse_cross_batch *b, size_t count)
{
    return b->op == COPSE_REDUCE_MEAN ? (uint32_t)count : 0;
}

/* ---- dense leaves of one type, together ---- */

struct group {
    struct copse_cross_batch *b;
    struct copse_leaf **leaves;
    size_t count;
    struct copse_ranks to;
    struct copse_block **from; /* [contributors][count], references */
    struct copse_block **out;  /* [count][to.count], references */
    uint32_t contributors;
};

static bool is_of(const copse_strategy *st, const copse_queue *queue)
{
    bool is_found = queue == NULL;
    for (uint32_t r = 0; r < st->replica_count; r++)
        is_found = is_found || st->replicas[r].queue == queue;
    return is_found;
}

/* The block of a component: its own, a variable's read, or a copy in host memory of another strategy's. */
static copse_status block_of(const copse_strategy *st, const copse_value *c, struct copse_block **out)
{
    if (c->kind == COPSE_VALUE_VARIABLE) {
        copse_value *read;
        COPSE_TRY(copse__component_read(c->variable, c->rank == COPSE_ALL_RANKS ? 0 : c->rank, &read));
        *out = copse__block_retain(read->block);
        copse_value_release(&read);
        return COPSE_OK;
    }
    if (!is_of(st, c->block->queue))
        return copse__block_copy(c->block, NULL, out);
    *out = copse__block_retain(c->block);
    return COPSE_OK;
}

static copse_status collect(struct group *g)
{
    for (size_t i = 0; i < g->count; i++)
        for (uint32_t r = 0; r < g->contributors; r++)
            COPSE_TRY(block_of(g->b->st, g->leaves[i]->value->items[r], &g->from[r * g->count + i]));
    return COPSE_OK;
}

copse_status copse__dense_root(const struct copse_cross_batch *b, const struct copse_ranks *to,
                               uint32_t *root)
{
    *root = b->params->has_root ? b->params->root : to->at[0];
    if (*root != COPSE_HOST && *root >= b->st->replica_count)
        return copse_fail(COPSE_ERR_ARGUMENT, "reduce: root %u; there are %u replicas", *root,
                          b->st->replica_count);
    return COPSE_OK;
}

static copse_status choose(const struct group *g, copse_value_reducer *x, struct copse_way *way)
{
    const struct copse_link *links;
    double bytes = 0;
    switch (g->b->params->kind) {
    case COPSE_CROSS_TO_ONE:
        way->algorithm = COPSE_COLLECTIVE_TO_ONE;
        return copse__dense_root(g->b, &g->to, &way->root);
    case COPSE_CROSS_ALL_REDUCE:
        *way = (struct copse_way){ COPSE_COLLECTIVE_SHARDED, 0 };
        return COPSE_OK;
    case COPSE_CROSS_HIERARCHICAL:
        *way = (struct copse_way){ COPSE_COLLECTIVE_HIERARCHICAL, 0 };
        return COPSE_OK;
    case COPSE_CROSS_AUTO:
        break;
    }
    for (size_t i = 0; i < g->count; i++)
        bytes += 4.0 * (double)g->from[i]->count;
    COPSE_TRY(copse__value_links(x, &links));
    *way = copse__link_choose(links, g->b->st->replica_count, bytes, g->to.at, g->to.count);
    return COPSE_OK;
}

static struct copse_bucketing bucketing_of(const struct copse_cross_device_params *p)
{
    return (struct copse_bucketing){
        .is_each = p->kind == COPSE_CROSS_TO_ONE,
        .count = p->packs,
        .small_bytes = p->small_bytes,
        .small_group = p->small_group ? p->small_group : SMALL_GROUP,
        .bucket_bytes = p->pack_bytes,
    };
}

static copse_status wrap_result(struct group *g, size_t i)
{
    copse_value *at[COPSE_MAX_REPLICAS + 1] = { NULL };
    const copse_shape shape = g->leaves[i]->value->items[0]->shape;
    copse_status s = COPSE_OK;
    for (uint32_t d = 0; d < g->to.count && !s; d++) {
        struct copse_block *block = g->out[i * g->to.count + d];
        g->out[i * g->to.count + d] = NULL;
        s = copse__value_from_block(g->b->st->ctx, g->b->st, g->to.at[d], shape, block, &at[d]);
    }
    if (!s)
        s = copse__value_distributed(g->b->st, COPSE_VALUE_MIRRORED, at, g->to.at, g->to.count,
                                     &g->leaves[i]->result);
    for (uint32_t d = 0; d < g->to.count; d++)
        copse_value_release(&at[d]);
    return s;
}

static copse_status reduce_group(struct group *g)
{
    copse_value_reducer *x;
    struct copse_way way;
    COPSE_TRY(copse__strategy_reducer(g->b->st, &x));
    COPSE_TRY(collect(g));
    COPSE_TRY(choose(g, x, &way));
    const struct copse_bucketing bucketing = bucketing_of(g->b->params);
    const struct copse_reduction r = {
        .algorithm = way.algorithm,
        .root = way.root,
        .bucketing = &bucketing,
        .type = g->from[0]->type,
        .divisor = divisor_of(g->b, g->contributors),
        .from = g->from,
        .contributors = g->contributors,
        .arrays = g->count,
        .to = g->to.at,
        .to_count = g->to.count,
    };
    COPSE_TRY(copse__blocks_reduce(x, &r, g->out));
    for (size_t i = 0; i < g->count; i++)
        COPSE_TRY(wrap_result(g, i));
    return COPSE_OK;
}

/* ---- the application's own accumulation ---- */

static copse_status check_accumulated(const copse_value *v, const copse_value *like)
{
    if (!v)
        return copse_fail(COPSE_ERR_ARGUMENT, "reduce: the accumulation returned nothing");
    if (v->kind != COPSE_VALUE_ARRAY || v->type != like->type ||
        !copse__shape_equal(v->shape, like->shape))
        return copse_fail(COPSE_ERR_SHAPE,
                          "reduce: the accumulation returned another shape or type than it was given");
    return COPSE_OK;
}

copse_status copse__dense_accumulate(const struct copse_cross_batch *b, copse_value *const *parts,
                                     size_t count, copse_value **out)
{
    *out = NULL;
    struct copse_callback here = { .name = "the accumulate function of cross-device operations",
                                   .is_passive = true };
    copse__callback_enter(&here);
    copse_status s = b->params->accumulate(b->params->user, parts, count, out);
    s = copse__callback_leave(&here, s);
    return s ? s : check_accumulated(*out, parts[0]);
}

static copse_status accumulate(const struct group *g, const struct copse_leaf *leaf, uint32_t root,
                               copse_value **out)
{
    copse_value *parts[COPSE_MAX_REPLICAS] = { NULL };
    copse_status s = COPSE_OK;
    *out = NULL;
    for (uint32_t r = 0; r < g->contributors && !s; r++)
        s = copse__value_at(g->b->st, leaf->value->items[r], root, &parts[r]);
    if (!s)
        s = copse__dense_accumulate(g->b, parts, g->contributors, out);
    for (uint32_t r = 0; r < g->contributors; r++)
        copse_value_release(&parts[r]);
    return s;
}

/* MEAN of one contribution with the divisor of all. */
static copse_status divide(struct group *g, size_t i, const copse_value *sum, uint32_t root)
{
    copse_value_reducer *x;
    const struct copse_bucketing each = { .is_each = true };
    struct copse_block *from = NULL;
    COPSE_TRY(copse__strategy_reducer(g->b->st, &x));
    COPSE_TRY(block_of(g->b->st, sum, &from));
    const struct copse_reduction r = {
        .algorithm = COPSE_COLLECTIVE_TO_ONE,
        .root = root,
        .bucketing = &each,
        .type = from->type,
        .divisor = g->contributors,
        .from = &from,
        .contributors = 1,
        .arrays = 1,
        .to = g->to.at,
        .to_count = g->to.count,
    };
    copse_status s = copse__blocks_reduce(x, &r, &g->out[i * g->to.count]);
    copse__block_release(&from);
    return s ? s : wrap_result(g, i);
}

static copse_status accumulate_group(struct group *g)
{
    uint32_t root;
    COPSE_TRY(copse__dense_root(g->b, &g->to, &root));
    for (size_t i = 0; i < g->count; i++) {
        copse_value *sum;
        copse_status s = accumulate(g, g->leaves[i], root, &sum);
        if (!s && g->b->op == COPSE_REDUCE_MEAN)
            s = divide(g, i, sum, root);
        else if (!s)
            s = copse__value_spread(g->b->st, sum, &g->to, &g->leaves[i]->result);
        copse_value_release(&sum);
        COPSE_TRY(s);
    }
    return COPSE_OK;
}

/* ---- all of it ---- */

copse_status copse__dense_reduce(struct copse_cross_batch *b, enum copse_need need)
{
    struct group g = { .b = b, .contributors = b->st->replica_count };
    copse__batch_destinations(b, &g.to);
    g.count = copse__batch_count(b, need);
    if (g.count == 0)
        return COPSE_OK;
    copse_status s;
    g.leaves = copse__alloc(b->mem, g.count, sizeof(struct copse_leaf *));
    g.from = copse__alloc(b->mem, g.count * g.contributors, sizeof(struct copse_block *));
    g.out = copse__alloc(b->mem, g.count * g.to.count, sizeof(struct copse_block *));
    if (g.leaves && g.from && g.out) {
        g.count = 0;
        for (size_t i = 0; i < b->leaves.count; i++)
            if (b->leaves.at[i].need == need)
                g.leaves[g.count++] = &b->leaves.at[i];
        s = b->params->accumulate ? accumulate_group(&g) : reduce_group(&g);
    } else {
        s = no_memory();
    }
    for (size_t i = 0; g.from && i < g.count * g.contributors; i++)
        copse__block_release(&g.from[i]);
    for (size_t i = 0; g.out && i < g.count * g.to.count; i++)
        copse__block_release(&g.out[i]);
    copse__free(b->mem, g.leaves);
    copse__free(b->mem, g.from);
    copse__free(b->mem, g.out);
    return s;
}

