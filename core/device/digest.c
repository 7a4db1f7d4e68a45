/* SPDX-License-Identifier: MIT */
/* Digests in a few launches: the first one reads the range, each further one the words that the
   launch before it wrote, until the rest fits into its place in the row. */
#include "core/device/digest.h"

#include "core/device/kernel/kernel.h"

static uint64_t blocks_of(uint64_t words)
{
    return (words + COPSE_DIGEST_BLOCK - 1) / COPSE_DIGEST_BLOCK;
}

static copse_status kernel_of(const struct copse_digests *d, struct copse_kernel **out)
{
    const int32_t none[COPSE_MAX_SPECS] = { 0 };
    return copse__kernel_get(d->queue->dev, COPSE_KERNEL_digest, none, out);
}

/* Bytes of the words that the first launch writes for a range; the words of the second launch
   follow. */
static size_t part_bytes(uint64_t words)
{
    return copse__round_up((size_t)blocks_of(words) * COPSE_WORD_BYTES, COPSE_ALIGNMENT);
}

copse_status copse__digests_room(struct copse_digests *d, uint64_t words)
{
    const size_t bytes = part_bytes(words) + part_bytes(blocks_of(words));
    copse_buffer *larger;
    if (words > UINT32_MAX - COPSE_DIGEST_BLOCK)
        return copse_fail(COPSE_ERR_ARGUMENT, "digests: %llu words in a range",
                          (unsigned long long)words);
    if (copse_buffer_size(d->parts) >= bytes)
        return COPSE_OK;
    COPSE_TRY(copse_buffer_create(d->queue->dev, &(struct copse_buffer_params){ .size = bytes },
                                  &larger));
    copse_buffer_release(&d->parts);
    d->parts = larger;
    return COPSE_OK;
}

/* Places of the digests in a row. */
static copse_status digest_place(struct copse_digests *d, const uint64_t *counts, uint64_t *most)
{
    *most = 1;
    d->first = copse__alloc(&d->queue->dev->base->mem, (size_t)d->ranges + 1, sizeof *d->first);
    if (!d->first)
        return copse_no_memory("digests");
    for (uint32_t i = 0; i < d->ranges; i++) {
        *most = COPSE_MAX(*most, counts[i]);
        d->first[i + 1] = d->first[i] + part_bytes(blocks_of(counts[i]));
    }
    return COPSE_OK;
}

copse_status copse__digests_create(copse_queue *queue, const uint64_t *counts, uint32_t ranges,
                                   uint32_t rows, struct copse_digests *out)
{
    struct copse_digests *d = out;
    struct copse_kernel *kernel;
    uint64_t most;
    size_t bytes;
    *d = (struct copse_digests){ .queue = queue, .rows = rows, .ranges = ranges };
    COPSE_TRY(digest_place(d, counts, &most));
    if (!copse__mul(d->first[ranges], rows, &bytes))
        return copse_no_memory("digests");
    COPSE_TRY(kernel_of(d, &kernel));
    d->bytes = copse__alloc(&queue->dev->base->mem, bytes, 1);
    if (!d->bytes)
        return copse_no_memory("digests");
    COPSE_TRY(copse__digests_room(d, most));
    COPSE_TRY(copse_buffer_create(queue->dev, &(struct copse_buffer_params){ .size = bytes },
                                  &d->buffer));
    return copse_queue_fill(queue, d->buffer, 0, bytes, 0); /* padding is read, too */
}

void copse__digests_free(struct copse_digests *d, bool is_idle)
{
    if (!d->queue)
        return;
    struct copse_mem *mem = &d->queue->dev->base->mem;
    copse_buffer_release(&d->parts);
    copse_buffer_release(&d->buffer);
    copse__free(mem, d->first);
    if (is_idle)
        copse__free(mem, d->bytes);
    *d = (struct copse_digests){ .queue = NULL };
}

static struct copse_binding place_of(const struct copse_digests *d, uint32_t row, uint32_t i)
{
    const size_t at = row * d->first[d->ranges] + d->first[i];
    return (struct copse_binding){ d->buffer, at, d->first[i + 1] - d->first[i] };
}

static copse_status digest_launch(struct copse_digests *d, struct copse_kernel *k,
                                  const struct copse_binding *from, const struct copse_binding *to)
{
    const struct copse_params_digest p = { .n = (uint32_t)(from->size / COPSE_WORD_BYTES) };
    const uint64_t each = (uint64_t)k->group_x * k->group_y * COPSE_DIGEST_BLOCK;
    struct copse_command c;
    COPSE_TRY(copse__dispatch_init(&c, k, (const struct copse_binding[]){ *from, *to }, 2, &p,
                                   (p.n + each - 1) / each, 0));
    return copse__queue_encode(d->queue, &c);
}

copse_status copse__digest_queue(struct copse_digests *d, uint32_t row, uint32_t i,
                                 const struct copse_binding *range)
{
    const size_t second = part_bytes(range->size / COPSE_WORD_BYTES);
    const struct copse_binding to = place_of(d, row, i);
    struct copse_binding from = *range;
    struct copse_kernel *k;
    COPSE_TRY(kernel_of(d, &k));
    for (bool is_odd = false;; is_odd = !is_odd) {
        const size_t bytes = (size_t)blocks_of(from.size / COPSE_WORD_BYTES) * COPSE_WORD_BYTES;
        if (bytes <= to.size)
            return digest_launch(d, k, &from, &to);
        const struct copse_binding parts = { d->parts, is_odd ? second : 0, bytes };
        COPSE_TRY(digest_launch(d, k, &from, &parts));
        from = parts;
    }
}

copse_status copse__digests_read(struct copse_digests *d)
{
    return copse_queue_read(d->queue, d->buffer, 0, d->bytes, d->rows * d->first[d->ranges]);
}

uint64_t copse__digest_hash(const struct copse_digests *d, uint32_t row, uint32_t i, uint64_t hash)
{
    return copse__hash(hash, d->bytes + row * d->first[d->ranges] + d->first[i],
                       d->first[i + 1] - d->first[i]);
}

bool copse__digest_equal(const struct copse_digests *a, uint32_t row_a,
                         const struct copse_digests *b, uint32_t row_b, uint32_t i)
{
    return memcmp(a->bytes + row_a * a->first[a->ranges] + a->first[i],
                  b->bytes + row_b * b->first[b->ranges] + b->first[i],
                  a->first[i + 1] - a->first[i]) == 0;
}

/* ---- the kernel's reference and self-test ---- */

static void digest_host(const void *params, const int32_t *spec, const struct copse_host_arg *args)
{
    const struct copse_params_digest *p = params;
    const uint32_t *words = args[0].data;
    uint32_t *parts = args[1].data;
    (void)spec;
    for (uint32_t first = 0; first < p->n; first += COPSE_DIGEST_BLOCK) {
        uint32_t sum = 2166136261u;
        for (uint32_t i = first; i < COPSE_MIN(first + COPSE_DIGEST_BLOCK, p->n); i++)
            sum = (sum ^ words[i]) * 16777619u;
        parts[first / COPSE_DIGEST_BLOCK] = sum;
    }
}

/* Three blocks, the last one shorter. */
static void digest_test(const struct copse_kernel *k, struct copse_self_test *t)
{
    const struct copse_params_digest p = { .n = 2 * COPSE_DIGEST_BLOCK + 44 };
    memcpy(t->params, &p, sizeof p);
    t->groups = (3 + (uint64_t)k->group_x * k->group_y - 1) / ((uint64_t)k->group_x * k->group_y);
    t->counts[0] = p.n;
    t->counts[1] = 3;
}

/* ---- laws ---- */

const struct copse_law copse_law_digest = { .host = digest_host, .self_test = digest_test };
