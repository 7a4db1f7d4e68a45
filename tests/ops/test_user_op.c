/* SPDX-License-Identifier: MIT */
/* Ops of the application: values and derivatives on every device found, conformance, wrong kernels
   that are found, blocked and refused like the library's, own kernels in their place, and
   registrations that are refused. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copse/device/conformance.h"
#include "copse/device/function.h"
#include "copse/ops/user_op.h"
#include "tests/rig/graph_rig.h"
#include "tests/rig/rig.h"

#define TEXT(name, body)                                                                 \
    "GROUP(256, 1)\nPARAMS(uint n; float beta;)\n#include \"math.clh\"\n"                \
    "KERNEL2(" name ", IN(real, from), OUT(real, to))\n{\n    const uint i = INDEX();\n" \
    "    if (i < p.n) {\n        const float x = LOAD(from, i);\n" body "    }\n}\n"
#define SWISH        "        STORE(to, i, x * m_sigmoid(p.beta * x));\n"
#define WRONG_AT_900 "        STORE(to, i, SELECT(i == 900u, 7.0f, x * m_sigmoid(p.beta * x)));\n"
#define WRONG        "        STORE(to, i, x);\n"
static const char slope_text[] =
    "GROUP(64, 1)\nPARAMS(uint n; float beta;)\n#include \"math.clh\"\n"
    "KERNEL3(swish_slope, IN(real, from), IN(real, slope), OUT(real, to))\n{\n    const uint i = "
    "INDEX();\n"
    "    if (i < p.n) {\n        const float bx = p.beta * LOAD(from, i), s = m_sigmoid(bx);\n"
    "        STORE(to, i, LOAD(slope, i) * s * (1.0f + bx * m_sigmoid(-bx)));\n    }\n}\n";

struct params {
    uint32_t n;
    float beta;
};

static void swish(const void *params, const int32_t *spec, const struct copse_host_arg *buffers)
{
    const struct params *p = params;
    (void)spec;
    for (size_t i = 0; i < p->n; i++) {
        const double x = copse_host_load(&buffers[0], i);
        copse_host_store(&buffers[1], i, x / (1 + exp(-(double)p->beta * x)));
    }
}

static void slope(const void *params, const int32_t *spec, const struct copse_host_arg *buffers)
{
    const struct params *p = params;
    (void)spec;
    for (size_t i = 0; i < p->n; i++) {
        const double bx = (double)p->beta * copse_host_load(&buffers[0], i), s = 1 / (1 + exp(-bx));
        copse_host_store(&buffers[2], i, copse_host_load(&buffers[1], i) * s * (1 + bx * (1 - s)));
    }
}

static copse_status launch(void *user, const struct copse_user_call *call,
                           struct copse_user_launch *out)
{
    struct params p = { 1, 0 };
    (void)user;
    for (uint32_t i = 0; i < call->shape.rank; i++)
        p.n *= call->shape.dims[i];
    memcpy(&p.beta, call->settings, sizeof p.beta);
    memcpy(out->params, &p, sizeof p);
    out->groups = (p.n + (uint64_t)call->group_size - 1) / call->group_size;
    return COPSE_OK;
}

static copse_user_op *slope_op;

static void gradient(void *user, copse_graph *g, const struct copse_user_call *call,
                     copse_tensor *dy, copse_tensor **dx)
{
    copse_tensor *in[] = { call->operands[0], dy };
    (void)user;
    dx[0] = copse_user_op_add(g, slope_op, in, 2, call->settings);
}

/* Operands of up to 1000 elements. */
static copse_status small(void *user, const struct copse_user_call *call, copse_shape *out)
{
    (void)user;
    *out = call->shapes[0];
    return out->rank == 1 && out->dims[0] > 1000 ? COPSE_ERR_SHAPE : COPSE_OK;
}

static const float one = 1, two = 2;
static const struct copse_user_sample samples[] = {
    { .name = "a row",
      .shapes = { { 1, { 600 } }, { 1, { 600 } } },
      .settings = &one,
      .low = -4,
      .high = 4 },
    { .name = "a matrix", .shapes = { { 2, { 3, 30 } }, { 2, { 3, 30 } } }, .settings = &two },
};

/* SPIR-V of a kernel in the dialect, NULL without a compiler. */
static uint32_t *to_spirv(const char *source, size_t *bytes)
{
    static uint32_t words[16384];
    char folder[] = "/tmp/copse-XXXXXX", path[64], out[64], command[300];
    char *text = malloc(1 << 18);
    size_t needed;
    assert_non_null(mkdtemp(folder));
    OK(copse_kernel_complete(COPSE_KERNEL_GLSL, source, text, 1 << 18, &needed));
    snprintf(path, sizeof path, "%s/k.comp", folder);
    snprintf(out, sizeof out, "%s/k.spv", folder);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
    free(text);
    snprintf(command, sizeof command,
             "glslangValidator -V --target-env vulkan1.1 -o %s %s >/dev/null 2>&1", out, path);
    const int status = system(command);
    f = status == 0 ? fopen(out, "rb") : NULL;
    *bytes = f ? fread(words, 1, sizeof words, f) : 0;
    if (f)
        fclose(f);
    unlink(path);
    unlink(out);
    rmdir(folder);
    return *bytes > 0 ? words : NULL;
}

static bool has_compiler;

static struct copse_user_op_params params_of(const char *name, const char *text)
{
    return (struct copse_user_op_params){
        .name = name,
        .operands = 1,
        .text = text,
        .params = 2,
        .settings_size = sizeof(float),
        .launch = launch,
        .reference = swish,
        .ulp = 8,
        .gradient_ulp = 16,
        .gradient_ratio = 16,
        .samples = samples,
        .sample_count = 2,
        .any_rows = true,
    };
}

static copse_user_op *add_op(copse_context *ctx, struct copse_user_op_params p)
{
    copse_user_op *op;
    p.spirv = to_spirv(p.text, &p.spirv_bytes);
    has_compiler = p.spirv != NULL;
    OK(copse_user_op_register(ctx, &p, &op));
    return op;
}

static copse_user_op *add_swish(copse_context *ctx)
{
    struct copse_user_op_params p = params_of("swish_slope", slope_text),
                                q = params_of("swish", TEXT("swish", SWISH));
    p.operands = 2;
    p.reference = slope;
    p.ratio = 16;
    p.group_size = 64;
    q.gradient = gradient;
    slope_op = add_op(ctx, p);
    return add_op(ctx, q);
}

/* Usable devices on which the ops can run. */
static size_t devices_of(copse_context *ctx, const char *list[8])
{
    const struct copse_device_info *all;
    size_t count, n = 0;
    copse_context_devices(ctx, &all, &count);
    for (size_t i = 0; i < count && n < 8; i++) {
        const bool is_vulkan = strncmp(all[i].id, "vulkan", 6) == 0;
        if (is_vulkan && !has_compiler)
            printf("%s is left out: no glslangValidator\n", all[i].id);
        else if (all[i].is_usable && strstr(all[i].id, ":0"))
            list[n++] = all[i].id;
    }
    return n;
}

/* y and dx of x; the status of making the function. */
static copse_status compute(copse_context *ctx, const char *device, copse_user_op *op, uint32_t n,
                            const float *values, float *y, float *dx)
{
    copse_device *dev;
    copse_graph *g;
    copse_tensor *x, *out[2], *dy;
    copse_function *f = NULL;
    OK(copse_device_open(ctx, device, NULL, &dev));
    OK(copse_graph_create(ctx, &g));
    x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(n));
    out[0] = copse_user_op_add(g, op, &x, 1, &one);
    dy = copse_fill(g, COPSE_F32, COPSE_SHAPE(n), 1);
    if (dx)
        copse_gradients(g, out[0], dy, &x, 1, &out[1]);
    const copse_status s = copse_function_create(
        dev,
        &(struct copse_function_params){ .graph = g, .outputs = out, .output_count = dx ? 2 : 1 },
        &f);
    if (s == COPSE_OK) {
        OK(copse_function_write(f, x, values));
        OK(copse_function_run(f));
        OK(copse_function_read(f, 0, y));
        if (dx)
            OK(copse_function_read(f, 1, dx));
    }
    copse_function_release(&f);
    copse_graph_release(&g);
    copse_device_release(&dev);
    return s;
}

static void values_and_derivatives_are_right_on_every_device(void **state)
{
    enum { N = 1000 };
    static float x[N], y[N], dx[N];
    const char *list[8];
    copse_context *ctx;
    (void)state;
    OK(copse_context_create(NULL, &ctx));
    copse_user_op *op = add_swish(ctx);
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - 500) / 64.0f;
    const size_t count = devices_of(ctx, list);
    assert_true(count > 0);
    for (size_t d = 0; d < count; d++) {
        OK(compute(ctx, list[d], op, N, x, y, dx));
        for (int i = 0; i < N; i++) {
            const double s = 1 / (1 + exp(-(double)x[i]));
            if (!(fabs((double)y[i] - (double)x[i] * s) < 3e-6) ||
                !(fabs((double)dx[i] - s * (1 + (double)x[i] * (1 - s))) < 3e-6))
                fail_msg("%s: swish(%g) is %.9g, slope %.9g", list[d], (double)x[i], (double)y[i],
                         (double)dx[i]);
        }
    }
    copse_context_release(&ctx);
}

static void note_failure(void *user, const struct copse_case_result *r)
{
    if (r->verdict != COPSE_VERDICT_PASS && r->verdict != COPSE_VERDICT_SKIP) {
        snprintf(user, 256, "%s %s '%s': %s: %s", r->mode, r->op, r->name,
                 copse_verdict_name(r->verdict), r->text);
        printf("%s\n", (const char *)user);
    }
}

static struct copse_conformance_summary conform(copse_context *ctx, const char *device,
                                                const char *ops, const struct copse_own_kernel *own,
                                                char failed[256])
{
    struct copse_conformance_summary s;
    *failed = '\0';
    OK(copse_conformance_run(ctx,
                             &(struct copse_conformance_params){
                                 .device = device,
                                 .ops = ops,
                                 .own = own,
                                 .result = note_failure,
                                 .user = failed,
                                 .modes = COPSE_CONFORM_RUN | COPSE_CONFORM_GRAD |
                                          (own ? 0 : COPSE_CONFORM_BITWISE | COPSE_CONFORM_ARGS),
                                 .tier = COPSE_CONFORM_STANDARD },
                             &s));
    return s;
}

static void they_pass_the_conformance_of_the_library(void **state)
{
    const char *list[8];
    char failed[256];
    copse_context *ctx;
    (void)state;
    OK(copse_context_create(NULL, &ctx));
    (void)add_swish(ctx);
    const size_t count = devices_of(ctx, list);
    for (size_t d = 0; d < count; d++) {
        const struct copse_conformance_summary s =
            conform(ctx, list[d], "swish,swish_slope", NULL, failed);
        if (*failed || s.counts[COPSE_VERDICT_PASS] < 20)
            fail_msg("%s: %u passed; %s", list[d], (unsigned)s.counts[COPSE_VERDICT_PASS], failed);
    }
    copse_context_release(&ctx);
}

/* One wrong element in 1000: conformance finds it, blocks the kernel, and then programs are
   refused, or the host computes the launch. */
static void wrong_kernels_are_blocked_and_refused(void **state)
{
    static float x[1000], y[1000];
    const char *list[8];
    char failed[256];
    copse_context *ctx;
    (void)state;
    OK(copse_context_create(NULL, &ctx));
    copse_user_op *op = add_op(ctx, params_of("wrong_swish", TEXT("wrong_swish", WRONG_AT_900)));
    const size_t count = devices_of(ctx, list);
    for (size_t d = 0; d < count; d++) {
        if (strncmp(list[d], "host", 4) == 0)
            continue;
        OK(compute(ctx, list[d], op, 1000, x, y, NULL)); /* the self-test does not see it */
        assert_true(y[900] > 6.5f);
        (void)conform(ctx, list[d], "wrong_swish", NULL, failed);
        if (!strstr(failed, "FAIL") || !strstr(failed, "rows"))
            fail_msg("%s: conformance does not find the wrong element: %s", list[d], failed);
        FAILS(COPSE_ERR_UNSUPPORTED, compute(ctx, list[d], op, 1000, x, y, NULL),
              copse_user_op_kernel(op));
        OK(copse_context_allow(ctx, COPSE_ALLOW_HOST));
        OK(compute(ctx, list[d], op, 1000, x, y, NULL));
        assert_true(y[900] < 0.5f);
        OK(copse_context_allow(ctx, 0));
    }
    copse_context_release(&ctx);
}

struct model {
    copse_variable *w;
    copse_user_op *op;
};

static copse_tensor *loss_of(copse_graph *g, const copse_batch *in, void *user)
{
    const struct model *m = user;
    copse_tensor *w = copse_variable_tensor(m->w), *y, *x;
    y = copse_user_op_add(g, m->op, &w, 1, &one);
    x = copse_mean(g, rig_x(in), NULL, 0, false);
    y = copse_mul(g, y, x);
    return copse_mean(g, y, NULL, 0, false);
}

/* Also one that conformance has not run on. */
static void the_cross_check_finds_a_wrong_element(void **state)
{
    static const float x[2] = { 1, 2 };
    const char *list[8];
    copse_context *ctx;
    (void)state;
    OK(copse_context_create(NULL, &ctx));
    struct copse_user_op_params p = params_of("wrong_swish", TEXT("wrong_swish", WRONG_AT_900));
    (void)add_swish(ctx);
    p.gradient = gradient;
    copse_user_op *op = add_op(ctx, p);
    const size_t count = devices_of(ctx, list);
    for (size_t d = 0; d < count; d++) {
        const bool is_host = strncmp(list[d], "host", 4) == 0;
        struct model m = { .op = op };
        copse_strategy *st;
        copse_trainer *t;
        OK(copse_one_device_create(ctx, list[d], NULL, &st));
        OK(copse_variable_create(
            st, &(struct copse_variable_params){ .name = "w", .shape = COPSE_SHAPE(1000) }, &m.w));
        OK(copse_trainer_create(st,
                                &(struct copse_trainer_params){
                                    .loss = loss_of,
                                    .user = &m,
                                    .optimizer = { .kind = COPSE_SGD, .learning_rate = 1 } },
                                &t));
        const struct copse_host_batch batch = { RIG_X(1, x), .count = 2 };
        if (is_host)
            OK(copse_trainer_step(t, &batch));
        else
            FAILS(COPSE_ERR_UNRELIABLE, copse_trainer_step(t, &batch), copse_user_op_kernel(op));
        copse_trainer_release(&t);
        copse_strategy_release(&st);
    }
    copse_context_release(&ctx);
}

static void completely_wrong_kernels_fail_their_self_test(void **state)
{
    static float x[10], y[10];
    const char *list[8];
    copse_context *ctx;
    (void)state;
    OK(copse_context_create(&(struct copse_context_params){ .no_env = true }, &ctx));
    copse_user_op *op = add_op(ctx, params_of("no_swish", TEXT("no_swish", WRONG)));
    const size_t count = devices_of(ctx, list);
    for (size_t d = 0; d < count; d++)
        if (strncmp(list[d], "host", 4) != 0)
            FAILS(COPSE_ERR_UNSUPPORTED, compute(ctx, list[d], op, 10, x, y, NULL), "self-test");
    copse_context_release(&ctx);
}

static void own_kernels_take_their_place(void **state)
{
    static const char wrong[] = TEXT("swish", WRONG_AT_900), right[] = TEXT("swish", SWISH);
    const char *list[8];
    char failed[256], text[600];
    copse_context *ctx;
    (void)state;
    OK(copse_context_create(NULL, &ctx));
    copse_user_op *op = add_swish(ctx);
    OK(copse_kernel_contract("swish", text, sizeof text));
    assert_non_null(strstr(text, copse_user_op_kernel(op)));
    const size_t count = devices_of(ctx, list);
    for (size_t d = 0; d < count; d++) {
        struct copse_own_kernel own = { .kernel = "swish",
                                        .code = right,
                                        .size = sizeof right - 1 };
        const bool is_vulkan = strncmp(list[d], "vulkan", 6) == 0;
        if (strncmp(list[d], "host", 4) == 0)
            continue;
        if (is_vulkan)
            own.code = to_spirv(right, &own.size);
        (void)conform(ctx, list[d], "swish", &own, failed);
        if (*failed)
            fail_msg("%s: the right kernel fails: %s", list[d], failed);
        own.code = wrong;
        own.size = sizeof wrong - 1;
        if (is_vulkan)
            own.code = to_spirv(wrong, &own.size);
        (void)conform(ctx, list[d], "swish", &own, failed);
        if (!strstr(failed, "FAIL"))
            fail_msg("%s: a wrong own kernel passes", list[d]);
    }
    copse_context_release(&ctx);
}

/* ---- refusals ---- */

#define REFUSED(code, word, ...)                                                  \
    do {                                                                          \
        struct copse_user_op_params p = params_of("swish", TEXT("swish", SWISH)); \
        copse_user_op *op_ = NULL;                                                \
        __VA_ARGS__;                                                              \
        FAILS(code, copse_user_op_register(ctx, &p, &op_), word);                 \
        assert_null(op_);                                                         \
    } while (0)

static void wrong_registrations_are_refused(void **state)
{
    static const uint32_t damaged[] = { 0x07230203u, 0, 0, 0, 0, 0 },
                          other[] = { 1, 2, 3, 4, 5, 6 };
    static const struct copse_user_sample large[] = { { .name = "large",
                                                        .shapes = { { 1, { 3000 } } } } };
    static const struct copse_user_sample twice[] = { { .name = "x", .shapes = { { 1, { 3 } } } },
                                                      { .name = "x", .shapes = { { 1, { 4 } } } } };
    static const struct copse_user_sample turned[] = { { .name = "x", .low = 2, .high = 1 } };
    copse_context *ctx;
    (void)state;
    OK(copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &ctx));
    REFUSED(COPSE_ERR_ARGUMENT, "identifier", p.name = "2swish");
    REFUSED(COPSE_ERR_ARGUMENT, "identifier", p.name = "a-b");
    REFUSED(COPSE_ERR_ARGUMENT, "identifier", p.name = "");
    REFUSED(COPSE_ERR_ARGUMENT, "there is a kernel 'softmax'", p.name = "softmax");
    REFUSED(COPSE_ERR_ARGUMENT, "operands", p.operands = 0);
    REFUSED(COPSE_ERR_ARGUMENT, "operands", p.operands = 5);
    REFUSED(COPSE_ERR_ARGUMENT, "element type", p.types[0] = (copse_type)9);
    REFUSED(COPSE_ERR_ARGUMENT, "power of two", p.group_size = 100);
    REFUSED(COPSE_ERR_ARGUMENT, "too many", p.params = 32);
    REFUSED(COPSE_ERR_ARGUMENT, "too many", p.specs = 7);
    REFUSED(COPSE_ERR_ARGUMENT, "too many", p.settings_size = 257);
    REFUSED(COPSE_ERR_ARGUMENT, "params is 1", p.launch = NULL);
    REFUSED(COPSE_ERR_ARGUMENT, "largest error", p.ulp = NAN);
    REFUSED(COPSE_ERR_ARGUMENT, "largest error", p.gradient_ratio = -1);
    REFUSED(COPSE_ERR_ARGUMENT, "no kernel", p.text = NULL);
    REFUSED(COPSE_ERR_FORMAT, "no kernel named 'other'", p.name = "other");
    REFUSED(COPSE_ERR_FORMAT, "not a file of the dialect",
            p.text = "#include \"nothing.clh\"\nswish");
    REFUSED(COPSE_ERR_FORMAT, "damaged SPIR-V", p.spirv = damaged; p.spirv_bytes = sizeof damaged);
    REFUSED(COPSE_ERR_FORMAT, "damaged SPIR-V", p.spirv = other; p.spirv_bytes = sizeof other);
    REFUSED(COPSE_ERR_FORMAT, "multiple of 4", p.spirv = other; p.spirv_bytes = 23);
    REFUSED(COPSE_ERR_ARGUMENT, "samples", p.sample_count = 0);
    REFUSED(COPSE_ERR_ARGUMENT, "2048", p.samples = large; p.sample_count = 1);
    REFUSED(COPSE_ERR_ARGUMENT, "two samples", p.samples = twice);
    REFUSED(COPSE_ERR_ARGUMENT, "range", p.samples = turned; p.sample_count = 1);
    REFUSED(COPSE_ERR_SHAPE, "a row", p.shape = small;
            p.samples =
                (struct copse_user_sample[]){ { .name = "a row", .shapes = { { 1, { 1001 } } } } };
            p.sample_count = 1);
    copse_context_release(&ctx);
}

static void wrong_calls_are_refused(void **state)
{
    copse_context *ctx, *other;
    copse_graph *g, *h;
    copse_tensor *y;
    copse_user_op *op, *again = NULL;
    (void)state;
    OK(copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &ctx));
    OK(copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" }, &other));
    struct copse_user_op_params p = params_of("swish", TEXT("swish", SWISH));
    p.shape = small;
    OK(copse_user_op_register(ctx, &p, &op));
    FAILS(COPSE_ERR_ARGUMENT, copse_user_op_register(ctx, &p, &again), "there is a kernel 'swish'");
    OK(copse_user_op_register(other, &p, &again)); /* contexts do not share names */
    OK(copse_graph_create(ctx, &g));
    OK(copse_graph_create(other, &h));
    copse_tensor *x = copse_graph_input(g, "x", COPSE_F32, COPSE_SHAPE(3));
    copse_tensor *n = copse_graph_input(g, "n", COPSE_I32, COPSE_SHAPE(3));
    copse_tensor *large = copse_graph_input(g, "large", COPSE_F32, COPSE_SHAPE(1001));
    FAILS(COPSE_ERR_ARGUMENT, rig_failure(g, copse_user_op_add(g, again, &x, 1, NULL)),
          "another context");
    FAILS(COPSE_ERR_ARGUMENT,
          rig_failure(g, copse_user_op_add(g, op, (copse_tensor *[]){ x, x }, 2, NULL)),
          "2 operands");
    FAILS(COPSE_ERR_SHAPE, rig_failure(g, copse_user_op_add(g, op, &n, 1, NULL)),
          "swish: operand i32[3]: expected f32");
    FAILS(COPSE_ERR_SHAPE, rig_failure(g, copse_user_op_add(g, op, &large, 1, NULL)), "shape rule");
    y = copse_user_op_add(g, op, &x, 1, NULL);
    copse_gradients(g, y, x, &x, 1, &y);
    FAILS(COPSE_ERR_UNSUPPORTED, copse__graph_take_failure(g), "swish has no derivative");
    copse_graph_release(&g);
    copse_graph_release(&h);
    copse_context_release(&ctx);
    copse_context_release(&other);
}

static void places_are_free_again_with_the_context(void **state)
{
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        copse_context *ctx;
        copse_user_op *op;
        char name[32], text[600];
        OK(copse_context_create(&(struct copse_context_params){ .disable = "opencl,vulkan" },
                                &ctx));
        for (int i = 0; i < 65; i++) {
            snprintf(name, sizeof name, "op_%d", i);
            snprintf(text, sizeof text, "KERNEL2(%s, IN(real, x), OUT(real, y)) {}", name);
            const struct copse_user_op_params p = params_of(name, text);
            if (i < 64)
                OK(copse_user_op_register(ctx, &p, &op));
            else
                FAILS(COPSE_ERR_ARGUMENT, copse_user_op_register(ctx, &p, &op),
                      "64 registered ops");
        }
        copse_context_release(&ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_derivatives_are_right_on_every_device),
        cmocka_unit_test(they_pass_the_conformance_of_the_library),
        cmocka_unit_test(wrong_kernels_are_blocked_and_refused),
        cmocka_unit_test(the_cross_check_finds_a_wrong_element),
        cmocka_unit_test(completely_wrong_kernels_fail_their_self_test),
        cmocka_unit_test(own_kernels_take_their_place),
        cmocka_unit_test(wrong_registrations_are_refused),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(places_are_free_again_with_the_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
