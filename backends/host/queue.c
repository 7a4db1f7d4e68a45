/* SPDX-License-Identifier: MIT */
/* Queues of the host backend: a command runs at once, so its ticket is already reached when it is
   returned. */
#include "backends/host/host_internal.h"

copse_status copse_host_queue_init(copse_queue *q)
{
    (void)q;
    return COPSE_OK;
}

void copse_host_queue_fini(copse_queue *q)
{
    (void)q;
}

copse_status copse_host_write(copse_queue *q, const struct copse_binding *dst, const void *src)
{
    COPSE_TRY(copse_host_check(q->dev));
    memcpy(copse_host_at(dst), src, dst->size);
    return COPSE_OK;
}

copse_status copse_host_read(copse_queue *q, const struct copse_binding *src, void *dst)
{
    COPSE_TRY(copse_host_check(q->dev));
    memcpy(dst, copse_host_at(src), src->size);
    return COPSE_OK;
}

static void queue_fill(const struct copse_binding *dst, uint32_t word)
{
    unsigned char *to = copse_host_at(dst);
    for (size_t i = 0; i < dst->size; i += sizeof word)
        memcpy(to + i, &word, sizeof word);
}

copse_status copse_host_encode(copse_queue *q, const struct copse_command *c)
{
    COPSE_TRY(copse_host_check(q->dev));
    switch (c->kind) {
    case COPSE_COMMAND_DISPATCH:
        copse_host_dispatch(c);
        return COPSE_OK;
    case COPSE_COMMAND_COPY:
        memcpy(copse_host_at(&c->bindings[1]), copse_host_at(&c->bindings[0]), c->bindings[0].size);
        return COPSE_OK;
    case COPSE_COMMAND_FILL:
        queue_fill(&c->bindings[0], c->word);
        return COPSE_OK;
    case COPSE_COMMAND_GEMM:
        break;
    }
    return copse_fail(COPSE_ERR_UNSUPPORTED, "host: there is no library matrix product");
}

copse_status copse_host_submit(copse_queue *q, uint64_t *ticket)
{
    COPSE_TRY(copse_host_check(q->dev));
    *ticket = q->submitted + 1;
    return COPSE_OK;
}

copse_status copse_host_wait(copse_queue *q, uint64_t ticket, uint64_t timeout_ns)
{
    (void)ticket;
    (void)timeout_ns;
    return copse_host_check(q->dev);
}

copse_status copse_host_wait_queue(copse_queue *q, copse_queue *other, uint64_t ticket)
{
    (void)other;
    (void)ticket;
    return copse_host_check(q->dev);
}

/* The machine's clock. */
copse_status copse_host_stamp(copse_queue *q, uint32_t slot)
{
    struct host_queue *hq = q->priv;
    hq->stamps[slot] = copse__now_ns();
    return copse_host_check(q->dev);
}

copse_status copse_host_stamp_read(copse_queue *q, uint32_t slot, uint64_t *ns)
{
    const struct host_queue *hq = q->priv;
    *ns = hq->stamps[slot];
    return COPSE_OK;
}
