/* SPDX-License-Identifier: MIT */
/* How Gloo's ranks find each other: those that come, those that leave, and strangers of all kinds.
   Ranks are threads, and rank 0 listens at a port of this machine. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/gloo/rendezvous.h"
#include "core/base/platform.h"
#include "tests/rig/rig.h"

#define RANKS     3
#define STRANGERS 300
#define SECOND_NS 1000000000ull

static char address[32];
static const char *addresses[RANKS] = { address, address, address };
static int port;

/* The rank that is there when each of them is asked what it has. */
static atomic_uint come, ready_count;

struct rank {
    copse_thread thread;
    struct copse_transport t;
    unsigned char mine[RANKS][RENDEZVOUS_BYTES], theirs[RANKS][RENDEZVOUS_BYTES];
    bool leaves; /* once all have come */
    bool was_early;
    copse_status status;
};

static void *resize(void *user, void *block, size_t size)
{
    (void)user;
    if (size > 0)
        return realloc(block, size);
    free(block);
    return NULL;
}

static void warn(struct copse_transport *t, uint64_t missing)
{
    (void)t;
    (void)missing;
}

static copse_status ready(struct copse_transport *t, unsigned char *mine)
{
    struct rank *r = t->user;
    r->was_early = atomic_load(&come) != t->size;
    atomic_fetch_add(&ready_count, 1);
    for (uint32_t p = 0; p < t->size; p++)
        snprintf((char *)mine + p * RENDEZVOUS_BYTES, RENDEZVOUS_BYTES, "%u for %u", t->rank, p);
    return r->leaves ? copse_transport_fail(t, COPSE_ERR_COMM, "it leaves") : COPSE_OK;
}

static void rank_main(void *p)
{
    struct rank *r = p;
    atomic_fetch_add(&come, 1);
    r->status = rendezvous(&r->t, ready, r->mine[0], r->theirs[0]);
}

static void start(struct rank *list, uint32_t i, uint64_t job, uint64_t wait_ns)
{
    struct rank *r = &list[i];
    memset(r, 0, sizeof *r);
    r->t = (struct copse_transport){
        .rank = i,
        .size = RANKS,
        .addresses = addresses,
        .job = job,
        .deadline_ns = copse__now_ns() + wait_ns,
        .warn_ns = UINT64_MAX,
        .resize = resize,
        .warn = warn,
        .user = r,
    };
}

static void go(struct rank *r)
{
    OK(copse__thread_start(&r->thread, rank_main, r));
}

static void start_all(struct rank *list, uint64_t wait_ns)
{
    atomic_store(&come, 0);
    atomic_store(&ready_count, 0);
    for (uint32_t i = 0; i < RANKS; i++)
        start(list, i, 7, wait_ns);
}

static void assert_met(const struct rank *r, uint64_t lost)
{
    char text[RENDEZVOUS_BYTES];
    if (r->status)
        fail_msg("rank %u: %s", r->t.rank, r->t.text);
    assert_false(r->was_early);
    assert_true(r->t.lost == lost);
    for (uint32_t p = 0; p < RANKS; p++) {
        snprintf(text, sizeof text, "%u for %u", p, r->t.rank);
        if (p != r->t.rank && !(lost >> p & 1))
            assert_string_equal((const char *)r->theirs[p], text);
    }
}

/* A stranger's connection to rank 0, once that listens. */
static int knock(void)
{
    const struct sockaddr_in at = { .sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                    .sin_port = htons((uint16_t)port) };
    for (;;) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        assert_true(fd >= 0);
        if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
            return fd;
        close(fd);
        copse__sleep_ns(1000000);
    }
}

/* Below those that systems give to whoever connects. */
static int choose_port(void **state)
{
    (void)state;
    for (port = 20000 + (int)(copse__now_ns() / 1000 % 10000); port < 32000; port++) {
        const struct sockaddr_in at = { .sin_family = AF_INET,
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                        .sin_port = htons((uint16_t)port) };
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        const bool is_free = fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0;
        if (fd >= 0)
            close(fd);
        snprintf(address, sizeof address, "127.0.0.1:%d", port);
        if (is_free)
            return 0;
    }
    return -1;
}

/* ---- */

static void test_all_connect(void **state)
{
    struct rank list[RANKS];
    (void)state;
    start_all(list, 20 * SECOND_NS);
    for (uint32_t i = 0; i < RANKS; i++)
        go(&list[i]);
    for (uint32_t i = 0; i < RANKS; i++)
        copse__thread_join(&list[i].thread);
    for (uint32_t i = 0; i < RANKS; i++)
        assert_met(&list[i], 0);
    assert_int_equal(atomic_load(&ready_count), RANKS);
}

/* More of them than there are places; some say something, all stay. */
static void test_strangers_take_no_place(void **state)
{
    static const char *const said[] = {
        "", "x", "GET / HTTP/1.0\r\n\r\n",
        "more than what a rank would say before it is asked for more"
    };
    struct rank list[RANKS];
    int held[STRANGERS];
    (void)state;
    start_all(list, 20 * SECOND_NS);
    go(&list[0]);
    go(&list[1]);
    for (int i = 0; i < STRANGERS; i++) {
        const char *words = said[i % 4];
        held[i] = knock();
        (void)send(held[i], words, strlen(words), MSG_NOSIGNAL);
    }
    assert_int_equal(atomic_load(&ready_count), 0); /* nobody is asked before all are there */
    go(&list[2]);
    for (uint32_t i = 0; i < RANKS; i++)
        copse__thread_join(&list[i].thread);
    for (int i = 0; i < STRANGERS; i++)
        close(held[i]);
    for (uint32_t i = 0; i < RANKS; i++)
        assert_met(&list[i], 0);
}

/* All have come, and one leaves before it has said how to connect with it. */
static void test_one_that_leaves_is_lost(void **state)
{
    struct rank list[RANKS];
    (void)state;
    start_all(list, 20 * SECOND_NS);
    list[1].leaves = true;
    for (uint32_t i = 0; i < RANKS; i++)
        go(&list[i]);
    for (uint32_t i = 0; i < RANKS; i++)
        copse__thread_join(&list[i].thread);
    assert_int_equal(list[1].status, COPSE_ERR_COMM);
    assert_string_equal(list[1].t.text, "it leaves");
    assert_met(&list[0], 2);
    assert_met(&list[2], 2);
}

/* Rank 0 cannot be connected with: the others hear of it at once. */
static void test_the_first_one_fails(void **state)
{
    struct rank list[RANKS];
    (void)state;
    start_all(list, 20 * SECOND_NS);
    list[0].leaves = true;
    for (uint32_t i = 0; i < RANKS; i++)
        go(&list[i]);
    for (uint32_t i = 0; i < RANKS; i++)
        copse__thread_join(&list[i].thread);
    assert_string_equal(list[0].t.text, "it leaves");
    for (uint32_t i = 1; i < RANKS; i++) {
        assert_int_equal(list[i].status, COPSE_ERR_COMM);
        assert_true(list[i].t.missing == 1);
    }
}

/* A process of another job, or with another description of this one, calls rank 0: it says that it
   is `rank` of `size`. */
static void call_from_another_job(struct rank *other, uint32_t rank, uint32_t size)
{
    start(other, rank, 6, 20 * SECOND_NS);
    other[rank].t.size = size;
    go(&other[rank]);
    copse__thread_join(&other[rank].thread);
    assert_int_equal(other[rank].status, COPSE_ERR_COMM);
    assert_non_null(strstr(other[rank].t.text, "another job, or has another description"));
}

static void test_another_job_is_sent_away(void **state)
{
    struct rank list[RANKS], other[2 * RANKS];
    (void)state;
    start_all(list, 20 * SECOND_NS);
    go(&list[0]);
    call_from_another_job(other, 1, RANKS);
    call_from_another_job(other, 1, 2);
    call_from_another_job(other, 2 * RANKS - 1, 2 * RANKS); /* a rank that this job does not have */
    atomic_store(&come, 1);
    for (uint32_t i = 1; i < RANKS; i++)
        go(&list[i]);
    for (uint32_t i = 0; i < RANKS; i++)
        copse__thread_join(&list[i].thread);
    for (uint32_t i = 0; i < RANKS; i++)
        assert_met(&list[i], 0);
}

/* A worker whose description differs does not come in time, and rank 0 says why. */
static void test_who_was_sent_away_is_named(void **state)
{
    struct rank list[RANKS], other[RANKS];
    (void)state;
    start_all(list, 2 * SECOND_NS);
    go(&list[0]);
    call_from_another_job(other, 2, RANKS);
    copse__thread_join(&list[0].thread);
    assert_int_equal(list[0].status, COPSE_ERR_TIMEOUT);
    assert_true(list[0].t.missing == 6);
    assert_non_null(
        strstr(list[0].t.text, "rank 2 was rejected: it has another description of the cluster"));
}

static void test_who_does_not_come_is_named(void **state)
{
    struct rank list[RANKS];
    (void)state;
    start_all(list, SECOND_NS); /* both are to find each other meanwhile */
    go(&list[0]);
    go(&list[1]);
    copse__thread_join(&list[0].thread);
    copse__thread_join(&list[1].thread);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(list[i].status == (i ? COPSE_ERR_COMM : COPSE_ERR_TIMEOUT));
        assert_true(list[i].t.missing == 4);
    }
    assert_int_equal(atomic_load(&ready_count), 0);
}

/* Says to each caller what it said. */
static void echo_main(void *p)
{
    const int listener = *(int *)p;
    char bytes[256];
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; close(fd)) {
        const ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        if (n > 0)
            (void)send(fd, bytes, (size_t)n, MSG_NOSIGNAL);
    }
}

/* A system may connect a caller with itself, where nobody listens. What it hears then is no
   answer. */
static void test_an_echo_is_no_answer(void **state)
{
    const struct sockaddr_in at = { .sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                    .sin_port = htons((uint16_t)port) };
    struct rank list[RANKS];
    copse_thread echo;
    const int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    (void)state;
    assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 8), 0);
    OK(copse__thread_start(&echo, echo_main, &listener));
    start_all(list, SECOND_NS / 5);
    go(&list[1]);
    go(&list[2]);
    copse__thread_join(&list[1].thread);
    copse__thread_join(&list[2].thread);
    shutdown(listener, SHUT_RDWR);
    copse__thread_join(&echo);
    close(listener);
    for (uint32_t i = 1; i < RANKS; i++) {
        assert_int_equal(list[i].status, COPSE_ERR_TIMEOUT);
        assert_true(list[i].t.missing == 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_connect),
        cmocka_unit_test(test_strangers_take_no_place),
        cmocka_unit_test(test_one_that_leaves_is_lost),
        cmocka_unit_test(test_the_first_one_fails),
        cmocka_unit_test(test_another_job_is_sent_away),
        cmocka_unit_test(test_who_was_sent_away_is_named),
        cmocka_unit_test(test_who_does_not_come_is_named),
        cmocka_unit_test(test_an_echo_is_no_answer),
    };
    return cmocka_run_group_tests(tests, choose_port, NULL);
}
