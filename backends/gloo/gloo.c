/* SPDX-License-Identifier: MIT */
/* The transport over Gloo: TCP connections between all pairs of ranks. A peer is lost when its
   connection breaks. */
#include <string.h>
#include <time.h>

#include "core/comm/transport.h"
#include "rendezvous.h"
#include "shim.h"

struct copse_transport_op; /* a shim_message */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static struct shim_message *message_of(copse_transport_op *op)
{
    return (struct shim_message *)op;
}

/* A broken connection is a lost peer. */
static copse_status gloo_broken(struct copse_transport *t, uint32_t peer, const char *why)
{
    t->lost |= 1ull << peer;
    return copse_transport_fail(t, COPSE_ERR_COMM, "Gloo: %.300s", why);
}

/* From here on others can connect. */
static copse_status listen_all(struct copse_transport *t, unsigned char *mine)
{
    char why[256] = "";
    if (!shim_mesh_listen(t->priv, why, sizeof why))
        return copse_transport_fail(t, COPSE_ERR_COMM, "Gloo: cannot listen: %.200s", why);
    for (uint32_t p = 0; p < t->size; p++)
        if (p != t->rank &&
            !shim_mesh_address(t->priv, (int)p, mine + p * RENDEZVOUS_BYTES, why, sizeof why))
            return copse_transport_fail(t, COPSE_ERR_COMM, "Gloo: %.300s", why);
    return COPSE_OK;
}

static copse_status connect_all(struct copse_transport *t, unsigned char *mine,
                                unsigned char *theirs)
{
    char why[256] = "", host[128];
    const char *port;
    rendezvous_split(t->addresses[t->rank], host, &port);
    const uint64_t now = now_ns();
    const uint64_t left = t->deadline_ns > now ? (t->deadline_ns - now) / 1000000 + 1 : 1;
    struct shim_mesh *mesh =
        shim_mesh_open(host, (int)t->rank, (int)t->size, (int64_t)left, why, sizeof why);
    t->priv = mesh;
    if (!mesh)
        return copse_transport_fail(t, COPSE_ERR_COMM, "Gloo: cannot listen on %s: %.200s", host,
                                    why);
    COPSE_TRY(rendezvous(t, listen_all, mine, theirs));
    for (uint32_t p = 0; p < t->size; p++)
        if (p != t->rank && !(t->lost >> p & 1) &&
            !shim_mesh_connect(mesh, (int)p, theirs + p * RENDEZVOUS_BYTES, why, sizeof why))
            (void)gloo_broken(t, p, why);
    return COPSE_OK;
}

static copse_status gloo_open(struct copse_transport *t)
{
    const size_t bytes = t->size * RENDEZVOUS_BYTES;
    for (uint32_t r = 0; r < t->size; r++)
        if (!t->addresses[r])
            return copse_transport_fail(t, COPSE_ERR_ARGUMENT,
                                        "Gloo needs the workers' addresses: describe the cluster "
                                        "in COPSE_CONFIG");
    unsigned char *both = t->resize(t->resize_user, NULL, 2 * bytes);
    if (!both)
        return copse_transport_fail(t, COPSE_ERR_NO_MEMORY, "Gloo: no memory");
    memset(both, 0, 2 * bytes);
    const copse_status s = connect_all(t, both, both + bytes);
    t->resize(t->resize_user, both, 0);
    return s;
}

static void gloo_close(struct copse_transport *t, bool is_orderly)
{
    (void)is_orderly;
    if (t->priv)
        shim_mesh_close(t->priv);
    t->priv = NULL;
}

static copse_status gloo_send(struct copse_transport *t, uint32_t peer, uint32_t tag,
                              const void *bytes, size_t size, copse_transport_op **op)
{
    char why[256] = "";
    if (t->lost >> peer & 1) /* it may never have been connected */
        return gloo_broken(t, peer, "the connection is broken");
    *op = (copse_transport_op *)shim_send(t->priv, (int)peer, tag, bytes, size, why, sizeof why);
    return *op ? COPSE_OK : gloo_broken(t, peer, why);
}

static copse_status gloo_recv(struct copse_transport *t, uint32_t peer, uint32_t tag, void *bytes,
                              size_t size, copse_transport_op **op)
{
    char why[256] = "";
    if (t->lost >> peer & 1) /* it may never have been connected */
        return gloo_broken(t, peer, "the connection is broken");
    *op = (copse_transport_op *)shim_recv(t->priv, (int)peer, tag, bytes, size, why, sizeof why);
    return *op ? COPSE_OK : gloo_broken(t, peer, why);
}

static copse_status gloo_wait(struct copse_transport *t, copse_transport_op *op,
                              uint64_t timeout_ns)
{
    char why[256] = "";
    struct shim_message *m = message_of(op);
    const int state = shim_wait(m, (int64_t)timeout_ns, why, sizeof why);
    if (state == 0)
        return COPSE_ERR_TIMEOUT;
    const uint32_t peer = (uint32_t)shim_peer(m);
    shim_free(m);
    return state > 0 ? COPSE_OK : gloo_broken(t, peer, why);
}

static bool gloo_drop(struct copse_transport *t, copse_transport_op *op)
{
    (void)t;
    shim_free(message_of(op)); /* waits for a thread of Gloo that uses its memory */
    return false;
}

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
extern const struct copse_transport_table copse_transport_module;
const struct copse_transport_table copse_transport_module = {
    .version = COPSE_TRANSPORT_VERSION,
    .name = "gloo",
    .open = gloo_open,
    .close = gloo_close,
    .send = gloo_send,
    .recv = gloo_recv,
    .wait = gloo_wait,
    .drop = gloo_drop,
};
