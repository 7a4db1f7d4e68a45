/* SPDX-License-Identifier: MIT */
/* A loader: the batches of a dataset, in a reproducible order; a thread may prepare batches
   ahead. */
#include "copse/data/pictures.h"
#include "core/base/callback.h"
#include "core/base/deadline.h"
#include "core/base/trace.h"
#include "core/data/dataset/dataset.h"
#include "core/device/device.h"
#include "core/pictures/augment.h"

#define BUFFER_ALIGNMENT 4096u /* so that a device can import the buffers */
#define AHEAD            4u    /* batches that are announced to the dataset before they are read */
#define DEADLINE_NS      (120ull * 1000000000ull)

/* Columns of mixup, after the dataset's own columns. */
enum { MIXED_OTHER, MIXED_PART, MIXED_COLUMNS };

struct slot {
    void *values[COPSE_MAX_INPUTS];
    struct copse_column columns[COPSE_MAX_INPUTS]; /* the columns of a slot */
};

/* Batch b is stored in slot b % slot_count. Without a thread there is one slot. With a thread there
   is one slot more than batches ahead: the slot that the caller reads. */
struct copse_loader {
    copse_context *ctx;
    copse_dataset *ds;
    struct copse_loader_params params;
    size_t count;    /* batches in an epoch */
    uint32_t *order; /* rows of the epoch */
    struct copse_augment augment;
    /* with `augment`: a row of column `changed_column`; without pixels */
    struct copse_augment_picture picture;
    size_t changed_column, label_column;
    size_t columns; /* of a batch */
    struct slot *slots;
    uint32_t slot_count;
    uint32_t epoch;
    size_t next; /* next batch for the caller; written under the lock */
    /* batches before this one are read or announced; of the thread, if there is one, while it is
       busy */
    size_t announced;

    /* with a thread only */
    bool has_thread, has_lock, has_changed;
    copse_thread thread;
    copse_mutex lock; /* guards the fields below, and `next`; `order` while !is_busy */
    copse_cond changed;
    size_t made;         /* batches before this one are ready */
    copse_status status; /* of batch `made`; the text of a failure is `text` */
    char text[COPSE_ERROR_BYTES];
    bool is_busy; /* the thread fills the slot of batch `made` */
    bool is_paused, must_stop;
};

static size_t batch_size(const copse_loader *b, size_t index)
{
    size_t first = index * b->params.batch;
    return COPSE_MIN(b->params.batch, b->ds->info.rows - first);
}

static void dataset_loader_augment(copse_loader *b, size_t index)
{
    struct copse_augment_picture p = b->picture;
    const size_t width = b->ds->columns[b->changed_column].row_bytes, count = batch_size(b, index);

    for (size_t i = 0; i < count; i++) {
        p.pixels = (uint8_t *)b->slots[index % b->slot_count].values[b->changed_column] + i * width;
        copse__augment_apply(&b->augment, b->params.seed, b->epoch,
                             b->order[index * b->params.batch + i], &p);
    }
}

/* Positions 2k and 2k + 1 are mixed; a last one alone stays as it is. */
static void mix_batch(copse_loader *b, size_t index)
{
    const struct slot *slot = &b->slots[index % b->slot_count];
    const size_t width = b->ds->columns[b->changed_column].row_bytes, count = batch_size(b, index);
    uint8_t *pixels = slot->values[b->changed_column];
    const int32_t *labels = slot->values[b->label_column];
    int32_t *other = slot->values[b->ds->info.columns + MIXED_OTHER];
    float *parts = slot->values[b->ds->info.columns + MIXED_PART];

    for (size_t i = 0; i < count; i++) {
        const size_t pair = i ^ 1;
        other[i] = labels[pair < count ? pair : i];
        parts[i] = 1.0f;
        if (i % 2 == 0 || pair >= count)
            continue;
        const uint32_t part = copse__augment_draw_part(&b->augment, b->params.seed, b->epoch,
                                                       b->order[index * b->params.batch + pair]);
        copse__augment_mix(pixels + pair * width, pixels + i * width, width, part);
        parts[pair] = parts[i] = (float)part / COPSE_MIX_ALL;
    }
}

static copse_status fill_slot(copse_loader *b, size_t index)
{
    const struct slot *slot = &b->slots[index % b->slot_count];

    for (size_t c = 0; c < b->ds->info.columns; c++)
        COPSE_TRY(copse__dataset_gather(b->ds, c, b->order + index * b->params.batch,
                                        batch_size(b, index), slot->values[c]));
    if (b->params.augment != NULL)
        dataset_loader_augment(b, index);
    if (b->augment.mixup != 0)
        mix_batch(b, index);
    b->announced = COPSE_MAX(b->announced, index + 1);
    for (; b->announced < b->count && b->announced <= index + AHEAD; b->announced++)
        copse__dataset_ahead(b->ds, b->order + b->announced * b->params.batch,
                             batch_size(b, b->announced));
    return COPSE_OK;
}

static void set_order(copse_loader *b)
{
    uint32_t rows = (uint32_t)b->ds->info.rows;

    if (!b->params.no_shuffle) {
        copse__shuffle(b->order, rows, b->params.seed, b->epoch);
        return;
    }
    for (uint32_t i = 0; i < rows; i++)
        b->order[i] = i;
}

static void dataset_loader_prefetch(void *arg)
{
    copse_loader *b = arg;

    copse__mutex_lock(&b->lock);
    while (!b->must_stop) {
        /* The caller may still read batch next - 1. */
        if (b->is_paused || b->status != COPSE_OK || b->made == b->count ||
            b->made >= b->next + b->params.prefetch) {
            copse__cond_wait(&b->changed, &b->lock, UINT64_MAX);
            continue;
        }
        b->is_busy = true;
        copse__mutex_unlock(&b->lock);
        const copse_status s = fill_slot(b, b->made);
        copse__mutex_lock(&b->lock);
        b->is_busy = false;
        b->status = s;
        b->made += s == COPSE_OK;
        if (s != COPSE_OK)
            snprintf(b->text, sizeof b->text, "%s", copse_last_error());
        copse__cond_signal_all(&b->changed);
    }
    copse__mutex_unlock(&b->lock);
}

static copse_status make_slot(copse_loader *b, struct slot *slot)
{
    static const struct copse_column mixed[MIXED_COLUMNS] = {
        [MIXED_OTHER] = { .name = COPSE_MIXUP_LABEL, .type = COPSE_I32 },
        [MIXED_PART] = { .name = COPSE_MIXUP_PART, .type = COPSE_F32 },
    };

    for (size_t c = 0; c < b->columns; c++) {
        const bool is_mixed = c >= b->ds->info.columns;
        const size_t row_bytes = is_mixed ? sizeof(float) : b->ds->columns[c].row_bytes;
        size_t bytes;
        if (copse__mul(row_bytes, b->params.batch, &bytes))
            slot->values[c] =
                copse__alloc_aligned(&copse__base(b->ctx)->mem, bytes, BUFFER_ALIGNMENT);
        if (slot->values[c] == NULL)
            return copse_fail(COPSE_ERR_NO_MEMORY,
                              "loader: no memory for %u batches of %zu rows of %zu bytes",
                              b->slot_count, b->params.batch, row_bytes);
        slot->columns[c] = is_mixed ? mixed[c - b->ds->info.columns] : b->ds->columns[c].is;
        slot->columns[c].data = slot->values[c];
    }
    return COPSE_OK;
}

static copse_status make_slots(copse_loader *b)
{
    struct copse_mem *mem = &copse__base(b->ctx)->mem;

    b->order = copse__alloc(mem, b->ds->info.rows, sizeof *b->order);
    b->slots = copse__alloc(mem, b->slot_count, sizeof *b->slots);
    if (b->order == NULL || b->slots == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "loader: no memory");
    for (uint32_t i = 0; i < b->slot_count; i++)
        COPSE_TRY(make_slot(b, &b->slots[i]));
    return COPSE_OK;
}

static size_t find_column(const copse_dataset *ds, const char *name)
{
    size_t c = 0;

    while (c < ds->info.columns && strcmp(ds->columns[c].name, name) != 0)
        c++;
    return c;
}

/* Two examples become two others, and each gets two labels. */
static copse_status set_mixup(copse_loader *b)
{
    const copse_dataset *ds = b->ds;

    b->label_column = find_column(ds, "y");
    if (b->label_column == ds->info.columns || ds->columns[b->label_column].is.type != COPSE_I32 ||
        ds->columns[b->label_column].is.shape.rank != 0)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "augment: mixup mixes classes; column \"y\" must be i32, the class of "
                          "each picture");
    if (b->params.no_shuffle || b->params.batch < 2)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "augment: mixup mixes neighbours in a batch; it needs batches of 2 "
                          "examples or more, in a random order");
    if (ds->info.columns + MIXED_COLUMNS > COPSE_MAX_INPUTS ||
        find_column(ds, COPSE_MIXUP_LABEL) < ds->info.columns ||
        find_column(ds, COPSE_MIXUP_PART) < ds->info.columns)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "augment: mixup adds the columns " COPSE_MIXUP_LABEL
                          " and " COPSE_MIXUP_PART ", for which the data has no room");
    b->columns += MIXED_COLUMNS;
    return COPSE_OK;
}

/* Column "x" must be of pictures. */
static copse_status set_augment(copse_loader *b)
{
    const copse_dataset *ds = b->ds;

    if (b->params.augment == NULL)
        return COPSE_OK;
    COPSE_TRY(copse__augment_parse(b->params.augment, &b->augment));
    const size_t c = find_column(ds, "x");
    const copse_shape s = c < ds->info.columns ? ds->columns[c].is.shape : COPSE_SCALAR;
    if ((s.rank != 2 && s.rank != 3) || ds->columns[c].is.type != COPSE_U8)
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "augment: it changes pictures; column \"x\" must be u8 [height, width] or "
            "[height, width, channels]");
    b->params.augment = ""; /* the text is the caller's */
    b->changed_column = c;
    b->picture = (struct copse_augment_picture){ .width = s.dims[1],
                                                 .height = s.dims[0],
                                                 .channels = s.rank == 3 ? s.dims[2] : 1 };
    b->picture.scratch = copse__alloc(&copse__base(b->ctx)->mem, ds->columns[c].row_bytes, 1);
    if (b->picture.scratch == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "augment: no memory");
    return b->augment.mixup != 0 ? set_mixup(b) : COPSE_OK;
}

static copse_status start_thread(copse_loader *b)
{
    COPSE_TRY(copse__mutex_init(&b->lock));
    b->has_lock = true;
    COPSE_TRY(copse__cond_init(&b->changed));
    b->has_changed = true;
    COPSE_TRY(copse__thread_start(&b->thread, dataset_loader_prefetch, b));
    b->has_thread = true;
    return COPSE_OK;
}

copse_status copse_loader_create(copse_dataset *data, const struct copse_loader_params *params,
                                 copse_loader **out)
{
    COPSE_TRY(copse_need("loader", data, params, out));
    size_t rows = data->info.rows;
    copse_status s;

    *out = NULL;
    COPSE_TRY(copse_no_reserved(copse_loader_params, params));
    if (params->batch < 1)
        return copse_fail(COPSE_ERR_ARGUMENT, "loader: the batch size must be at least 1");
    if (params->batch > rows)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "loader: the batch size %zu is larger than the data, "
                          "which has %zu rows",
                          params->batch, rows);
    if (params->prefetch > COPSE_PREFETCH_MAX)
        return copse_fail(COPSE_ERR_ARGUMENT, "loader: prefetch is %u, at most %u",
                          params->prefetch, COPSE_PREFETCH_MAX);
    copse_loader *b = copse__alloc(&copse__base(data->ctx)->mem, 1, sizeof *b);
    if (b == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "loader: no memory");
    b->ctx = copse_context_retain(data->ctx);
    b->ds = copse_dataset_retain(data);
    b->params = *params;
    b->count = rows / params->batch + (!params->drop_last && rows % params->batch != 0);
    b->slot_count = (uint32_t)COPSE_MIN((size_t)params->prefetch + 1, b->count);
    b->params.prefetch = COPSE_MIN(params->prefetch, (uint32_t)b->count);
    b->columns = data->info.columns;
    COPSE_TRY_OR(fail, s, set_augment(b));
    COPSE_TRY_OR(fail, s, make_slots(b));
    set_order(b);
    if (params->prefetch > 0)
        COPSE_TRY_OR(fail, s, start_thread(b));
    *out = b;
    return COPSE_OK;

fail:
    copse_loader_release(&b);
    return s;
}

void copse_loader_release(copse_loader **loader)
{
    if (loader == NULL || *loader == NULL)
        return;
    copse_loader *b = *loader;
    if (!copse__callback_may_release(&copse__base(b->ctx)->log, "copse_loader_release", b))
        return;
    *loader = NULL;
    if (b->has_thread) {
        copse__mutex_lock(&b->lock);
        b->must_stop = true;
        copse__cond_signal_all(&b->changed);
        copse__mutex_unlock(&b->lock);
        copse__thread_join(&b->thread);
    }
    if (b->has_changed)
        copse__cond_fini(&b->changed);
    if (b->has_lock)
        copse__mutex_fini(&b->lock);
    copse_context *ctx = b->ctx;
    struct copse_mem *mem = &copse__base(ctx)->mem;
    for (uint32_t i = 0; b->slots != NULL && i < b->slot_count; i++)
        for (size_t c = 0; c < b->columns; c++)
            copse__free_aligned(mem, b->slots[i].values[c]);
    copse__free(mem, b->slots);
    copse__free(mem, b->picture.scratch);
    copse__free(mem, b->order);
    copse_dataset_release(&b->ds);
    copse__free(mem, b);
    copse_context_release(&ctx);
}

size_t copse_loader_count(const copse_loader *loader)
{
    return loader ? loader->count : 0;
}

void copse_loader_position(const copse_loader *loader, uint32_t *epoch, size_t *index)
{
    if (epoch != NULL)
        *epoch = loader != NULL ? loader->epoch : 0;
    if (index != NULL)
        *index = loader != NULL ? loader->next : 0;
}

/* False when the wait is over. */
static bool wait_for_change(copse_loader *b, struct copse_deadline *d)
{
    (void)copse__cond_wait(&b->changed, &b->lock, copse__now_ns() + copse__deadline_tick(d));
    return copse__deadline_left(d) > 0;
}

copse_status copse_loader_start(copse_loader *b, uint32_t epoch, size_t index)
{
    COPSE_TRY(copse_need("loader", b));
    struct copse_deadline d = copse__deadline(DEADLINE_NS);

    if (epoch == COPSE_STREAM_SPLIT || index > b->count)
        return copse_fail(COPSE_ERR_ARGUMENT, "loader: no batch %zu in epoch %u, there are %zu",
                          index, epoch, b->count);
    if (b->has_thread) {
        copse__mutex_lock(&b->lock);
        b->is_paused = true;
        while (b->is_busy)
            if (!wait_for_change(b, &d) && b->is_busy) {
                b->is_paused = false;
                copse__mutex_unlock(&b->lock);
                return copse_fail(COPSE_ERR_TIMEOUT, "loader: the prefetch thread does not stop");
            }
    }
    if (epoch != b->epoch) {
        b->epoch = epoch;
        set_order(b);
    }
    b->next = b->made = b->announced = index;
    b->status = COPSE_OK;
    if (b->has_thread) {
        b->is_paused = false;
        copse__cond_signal_all(&b->changed);
        copse__mutex_unlock(&b->lock);
    }
    return COPSE_OK;
}

static copse_status next_batch(copse_loader *b, struct copse_host_batch *out)
{
    struct copse_deadline d = copse__deadline(DEADLINE_NS);
    size_t index = b->next;

    memset(out, 0, sizeof *out);
    if (index == b->count)
        return COPSE_ERR_END;
    if (b->has_thread) {
        copse__mutex_lock(&b->lock);
        while (b->made <= index && b->status == COPSE_OK)
            if (!wait_for_change(b, &d) && b->made <= index && b->status == COPSE_OK) {
                copse__mutex_unlock(&b->lock);
                return copse_fail(COPSE_ERR_TIMEOUT,
                                  "loader: the prefetch thread does not deliver");
            }
        const copse_status s = b->made <= index ? b->status : COPSE_OK;
        if (s != COPSE_OK) {
            copse__fail_again(b->text);
            b->status = COPSE_OK; /* the next call tries again */
        } else
            b->next = index + 1;
        copse__cond_signal_all(&b->changed);
        copse__mutex_unlock(&b->lock);
        COPSE_TRY(s);
    } else {
        COPSE_TRY(fill_slot(b, index));
        b->next = index + 1;
    }
    const struct slot *slot = &b->slots[index % b->slot_count];
    out->columns = slot->columns;
    out->column_count = b->columns;
    out->rows = b->order + index * b->params.batch;
    out->count = batch_size(b, index);
    out->epoch = b->epoch;
    out->index = index;
    out->first = (uint64_t)index * b->params.batch;
    return COPSE_OK;
}

copse_status copse_loader_next(copse_loader *b, struct copse_host_batch *out)
{
    COPSE_TRY(copse_need("loader", b, out));
    const struct copse_span span = copse__span_begin(&b->ctx->base);
    return copse__span_end(span, COPSE_SPAN_DATA, "batch", next_batch(b, out));
}
