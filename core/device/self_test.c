/* SPDX-License-Identifier: MIT */
/* The first launch of a compiled kernel on a device: a few groups on numbers for which it must
   return exactly the results of its host function, and must write nothing else. A kernel that fails
   is blocked on the device, and the next variant is used. The test detects kernels that are
   compiled completely wrong; conformance detects the rest. */
#include <math.h>
#include <stdio.h>

#include "core/device/device.h"

#define BAND      COPSE_ALIGNMENT /* bytes after each buffer that must stay unchanged */
#define UNTOUCHED -12345.0f       /* in written buffers and around them */

/* All buffers one after the other, as words of one block. */
struct layout {
    size_t at[COPSE_MAX_BINDINGS]; /* bytes */
    size_t bytes;
};

static uint32_t bits_of(float f)
{
    uint32_t word;
    memcpy(&word, &f, sizeof word);
    return word;
}

static float float_of(uint32_t word)
{
    float f;
    memcpy(&f, &word, sizeof f);
    return f;
}

static void self_test_preset(const struct copse_kernel_row *row, struct copse_self_test *t)
{
    for (uint32_t a = 0; a < row->arg_count; a++)
        for (uint32_t i = 0; i < COPSE_SELF_TEST_WORDS; i++)
            t->words[a][i] = row->args[a].is_written ? bits_of(UNTOUCHED)
                             : row->args[a].kind == COPSE_ARG_I32
                                 ? (5 * i + a) % 4
                                 : bits_of((float)((7 * i + 3 * a + i / 9) % 9) - 4.0f);
}

static void lay_out(const struct copse_kernel_row *row, const struct copse_self_test *t,
                    struct layout *out)
{
    out->bytes = 0;
    for (uint32_t a = 0; a < row->arg_count; a++) {
        out->at[a] = out->bytes;
        out->bytes += copse__round_up(4 * (size_t)t->counts[a] + BAND, COPSE_ALIGNMENT);
    }
}

static void fill_image(const struct copse_kernel_row *row, const struct copse_self_test *t,
                       const struct layout *l, uint32_t *image)
{
    for (size_t i = 0; i < l->bytes / 4; i++)
        image[i] = bits_of(UNTOUCHED);
    for (uint32_t a = 0; a < row->arg_count; a++)
        memcpy((char *)image + l->at[a], t->words[a], 4 * (size_t)t->counts[a]);
}

static void run_truth(const struct copse_kernel *k, const struct copse_self_test *t,
                      const struct layout *l, uint32_t *image)
{
    struct copse_host_arg args[COPSE_MAX_BINDINGS];
    for (uint32_t a = 0; a < k->row->arg_count; a++)
        args[a] = (struct copse_host_arg){ (char *)image + l->at[a], t->counts[a], false };
    k->row->law->host(t->params, k->spec, args);
}

static copse_status run_on(copse_queue *q, copse_buffer *buf, struct copse_kernel *k,
                           const struct copse_self_test *t, const struct layout *l,
                           const uint32_t *image, uint32_t *got)
{
    struct copse_binding bindings[COPSE_MAX_BINDINGS];
    struct copse_command c;
    for (uint32_t a = 0; a < k->row->arg_count; a++)
        bindings[a] =
            (struct copse_binding){ buf, l->at[a],
                                    copse__round_up(4 * (size_t)COPSE_MAX(t->counts[a], 1), 16) };
    COPSE_TRY(copse__dispatch_init(&c, k, bindings, k->row->arg_count, t->params, t->groups, 0));
    COPSE_TRY(copse_queue_write(q, buf, 0, image, l->bytes));
    COPSE_TRY(copse__queue_encode(q, &c));
    COPSE_TRY(copse_queue_read(q, buf, 0, got, l->bytes));
    return copse_queue_finish(q);
}

/* *was_run is false if all queues of the device are in use for a long time. */
static copse_status run_on_device(copse_device *dev, struct copse_kernel *k,
                                  const struct copse_self_test *t, const struct layout *l,
                                  const uint32_t *image, uint32_t *got, bool *was_run)
{
    copse_queue *q;
    copse_buffer *buf;
    copse_status s = copse_queue_create(dev, &q);
    *was_run = s != COPSE_ERR_UNSUPPORTED;
    if (s != COPSE_OK)
        return *was_run ? s : COPSE_OK;
    s = copse__buffer_acquire(dev, l->bytes, &buf);
    if (s == COPSE_OK) {
        s = run_on(q, buf, k, t, l, image, got);
        copse_buffer_release(&buf);
    }
    copse_queue_release(&q);
    return s;
}

/* The buffer that a byte belongs to, or follows. */
static uint32_t buffer_of(const struct copse_kernel_row *row, const struct layout *l, size_t byte)
{
    uint32_t a = row->arg_count - 1u;
    while (a > 0 && l->at[a] > byte)
        a--;
    return a;
}

static bool is_right(float got, float expected, float slack)
{
    if (isnan(expected) || isinf(expected) || slack == 0.0f)
        return got == expected || (isnan(got) && isnan(expected));
    return fabsf(got - expected) <= slack * (1.0f + fabsf(expected));
}

/* Write the error to `reason`, if there is one. */
static void self_test_compare(const struct copse_kernel_row *row, const struct copse_self_test *t,
                              const struct layout *l, const uint32_t *expected, const uint32_t *got,
                              char *reason, size_t room)
{
    for (size_t i = 0; i < l->bytes / 4 && !*reason; i++) {
        const uint32_t a = buffer_of(row, l, 4 * i);
        const size_t element = i - l->at[a] / 4;
        const bool is_float = row->args[a].kind != COPSE_ARG_I32;
        if (got[i] == expected[i] ||
            (is_float && is_right(float_of(got[i]), float_of(expected[i]), t->slack)))
            continue;
        if (element >= t->counts[a])
            snprintf(reason, room, "self-test: wrote behind the end of buffer %u", a);
        else if (is_float)
            snprintf(reason, room, "self-test: element %zu of buffer %u is %.9g, not %.9g", element,
                     a, (double)float_of(got[i]), (double)float_of(expected[i]));
        else
            snprintf(reason, room, "self-test: element %zu of buffer %u is %d, not %d", element, a,
                     (int)got[i], (int)expected[i]);
    }
}

static copse_status test_kernel(copse_device *dev, struct copse_kernel *k,
                                struct copse_self_test *t, char *reason, size_t room)
{
    struct layout l;
    lay_out(k->row, t, &l);
    uint32_t *images = copse__alloc(&dev->base->mem, 3, l.bytes);
    if (!images)
        return copse_no_memory("self-test");
    uint32_t *const expected = images + l.bytes / 4, *const got = expected + l.bytes / 4;
    fill_image(k->row, t, &l, images);
    memcpy(expected, images, l.bytes);
    run_truth(k, t, &l, expected);
    bool was_run;
    copse_status s = run_on_device(dev, k, t, &l, images, got, &was_run);
    if (s == COPSE_OK && was_run)
        self_test_compare(k->row, t, &l, expected, got, reason, room);
    copse__free_read(&dev->base->mem, images, s);
    return copse_note(s, "in the self-test of %s", k->row->name);
}

copse_status copse__self_test_ask(struct copse_kernel *k, char *reason, size_t room)
{
    copse_device *dev = k->dev;
    const uint64_t start = copse__now_ns();
    *reason = '\0';
    if (!k->row->law->self_test)
        return COPSE_OK;
    struct copse_self_test *t = copse__alloc(&dev->base->mem, 1, sizeof *t);
    if (!t)
        return copse_no_memory("self-test");
    self_test_preset(k->row, t);
    k->row->law->self_test(k, t);
    const copse_status s = t->groups > 0 ? test_kernel(dev, k, t, reason, room) : COPSE_OK;
    copse__free(&dev->base->mem, t);
    copse__log(&dev->base->log, COPSE_LOG_DEBUG, "self-test: %s on %s, %.0f us", k->row->name,
               dev->info.id, (double)(copse__now_ns() - start) * 1e-3);
    return s;
}

copse_status copse__self_test(copse_device *dev, struct copse_kernel *k)
{
    char reason[128];
    if (dev->info.kind == COPSE_DEVICE_REFERENCE || dev->tries_blocked ||
        atomic_load_explicit(&dev->ctx->self_tests_off, memory_order_relaxed) > 0)
        return COPSE_OK;
    COPSE_TRY(copse__self_test_ask(k, reason, sizeof reason));
    if (!*reason)
        return COPSE_OK;
    COPSE_TRY(copse__device_fail_test(dev, k->row->name, reason));
    return copse__kernel_refuse(dev, k->row->name, reason);
}
