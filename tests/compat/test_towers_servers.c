/* SPDX-License-Identifier: MIT */
/* Tower optimizers whose variables are with servers: of this process and of others, on every kind
   of device; one worker trains like one device, several change the same variables and slots, and go
   on from a checkpoint. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
/* after the above */
#include <cmocka.h>

#include "copse/compat/replicated.h"
#include "copse/compat/train_step.h"
#include "copse/ops.h"
#include "core/variable/servers.h"
#include "tests/rig/workers/server_rig.h"

#define WIDTH 6u
#define ROWS  8u /* of all replicas */
#define STEPS 12u

struct towers {
    copse_variable *weights, *offset;
    copse_tower_optimizer *first, *second;
};

static copse_status make_towers(copse_strategy *st, copse_optimizer_kind kind, struct towers *m)
{
    float start[WIDTH];
    for (uint32_t i = 0; i < WIDTH; i++)
        start[i] = 0.3f * (float)i - 1;
    const struct copse_variable_params p[] = {
        { .name = "weights", .shape = COPSE_SHAPE(WIDTH), .values = start },
        { .name = "offset", .shape = COPSE_SHAPE(WIDTH), .values = start },
    };
    const struct copse_tower_params t[] = {
        { .optimizer = { .kind = kind, .learning_rate = 0.05f } },
        { .optimizer = { .kind = COPSE_MOMENTUM, .learning_rate = 0.02f }, .name = "slow" },
    };
    *m = (struct towers){ 0 };
    COPSE_TRY(copse_variable_create(st, &p[0], &m->weights));
    COPSE_TRY(copse_variable_create(st, &p[1], &m->offset));
    COPSE_TRY(copse_tower_create(st, &t[0], &m->first));
    return copse_tower_create(st, &t[1], &m->second);
}

static void free_towers(struct towers *m)
{
    copse_tower_release(&m->first);
    copse_tower_release(&m->second);
}

static copse_tensor *distance(copse_graph *g, const copse_batch *in, void *user)
{
    const struct towers *m = user;
    copse_tensor *d = copse_mul(g, rig_x(in), copse_variable_tensor(m->weights));
    d = copse_add(g, d, copse_variable_tensor(m->offset));
    d = copse_sub(g, d, rig_y(in));
    d = copse_square(g, d);
    return copse_mean(g, d, NULL, 0, false);
}

/* The second optimizer's loss sees what the first has updated, where all replicas have handed
   over. */
static copse_status model(copse_replica_context *rc, const struct copse_model_call *call,
                          struct copse_model_spec *spec)
{
    struct towers *m = call->user;
    const struct copse_tower_loss of = {
        .loss = distance, .user = m, .x = call->features, .y = call->labels
    };
    (void)rc;
    COPSE_TRY(copse_tower_minimize(m->first, &of, &m->weights, 1, true, &spec->loss));
    return copse_tower_minimize(m->second, &of, &m->offset, 1, false, NULL);
}

static copse_status run_towers(copse_strategy *st, struct towers *m, uint32_t step, double *loss)
{
    static const float slope[WIDTH] = { 1, -2, 0.5f, 3, -1, 0.25f };
    const struct copse_replicated_params p = { model, m, COPSE_LOSS_MEAN };
    struct copse_replicated_result result;
    float in[ROWS * WIDTH], out[ROWS * WIDTH];
    copse_value *x, *y;
    for (uint32_t i = 0; i < ROWS * WIDTH; i++) {
        in[i] = sinf(0.7f * (float)i + (float)step);
        out[i] = slope[i % WIDTH] * in[i] + cosf((float)i);
    }
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(ROWS, WIDTH), in, &x));
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(ROWS, WIDTH), out, &y));
    const copse_status s = copse_replicated_run(st, &p, COPSE_MODEL_TRAIN, x, y, &result);
    copse_value_release(&x);
    copse_value_release(&y);
    *loss = result.loss;
    return s;
}

struct outcome {
    double losses[STEPS];
    float weights[WIDTH], offset[WIDTH], slots[3][WIDTH];
    uint64_t steps, global;
};

static copse_status read_slot(copse_tower_optimizer *t, copse_variable *v, const char *name,
                              float *to)
{
    copse_value *slot;
    COPSE_TRY(copse_tower_slot(t, v, name, &slot));
    CHECK(slot);
    const copse_status s = copse_value_read(slot, to);
    copse_value_release(&slot);
    return s;
}

static copse_status train(copse_strategy *st, struct outcome *o)
{
    struct towers m;
    copse_status s = make_towers(st, COPSE_ADAM, &m);
    for (uint32_t i = 0; i < STEPS && !s; i++)
        s = run_towers(st, &m, i, &o->losses[i]);
    s = s ? s : copse_variable_read(m.weights, 0, o->weights);
    s = s ? s : copse_variable_read(m.offset, 0, o->offset);
    s = s ? s : read_slot(m.first, m.weights, "m", o->slots[0]);
    s = s ? s : read_slot(m.first, m.weights, "v", o->slots[1]);
    s = s ? s : read_slot(m.second, m.offset, "v", o->slots[2]);
    o->steps = copse_tower_steps(m.first);
    o->global = copse_global_step(st);
    free_towers(&m);
    return s;
}

static double farthest(const float *a, const float *b)
{
    double most = 0;
    for (uint32_t i = 0; i < WIDTH; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

static copse_status compare(const struct outcome *o, const struct outcome *like)
{
    double most = fmax(farthest(o->weights, like->weights), farthest(o->offset, like->offset));
    for (uint32_t k = 0; k < 3; k++)
        most = fmax(most, farthest(o->slots[k], like->slots[k]));
    for (uint32_t i = 0; i < STEPS; i++)
        most = fmax(most, fabs(o->losses[i] - like->losses[i]));
    if (most > 1e-5 || o->steps != like->steps || o->global != like->global)
        return copse_fail(COPSE_ERR_INTERNAL, "it is off by %g; %llu updates and steps %llu", most,
                          (unsigned long long)o->steps, (unsigned long long)o->global);
    return COPSE_OK;
}

/* The same replicas, each with a copy of the variables. */
static copse_status train_mirrored(const char *const *ids, uint32_t replicas, struct outcome *o)
{
    copse_strategy *st;
    COPSE_TRY(copse_mirrored_create(ctx, ids, replicas, NULL, &st));
    const copse_status s = train(st, o);
    copse_strategy_release(&st);
    return s;
}

static void servers_of_this_process(void **unused)
{
    (void)unused;
    for (uint32_t d = 0; d < found_count; d++)
        for (uint32_t replicas = 1; replicas <= 4; replicas *= 2) {
            const char *ids[] = { found[d], "host:0", found[(d + 1) % found_count], found[d] };
            struct outcome like, o;
            copse_strategy *st;
            OK(train_mirrored(ids, replicas, &like));
            assert_true(like.losses[STEPS - 1] < 0.7 * like.losses[0]);
            OK(copse_parameter_server_create(
                ctx, NULL, ids, replicas,
                &(struct copse_strategy_params){ .parameter_device = found[found_count - 1 - d] },
                &st));
            OK(train(st, &o));
            OK(compare(&o, &like));
            copse_strategy_release(&st);
        }
}

static copse_status train_there(struct job *job, uint32_t worker, copse_strategy *st)
{
    const char *ids[MAX_RANKS];
    struct outcome like, o;
    (void)worker;
    for (uint32_t r = 0; r < job->replicas; r++)
        ids[r] = job->is_mixed ? found[r % found_count] : "host:0";
    COPSE_TRY(train(st, &o));
    COPSE_TRY(train_mirrored(ids, job->replicas, &like));
    return compare(&o, &like);
}

static void servers_of_other_processes(void **unused)
{
    (void)unused;
    for (uint32_t replicas = 1; replicas <= 2; replicas++)
        for (uint32_t servers = 1; servers <= 2; servers++) {
            struct job job = { .workers = 1,
                               .servers = servers,
                               .replicas = replicas,
                               .is_mixed = true,
                               .work = train_there };
            run_job(&job);
            assert_all_done(&job);
        }
}

/* ---- several workers ---- */

struct giving {
    struct towers *m;
    uint32_t round, worker;
};

/* Ones for the weights; for the offset too, in a worker's own rounds, so that groups are made in
   any order. */
static copse_status gives(copse_replica_context *rc, copse_value *const *args, size_t count,
                          void *user, copse_value **result)
{
    const struct giving *g = user;
    const float ones[WIDTH] = { 1, 1, 1, 1, 1, 1 };
    const bool has_both = g->round % 3 == g->worker / 2, is_turned = g->worker == 1;
    copse_value *one;
    (void)rc, (void)args, (void)count, (void)result;
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(WIDTH), ones, &one));
    const struct copse_tower_gradient pairs[] = { { one, g->m->offset }, { one, g->m->weights } };
    copse_status s =
        has_both && is_turned ? copse_tower_apply(g->m->second, pairs, 1, false) : COPSE_OK;
    if (!s)
        s = copse_tower_apply(g->m->first, has_both ? pairs : pairs + 1, has_both ? 2 : 1, true);
    if (!s && has_both && !is_turned)
        s = copse_tower_apply(g->m->second, pairs, 1, false);
    copse_value_release(&one);
    return s;
}

static copse_status push_often(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct towers m;
    struct giving g = { &m, 0, worker };
    float now[WIDTH], slot[WIDTH];
    copse_status s = make_towers(st, COPSE_SGD, &m);
    for (; g.round < 3 * STEPS && !s; g.round++)
        s = copse_strategy_run(st, gives, NULL, 0, &g, NULL);
    COPSE_TRY(s);
    copse__mutex_lock(&job->lock);
    job->at++;
    copse__cond_signal_all(&job->changed);
    copse__mutex_unlock(&job->lock);
    COPSE_TRY(await(job, job->workers));
    const float pushes = (float)(3 * STEPS * job->workers * job->replicas);
    COPSE_TRY(copse_variable_read(m.weights, 0, now));
    CHECK(fabsf(now[0] - (-1 - 0.05f * pushes)) <= 1e-4f * pushes);
    CHECK(copse_tower_steps(m.first) == 3 * STEPS &&
          copse_global_step(st) == 3 * STEPS * job->workers);
    /* one slot, of the pushes of all workers */
    COPSE_TRY(read_slot(m.second, m.offset, "v", slot));
    float v = 0;
    for (uint32_t i = 0; i < STEPS * job->workers; i++)
        v = 0.9f * v + (float)job->replicas;
    CHECK(fabsf(slot[0] - v) <= 1e-4f * v);
    free_towers(&m);
    return COPSE_OK;
}

static void several_workers_share_slots(void **unused)
{
    (void)unused;
    for (uint32_t servers = 1; servers <= 2; servers++) {
        struct job job = { .workers = 3, .servers = servers, .replicas = 2, .work = push_often };
        run_job(&job);
        assert_all_done(&job);
    }
}

/* ---- a job that is stopped and goes on ---- */

static char state_path[64];

static enum { STAYS, RELEASES, LEAVES } the_chief;

/* The chief's life: steps 0 and 1, a checkpoint, step 2; or from the checkpoint. The other waits
   for it in each. */
static copse_status be_chief(struct job *job, copse_strategy *st, struct towers *m, bool goes_on)
{
    const struct copse_state_params p = { .position = { 1, 2 } };
    struct copse_position at = { 0, 0 };
    double loss;
    if (goes_on) {
        COPSE_TRY(copse_replicated_restore(st, state_path, &at, NULL));
        CHECK(at.epoch == 1 && at.batch == 2);
    } else {
        COPSE_TRY(run_towers(st, m, 0, &loss));
        COPSE_TRY(run_towers(st, m, 1, &loss));
        COPSE_TRY(copse_replicated_checkpoint(st, state_path, &p));
    }
    COPSE_TRY(run_towers(st, m, 2, &loss));
    COPSE_TRY(copse_variable_read(m->weights, 0, job->seen[0]));
    if (the_chief != STAYS)
        free_towers(m);
    reach(job, 1);
    return the_chief == LEAVES ? COPSE_OK : await(job, 2);
}

/* It takes over what the servers have, also behind what the chief has done since, and goes on from
   there. */
static copse_status be_non_chief(struct job *job, copse_strategy *st, struct towers *m,
                                 bool goes_on)
{
    struct copse_position at = { 0, 0 };
    double loss;
    const uint64_t end = copse__now_ns() + 60000000000ull;
    COPSE_TRY(await(job, 1));
    while (the_chief == LEAVES && !copse__peer_is_gone(job->tasks[1].cluster, 0) &&
           copse__now_ns() < end)
        copse__sleep_ns(1000000);
    COPSE_TRY(copse_replicated_restore(st, goes_on ? state_path : "", &at, NULL));
    CHECK(at.epoch == 1 && at.batch == 2);
    COPSE_TRY(copse_replicated_checkpoint(st, "/nowhere/at/all", NULL));
    COPSE_TRY(copse_variable_read(m->weights, 0, job->seen[1]));
    COPSE_TRY(run_towers(st, m, 3, &loss));
    CHECK(copse_global_step(st) == 4);
    COPSE_TRY(copse_variable_read(m->weights, 0, job->seen[2]));
    reach(job, 2);
    return COPSE_OK;
}

static bool is_second_life;

static copse_status live(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct towers m;
    COPSE_TRY(make_towers(st, COPSE_ADAM, &m));
    COPSE_TRY(worker ? be_non_chief(job, st, &m, is_second_life)
                     : be_chief(job, st, &m, is_second_life));
    free_towers(&m);
    return COPSE_OK;
}

static void the_chief_restores_for_all(void **unused)
{
    struct job lives[2];
    (void)unused;
    snprintf(state_path, sizeof state_path, "/tmp/copse_towers_servers_%d.safetensors",
             (int)getpid());
    for (uint32_t life = 0; life < 2; life++) {
        lives[life] = (struct job){ .workers = 2, .servers = 2, .replicas = 1, .work = live };
        is_second_life = life == 1;
        run_job(&lives[life]);
        assert_all_done(&lives[life]);
        assert_memory_equal(lives[life].seen[1], lives[life].seen[0], WIDTH * sizeof(float));
    }
    assert_memory_equal(lives[1].seen[0], lives[0].seen[0], WIDTH * sizeof(float));
    /* slots and places stay for the other */
    for (the_chief = RELEASES; the_chief <= LEAVES; the_chief++) {
        struct job job = { .workers = 2, .servers = 2, .replicas = 1, .work = live };
        run_job(&job);
        assert_all_done(&job);
        assert_memory_equal(job.seen[1], lives[0].seen[1], WIDTH * sizeof(float));
        assert_memory_equal(job.seen[2], lives[0].seen[2], WIDTH * sizeof(float));
    }
    the_chief = STAYS;
    unlink(state_path);
}

/* ---- one worker's optimizer, made again ---- */

/* Nobody has it any more: another rule is no quarrel. */
static copse_status make_again(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct towers m;
    struct giving g = { &m, 0, 0 };
    if (worker == 1)
        return await(job, 1);
    COPSE_TRY(make_towers(st, COPSE_ADAM, &m));
    COPSE_TRY(copse_strategy_run(st, gives, NULL, 0, &g, NULL));
    copse_tower_release(&m.first);
    COPSE_TRY(copse_tower_create(
        st, &(struct copse_tower_params){ .optimizer = { .kind = COPSE_MOMENTUM } }, &m.first));
    const copse_status s = copse_strategy_run(st, gives, NULL, 0, &g, NULL);
    free_towers(&m);
    reach(job, 1);
    return s;
}

static void another_rule_when_nobody_has_it(void **unused)
{
    (void)unused;
    struct job job = { .workers = 2, .servers = 1, .replicas = 1, .work = make_again };
    run_job(&job);
    assert_all_done(&job);
}

static copse_status is_told(copse_strategy *st)
{
    CHECK(copse_replicated_restore(st, "", NULL, NULL) == COPSE_ERR_COMM);
    CHECK(strstr(copse_last_error(), "the chief has left"));
    return COPSE_OK;
}

/* The chief leaves without; whatever becomes of the other one, it leaves, too. */
static copse_status expect_none(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct towers m;
    (void)job;
    copse_status s = make_towers(st, COPSE_ADAM, &m);
    if (!s && worker == 1)
        s = is_told(st);
    free_towers(&m);
    return s;
}

static void a_chief_that_restores_nothing(void **unused)
{
    (void)unused;
    struct job job = { .workers = 2, .servers = 1, .replicas = 1, .work = expect_none };
    run_job(&job);
    assert_all_done(&job);
}

/* ---- a trainer beside ---- */

struct beside {
    struct towers m;
    copse_trainer *t;
    enum { STEP_IN_REPLICA, EVALUATE_IN_REPLICA, LEAVE_HALF } what;
    copse_status s;
    float seen[2]; /* by the replicas, of the first weight */
    char text[512];
};

static copse_tensor *first_weight(copse_graph *g, const copse_batch *in, void *user)
{
    const struct towers *m = user;
    return copse_add(g, rig_x(in), copse_variable_tensor(m->weights));
}

static copse_status look_at(struct beside *b, uint32_t rank)
{
    const float zeros[WIDTH] = { 0 };
    float now[WIDTH];
    copse_value *x, *out;
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(WIDTH), zeros, &x));
    copse_status s = copse_tower_forward(
        b->m.first, &(struct copse_tower_loss){ .loss = first_weight, .user = &b->m, .x = x },
        &out);
    copse_value_release(&x);
    COPSE_TRY(s);
    s = copse_value_read(out, now);
    copse_value_release(&out);
    b->seen[rank] = now[0];
    return s;
}

/* Between the two replicas' calls somebody changes the variable, and a trainer of this worker wants
   to know. */
static copse_status disturb(copse_replica_context *rc, copse_value *const *args, size_t count,
                            void *user, copse_value **result)
{
    static const float data[2 * WIDTH], ones[WIDTH] = { 1, 1, 1, 1, 1, 1 };
    struct beside *b = user;
    const struct copse_host_batch batch = { RIG_PAIR(WIDTH, data, WIDTH, data), .count = 2 };
    const uint32_t rank = copse_replica_id(rc);
    copse_value *one;
    (void)args, (void)count, (void)result;
    if (rank == 1 && b->what == LEAVE_HALF)
        return COPSE_OK;
    COPSE_TRY(look_at(b, rank));
    COPSE_TRY(copse_value_create(ctx, COPSE_F32, COPSE_SHAPE(WIDTH), ones, &one));
    const copse_status s =
        copse_tower_apply(b->m.first, &(struct copse_tower_gradient){ one, b->m.weights }, 1, true);
    copse_value_release(&one);
    COPSE_TRY(s);
    if (rank == 1 || b->what == LEAVE_HALF)
        return COPSE_OK;
    struct copse_server_store *store = &copse__servers_of(b->m.weights->strategy)->at[0];
    COPSE_TRY(store->server->table->change(store->server, store->ids.at[b->m.weights->server_index],
                                           COPSE_CHANGE_ADD, WIDTH, ones)); /* as another worker */
    struct copse_step_result r;
    b->s = b->what == STEP_IN_REPLICA ? copse_trainer_step(b->t, &batch)
                                      : copse_trainer_evaluate(b->t, &batch, &r);
    snprintf(b->text, sizeof b->text, "%s", b->s ? copse_last_error() : "");
    return COPSE_OK;
}

static void make_beside(struct beside *b, copse_strategy *st)
{
    *b = (struct beside){ .what = 0 };
    OK(make_towers(st, COPSE_SGD, &b->m));
    OK(copse_trainer_create(st,
                            &(struct copse_trainer_params){ .loss = distance,
                                                            .user = &b->m,
                                                            .optimizer = { .kind = COPSE_SGD } },
                            &b->t));
}

/* Both replicas of an update compute from the same values, whatever a trainer does in between. */
static void replicas_keep_their_values(void **unused)
{
    static const char *const ids[] = { "host:0", "host:0" };
    static const float data[2 * WIDTH];
    const struct copse_host_batch batch = { RIG_PAIR(WIDTH, data, WIDTH, data), .count = 2 };
    struct copse_step_result r;
    copse_strategy *st;
    struct beside b;
    (void)unused;
    OK(copse_parameter_server_create(ctx, NULL, ids, 2, NULL, &st));
    make_beside(&b, st);
    for (int k = 0; k < 2; k++) {
        b.what = k == 0 ? STEP_IN_REPLICA : EVALUATE_IN_REPLICA;
        OK(copse_strategy_run(st, disturb, NULL, 0, &b, NULL));
        assert_true(b.seen[0] == b.seen[1]);
        assert_int_equal(b.s, COPSE_ERR_CONTEXT);
        assert_non_null(strstr(
            b.text,
            "called in replica 0 of the parameter server strategy; it works on all replicas"));
    }
    b.what = LEAVE_HALF;
    OK(copse_strategy_run(st, disturb, NULL, 0, &b, NULL));
    FAILS(COPSE_ERR_CONTEXT, copse_trainer_step(b.t, &batch),
          "tower optimizer 'tower' has gradients of replica 0 and none of replica 1");
    OK(copse_trainer_evaluate(b.t, &batch, &r));
    FAILS(COPSE_ERR_CONTEXT, copse_tower_finish(b.m.first), "equally");
    OK(copse_trainer_step(b.t, &batch));
    copse_trainer_release(&b.t);
    free_towers(&b.m);
    copse_strategy_release(&st);
}

/* ---- refusals ---- */

static copse_status differ(struct job *job, uint32_t worker, copse_strategy *st)
{
    struct towers m;
    struct giving g = { &m, 0, 0 };
    if (worker == 1)
        COPSE_TRY(await(job, 1));
    COPSE_TRY(make_towers(st, worker ? COPSE_MOMENTUM : COPSE_ADAM, &m));
    const copse_status s = copse_strategy_run(st, gives, NULL, 0, &g, NULL);
    if (worker == 0) {
        COPSE_TRY(s);
        reach(job, 1);
        COPSE_TRY(await(job, 2));
    } else {
        CHECK(s == COPSE_ERR_ARGUMENT && strstr(copse_last_error(), "another rule"));
        reach(job, 2);
    }
    free_towers(&m);
    return COPSE_OK;
}

static void another_rule_is_refused(void **unused)
{
    (void)unused;
    struct job job = { .workers = 2, .servers = 1, .replicas = 1, .work = differ };
    run_job(&job);
    assert_all_done(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_of_this_process),
        cmocka_unit_test(servers_of_other_processes),
        cmocka_unit_test(several_workers_share_slots),
        cmocka_unit_test(the_chief_restores_for_all),
        cmocka_unit_test(a_chief_that_restores_nothing),
        cmocka_unit_test(another_rule_when_nobody_has_it),
        cmocka_unit_test(replicas_keep_their_values),
        cmocka_unit_test(another_rule_is_refused),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
