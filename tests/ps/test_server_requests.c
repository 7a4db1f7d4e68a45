/* SPDX-License-Identifier: MIT */
/* Sizes, counts and indices in messages between workers and parameter servers. A request whose size
   is not that of its operation ends its worker's part, before memory is taken for it; a reply with
   a wrong size fails the request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the above */
#include <cmocka.h>

#include "core/ps/protocol.h"
#include "tests/rig/workers/server_rig.h"

#define ELEMENTS   6
#define MOST_BYTES ((size_t)32 << 20) /* of one allocation; a window has 16 MiB */

static atomic_size_t largest;

static void *resize(void *user, void *block, size_t size)
{
    (void)user;
    if (size == 0) {
        free(block);
        return NULL;
    }
    for (size_t seen = atomic_load(&largest); size > seen;)
        if (atomic_compare_exchange_weak(&largest, &seen, size))
            break;
    return realloc(block, size);
}

static int open_host(void **state)
{
    const struct copse_context_params params = { .disable = "opencl,vulkan", .resize = resize };
    (void)state;
    return copse_context_create(&params, &ctx) ? -1 : 0;
}

static int close_host(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    return 0;
}

/* ---- requests ---- */

static const struct request {
    const char *name; /* in the server's text */
    struct copse_server_request r;
} requests[] = {
#define REQUEST(text, operation, ...)                                                \
    {                                                                                \
        text,                                                                        \
        {                                                                            \
            .magic = COPSE_SERVER_MAGIC, .op = COPSE_SERVER_##operation, __VA_ARGS__ \
        }                                                                            \
    }
    REQUEST("make", MAKE, .size = 1ull << 62),
    REQUEST("make", MAKE, .size = sizeof(struct copse_server_making) - 1),
    REQUEST("pull", PULL, .size = 1ull << 34, .count = 1u << 30),
    REQUEST("pull", PULL, .size = 1u << 28, .count = 1),
    REQUEST("pull", PULL, .size = 8, .count = 1),
    REQUEST("pull", PULL, .count = 2),
    REQUEST("read", READ, .size = 1u << 28),
    REQUEST("change", CHANGE, .size = 1u << 28),
    REQUEST("change", CHANGE, .size = 4 * ELEMENTS - 1),
    REQUEST("change", CHANGE, .size = 1u << 28, .id = 1u << 31),
    REQUEST("scatter", SCATTER, .size = 1u << 28, .count = 1, .how = COPSE_SCATTER_ADD),
    REQUEST("scatter", SCATTER, .size = 1u << 28, .id = 7, .count = 1, .how = COPSE_SCATTER_ADD),
    REQUEST("group", GROUP, .size = 1ull << 34, .count = UINT32_MAX),
    REQUEST("group", GROUP, .size = 1u << 28, .count = 1),
    REQUEST("group", GROUP, .size = sizeof(struct copse_server_rule)),
    REQUEST("group", GROUP, .count = UINT32_MAX),
    REQUEST("group", GROUP, .count = 0),
    REQUEST("drop", DROP, .size = 1u << 28),
    REQUEST("push", PUSH, .size = 1u << 28),
    REQUEST("updates", UPDATES, .size = 1u << 28),
    REQUEST("slot", SLOT, .size = 1u << 28, .how = 1),
    REQUEST("snapshot", SNAPSHOT, .size = 1u << 28),
    REQUEST("progress", PROGRESS, .size = 1u << 28, .how = COPSE_PROGRESS_SET),
    REQUEST("progress", PROGRESS, .size = sizeof(struct copse_server_progress),
            .how = COPSE_PROGRESS_READ),
    REQUEST("counter", COUNTER, .size = 1u << 28),
    REQUEST("leave", LEAVE, .size = 1u << 28),
    REQUEST("", OPS, .size = 1u << 28),
    { "", { .magic = 1, .size = 1u << 28 } },
};

static const struct request *bad;
static char warning[1024];

static void keep_warning(void *user, copse_log_level level, const char *text)
{
    (void)user;
    if (level == COPSE_LOG_WARN && strstr(text, "is lost"))
        snprintf(warning, sizeof warning, "%s", text);
}

/* Worker 1 sends the request alone. Nothing comes behind it, so a server that waits for a payload
   waits too long. */
static copse_status send_bad(copse_cluster *c)
{
    struct copse_server_reply reply;
    const uint64_t most = c->deadline_ns;
    COPSE_TRY(copse__peer_send(c, 2, &bad->r, sizeof bad->r, most, "a bad request"));
    REFUSED(COPSE_ERR_COMM, copse__peer_recv(c, 2, &reply, sizeof reply, most, "a reply"), "ps 0");
    return COPSE_OK;
}

static copse_status refuse_requests(struct job *job, uint32_t worker, copse_strategy *st)
{
    const float ones[ELEMENTS] = { 1, 1, 1, 1, 1, 1 };
    float x[ELEMENTS] = { 0 };
    copse_variable *v;
    COPSE_TRY(copse_variable_create(
        st,
        &(struct copse_variable_params){ .name = "v", .shape = COPSE_SHAPE(3, 2), .values = ones },
        &v));
    if (worker == 1) {
        const copse_status s = send_bad(job->tasks[1].cluster);
        reach(job, 1);
        return s;
    }
    COPSE_TRY(await(job, 1));
    COPSE_TRY(copse_variable_read(v, 0, x)); /* the server goes on */
    CHECK(memcmp(x, ones, sizeof x) == 0);
    return COPSE_OK;
}

static void test_requests_of_wrong_sizes(void **state)
{
    const struct copse_context_params params = { .disable = "opencl,vulkan",
                                                 .resize = resize,
                                                 .log = keep_warning,
                                                 .log_level = COPSE_LOG_WARN };
    copse_context *quiet = ctx;
    (void)state;
    OK(copse_context_create(&params, &ctx));
    for (size_t i = 0; i < COPSE_COUNT(requests); i++) {
        struct job job = {
            .workers = 2, .servers = 1, .replicas = 1, .work = refuse_requests, .deadline_ms = 4000
        };
        bad = &requests[i];
        warning[0] = '\0';
        atomic_store(&largest, 0);
        run_job(&job);
        if (job.tasks[0].status || job.tasks[1].status || job.tasks[2].status)
            fail_msg("request %zu, '%s': workers: %s; %s; server: %s", i, bad->name,
                     job.tasks[0].text, job.tasks[1].text, job.tasks[2].text);
        if (atomic_load(&largest) > MOST_BYTES)
            fail_msg("request %zu, '%s': %zu bytes were taken at once", i, bad->name,
                     atomic_load(&largest));
        assert_int_equal(job.tasks[2].summary.lost, 1);
        if (!strstr(warning, "worker 1 (w1:1) is lost") ||
            (*bad->name && !strstr(warning, "bytes")) || !strstr(warning, bad->name))
            fail_msg("request %zu, '%s': the warning is '%s'", i, bad->name, warning);
    }
    copse_context_release(&ctx);
    ctx = quiet;
}

/* ---- a variable of no size that fits ---- */

static copse_status make_wrong(struct job *job, uint32_t worker, copse_strategy *st)
{
    static const struct copse_server_making makings[] = {
        /* 2^64: none are left */
        { .rank = 4, .dims = { 1u << 31, 1u << 31, 4, 1 }, .may_begin = 1, .name_bytes = 4 },
        { .rank = 2, .dims = { 0, 4 }, .may_begin = 1, .name_bytes = 4 },
        { .rank = 1, .dims = { 1u << 31 }, .may_begin = 1, .name_bytes = 4 },
        { .rank = COPSE_MAX_RANK + 1, .may_begin = 1, .name_bytes = 4 },
        { .rank = 1, .dims = { 1 }, .name_bytes = 5 },
        { .rank = 1, .dims = { 1 }, .name_bytes = 0 },
        { .rank = 1, .dims = { 1 }, .name_bytes = UINT32_MAX },
        { .type = 77, .name_bytes = 4 },
    };
    copse_cluster *c = job->tasks[worker].cluster;
    static char name[COPSE_SERVER_NAME_BYTES + 1];
    copse_variable *v;
    memset(name, 'n', sizeof name - 1);
    REFUSED(COPSE_ERR_ARGUMENT,
            copse_variable_create(
                st, &(struct copse_variable_params){ .name = name, .shape = COPSE_SHAPE(1) }, &v),
            "may have at most 928 bytes");
    for (size_t i = 0; i < COPSE_COUNT(makings); i++) {
        struct {
            struct copse_server_making making;
            char name[4];
        } payload = { makings[i], "abc" };
        const struct copse_server_request r = { .magic = COPSE_SERVER_MAGIC,
                                                .op = COPSE_SERVER_MAKE,
                                                .size = sizeof payload };
        struct copse_server_reply reply;
        COPSE_TRY(copse__peer_send(c, 1, &r, sizeof r, c->deadline_ns, "a request"));
        COPSE_TRY(copse__peer_send(c, 1, &payload, sizeof payload, c->deadline_ns, "a request"));
        COPSE_TRY(copse__peer_recv(c, 1, &reply, sizeof reply, c->deadline_ns, "a reply"));
        if (reply.status != COPSE_ERR_COMM || !strstr(reply.text, "malformed variable"))
            return copse_fail(COPSE_ERR_INTERNAL, "making %zu: %u: %.200s", i, reply.status,
                              reply.text);
    }
    return COPSE_OK;
}

static void test_variables_of_wrong_shapes(void **state)
{
    struct job job = {
        .workers = 1, .servers = 1, .replicas = 1, .work = make_wrong, .deadline_ms = 4000
    };
    (void)state;
    run_job(&job);
    assert_all_done(&job);
    assert_int_equal(job.tasks[1].summary.variables, 0);
}

/* ---- replies ---- */

/* A server of this test: makes variable 0 of 3 elements, and lies once. */
static struct lie {
    uint32_t op; /* in the reply to this */
    struct copse_server_reply reply;
    struct copse_server_seen seen;
} lies[] = {
    { COPSE_SERVER_MAKE, { .id = 1u << 31 }, { 0 } },
    { COPSE_SERVER_MAKE, { .status = 4711 }, { 0 } },
    { COPSE_SERVER_READ, { .size = 16 }, { 0 } },
    { COPSE_SERVER_READ, { .size = 8 }, { 0 } },
    { COPSE_SERVER_SLOT, { .size = 1u << 20 }, { 0 } },
    { COPSE_SERVER_SNAPSHOT, { .size = 1u << 20 }, { 0 } },
    { COPSE_SERVER_PULL, { 0 }, { .version = 2, .elements = 1u << 20 } },
    { COPSE_SERVER_PULL, { 0 }, { .version = 2, .elements = 2 } },
};
static const struct lie *lie;

static copse_status reply_to(copse_cluster *c, const struct copse_server_request *r)
{
    static const float values[1 << 18];
    const uint64_t most = c->deadline_ns;
    struct copse_server_reply reply = { .magic = COPSE_SERVER_MAGIC };
    struct copse_server_state group;
    unsigned char payload[1024];
    COPSE_TRY(copse__peer_recv(c, 0, payload, (size_t)r->size, most, "a payload"));
    if (r->op == lie->op) {
        reply = lie->reply;
        reply.magic = COPSE_SERVER_MAGIC;
    }
    COPSE_TRY(copse__peer_send(c, 0, &reply, sizeof reply, most, "a reply"));
    memset(&group, 0, sizeof group);
    if (r->op == COPSE_SERVER_SNAPSHOT)
        COPSE_TRY(copse__peer_send(c, 0, &group, sizeof group, most, "a state"));
    if (r->op == COPSE_SERVER_PULL)
        COPSE_TRY(copse__peer_send(c, 0, &lie->seen, sizeof lie->seen, most, "versions"));
    return copse__peer_send(c, 0, values,
                            r->op == COPSE_SERVER_PULL ? (size_t)lie->seen.elements * 4
                                                       : (size_t)reply.size,
                            most, "values");
}

static void liar_main(void *p)
{
    copse_cluster *c = p;
    struct copse_server_request r = { .op = COPSE_SERVER_OPS };
    while (copse__peer_recv(c, 0, &r, sizeof r, c->deadline_ns, "a request") == COPSE_OK &&
           r.op != COPSE_SERVER_LEAVE && reply_to(c, &r) == COPSE_OK)
        ;
    copse_cluster_release(&c);
}

static copse_status ask(struct copse_server *s, uint64_t *seen)
{
    static const float initial[3];
    const struct copse_server_variable v = {
        .name = "v", .shape = COPSE_SHAPE(3), .values = initial, .may_begin = true
    };
    struct copse_server_state group;
    float values[3];
    void *to[] = { values };
    uint32_t id;
    COPSE_TRY(s->table->make(s, &v, &id));
    if (lie->op == COPSE_SERVER_READ)
        return s->table->read(s, id, values);
    if (lie->op == COPSE_SERVER_SLOT)
        return s->table->slot(s, 0, 0, 0, false, 3, values);
    if (lie->op == COPSE_SERVER_SNAPSHOT)
        return s->table->snapshot(s, 0, 3, values, &group);
    return s->table->pull(s, &id, 1, seen, to);
}

struct side {
    struct copse_local_hub *hub;
    const char *role;
    copse_cluster *c;
    copse_thread thread;
};

static void open_side(void *p)
{
    struct side *s = p;
    char json[128];
    copse_cluster_spec *spec = NULL;
    const struct copse_cluster_params params = { .deadline_ms = 4000 };
    snprintf(json, sizeof json,
             "{\"cluster\":{\"worker\":[\"w:1\"],\"ps\":[\"s:1\"]},\"task\":{\"type\":\"%s\"}}",
             s->role);
    if (!copse_cluster_spec_parse(ctx, json, &spec))
        (void)copse__cluster_open_with(ctx, spec, &params, &copse__transport_local, s->hub, &s->c);
    copse_cluster_spec_release(&spec);
}

static void test_replies_of_wrong_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COPSE_COUNT(lies); i++) {
        struct side worker = { .role = "worker" }, server = { .role = "ps" };
        struct copse_server *s = NULL;
        uint64_t seen = 1;
        lie = &lies[i];
        atomic_store(&largest, 0);
        OK(copse__local_hub_create(ctx, &worker.hub));
        server.hub = worker.hub;
        OK(copse__thread_start(&server.thread, open_side, &server));
        open_side(&worker);
        copse__thread_join(&server.thread);
        assert_non_null(worker.c);
        assert_non_null(server.c);
        OK(copse__thread_start(&server.thread, liar_main, server.c));
        OK(copse__server_remote(worker.c, 1, &s));
        const copse_status status = ask(s, &seen);
        if (status != COPSE_ERR_COMM)
            fail_msg("lie %zu: %s: %s", i, copse_status_name(status), copse_last_error());
        assert_true(seen == 1);
        if (atomic_load(&largest) > MOST_BYTES)
            fail_msg("lie %zu: %zu bytes were taken at once", i, atomic_load(&largest));
        copse__server_release(&s);
        copse_cluster_release(&worker.c);
        copse__thread_join(&server.thread);
        copse__local_hub_free(&worker.hub);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_of_wrong_sizes),
        cmocka_unit_test(test_variables_of_wrong_shapes),
        cmocka_unit_test(test_replies_of_wrong_sizes),
    };
    return cmocka_run_group_tests(tests, open_host, close_host);
}
