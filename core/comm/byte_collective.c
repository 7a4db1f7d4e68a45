/* SPDX-License-Identifier: MIT */
/* Collectives of bytes: messages between all pairs. A header precedes each collective, so that
   workers at different collectives detect it before any data is sent. */
#include <stdio.h>

#include "core/comm/cluster.h"

#define TAG_DATA  4u
#define PER_CALL  64u /* collectives of an operation whose tags are its own */
#define LINE_ROOM 200

uint32_t copse__collective_tag(const copse_cluster *c, uint32_t kind)
{
    const uint64_t span = (COPSE_TRANSPORT_TAGS - TAG_DATA) / 4;
    return TAG_DATA + (uint32_t)((c->operation * PER_CALL + c->index) % span) * 4 + kind;
}

copse_status copse__collective_begin_on(copse_cluster *c, const char *what, const char *form,
                                        uint64_t size, copse_status vote)
{
    COPSE_TRY(copse__cluster_check(c));
    c->sequence++;
    if (c->depth == 0) {
        c->operation++;
        c->index = 0;
    }
    c->header = (struct copse_header){ .size = size,
                                       .operation = c->operation,
                                       .index = ++c->index,
                                       .vote = (uint32_t)vote,
                                       .detail = c->detail };
    c->detail = 0;
    snprintf(c->header.call, sizeof c->header.call, "%s", c->call);
    snprintf(c->header.what, sizeof c->header.what, "%s", what);
    snprintf(c->header.form, sizeof c->header.form, "%s", form);
    if (vote)
        snprintf(c->header.why, sizeof c->header.why, "%s", copse_last_error());
    return copse__headers_send(c);
}

copse_status copse__collective_begin(copse_cluster *c, const char *what, uint64_t size,
                                     copse_status vote)
{
    return copse__collective_begin_on(c, what, "", size, vote);
}

/* Both headers state type and shape of their operands, and these differ. */
static bool has_other_form(const struct copse_header *h, const struct copse_header *own)
{
    return h->form[0] && own->form[0] && (strcmp(h->form, own->form) != 0 || h->size != own->size);
}

static copse_status byte_collective_compare(const copse_cluster *c, uint32_t r)
{
    const struct copse_header *h = &c->headers[r], *own = &c->header;
    char names[COPSE_WORKERS_TEXT];
    if (strcmp(h->what, own->what) != 0 || strcmp(h->call, own->call) != 0 ||
        h->index != own->index || (h->size != own->size && !has_other_form(h, own)))
        return copse_fail(
            COPSE_ERR_ARGUMENT,
            "cluster: %s is at another collective: %s%s%s (%llu bytes%s%s), this one at %s%s%s "
            "(%llu bytes%s%s); all workers must do the same things in the same order; nothing was "
            "sent",
            copse__cluster_names(c, 1ull << r, names), h->what, h->form[0] ? " of " : "", h->form,
            (unsigned long long)h->size, h->call[0] ? ", in a " : "", h->call, own->what,
            own->form[0] ? " of " : "", own->form, (unsigned long long)own->size,
            own->call[0] ? ", in a " : "", own->call);
    if (h->detail != own->detail)
        return copse_fail(COPSE_ERR_ARGUMENT,
                          "cluster: %s has another step or another batch than this worker",
                          copse__cluster_names(c, 1ull << r, names));
    return COPSE_OK;
}

/* All take part. Every worker has the same headers, and so finds the same. */
static copse_status compare_all(const copse_cluster *c)
{
    char names[COPSE_WORKERS_TEXT];
    for (uint32_t r = 0; r < c->t.size; r++)
        if (r != c->t.rank)
            COPSE_TRY(byte_collective_compare(c, r));
    for (uint32_t r = 0; r < c->t.size; r++)
        if (r != c->t.rank && has_other_form(&c->headers[r], &c->header))
            return copse_fail(COPSE_ERR_SHAPE,
                              "cluster: %s has %s in '%s', this worker %s; all workers need the "
                              "same type and shape; nothing was sent",
                              copse__cluster_names(c, 1ull << r, names), c->headers[r].form,
                              c->header.what, c->header.form);
    return COPSE_OK;
}

/* A worker that votes does not wait for the others. */
copse_status copse__collective_barrier(copse_cluster *c, copse_cluster_busy_fn *busy, void *user)
{
    if (c->header.vote)
        return copse__operation_fail(c, (copse_status)c->header.vote);
    COPSE_TRY(copse__headers_wait(c, busy, user));
    return copse__operation_fail(c, compare_all(c));
}

copse_status copse__cluster_broadcast_bytes(copse_cluster *c, void *bytes, size_t size)
{
    struct copse_pending moves[COPSE_MAX_WORKERS] = { { NULL, 0 } };
    const uint32_t tag = copse__collective_tag(c, COPSE_KIND_BYTES);
    copse_status s = COPSE_OK;
    for (size_t at = 0; at < size && !s; at += COPSE_TRANSPORT_BYTES) {
        const size_t part = COPSE_MIN(size - at, COPSE_TRANSPORT_BYTES);
        if (c->t.rank > 0)
            s = copse__cluster_recv(c, 0, tag, (char *)bytes + at, part, &moves[0]);
        for (uint32_t r = 1; r < c->t.size && c->t.rank == 0 && !s; r++)
            s = copse__cluster_send(c, r, tag, (char *)bytes + at, part, &moves[r]);
        if (!s)
            s = copse__cluster_wait(c, moves, c->t.size, c->header.what, NULL, NULL);
    }
    copse__cluster_drop(c, moves, c->t.size);
    return s;
}

copse_status copse__cluster_barrier_on(copse_cluster *c, const char *what, const char *form,
                                       uint64_t size, copse_status vote)
{
    char text[COPSE_ERROR_BYTES];
    memcpy(text, copse_last_error(), sizeof text);
    copse_status s = copse__collective_begin_on(c, what, form, size, vote);
    if (!s)
        s = copse__collective_barrier(c, NULL, NULL);
    if (vote)
        copse__fail_again(text); /* keep the text of the first failure */
    return vote ? vote : s;
}

copse_status copse__cluster_barrier(copse_cluster *c, const char *what, uint64_t size,
                                    copse_status vote)
{
    return copse__cluster_barrier_on(c, what, "", size, vote);
}

copse_status copse__cluster_allgather(copse_cluster *c, const void *mine, void *all, size_t size,
                                      const char *what)
{
    struct copse_pending out[COPSE_MAX_WORKERS] = { { NULL, 0 } };
    struct copse_pending in[COPSE_MAX_WORKERS] = { { NULL, 0 } };
    memmove((char *)all + c->t.rank * size, mine, size);
    if (c->t.size == 1)
        return COPSE_OK;
    copse_status s = copse__collective_begin(c, what, size, COPSE_OK);
    if (!s)
        s = copse__collective_barrier(c, NULL, NULL);
    const uint32_t tag = copse__collective_tag(c, 0);
    for (uint32_t r = 0; r < c->t.size && !s; r++) {
        if (r == c->t.rank)
            continue;
        s = copse__cluster_recv(c, r, tag, (char *)all + r * size, size, &in[r]);
        if (!s)
            s = copse__cluster_send(c, r, tag, mine, size, &out[r]);
    }
    if (!s)
        s = copse__cluster_wait(c, in, c->t.size, what, NULL, NULL);
    if (!s)
        s = copse__cluster_wait(c, out, c->t.size, what, NULL, NULL);
    copse__cluster_drop(c, in, c->t.size);
    copse__cluster_drop(c, out, c->t.size);
    return s;
}

copse_status copse__cluster_allgatherv(copse_cluster *c, void *all, const size_t *sizes)
{
    struct copse_pending out[COPSE_MAX_WORKERS] = { { NULL, 0 } };
    struct copse_pending in[COPSE_MAX_WORKERS] = { { NULL, 0 } };
    const uint32_t me = c->t.rank, tag = copse__collective_tag(c, COPSE_KIND_BYTES);
    size_t most = 0, starts[COPSE_MAX_WORKERS], end = 0;
    copse_status s = COPSE_OK;
    for (uint32_t r = 0; r < c->t.size; r++) {
        most = COPSE_MAX(most, sizes[r]);
        starts[r] = end;
        end += sizes[r];
    }
    for (size_t at = 0; at < most && !s; at += COPSE_TRANSPORT_BYTES) {
        for (uint32_t r = 0; r < c->t.size && !s; r++) {
            if (r != me && sizes[r] > at)
                s = copse__cluster_recv(c, r, tag, (char *)all + starts[r] + at,
                                        COPSE_MIN(sizes[r] - at, COPSE_TRANSPORT_BYTES), &in[r]);
            if (!s && r != me && sizes[me] > at)
                s = copse__cluster_send(c, r, tag, (char *)all + starts[me] + at,
                                        COPSE_MIN(sizes[me] - at, COPSE_TRANSPORT_BYTES), &out[r]);
        }
        if (!s)
            s = copse__cluster_wait(c, in, c->t.size, c->header.what, NULL, NULL);
        if (!s)
            s = copse__cluster_wait(c, out, c->t.size, c->header.what, NULL, NULL);
    }
    copse__cluster_drop(c, in, c->t.size);
    copse__cluster_drop(c, out, c->t.size);
    return s;
}

copse_status copse__cluster_broadcast(copse_cluster *c, void *bytes, size_t size, const char *what)
{
    if (c->t.size == 1)
        return COPSE_OK;
    COPSE_TRY(copse__cluster_barrier(c, what, size, COPSE_OK));
    return copse__cluster_broadcast_bytes(c, bytes, size);
}

/* ---- agreement ---- */

/* The first line that differs, of each text. */
static void find_difference(const char *a, const char *b, char line_a[LINE_ROOM],
                            char line_b[LINE_ROOM])
{
    for (;;) {
        const size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        if (na != nb || memcmp(a, b, na) != 0 || !a[na] || !b[nb]) {
            snprintf(line_a, LINE_ROOM, "%.*s", (int)na, a);
            snprintf(line_b, LINE_ROOM, "%.*s", (int)nb, b);
            return;
        }
        a += na + 1;
        b += nb + 1;
    }
}

/* A worker differs: all receive rank 0's text, find their own difference, and exchange the
   differences. */
static copse_status name_difference(copse_cluster *c, const char *what, const char *text,
                                    uint64_t size)
{
    struct difference {
        uint32_t differs, pad;
        char theirs[LINE_ROOM], chief[LINE_ROOM];
    } mine = { 0 }, *all;
    struct copse_mem *mem = &c->ctx->base.mem;
    char *other = copse__alloc(mem, (size_t)size + 1, 1);
    all = copse__alloc(mem, c->t.size, sizeof *all);
    copse_status s = other && all ? COPSE_OK : copse_no_memory("cluster");
    if (!s && c->t.rank == 0)
        memcpy(other, text, (size_t)size);
    s = copse__cluster_barrier(c, "the chief's description", size, s);
    if (!s)
        s = copse__cluster_broadcast_bytes(c, other, (size_t)size);
    if (!s && strcmp(other, text) != 0) {
        mine.differs = 1;
        find_difference(other, text, mine.chief, mine.theirs);
    }
    if (!s)
        s = copse__cluster_allgather(c, &mine, all, sizeof mine, "differences");
    for (uint32_t r = 0; r < c->t.size && !s; r++) {
        char names[COPSE_WORKERS_TEXT];
        struct difference *d = &all[r];
        d->theirs[LINE_ROOM - 1] = d->chief[LINE_ROOM - 1] = '\0';
        if (d->differs)
            s = copse_fail(COPSE_ERR_ARGUMENT,
                           "cluster: %s differs in %s: it has '%s', the first worker '%s'",
                           copse__cluster_names(c, 1ull << r, names), what, d->theirs, d->chief);
    }
    copse__free(mem, other);
    copse__free(mem, all);
    return s;
}

copse_status copse__cluster_agree(copse_cluster *c, const char *what, const char *text)
{
    struct digest {
        uint64_t hash, size;
    } mine = { copse__hash(COPSE_HASH_START, text, strlen(text)), strlen(text) };
    struct digest all[COPSE_MAX_WORKERS];
    bool is_same = true;
    COPSE_TRY(copse__cluster_allgather(c, &mine, all, sizeof mine, what));
    for (uint32_t r = 1; r < c->t.size; r++)
        is_same = is_same && memcmp(&all[r], &all[0], sizeof mine) == 0;
    if (all[0].size > (uint64_t)1 << 26)
        return copse_fail(COPSE_ERR_COMM, "cluster: a description of %llu bytes",
                          (unsigned long long)all[0].size);
    return is_same ? COPSE_OK : name_difference(c, what, text, all[0].size);
}
