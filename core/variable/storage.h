/* SPDX-License-Identifier: MIT */
/* Where a strategy keeps the values of its variables, and how they are read and changed outside of
   graphs. Two implementations: the memory of the replicas (component.c), and parameter servers
   (servers.c); with servers, replicas have working copies for graphs. Graphs read
   copse__variable_values in both cases. */
#ifndef COPSE_STORAGE_H
#define COPSE_STORAGE_H

#include "core/ps/change.h"
#include "core/reduce/value/block.h"
#include "core/variable/flat_store.h"

struct copse_storage {
    const struct copse_storage_table *table;
};

struct copse_storage_table {
    /* NULL: nothing to do. Keep a new variable with these first values; with servers: on the server
       of `like`, unless that is NULL. */
    copse_status (*keep)(copse_variable *v, const copse_variable *like, const void *values);
    /* NULL: nothing to do. The replicas' memory of the variable is new. */
    void (*moved)(copse_variable *v);
    /* To host memory, or to a block on the replica's queue. */
    copse_status (*read)(copse_variable *v, uint32_t replica, void *values);
    copse_status (*read_block)(copse_variable *v, uint32_t replica, struct copse_block *to);
    /* Change a replica's component by values in host memory, of the variable's type and size;
       COPSE_CHANGE_... */
    copse_status (*change)(copse_variable *v, uint32_t replica, enum copse_change how,
                           const void *by);
    /* Change rows of it; COPSE_SCATTER_... */
    copse_status (*scatter)(copse_variable *v, uint32_t replica, enum copse_change how,
                            const struct copse_rows *rows);
    /* Set the components of all replicas of this worker. */
    copse_status (*assign)(copse_variable *v, const void *values);
    /* Device memory in which a copy on the device sets the component; buffer NULL: there is
       none. */
    struct copse_binding (*target)(const copse_variable *v, uint32_t replica);
    /* NULL: nothing to do. Bring the replicas' memory to the values that are kept. Queued. */
    copse_status (*pull)(copse_strategy *st);
    /* NULL: nothing to do. */
    void (*release)(copse_strategy *st);
};

extern struct copse_storage copse__on_replicas; /* of all strategies that keep values so */

static inline const struct copse_storage_table *copse__storage(const copse_variable *v)
{
    return v->strategy->storage->table;
}

#endif
