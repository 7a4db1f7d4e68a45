/* SPDX-License-Identifier: MIT */
/* Blocks: dense arrays on a device or on the host, and copies between them. */
#include "core/reduce/value/block.h"
#include "core/graph/type.h"

static size_t bytes_of(const struct copse_block *b)
{
    return copse__type_bytes(b->type) * (size_t)b->count;
}

/* Queues copy whole words. */
static size_t word_bytes_of(const struct copse_block *b)
{
    return copse__round_up(bytes_of(b), COPSE_WORD_BYTES);
}

static const char *block_where(const copse_queue *q)
{
    return q ? q->dev->info.id : "the host";
}

copse_status copse__block_create(copse_context *ctx, copse_queue *queue, copse_type type,
                                 uint64_t count, struct copse_block **out)
{
    struct copse_mem *mem = &ctx->base.mem;
    *out = NULL;
    if (count >= (uint64_t)1 << 31)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "array: %llu elements; an array holds fewer than 2^31",
                          (unsigned long long)count);
    struct copse_block *b = copse__alloc(mem, 1, sizeof *b);
    if (!b)
        return copse_fail(COPSE_ERR_NO_MEMORY, "array: no memory for the handle");
    atomic_init(&b->refs, 1);
    b->ctx = copse_context_retain(ctx);
    b->type = type;
    b->count = count;
    copse_status s = COPSE_OK;
    if (queue) {
        b->queue = copse_queue_retain(queue);
        s = copse__buffer_acquire(queue->dev, COPSE_MAX(word_bytes_of(b), COPSE_WORD_BYTES),
                                  &b->buffer);
    } else {
        b->host = copse__alloc(mem, (size_t)count, copse__type_bytes(type));
        if (!b->host)
            s = copse_no_memory("array");
    }
    if (s) {
        copse__block_release(&b);
        return copse_note(s, "while making an array of %llu elements on %s",
                          (unsigned long long)count, block_where(queue));
    }
    *out = b;
    return COPSE_OK;
}

struct copse_block *copse__block_retain(struct copse_block *b)
{
    if (b)
        copse__ref(&b->refs);
    return b;
}

void copse__block_release(struct copse_block **at)
{
    if (!*at)
        return;
    struct copse_block *b = *at;
    *at = NULL;
    if (!copse__unref(&b->refs))
        return;
    copse_context *ctx = b->ctx;
    copse_buffer_release(&b->buffer);
    copse_queue_release(&b->queue);
    copse__free(&ctx->base.mem, b->host);
    copse__free(&ctx->base.mem, b);
    copse_context_release(&ctx);
}

copse_status copse__block_write(struct copse_block *b, const void *values)
{
    if (b->queue)
        return copse_note(copse__queue_write_bytes(b->queue, b->buffer, 0, values, bytes_of(b)),
                          "while writing an array to %s", block_where(b->queue));
    if (b->count)
        memcpy(b->host, values, bytes_of(b));
    return COPSE_OK;
}

copse_status copse__queue_settle(copse_queue *queue, copse_status s)
{
    char text[COPSE_ERROR_BYTES];
    if (s == COPSE_OK || s == COPSE_ERR_TIMEOUT)
        return s;
    memcpy(text, copse_last_error(), sizeof text);
    const bool is_stuck = copse_queue_finish(queue) == COPSE_ERR_TIMEOUT;
    copse__fail_again(text);
    return is_stuck ? COPSE_ERR_TIMEOUT : s;
}

static copse_status read_words(const struct copse_block *b, void *values)
{
    COPSE_TRY(copse_queue_read(b->queue, b->buffer, 0, values, word_bytes_of(b)));
    return copse_note(copse__queue_settle(b->queue, copse_queue_finish(b->queue)),
                      "while reading an array from %s", block_where(b->queue));
}

/* The last word has less than four bytes of the array. */
static copse_status read_tail(const struct copse_block *b, void *values)
{
    struct copse_mem *mem = &b->ctx->base.mem;
    void *words = copse__alloc(mem, word_bytes_of(b), 1);
    COPSE_TRY(copse_need_memory(words, "array"));
    const copse_status s = read_words(b, words);
    if (!s)
        memcpy(values, words, bytes_of(b));
    copse__free_read(mem, words, s);
    return s;
}

copse_status copse__block_read(const struct copse_block *b, void *values)
{
    if (!b->queue) {
        if (b->count)
            memcpy(values, b->host, bytes_of(b));
        return COPSE_OK;
    }
    if (word_bytes_of(b) != bytes_of(b))
        return read_tail(b, values);
    return read_words(b, values);
}

/* Through host memory. After a timeout a device may still write to that memory: it is not freed,
   and the block keeps one extra reference. */
static copse_status block_stage(const struct copse_block *from, struct copse_block *to)
{
    struct copse_block *host;
    if (!from->queue)
        return copse__block_write(to, from->host);
    if (!to->queue)
        return copse__block_read(from, to->host);
    COPSE_TRY(copse__block_create(from->ctx, NULL, from->type, from->count, &host));
    copse_status s = copse__block_read(from, host->host);
    if (s == COPSE_ERR_TIMEOUT)
        return s;
    if (!s)
        s = copse__block_write(to, host->host);
    copse__block_release(&host);
    return s;
}

copse_status copse__block_copy(const struct copse_block *from, copse_queue *to,
                               struct copse_block **out)
{
    struct copse_block *b;
    *out = NULL;
    COPSE_TRY(copse__block_create(from->ctx, to, from->type, from->count, &b));
    const copse_status s =
        to && to == from->queue
            ? copse_queue_copy(to, from->buffer, 0, b->buffer, 0, word_bytes_of(b))
            : block_stage(from, b);
    if (s == COPSE_ERR_TIMEOUT && !to)
        return s; /* see above */
    if (s) {
        copse__block_release(&b);
        return copse_note(s, "while copying an array from %s to %s", block_where(from->queue),
                          block_where(to));
    }
    *out = b;
    return COPSE_OK;
}

copse_status copse__block_detach(struct copse_block **at)
{
    struct copse_block *copy, *shared = *at;
    if (!shared || atomic_load(&shared->refs) == 1)
        return COPSE_OK;
    COPSE_TRY(copse__block_copy(shared, shared->queue, &copy));
    copse_buffer *const buffer = copy->buffer;
    copy->buffer = shared->buffer;
    shared->buffer = buffer;
    copse__block_release(at);
    *at = copy;
    return COPSE_OK;
}

copse_status copse__block_wait(const struct copse_block *b)
{
    if (!b->queue)
        return COPSE_OK;
    return copse_note(copse_queue_finish(b->queue), "while waiting for %s", block_where(b->queue));
}
