/* SPDX-License-Identifier: MIT */
/* Decodes pictures by a few threads: at once, or ahead of the batches that need them. */
#include "core/data/picture/picture_loader.h"

#include "core/base/platform.h"
#include "core/data/picture/parallel.h"

#define ANNOUNCED_BYTES ((size_t)256 << 20) /* of pictures that are decoded ahead */
#define ANNOUNCED_MAX   ((size_t)1 << 16)
#define STALE_READS     256u /* an announced picture that was not read in the meantime is dropped */

/* ---- all at once ---- */

struct decoding {
    const struct copse_picture_list *list;
    const struct copse_picture_shape *shape;
    size_t width; /* bytes of a picture */
    uint8_t *out;
};

static size_t bytes_of(const struct copse_picture_shape *shape)
{
    return (size_t)shape->width * shape->height * shape->channels;
}

static copse_status decode_one(void *user, size_t i)
{
    const struct decoding *d = user;

    return copse__picture_read(&copse__base(d->list->ctx)->mem, d->list->files.at[i].path, d->shape,
                               d->out + i * d->width);
}

copse_status copse__pictures_decode(struct copse_picture_list *list,
                                    const struct copse_picture_shape *shape, copse_array **out)
{
    const size_t axes[] = { list->files.count, shape->height, shape->width, shape->channels };

    COPSE_TRY(
        copse__array_create(list->ctx, COPSE_U8, shape->channels == 1 ? 3 : 4, axes, NULL, out));
    struct decoding d = { list, shape, bytes_of(shape), (*out)->data };
    const copse_status s =
        copse__parallel_for(copse__picture_threads(), list->files.count, decode_one, &d);
    if (s != COPSE_OK)
        copse_array_release(out);
    return s;
}

/* ---- ahead ---- */

enum state {
    ABSENT,
    ANNOUNCED,
    BUSY, /* a thread decodes it */
    READY,
};

struct entry {
    uint8_t *pixels; /* READY */
    uint8_t state;
    bool is_kept; /* `pixels` stays until the loader is released */
};

/* A call of `read`, which waits for it. */
struct job {
    struct job *next_job;
    const uint32_t *rows;
    uint8_t *out;
    size_t count; /* of the rows to be read: those before the first failure */
    size_t next, busy;
    copse_status status;
    size_t failed; /* the row of `status` and `text` */
    char text[COPSE_ERROR_BYTES];
};

struct announced {
    uint32_t row;
    uint64_t reads; /* how many reads began before it was announced */
};

struct loader {
    struct copse_row_source source;
    struct copse_picture_list *list;
    struct copse_picture_shape shape;
    size_t width; /* bytes of a picture */
    struct copse_mem *mem;
    copse_thread threads[COPSE_PICTURE_THREADS_MAX];
    uint32_t thread_count;
    bool has_lock, has_changed;

    copse_mutex lock; /* guards everything below */
    copse_cond changed;
    bool must_stop;
    struct entry *entries; /* of the rows */
    size_t kept, kept_max; /* bytes */
    struct job *jobs;
    uint64_t reads;
    /* Announced rows first..end, row i at index i % room. Threads have taken those before
       `next`. */
    struct announced *ring;
    size_t room;
    uint64_t first, next, end;
};

/* Whether another picture may be kept; then it counts. */
static bool picture_loader_reserve(struct loader *l)
{
    if (l->kept_max - l->kept < l->width)
        return false;
    l->kept += l->width;
    return true;
}

/* Decode a row into `to`, without the lock. */
static copse_status picture_loader_decode(struct loader *l, uint32_t row, uint8_t *to)
{
    copse__mutex_unlock(&l->lock);
    const copse_status s = copse__picture_read(l->mem, l->list->files.at[row].path, &l->shape, to);
    copse__mutex_lock(&l->lock);
    return s;
}

/* An announced row. A failure is left to the call that reads the row. */
static void decode_ahead(struct loader *l, uint32_t row)
{
    struct entry *e = &l->entries[row];
    uint8_t *pixels = copse__resize(l->mem, NULL, l->width, 1);

    e->state = BUSY;
    const bool is_kept = picture_loader_reserve(l);
    const bool is_decoded = pixels != NULL && picture_loader_decode(l, row, pixels) == COPSE_OK;
    if (is_decoded) {
        *e = (struct entry){ pixels, READY, is_kept };
    } else {
        e->state = ABSENT;
        l->kept -= is_kept ? l->width : 0;
        copse__free(l->mem, pixels);
    }
}

/* The pixels of a READY row; one that is not kept is forgotten. */
static void copy_ready(struct loader *l, struct entry *e, uint8_t *to)
{
    uint8_t *pixels = e->pixels;
    const bool is_kept = e->is_kept;

    if (!is_kept)
        *e = (struct entry){ NULL, ABSENT, false };
    copse__mutex_unlock(&l->lock);
    memcpy(to, pixels, l->width);
    if (!is_kept)
        copse__free(l->mem, pixels);
    copse__mutex_lock(&l->lock);
}

static copse_status decode_row(struct loader *l, uint32_t row, uint8_t *to)
{
    struct entry *e = &l->entries[row];
    const bool is_reserved = picture_loader_reserve(l);
    uint8_t *copy = is_reserved ? copse__resize(l->mem, NULL, l->width, 1) : NULL;

    e->state = BUSY;
    const copse_status s = picture_loader_decode(l, row, to);
    if (s == COPSE_OK && copy != NULL) {
        memcpy(copy, to, l->width);
        *e = (struct entry){ copy, READY, true };
        return COPSE_OK;
    }
    e->state = ABSENT;
    l->kept -= is_reserved ? l->width : 0;
    copse__free(l->mem, copy);
    return s;
}

/* The next row of a job. */
static void read_next(struct loader *l, struct job *j)
{
    const size_t i = j->next++;
    const uint32_t row = j->rows != NULL ? j->rows[i] : (uint32_t)i;
    struct entry *e = &l->entries[row];
    copse_status s = COPSE_OK;

    j->busy++;
    while (e->state == BUSY)
        copse__cond_wait(&l->changed, &l->lock, UINT64_MAX);
    if (e->state == READY)
        copy_ready(l, e, j->out + i * l->width);
    else
        s = decode_row(l, row, j->out + i * l->width);
    j->busy--;
    if (s != COPSE_OK && (j->status == COPSE_OK || i < j->failed)) {
        j->status = s;
        j->failed = i;
        j->count = j->next;
        strcpy(j->text, copse_last_error());
    }
}

static struct job *find_job(struct loader *l)
{
    struct job *j = l->jobs;

    while (j != NULL && j->next >= j->count)
        j = j->next_job;
    return j;
}

/* The next announced row that is not read yet; false: there is none. */
static bool take_announced(struct loader *l, uint32_t *row)
{
    while (l->next < l->end) {
        *row = l->ring[l->next++ % l->room].row;
        if (l->entries[*row].state == ANNOUNCED)
            return true;
    }
    return false;
}

static void picture_loader_run(void *arg)
{
    struct loader *l = arg;
    uint32_t row;

    copse__mutex_lock(&l->lock);
    while (!l->must_stop) {
        struct job *j = find_job(l);
        if (j != NULL)
            read_next(l, j);
        else if (take_announced(l, &row))
            decode_ahead(l, row);
        else {
            copse__cond_wait(&l->changed, &l->lock, UINT64_MAX);
            continue;
        }
        copse__cond_signal_all(&l->changed);
    }
    copse__mutex_unlock(&l->lock);
}

/* ---- the table ---- */

static copse_status read_pictures(struct copse_row_source *self, const uint32_t *rows, size_t count,
                                  void *out)
{
    struct loader *l = (struct loader *)self;
    struct job job = { .rows = rows, .out = out, .count = count }, **at = &l->jobs;

    copse__mutex_lock(&l->lock);
    l->reads++;
    while (*at != NULL)
        at = &(*at)->next_job;
    *at = &job;
    copse__cond_signal_all(&l->changed);
    while (job.next < job.count || job.busy > 0)
        copse__cond_wait(&l->changed, &l->lock, UINT64_MAX);
    for (at = &l->jobs; *at != &job;)
        at = &(*at)->next_job;
    *at = job.next_job;
    copse__mutex_unlock(&l->lock);
    if (job.status != COPSE_OK)
        copse__fail_again(job.text);
    return job.status;
}

/* Rows at the start of the ring that are no longer ahead, or that are stale. */
static void picture_loader_trim(struct loader *l)
{
    for (; l->first < l->end; l->first++) {
        const struct announced *a = &l->ring[l->first % l->room];
        struct entry *e = &l->entries[a->row];
        const bool is_ahead =
            e->state == ANNOUNCED || e->state == BUSY || (e->state == READY && !e->is_kept);
        if (is_ahead && (e->state == BUSY || l->reads - a->reads < STALE_READS))
            return;
        if (!is_ahead)
            continue;
        copse__free(l->mem, e->pixels);
        *e = (struct entry){ NULL, ABSENT, false };
    }
}

static void picture_loader_announce(struct copse_row_source *self, const uint32_t *rows,
                                    size_t count)
{
    struct loader *l = (struct loader *)self;

    copse__mutex_lock(&l->lock);
    picture_loader_trim(l);
    for (size_t i = 0; i < count && l->end - l->first < l->room; i++) {
        if (l->entries[rows[i]].state != ABSENT)
            continue;
        l->entries[rows[i]].state = ANNOUNCED;
        l->ring[l->end++ % l->room] = (struct announced){ rows[i], l->reads };
    }
    l->next = COPSE_MAX(l->next, l->first);
    copse__cond_signal_all(&l->changed);
    copse__mutex_unlock(&l->lock);
}

static void picture_loader_release(struct copse_row_source *self)
{
    struct loader *l = (struct loader *)self;
    struct copse_mem *mem = l->mem;

    if (l->thread_count > 0) {
        copse__mutex_lock(&l->lock);
        l->must_stop = true;
        copse__cond_signal_all(&l->changed);
        copse__mutex_unlock(&l->lock);
    }
    for (uint32_t i = 0; i < l->thread_count; i++)
        copse__thread_join(&l->threads[i]);
    if (l->has_changed)
        copse__cond_fini(&l->changed);
    if (l->has_lock)
        copse__mutex_fini(&l->lock);
    for (size_t i = 0; l->entries != NULL && i < l->list->files.count; i++)
        copse__free(mem, l->entries[i].pixels);
    copse__free(mem, l->entries);
    copse__free(mem, l->ring);
    struct copse_picture_list *list = l->list;
    copse__free(mem, l);
    copse__picture_list_release(&list);
}

static const struct copse_row_table table = { read_pictures, picture_loader_announce,
                                              picture_loader_release };

static copse_status picture_loader_start(struct loader *l, uint32_t threads)
{
    l->entries = copse__alloc(l->mem, l->list->files.count, sizeof *l->entries);
    l->ring = copse__alloc(l->mem, l->room, sizeof *l->ring);
    if (l->entries == NULL || l->ring == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "pictures: no memory");
    COPSE_TRY(copse__mutex_init(&l->lock));
    l->has_lock = true;
    COPSE_TRY(copse__cond_init(&l->changed));
    l->has_changed = true;
    for (; l->thread_count < COPSE_MIN(threads, COPSE_PICTURE_THREADS_MAX); l->thread_count++)
        COPSE_TRY(copse__thread_start(&l->threads[l->thread_count], picture_loader_run, l));
    return COPSE_OK;
}

copse_status copse__picture_loader_create(struct copse_picture_list *list,
                                          const struct copse_picture_shape *shape, uint32_t threads,
                                          size_t kept, struct copse_row_source **out)
{
    struct copse_mem *mem = &copse__base(list->ctx)->mem;
    struct loader *l = copse__alloc(mem, 1, sizeof *l);

    *out = NULL;
    if (l == NULL)
        return copse_fail(COPSE_ERR_NO_MEMORY, "pictures: no memory");
    copse__row_source_init(&l->source, &table);
    l->list = copse__picture_list_retain(list);
    l->shape = *shape;
    l->width = bytes_of(shape);
    l->mem = mem;
    l->kept_max = kept;
    l->room = COPSE_MIN(COPSE_MIN(ANNOUNCED_BYTES / l->width + threads, ANNOUNCED_MAX),
                        list->files.count);
    const copse_status s = picture_loader_start(l, threads);
    if (s == COPSE_OK)
        *out = &l->source;
    else
        picture_loader_release(&l->source);
    return s;
}
