/* SPDX-License-Identifier: MIT */
/* The launches of a step of known networks, and the barriers between them, do not grow. A barrier
   stands between two launches that touch the same memory, one of which writes it: the backend for
   Vulkan records such. No order of these launches needs fewer than they have there. */
#include <stdio.h>
#include <stdlib.h>

#include "copse/nn.h"
#include "core/train/trainer.h"
#include "tests/rig/fake/fake_backend.h"
#include "tests/rig/rig.h"

#define PART(heads, units, width)                                                                  \
    "residual { layer_norm; attention " heads " causal=yes }; residual { layer_norm; dense " units \
    " gelu; dense " width " }; "
#define GPT PART("4", "512", "128")
#define BLOCK(channels)                                                          \
    "residual { conv " channels " 3x3 bias=no; batch_norm; relu; conv " channels \
    " 3x3 bias=no; batch_norm }; relu; "
#define HALVING(channels)                                                                 \
    "residual { conv " channels " 3x3 stride=2 bias=no; batch_norm; relu; conv " channels \
    " 3x3 bias=no; batch_norm; shortcut { conv " channels                                 \
    " 1x1 stride=2 bias=no; batch_norm } }; relu; "

enum { MOST_NUMBERS = 64 * 1024, POSITIONS = 128, TOKENS = 65, UNITS = 2 };

static float numbers[MOST_NUMBERS];
static int32_t words[MOST_NUMBERS];

struct network {
    const char *name, *text;
    uint32_t in[3], rank, outputs, batch;
    bool is_text;
    bool is_counted_everywhere; /* on the device itself, too, in each run, but as a GPU */
    struct most {
        size_t launches, barriers;
    } most[3]; /* with wide vectors (opencl), with fast texels (vulkan), of GPUs (on vulkan) */
};

static const struct network networks[] = {
    { "gpt:4,128,4",
      "embedding in 128; positions; " GPT GPT GPT GPT "layer_norm; dense out",
      { POSITIONS },
      1,
      TOKENS,
      8,
      true,
      false,
      { { 166, 130 }, { 110, 71 }, { 130, 77 } } },
    { "lstm:2,256",
      "embedding in 256; lstm 256; lstm 256; dense out",
      { POSITIONS },
      1,
      TOKENS,
      8,
      true,
      false,
      { { 1096, 1071 }, { 1086, 1052 }, { 1340, 1307 } } },
    { "gru:2,256",
      "embedding in 256; gru 256; gru 256; dense out",
      { POSITIONS },
      1,
      TOKENS,
      8,
      true,
      false,
      { { 1108, 1076 }, { 1092, 1054 }, { 1350, 1311 } } },
    { "mlp:512,512",
      "flatten; dense 512 relu; dense 512 relu; dense out",
      { 28, 28, 1 },
      3,
      10,
      32,
      false,
      true,
      { { 22, 15 }, { 18, 8 }, { 18, 11 } } },
    { "cnn",
      "conv 32 3x3 relu; conv 32 3x3 relu; max_pool 2; conv 64 3x3 relu; conv 64 3x3 relu; "
      "max_pool 2; flatten; dropout 0.25; dense 128 relu; dropout 0.5; dense out",
      { 28, 28, 1 },
      3,
      10,
      32,
      false,
      false,
      { { 56, 52 }, { 58, 29 }, { 50, 29 } } },
    { "resnet20",
      "conv 16 3x3 bias=no; batch_norm; relu; " BLOCK("16") BLOCK("16") BLOCK("16") HALVING("32")
          BLOCK("32") BLOCK("32") HALVING("64") BLOCK("64") BLOCK("64") "global_pool; dense out",
      { 32, 32, 3 },
      3,
      10,
      16,
      false,
      false,
      { { 509, 424 }, { 513, 258 }, { 492, 256 } } },
};

static copse_tensor *loss(copse_graph *g, const copse_batch *in, void *user)
{
    copse_tensor *x = copse_input(in, "x"), *y = copse_input(in, "y");
    x = copse_layer_apply(user, g, in, x);
    if (y->shape.rank == 2) {
        const uint32_t count = y->shape.dims[0] * y->shape.dims[1];
        x = copse_reshape(g, x, COPSE_SHAPE(count, TOKENS));
        y = copse_reshape(g, y, COPSE_SHAPE(count));
    }
    return copse_sparse_cross_entropy(g, x, y, COPSE_MEAN);
}

/* ---- what is counted ---- */

struct seen {
    struct copse_binding at[4096];
    bool is_written[4096];
    size_t count;
};

static bool is_written(const struct copse_command *c, uint32_t i)
{
    switch (c->kind) {
    case COPSE_COMMAND_DISPATCH:
        return c->kernel->row->args[i].is_written;
    case COPSE_COMMAND_COPY:
        return i == 1;
    case COPSE_COMMAND_GEMM:
        return i >= COPSE_GEMM_SCRATCH;
    default:
        return true;
    }
}

static bool has_conflict(const struct seen *s, const struct copse_binding *b, bool writes)
{
    for (size_t i = 0; i < s->count; i++)
        if ((writes || s->is_written[i]) && s->at[i].buffer == b->buffer &&
            s->at[i].offset < b->offset + b->size && b->offset < s->at[i].offset + s->at[i].size)
            return true;
    return false;
}

/* Whether a barrier stands in front of it. */
static bool take_command(struct seen *s, const struct copse_command *c)
{
    bool must = false;
    for (uint32_t i = 0; i < c->binding_count; i++)
        must |= has_conflict(s, &c->bindings[i], is_written(c, i));
    if (must)
        s->count = 0;
    for (uint32_t i = 0; i < c->binding_count; i++) {
        assert_true(s->count < 4096);
        s->is_written[s->count] = is_written(c, i);
        s->at[s->count++] = c->bindings[i];
    }
    return must;
}

/* The longest chain of commands each of which depends on the one before: no order has fewer than this
   number of barriers and one. */
struct chain {
    const struct copse_command *at[4096];
    uint32_t depth[4096], count, longest;
};

static bool depends(const struct copse_command *a, const struct copse_command *b)
{
    for (uint32_t i = 0; i < a->binding_count; i++)
        for (uint32_t k = 0; k < b->binding_count; k++) {
            const struct copse_binding *x = &a->bindings[i], *y = &b->bindings[k];
            if ((is_written(a, i) || is_written(b, k)) && x->buffer == y->buffer &&
                x->offset < y->offset + y->size && y->offset < x->offset + x->size)
                return true;
        }
    return false;
}

static void chain_command(struct chain *c, const struct copse_command *command)
{
    uint32_t depth = 1;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->depth[i] >= depth && depends(c->at[i], command))
            depth = c->depth[i] + 1;
    assert_true(c->count < 4096);
    c->at[c->count] = command;
    c->depth[c->count++] = depth;
    c->longest = depth > c->longest ? depth : c->longest;
}

struct by_kernel {
    const char *name[64];
    uint32_t times[64], count;
};

static void note_kernel(struct by_kernel *k, const char *name)
{
    uint32_t i = 0;
    while (i < k->count && strcmp(k->name[i], name) != 0)
        i++;
    assert_true(i < 64);
    k->name[i] = name;
    k->times[i]++;
    k->count = i < k->count ? k->count : i + 1;
}

/* *least: the barriers that any order has. */
static struct most count_program(const copse_program *p, struct by_kernel *kernels, size_t *least)
{
    static struct seen seen;
    static struct chain chain;
    struct most most = { .launches = 0 };
    *least = 0;
    for (uint32_t i = 0; i < copse__program_segments(p); i++) {
        seen.count = 0;
        chain.count = chain.longest = 0;
        for (const struct copse_segment *s = copse__program_list(p)[i]; s; s = s->rest)
            for (size_t c = 0; c < s->count; c++) {
                most.launches++;
                most.barriers += take_command(&seen, &s->commands[c]);
                chain_command(&chain, &s->commands[c]);
                note_kernel(kernels, copse__command_name(&s->commands[c]));
            }
        *least += chain.longest > 0 ? chain.longest - 1 : 0;
    }
    return most;
}

/* ---- a network ---- */

static copse_type x_type(const struct network *n)
{
    return n->is_text ? COPSE_I32 : COPSE_F32;
}

/* A device of no such kind has kernels of its own: its counts are printed. */
static struct most count_network(copse_context *of, const struct network *n, const char *device,
                                 const char *like, struct most *most)
{
    const uint32_t *in = n->in;
    const copse_shape shape = n->is_text ? COPSE_SHAPE(in[0]) : COPSE_SHAPE(in[0], in[1], in[2]);
    const void *x = n->is_text ? (const void *)words : numbers;
    const struct copse_host_batch batch = {
        COPSE_COLUMNS({ "x", x_type(n), shape, x },
                      { "y", COPSE_I32, n->is_text ? shape : COPSE_SCALAR, words }),
        .count = n->batch
    };
    struct by_kernel kernels = { .count = 0 };
    struct copse_shards shards;
    copse_strategy *st;
    copse_layer *layers;
    copse_trainer *t;
    OK(copse_one_device_create(of, device, NULL, &st));
    OK(copse_nn_parse(of, n->text, &layers));
    OK(copse_layer_build(layers, st,
                         &(struct copse_build_params){ .type = x_type(n),
                                                       .shape = shape,
                                                       .outputs = n->outputs,
                                                       .tokens = TOKENS,
                                                       .seed = 5 }));
    OK(copse_trainer_create(
        st,
        &(struct copse_trainer_params){ .loss = loss, .user = layers, .optimizer = { COPSE_ADAM } },
        &t));
    const struct copse_limits *limits = st->replicas[0].dev->limits;
    *most = limits->is_gpu             ? n->most[2]
            : limits->has_wide_vectors ? n->most[0]
            : limits->has_fast_texels  ? n->most[1]
                                       : (struct most){ SIZE_MAX, SIZE_MAX };
    copse__recordings_begin(t);
    OK(copse__trainer_take(t, &batch, COPSE_PASS_TRAIN, false, &shards));
    const copse_program *p = shards.recordings[0]->base.program;
    size_t least;
    const struct most found_here = count_program(p, &kernels, &least);
    printf("  %s on %s: %zu launches, %zu barriers, %u segments, %zu KiB:", n->name, like,
           found_here.launches, found_here.barriers, copse__program_segments(p),
           copse__program_arena_bytes(p) >> 10);
    for (uint32_t i = 0; i < kernels.count; i++)
        printf(" %u %s%s", kernels.times[i], kernels.name[i], i + 1 < kernels.count ? "," : "\n");
    if (st->replicas[0].dev->backend->overlaps && found_here.barriers != least)
        fail_msg("%s on %s: %zu barriers, and %zu in another order", n->name, like,
                 found_here.barriers, least);
    copse_trainer_release(&t);
    copse_layer_release(&layers);
    copse_strategy_release(&st);
    return found_here;
}

/* ---- devices ---- */

/* A device of the machine as the fake backend describes it: launches are chosen by limits, and counting
   them needs no kernel of a driver. */
static struct copse_limits described_limits;

static void describe_device(struct copse_device_info *info)
{
    info->kind = COPSE_DEVICE_CPU;
    info->limits = described_limits;
}

static const struct copse_backend *backend_named(const char *name)
{
    for (size_t i = 0; copse_backends[i]; i++)
        if (strcmp(copse_backends[i]->name, name) == 0)
            return copse_backends[i];
    return NULL;
}

static copse_status init_nothing(struct copse_kernel *k)
{
    (void)k;
    return COPSE_OK;
}

static copse_context *open_described(const struct copse_device_info *like)
{
    static struct copse_backend backend;
    static const struct copse_backend *const backends[] = { &backend, NULL };
    const struct copse_backend *of = backend_named(like->backend);
    copse_context *out;
    backend = copse_backend_fake;
    backend.overlaps = of->overlaps;
    backend.has_kernel = of->has_kernel;
    backend.kernel_init = init_nothing; /* no kernel is launched */
    described_limits = like->limits;
    fake_reset();
    copse_fake.devices[0].describe = describe_device;
    OK(copse__context_create_with(NULL, backends, &out));
    out->self_tests_off = 1;
    return out;
}

/* One network, and in the sweep each, is counted on the device itself, too: the counts are the same.
   lavapipe takes 20 seconds for the kernels of a GPU. */
static void check_networks(copse_context *real, const struct copse_device_info *like)
{
    copse_context *described = open_described(like);
    for (size_t i = 0; i < COPSE_COUNT(networks); i++) {
        const struct network *n = &networks[i];
        struct most most;
        const struct most is = count_network(described, n, "fake:0", like->id, &most);
        if (is.launches > most.launches || is.barriers > most.barriers)
            fail_msg("%s on %s has %zu launches and %zu barriers; at most %zu and %zu", n->name,
                     like->id, is.launches, is.barriers, most.launches, most.barriers);
        if (!rig_takes(1, 2) && (!n->is_counted_everywhere || like->limits.is_gpu))
            continue;
        const struct most truth = count_network(real, n, like->id, like->id, &most);
        assert_int_equal(truth.launches, is.launches);
        assert_int_equal(truth.barriers, is.barriers);
    }
    copse_context_release(&described);
}

/* The CPUs of the machine, with limits that do not depend on the number of processors; as_gpu: described as
   GPUs, which have other kernels by default. */
static void check_devices(const char *backend, bool as_gpu)
{
    copse_context *of;
    unsigned devices = 0;
    OK(copse_context_create(NULL, &of));
    for (size_t d = 0; d < of->device_count; d++) {
        struct copse_device_info *info = &of->devices[d];
        if (!info->is_usable || info->kind != COPSE_DEVICE_CPU ||
            (backend && strcmp(info->backend, backend) != 0))
            continue;
        info->limits.is_gpu = as_gpu;
        info->limits.compute_units = UNITS;
        check_networks(of, info);
        devices++;
    }
    copse_context_release(&of);
    if (devices == 0) {
        print_message("skipped: no CPU through %s\n", backend ? backend : "OpenCL or Vulkan");
        skip();
    }
}

static void launches_do_not_grow(void **state)
{
    (void)state;
    check_devices(NULL, false);
}

static void launches_of_gpus_do_not_grow(void **state)
{
    (void)state;
    printf("  as a GPU:\n");
    check_devices("vulkan", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(launches_do_not_grow),
                                        cmocka_unit_test(launches_of_gpus_do_not_grow) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
