/* SPDX-License-Identifier: MIT */
/* Variables that go before their strategy, when their model is released. */
#include "core/replica/replica_context.h"
#include "core/variable/storage.h"

static bool is_in(const copse_variable *v, copse_variable *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == v)
            return true;
    return false;
}

/* Whether nothing else can have a variable of the list: a trainer or tower optimizer, a call, a
   value, a server, another worker. */
static bool are_free(const copse_strategy *st, copse_variable *const *list, size_t count)
{
    if (st->storage != &copse__on_replicas || st->dependants || st->calls ||
        st->group.ranks != st->replica_count || copse__context_top())
        return false;
    for (size_t i = 0; i < count; i++)
        if (atomic_load(&list[i]->values) > 0 || list[i]->whole || list[i]->accumulator)
            return false;
    return true;
}

/* Take the variables out of the store, and free the pieces that have no other ones. */
static void leave_store(struct copse_store *store, copse_variable *const *list, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < store->order.count; i++)
        if (!is_in(store->order.at[i], list, count))
            store->order.at[kept++] = store->order.at[i];
    store->order.count = kept;
    for (size_t i = 0; i < count; i++) {
        bool is_last = list[i]->is_placed;
        for (size_t k = 0; k < kept && is_last; k++)
            is_last = store->order.at[k]->piece != list[i]->piece;
        for (size_t k = i + 1; k < count && is_last; k++)
            is_last = !list[k]->is_placed || list[k]->piece != list[i]->piece;
        if (is_last)
            copse__exchange_piece_drop(store->exchange, list[i]->piece);
    }
}

bool copse__variables_release(copse_strategy *st, copse_variable *const *list, size_t count)
{
    size_t kept = 0;
    if (!are_free(st, list, count))
        return false;
    leave_store(st->store, list, count);
    for (size_t i = 0; i < st->variables.count; i++) {
        copse_variable *v = st->variables.at[i];
        if (is_in(v, list, count))
            continue;
        v->index = (uint32_t)kept;
        st->variables.at[kept++] = v;
    }
    st->variables.count = kept;
    for (size_t i = 0; i < count; i++)
        copse__variable_retire(list[i]);
    return true;
}
