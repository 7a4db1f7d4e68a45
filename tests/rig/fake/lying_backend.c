/* SPDX-License-Identifier: MIT */
/* See lying_backend.h. A fill command after the dispatch changes a word, so that it works on every
   backend, including recorded segments. */
#include "tests/rig/fake/lying_backend.h"

#include <stdlib.h>

struct copse_lie copse_lie;

static const struct copse_backend *inner;
static struct copse_backend layer;

static atomic_int queues;

static copse_status queue_init(copse_queue *q)
{
    const int now = atomic_fetch_add(&queues, 1) + 1; /* queue_fini is always called */
    if (copse_lie.how == LIE_QUEUES && now > atoi(copse_lie.kernel))
        return copse_fail(COPSE_ERR_NO_MEMORY, "lying: there are %s queues already",
                          copse_lie.kernel);
    return inner->queue_init(q);
}

static void queue_fini(copse_queue *q)
{
    inner->queue_fini(q);
    atomic_fetch_sub(&queues, 1);
}

/* A name, or the begin of several and a '*'. */
static bool is_lied_about(const char *kernel)
{
    const size_t length = strcspn(copse_lie.kernel, "*");
    return strncmp(kernel, copse_lie.kernel, length) == 0 &&
           (copse_lie.kernel[length] == '*' || kernel[length] == '\0');
}

static bool is_meant(const struct copse_command *c)
{
    return copse_lie.how != LIE_NONE && c->kind == COPSE_COMMAND_DISPATCH &&
           is_lied_about(c->kernel->row->name);
}

/* Set one word in the middle of the last result to 1000. */
static struct copse_command spoil(const struct copse_command *c)
{
    struct copse_command fill = { .kind = COPSE_COMMAND_FILL,
                                  .binding_count = 1,
                                  .word = 0x447a0000u };
    for (uint32_t i = 0; i < c->kernel->row->arg_count; i++)
        if (c->kernel->row->args[i].is_written) {
            fill.bindings[0] = c->bindings[i];
            fill.bindings[0].offset += c->bindings[i].size / 8 * 4;
            fill.bindings[0].size = 4;
        }
    return fill;
}

/* Hang or fail. */
static copse_status strike(void)
{
    if (copse_lie.how == LIE_CRASH)
        abort();
    while (copse_lie.how == LIE_HANG)
        copse__sleep_ns(1000000000u);
    return copse_lie.how == LIE_LOSE
               ? copse_fail(COPSE_ERR_DEVICE_LOST, "lying: %s lost the device", copse_lie.kernel)
               : COPSE_OK;
}

static copse_status encode(copse_queue *q, const struct copse_command *c)
{
    if (!is_meant(c))
        return inner->encode(q, c);
    atomic_fetch_add(&copse_lie.met, 1u);
    COPSE_TRY(strike());
    COPSE_TRY(inner->encode(q, c));
    const struct copse_command fill = spoil(c);
    return copse_lie.how == LIE_CORRUPT ? inner->encode(q, &fill) : COPSE_OK;
}

/* ---- segments: the backend below sees more commands than core does ---- */

struct false_segment {
    struct copse_command *commands;
    size_t count;
    bool is_meant;
};

static size_t tail_at(void)
{
    return copse__round_up(inner->segment_priv, 16);
}

static struct false_segment *false_of(struct copse_segment *seg)
{
    return (struct false_segment *)((unsigned char *)seg->priv + tail_at());
}

static void swap(struct copse_segment *seg)
{
    struct false_segment *f = false_of(seg);
    struct copse_command *commands = seg->commands;
    const size_t count = seg->count;
    seg->commands = f->commands;
    seg->count = f->count;
    f->commands = commands;
    f->count = count;
}

static copse_status segment_init(struct copse_segment *seg)
{
    struct false_segment *f = false_of(seg);
    f->commands = calloc(2 * seg->count + 1, sizeof *f->commands);
    if (!f->commands)
        return copse_fail(COPSE_ERR_NO_MEMORY, "lying: segment");
    for (size_t i = 0; i < seg->count; i++) {
        f->commands[f->count++] = seg->commands[i];
        if (!is_meant(&seg->commands[i]))
            continue;
        atomic_fetch_add(&copse_lie.met, 1u);
        f->is_meant = true;
        if (copse_lie.how == LIE_CORRUPT)
            f->commands[f->count++] = spoil(&seg->commands[i]);
    }
    swap(seg);
    const copse_status s = inner->segment_init(seg);
    swap(seg);
    return s;
}

static void segment_fini(struct copse_segment *seg)
{
    struct false_segment *f = false_of(seg);
    if (f->commands) {
        swap(seg);
        inner->segment_fini(seg);
        swap(seg);
    }
    free(f->commands);
    f->commands = NULL;
}

static copse_status replay(struct copse_segment *seg)
{
    if (false_of(seg)->is_meant)
        COPSE_TRY(strike());
    swap(seg);
    const copse_status s = inner->replay(seg);
    swap(seg);
    return s;
}

const struct copse_backend *const *lying_backends(const char *name)
{
    static const struct copse_backend *list[3];
    const struct copse_backend *host = NULL;
    inner = NULL;
    for (size_t i = 0; copse_backends[i]; i++) {
        if (strcmp(copse_backends[i]->name, name) == 0)
            inner = copse_backends[i];
        if (strcmp(copse_backends[i]->name, "host") == 0)
            host = copse_backends[i];
    }
    if (!inner)
        return NULL;
    layer = *inner;
    layer.name = "lying";
    layer.segment_priv = tail_at() + sizeof(struct false_segment);
    layer.queue_init = queue_init;
    layer.queue_fini = queue_fini;
    layer.encode = encode;
    layer.segment_init = segment_init;
    layer.segment_fini = segment_fini;
    layer.replay = replay;
    list[0] = &layer;
    list[1] = host;
    return list;
}
