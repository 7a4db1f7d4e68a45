/* SPDX-License-Identifier: MIT */
/* The places of the kernels of applications, for all contexts of the process, and rows by id and
   name. */
#include <stdio.h>

#include "core/device/kernel/user_kernels.h"

static _Atomic(const struct copse_user_kernel *) places[COPSE_MAX_USER_KERNELS];
/* held while names are compared, and while a kernel is removed */
static atomic_flag is_walked = ATOMIC_FLAG_INIT;

static void user_kernels_lock(void)
{
    while (atomic_flag_test_and_set(&is_walked))
        ;
}

copse_status copse__user_kernel_add(const struct copse_user_kernel *k, uint32_t *id)
{
    for (uint32_t i = 0; i < COPSE_MAX_USER_KERNELS; i++) {
        const struct copse_user_kernel *nothing = NULL;
        if (!atomic_compare_exchange_strong(&places[i], &nothing, k))
            continue;
        *id = COPSE_FIRST_USER_KERNEL + i;
        return COPSE_OK;
    }
    return copse_fail(COPSE_ERR_ARGUMENT,
                      "user op: %s: this process has %d registered ops, the most that are possible",
                      k->row.name, COPSE_MAX_USER_KERNELS);
}

void copse__user_kernel_remove(uint32_t id)
{
    if (id < COPSE_FIRST_USER_KERNEL || id >= COPSE_KERNEL_IDS)
        return;
    user_kernels_lock();
    atomic_store(&places[id - COPSE_FIRST_USER_KERNEL], NULL);
    atomic_flag_clear(&is_walked);
}

const struct copse_user_kernel *copse__user_kernel(uint32_t id)
{
    return id >= COPSE_FIRST_USER_KERNEL && id < COPSE_KERNEL_IDS
               ? atomic_load(&places[id - COPSE_FIRST_USER_KERNEL])
               : NULL;
}

const struct copse_kernel_row *copse__row(uint32_t id)
{
    const struct copse_user_kernel *k = copse__user_kernel(id);
    return id < COPSE_KERNEL_COUNT ? &copse_kernel_table[id] : k ? &k->row : NULL;
}

static bool is_name(const struct copse_kernel_row *row, const char *name, size_t length)
{
    const size_t whole = strlen(row->name), entry = strcspn(row->name, "@");
    return (whole == length || entry == length) && memcmp(row->name, name, length) == 0;
}

bool copse__row_find(const copse_context *ctx, const char *name, size_t length, uint32_t *id)
{
    bool is_found = false;
    user_kernels_lock();
    for (*id = 0; *id < COPSE_KERNEL_IDS; ++*id) {
        const struct copse_kernel_row *row = copse__row(*id);
        const struct copse_user_kernel *k = copse__user_kernel(*id);
        is_found = row && (!k || !ctx || k->ctx == ctx) && is_name(row, name, length);
        if (is_found)
            break;
    }
    atomic_flag_clear(&is_walked);
    return is_found;
}
