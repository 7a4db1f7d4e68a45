/* SPDX-License-Identifier: MIT */
/* The rendezvous. Rank 0, the root, listens at its address from the description until every other
 * rank has sent a hello. Then it notifies all ranks; each opens its ports and sends its addresses,
 * which the root distributes. So no rank accepts connections while a rank is missing: Gloo takes
 * the first connection for its peer.
 *
 * Messages have known sizes; the root reads no more than that, allocates or indexes nothing by
 * received numbers, and closes the listening socket once all ranks have arrived. It closes
 * connections of strangers, and silent connections when it needs room for a new one.
 */
#include "rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAGIC           0x636f7073656d6532ull /* of a member; */
#define ROOT_MAGIC      0x636f707365686f32ull /* of the root: an echo is no reply */
#define CONNECTIONS_MAX 128                   /* at a time, strangers included: more than ranks */
#define READY_NS        1000000000ull /* for addresses, if the last rank arrived at the deadline */
#define RETRY_NS        50000000ull
#define REPLY_NS        2000000000ull /* the root's deadline may be later than a member's */

struct hello {
    uint64_t magic, job;
    uint32_t rank, size;
}; /* once all have arrived followed by [size][RENDEZVOUS_BYTES] */

struct reply {
    uint64_t magic, missing; /* missing: with WELCOME the lost ranks */
    enum { WELCOME, INCOMPLETE, STRANGER, ALL_CAME } outcome;
    uint32_t pad;
}; /* but for the last two followed by [size][RENDEZVOUS_BYTES] */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void pause_ns(uint64_t ns)
{
    const struct timespec t = { 0, (long)ns };
    nanosleep(&t, NULL);
}

/* Milliseconds until `at`, for poll: at least 1, at most 100. */
static int ms_until(uint64_t at)
{
    const uint64_t now = now_ns();
    const uint64_t ms = at > now ? (at - now) / 1000000 + 1 : 1;
    return ms < 100 ? (int)ms : 100;
}

static void *rendezvous_alloc(struct copse_transport *t, size_t size)
{
    void *p = t->resize(t->resize_user, NULL, size);
    if (p)
        memset(p, 0, size);
    return p;
}

void rendezvous_split(const char *address, char *host, const char **port)
{
    const char *colon = strrchr(address, ':');
    size_t length = (size_t)(colon - address);
    const bool is_bracketed = address[0] == '[';
    length = length - (is_bracketed ? 2 : 0);
    length = length < 127 ? length : 127;
    memcpy(host, address + is_bracketed, length);
    host[length] = '\0';
    *port = colon + 1;
}

static copse_status rendezvous_resolve(struct copse_transport *t, bool is_passive,
                                       struct addrinfo **out)
{
    char host[128];
    const char *port;
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                                    .ai_flags = is_passive ? AI_PASSIVE : 0 };
    rendezvous_split(t->addresses[0], host, &port);
    const int e = getaddrinfo(host, port, &hints, out);
    return e ? copse_transport_fail(t, COPSE_ERR_COMM, "cannot find host '%s': %s", host,
                                    gai_strerror(e))
             : COPSE_OK;
}

static bool set_nonblocking(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
           fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

/* Send all of `bytes`. False: the connection broke, or timeout. */
static bool send_all(int fd, const void *bytes, size_t size, uint64_t deadline)
{
    for (size_t done = 0; done < size;) {
        const ssize_t n = send(fd, (const char *)bytes + done, size - done, MSG_NOSIGNAL);
        if (n > 0) {
            done += (size_t)n;
            continue;
        }
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            return false;
        if (now_ns() >= deadline)
            return false;
        poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, ms_until(deadline));
    }
    return true;
}

/* ---- the root ---- */

struct connection {
    int fd;
    bool has_joined;
    uint32_t rank;
    uint64_t number;      /* in order of arrival */
    size_t got;           /* bytes of its message */
    unsigned char *bytes; /* NULL: this slot is free */
};

struct root {
    struct copse_transport *t;
    int listener;
    size_t size; /* bytes of a member's message that the root may read in this phase */
    uint64_t connection_count; /* ever */
    struct connection connections[CONNECTIONS_MAX];
    uint64_t missing;
    bool has_rejected; /* it rejected a process of another job or description: t->text names it */
};

static void close_connection(struct root *p, struct connection *g)
{
    if (!g->bytes)
        return;
    close(g->fd);
    if (g->has_joined)
        p->missing |= 1ull << g->rank;
    p->t->resize(p->t->resize_user, g->bytes, 0);
    *g = (struct connection){ .fd = -1 };
}

static copse_status listen_at(struct copse_transport *t, int *out)
{
    struct addrinfo *list;
    const int on = 1;
    int e = 0;
    COPSE_TRY(rendezvous_resolve(t, true, &list));
    *out = -1;
    for (struct addrinfo *a = list; a && *out < 0; a = a->ai_next) {
        const int fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
        if (fd < 0 || !set_nonblocking(fd) ||
            setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
            bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, CONNECTIONS_MAX)) {
            e = errno;
            if (fd >= 0)
                close(fd);
        } else {
            *out = fd;
        }
    }
    freeaddrinfo(list);
    return *out >= 0 ? COPSE_OK
                     : copse_transport_fail(t, COPSE_ERR_COMM, "cannot listen at %s: %s",
                                            t->addresses[0], strerror(e));
}

/* Bytes of all messages of a member. */
static size_t whole_message(const struct copse_transport *t)
{
    return sizeof(struct hello) + t->size * RENDEZVOUS_BYTES;
}

/* A free slot; if there is none, the oldest connection without a hello is closed. */
static struct connection *free_connection(struct root *p)
{
    struct connection *first = NULL;
    for (struct connection *g = p->connections; g < p->connections + CONNECTIONS_MAX; g++) {
        if (!g->bytes)
            return g;
        if (!g->has_joined && (!first || g->number < first->number))
            first = g;
    }
    if (first)
        close_connection(p, first);
    return first;
}

/* At most half of the slots, so that a new connection is read before its slot can be needed. */
static void accept_all(struct root *p)
{
    for (int i = 0; i < CONNECTIONS_MAX / 2; i++) {
        const int fd = accept(p->listener, NULL, NULL);
        if (fd < 0) {
            /* such as no more files: poll would return at once */
            if (errno != EAGAIN && errno != EWOULDBLOCK)
                pause_ns(RETRY_NS);
            return;
        }
        unsigned char *bytes =
            set_nonblocking(fd) ? rendezvous_alloc(p->t, whole_message(p->t)) : NULL;
        struct connection *g = bytes ? free_connection(p) : NULL;
        if (g)
            *g = (struct connection){ .fd = fd, .bytes = bytes, .number = p->connection_count++ };
        else
            close(fd);
        if (!g && bytes)
            p->t->resize(p->t->resize_user, bytes, 0);
    }
}

/* A hello has arrived: accept it, or reply why not. The root continues to wait after a hello of
   another job or description, which any process of the network may send; it names that process
   after the deadline. */
static void check_hello(struct root *p, struct connection *g)
{
    struct copse_transport *t = p->t;
    struct hello h;
    memcpy(&h, g->bytes, sizeof h);
    if (h.magic == MAGIC && (h.job != t->job || h.size != t->size)) {
        const struct reply no = { .magic = ROOT_MAGIC, .outcome = STRANGER };
        (void)send_all(g->fd, &no, sizeof no, now_ns() + RETRY_NS);
        copse_transport_fail(t, COPSE_ERR_COMM,
                             "a process with rank %u was rejected: it has another "
                             "description of the cluster",
                             h.rank);
        p->has_rejected = true;
    }
    if (h.magic != MAGIC || h.job != t->job || h.size != t->size || h.rank == 0 ||
        h.rank >= t->size) {
        close_connection(p, g);
        return;
    }
    for (struct connection *other = p->connections; other < p->connections + CONNECTIONS_MAX;
         other++)
        if (other != g && other->has_joined && other->rank == h.rank)
            close_connection(p, other); /* it reconnected */
    g->has_joined = true;
    g->rank = h.rank;
    p->missing &= ~(1ull << h.rank);
}

static void rendezvous_receive(struct root *p, struct connection *g)
{
    unsigned char beyond;
    const bool is_full = g->got == p->size;
    const ssize_t n =
        is_full ? recv(g->fd, &beyond, 1, 0) : recv(g->fd, g->bytes + g->got, p->size - g->got, 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (n <= 0 || is_full) { /* it left, or sent too many bytes */
        close_connection(p, g);
        return;
    }
    g->got += (size_t)n;
    if (g->got == p->size && !g->has_joined)
        check_hello(p, g);
}

static void receive_all(struct root *p, const struct pollfd fds[CONNECTIONS_MAX])
{
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (fds[i].revents && p->connections[i].bytes) /* it is still open */
            rendezvous_receive(p, &p->connections[i]);
}

static void list_connections(const struct root *p, struct pollfd fds[CONNECTIONS_MAX])
{
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        fds[i] = (struct pollfd){ .fd = p->connections[i].bytes ? p->connections[i].fd : -1,
                                  .events = POLLIN };
}

static copse_status rendezvous_gather(struct root *p)
{
    struct copse_transport *t = p->t;
    bool has_warned = false;
    while (p->missing) {
        struct pollfd fds[1 + CONNECTIONS_MAX] = { { .fd = p->listener, .events = POLLIN } };
        list_connections(p, &fds[1]);
        const uint64_t now = now_ns();
        if (now >= t->deadline_ns) {
            t->missing = p->missing;
            return p->has_rejected
                       ? COPSE_ERR_TIMEOUT /* the text names it */
                       : copse_transport_fail(t, COPSE_ERR_TIMEOUT, "not all ranks arrived");
        }
        if (!has_warned && now >= t->warn_ns) {
            has_warned = true;
            t->warn(t, p->missing);
        }
        if (poll(fds, 1 + CONNECTIONS_MAX, ms_until(t->deadline_ns)) <= 0)
            continue;
        receive_all(p, &fds[1]);
        if (fds[0].revents)
            accept_all(p);
    }
    return COPSE_OK;
}

static bool is_all_there(const struct root *p)
{
    bool is_all = true;
    for (const struct connection *g = p->connections; g < p->connections + CONNECTIONS_MAX; g++)
        is_all = is_all && (!g->bytes || g->got == p->size);
    return is_all;
}

/* All have arrived: collect their addresses. A rank that leaves meanwhile or sends none is lost. */
static copse_status rendezvous_collect(struct root *p, rendezvous_ready_fn *ready,
                                       unsigned char *mine)
{
    struct copse_transport *t = p->t;
    const struct reply come = { .magic = ROOT_MAGIC, .outcome = ALL_CAME };
    const uint64_t now = now_ns();
    const uint64_t end = t->deadline_ns > now + READY_NS ? t->deadline_ns : now + READY_NS;
    p->size = whole_message(t);
    for (struct connection *g = p->connections; g < p->connections + CONNECTIONS_MAX; g++)
        if (!g->has_joined || !send_all(g->fd, &come, sizeof come, end))
            close_connection(p, g);
    const copse_status mine_is = ready(t, mine);
    while (!is_all_there(p) && now_ns() < end) {
        struct pollfd fds[CONNECTIONS_MAX];
        list_connections(p, fds);
        if (poll(fds, CONNECTIONS_MAX, ms_until(end)) > 0)
            receive_all(p, fds);
    }
    for (struct connection *g = p->connections; g < p->connections + CONNECTIONS_MAX; g++)
        if (g->got < p->size)
            close_connection(p, g);
    t->lost |= p->missing;
    p->missing |= mine_is ? 1 : 0;
    return mine_is;
}

/* Send the outcome to all. */
static copse_status rendezvous_conclude(struct root *p, copse_status s, const unsigned char *mine,
                                        unsigned char *theirs)
{
    const uint32_t size = p->t->size;
    const uint64_t deadline = now_ns() + 5000000000ull;
    unsigned char *out = rendezvous_alloc(p->t, sizeof(struct reply) + size * RENDEZVOUS_BYTES);
    const struct reply a = { .magic = ROOT_MAGIC,
                             .missing = p->missing,
                             .outcome = s ? INCOMPLETE : WELCOME };
    if (!out)
        return s ? s : copse_transport_fail(p->t, COPSE_ERR_NO_MEMORY, "no memory");
    for (struct connection *g = p->connections; g < p->connections + CONNECTIONS_MAX; g++) {
        if (!g->has_joined)
            continue;
        memcpy(out, &a, sizeof a);
        memcpy(out + sizeof a, mine + g->rank * RENDEZVOUS_BYTES, RENDEZVOUS_BYTES);
        memcpy(theirs + g->rank * RENDEZVOUS_BYTES, g->bytes + sizeof(struct hello),
               RENDEZVOUS_BYTES);
        for (struct connection *o = p->connections; o < p->connections + CONNECTIONS_MAX; o++)
            if (o->has_joined)
                memcpy(out + sizeof a + o->rank * RENDEZVOUS_BYTES,
                       o->bytes + sizeof(struct hello) + g->rank * RENDEZVOUS_BYTES,
                       RENDEZVOUS_BYTES);
        if (!send_all(g->fd, out, sizeof a + size * RENDEZVOUS_BYTES, deadline))
            p->t->lost |= 1ull << g->rank; /* the others continue */
    }
    p->t->resize(p->t->resize_user, out, 0);
    return s;
}

static copse_status run_root(struct copse_transport *t, rendezvous_ready_fn *ready,
                             unsigned char *mine, unsigned char *theirs)
{
    struct root *p = rendezvous_alloc(t, sizeof *p);
    if (!p)
        return copse_transport_fail(t, COPSE_ERR_NO_MEMORY, "no memory");
    p->t = t;
    p->size = sizeof(struct hello);
    p->missing = (t->size == 64 ? 0 : 1ull << t->size) - 2;
    copse_status s = listen_at(t, &p->listener);
    if (!s) {
        s = rendezvous_gather(p);
        close(p->listener);
        if (!s)
            s = rendezvous_collect(p, ready, mine);
        s = rendezvous_conclude(p, s, mine, theirs);
    }
    for (struct connection *g = p->connections; g < p->connections + CONNECTIONS_MAX; g++)
        close_connection(p, g);
    t->resize(t->resize_user, p, 0);
    return s;
}

/* ---- a member ---- */

/* If the root does not listen yet, the system may assign its port to this member and connect it
   with itself. */
static bool is_itself(int fd)
{
    struct sockaddr_storage here = { 0 }, there = { 0 };
    socklen_t n = sizeof here, m = sizeof there;
    return getsockname(fd, (struct sockaddr *)&here, &n) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &m) == 0 && n == m &&
           memcmp(&here, &there, n) == 0;
}

static int rendezvous_call(const struct addrinfo *list, uint64_t deadline)
{
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        const int fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
        if (fd < 0)
            continue;
        int e = set_nonblocking(fd) ? 0 : EIO;
        if (!e && connect(fd, a->ai_addr, a->ai_addrlen))
            e = errno;
        if (e == EINPROGRESS) {
            struct pollfd at = { .fd = fd, .events = POLLOUT };
            socklen_t room = sizeof e;
            while (poll(&at, 1, ms_until(deadline)) <= 0 && now_ns() < deadline)
                ;
            e = ETIMEDOUT;
            if (at.revents)
                getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &room);
        }
        if (!e && !is_itself(fd))
            return fd;
        close(fd);
    }
    return -1;
}

struct member {
    struct copse_transport *t;
    bool has_warned;
};

static bool is_late(struct member *v, uint64_t grace)
{
    const uint64_t now = now_ns();
    if (!v->has_warned && now >= v->t->warn_ns) {
        v->has_warned = true;
        v->t->warn(v->t, 1);
    }
    return now >= v->t->deadline_ns + grace;
}

/* Bytes that arrived before the connection ended or the deadline. A member waits longer than the
   root: if it left first it would take the root for lost, which knows the missing ranks. */
static size_t receive_from(struct member *v, int fd, unsigned char *bytes, size_t size)
{
    size_t got = 0;
    while (got < size && !is_late(v, REPLY_NS)) {
        const ssize_t n = recv(fd, bytes + got, size - got, 0);
        if (n > 0)
            got += (size_t)n;
        else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, ms_until(v->t->deadline_ns));
        else
            break;
    }
    return got;
}

/* One connection to the root. Returns the bytes of its last reply. `is_ready`: `mine` is filled. */
static size_t call_root(struct member *v, int fd, rendezvous_ready_fn *ready, unsigned char *mine,
                        unsigned char *in, bool *is_ready, copse_status *s)
{
    struct copse_transport *t = v->t;
    const struct hello h = { MAGIC, t->job, t->rank, t->size };
    const size_t bytes = t->size * RENDEZVOUS_BYTES;
    struct reply a;
    if (!send_all(fd, &h, sizeof h, t->deadline_ns))
        return 0;
    const size_t got = receive_from(v, fd, in, sizeof a);
    memcpy(&a, in, sizeof a);
    if (got < sizeof a || a.magic != ROOT_MAGIC)
        return 0;
    if (a.outcome == STRANGER)
        return got;
    if (a.outcome != ALL_CAME)
        return got + receive_from(v, fd, in + sizeof a, bytes);
    if (!*is_ready)
        *s = ready(t, mine);
    *is_ready = *s == COPSE_OK;
    if (!*is_ready || !send_all(fd, mine, bytes, t->deadline_ns + REPLY_NS))
        return 0;
    return receive_from(v, fd, in, sizeof a + bytes);
}

static copse_status run_member(struct copse_transport *t, rendezvous_ready_fn *ready,
                               unsigned char *mine, unsigned char *theirs, unsigned char *in)
{
    struct member v = { .t = t };
    const size_t bytes = t->size * RENDEZVOUS_BYTES;
    struct addrinfo *list;
    bool is_ready = false;
    COPSE_TRY(rendezvous_resolve(t, false, &list));
    copse_status s = COPSE_ERR_TIMEOUT;
    while (s == COPSE_ERR_TIMEOUT && !is_late(&v, 0)) {
        struct reply a = { .magic = 0 };
        copse_status mine_is = COPSE_OK;
        const int fd = rendezvous_call(list, now_ns() + 1000000000ull);
        const size_t got = fd >= 0 ? call_root(&v, fd, ready, mine, in, &is_ready, &mine_is) : 0;
        if (fd >= 0)
            close(fd);
        if (mine_is) {
            freeaddrinfo(list);
            return mine_is;
        }
        if (got >= sizeof a)
            memcpy(&a, in, sizeof a);
        a.missing &= UINT64_MAX >> (64 - t->size); /* existing ranks only */
        if (a.magic != ROOT_MAGIC) {
            pause_ns(RETRY_NS);
            continue;
        }
        if (a.outcome == STRANGER)
            s = copse_transport_fail(t, COPSE_ERR_COMM,
                                     "%s belongs to another job, or has another "
                                     "description of the cluster",
                                     t->addresses[0]);
        else if (a.outcome == INCOMPLETE) {
            t->missing = a.missing;
            s = copse_transport_fail(t, COPSE_ERR_COMM, "not all ranks arrived");
        } else if (got == sizeof a + bytes) {
            memcpy(theirs, in + sizeof a, bytes);
            t->lost |= a.missing;
            s = COPSE_OK;
        }
    }
    freeaddrinfo(list);
    if (s == COPSE_ERR_TIMEOUT) {
        t->missing = 1;
        copse_transport_fail(t, s, "no reply at %s", t->addresses[0]);
    }
    return s;
}

copse_status rendezvous(struct copse_transport *t, rendezvous_ready_fn *ready, unsigned char *mine,
                        unsigned char *theirs)
{
    if (t->rank == 0)
        return run_root(t, ready, mine, theirs);
    unsigned char *in = rendezvous_alloc(t, sizeof(struct reply) + t->size * RENDEZVOUS_BYTES);
    if (!in)
        return copse_transport_fail(t, COPSE_ERR_NO_MEMORY, "no memory");
    const copse_status s = run_member(t, ready, mine, theirs, in);
    t->resize(t->resize_user, in, 0);
    return s;
}
