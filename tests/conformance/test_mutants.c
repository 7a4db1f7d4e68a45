/* SPDX-License-Identifier: MIT */
/* The tester is tested: kernels with a planted fault take the place of the library's, and the tier
   named for the fault must find it; the kernel without the fault must pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "copse/copse.h"
#include "copse/device/conformance.h"

#define FUNCTIONS "neg,abs,square,exp,tanh,relu"

static const struct mutant {
    const char *fault;
    const char *kernel;        /* kernels/<kernel>.cl, with its folder */
    const char *from, *to;     /* the first `from` becomes `to` */
    const char *ops, *variant; /* where to look; NULL = everywhere */
    copse_conformance_tier tier;
    const char *launch; /* the case of mode launch, or of mode opt after "opt/"; NULL = mode run */
    bool is_opencl;     /* other compilers may treat the fault as equivalent */
} mutants[] = {
    { "index off by one", "reduce/reduce", "LOAD_OR(from, base + PLACE(k) * p.inner,",
      "LOAD_OR(from, base + (PLACE(k) + 1u) * p.inner,", "sum,mean,max", NULL, COPSE_CONFORM_QUICK,
      NULL, false },
    { "dropped barrier", "product/matmul", "            BARRIER();\n            for (uint k = 0u",
      "            for (uint k = 0u", "matmul", "matmul", COPSE_CONFORM_QUICK, NULL, false },
    { "dropped barrier", "product/matmul_tile", "            BARRIER();", "", "matmul_tile", NULL,
      COPSE_CONFORM_QUICK, "large: few groups, usual", false },
    { "a chain that is not added", "product/matmul_tile", "LOAD(c, place + j) + value", "value",
      "matmul_tile", NULL, COPSE_CONFORM_QUICK, "large: few groups, usual", false },
    { "the last part left out", "product/matmul_join", "BY_FOUR(q, 1u, p.parts,",
      "BY_FOUR(q, 1u, p.parts - 1u,", "matmul_join", NULL, COPSE_CONFORM_QUICK,
      ": many groups, mixed", false },
    { "dropped barrier", "product/blocks_tile",
      "BARRIER(); /* the strip before the last one is no longer read */", "", "blocks_tile", NULL,
      COPSE_CONFORM_QUICK, "large, 4 bits: few groups, usual", false },
    { "the other half of a word", "product/blocks_tile", "(place % PER_WORD)",
      "((place + 4u) % PER_WORD)", "blocks_tile", NULL, COPSE_CONFORM_QUICK,
      "large, 4 bits: few groups, usual", false },
    { "infinity past the end of k", "product/blocks_tile", "term_b[u] < k_end",
      "term_b[u] < k_end + 256u", "blocks_tile", NULL, COPSE_CONFORM_QUICK,
      "parts, not transposed, 4 bits: tail, infinities", false },
    { "dropped barrier", "conv/conv_tile",
      "BARRIER(); /* the strip before the last one is no longer read */", "", "conv_tile", NULL,
      COPSE_CONFORM_QUICK, "large: few groups, usual", false },
    { "a chain that is not added", "conv/conv_tile", "LOAD(c, place + j) + value", "value",
      "conv_tile", NULL, COPSE_CONFORM_QUICK, "large: few groups, usual", false },
    { "NaN of weights outside of x is added", "conv/conv_tile", "if (IS_NAN(one))", "if (false)",
      "conv_tile", NULL, COPSE_CONFORM_QUICK, "large: few groups, mixed", false },
    { "the channel of another tap", "conv/conv_tile", "(kk) - tap * p.group_in",
      "(kk) % p.group_in / 2u * 2u", "conv_tile", NULL, COPSE_CONFORM_QUICK,
      "small, bias, relu: few groups, usual", false },
    { "NaN of dy outside of x is added", "conv/conv_weight_tile", "if (IS_NAN(one))", "if (false)",
      "conv_weight_tile", NULL, COPSE_CONFORM_QUICK, "large: few groups, mixed", false },
    { "one wrong element in a million", "elementwise/unary", "STORE(to, i, y);",
      "STORE(to, i, SELECT(i == 777777u, y * 1.0001f + 0.0001f, y));", "exp", NULL,
      COPSE_CONFORM_FULL, NULL, false },
    { "wrong special value", "elementwise/unary", "STORE(to, i, y);",
      "STORE(to, i, SELECT(IS_NAN(y), 0.0f, y));", FUNCTIONS, NULL, COPSE_CONFORM_QUICK, NULL,
      false },
    { "write one past the end", "elementwise/unary", "if (i < p.n)", "if (i <= p.n)", FUNCTIONS,
      NULL, COPSE_CONFORM_QUICK, NULL, false },
    { "last element not written", "elementwise/unary", "if (i < p.n)", "if (i + 1u < p.n)",
      FUNCTIONS, NULL, COPSE_CONFORM_QUICK, NULL, false },
    { "one ULP too much everywhere", "elementwise/unary", "STORE(to, i, y);",
      "STORE(to, i, SELECT(OP == 0 || OP == 1, AS_FLOAT(AS_UINT(y) + 1u), y));", "neg,abs", NULL,
      COPSE_CONFORM_QUICK, NULL, false },
    { "softmax without the row's maximum", "softmax/softmax", "LOAD(from, i) - m", "LOAD(from, i)",
      "softmax", NULL, COPSE_CONFORM_QUICK, NULL, false },
    { "one of four sums left out", "reduce/column_sum_wide", "(sum[2][v] + sum[3][v])", "sum[2][v]",
      "column_sum", "column_sum_wide", COPSE_CONFORM_QUICK, NULL, false },
    { "sums of another matrix", "reduce/column_sums", "SUM_CHUNK(OF_3)", "SUM_CHUNK(OF_2)",
      "column_sum", "column_sums", COPSE_CONFORM_QUICK, NULL, false },
    { "columns of another matrix", "reduce/column_sums", "cols = of_m;", ";", "column_sums", NULL,
      COPSE_CONFORM_QUICK, "four: many groups, mixed", false },
    { "rows that are no sums", "norm/layer_norm", "add_r(LOAD(x, base + k), LOAD(r, base + k))",
      "LOAD(x, base + k)", "layer_norm", NULL, COPSE_CONFORM_QUICK,
      "forward of a sum: many groups, mixed", false },
    { "a derivative that is not added", "norm/layer_norm_held", "value = add_r(value, of_b[i]);",
      ";", "layer_norm_held", NULL, COPSE_CONFORM_QUICK,
      "gradient, added, quads: many groups, mixed", false },
    { "rows whose mean is not subtracted", "norm/layer_norm", "first = (s + t) / count;",
      "first = t / count;", "layer_norm", "layer_norm", COPSE_CONFORM_QUICK, NULL, false },
    { "rows whose mean is not subtracted", "norm/layer_norm_held", "first = (s + t) / count;",
      "first = t / count;", "layer_norm_held", NULL, COPSE_CONFORM_QUICK,
      "large mean: few groups, usual", false },
    { "zeros after the row's end count", "softmax/row_stats_held", "base, last, -INF",
      "base, last, 0.0f", "row_stats_held", NULL, COPSE_CONFORM_QUICK, "quads: many groups, mixed",
      false },
    { "softmax without the row's maximum", "softmax/softmax_held", "held[i] - TO_QUAD(m)",
      "held[i]", "softmax", "softmax_held", COPSE_CONFORM_QUICK, NULL, false },
    { "the last quad of an invocation is not summed", "softmax/softmax_grad_held",
      "for (uint i = 0u; i < QUADS; i++) {\n        EXACT QUAD terms",
      "for (uint i = 0u; i + 1u < QUADS; i++) {\n        EXACT QUAD terms", "softmax_grad_held",
      NULL, COPSE_CONFORM_QUICK, "softmax, quads: many groups, mixed", false },
    { "the column after the label", "loss/cross_entropy_grad_held", "COL(i, c) == label",
      "COL(i, c) == label + 1u", "cross_entropy_grad_held", NULL, COPSE_CONFORM_QUICK,
      "elements: few groups, usual", false },
    { "zeros behind the row's end count", "norm/layer_norm_wide",
      "is_tail ? term_t : (float16)(0.0f)", "term_t", "layer_norm", "layer_norm_wide",
      COPSE_CONFORM_QUICK, NULL, false },
    { "a variance below 0", "norm/layer_norm_wide", "spread < 0.0f ? 0.0f", "spread < 0.0f ? 1.0f",
      "layer_norm_wide", NULL, COPSE_CONFORM_STANDARD, "equal numbers, gradient: few groups, usual",
      false },
    { "a strip of channels that is left out", "norm/channel_sums_wide", "#define STRIP 64u",
      "#define STRIP 32u", "channel_sums_wide", NULL, COPSE_CONFORM_QUICK,
      "mean: many groups, mixed", false },
    { "places past a block", "norm/channel_norm_wide", "min(p.each, places - first)", "p.each",
      "channel_norm_wide", NULL, COPSE_CONFORM_QUICK, "forward: many groups, mixed", false },
    { "a relu that is left out", "norm/channel_norm", "SELECT(result <= 0.0f, 0.0f, result)",
      "result", "channel_norm", NULL, COPSE_CONFORM_QUICK, "relu: many groups, mixed", false },
    { "a residual of another place", "norm/channel_norm_wide", "pr += HAS_R ? step : 0", "pr += 0",
      "channel_norm_wide", NULL, COPSE_CONFORM_QUICK, "relu of a sum: many groups, mixed", false },
    { "operands in the other order", "elementwise/chain", "y = one - two;", "y = two - one;",
      "chain", NULL, COPSE_CONFORM_QUICK, "difference, factor, sum: many groups, mixed", false },
    { "the operand of another link", "elementwise/chain", "LINK(THIRD, third,",
      "LINK(THIRD, second,", "chain", NULL, COPSE_CONFORM_QUICK,
      "norm by averages: many groups, mixed", false },
    { "a row that does not repeat", "elementwise/chain", "* p.period;", "* 0u;", "chain", NULL,
      COPSE_CONFORM_QUICK, "norm by averages: few groups, usual", false },
    { "examples are counted beyond 2^32", "random/dropout_wide", "behind, a >= wrap",
      "behind, a >= wrap + 7", "dropout_wide", NULL, COPSE_CONFORM_QUICK,
      "examples around 2^32: many groups, mixed", false },
    { "a column past the end", "reduce/column_sum_wide", "j < 32 && col + j < p.cols", "j < 32",
      "column_sum", "column_sum_wide", COPSE_CONFORM_QUICK, NULL, false },
    { "only the first 4096 elements are updated", "rule/adam", "STREAM(i, p.n)",
      "STREAM(i, MIN(p.n, 4096u))", "adam", NULL, COPSE_CONFORM_QUICK, "many groups, mixed",
      false },
    { "a wrong pair of blocks of ranks", "reduce/tree_sum", "two = one + sum;", "two = sum + sum;",
      "tree_sum", NULL, COPSE_CONFORM_QUICK, "23 ranks: tail, usual", false },
    { "columns past 65,535 are not read", "softmax/softmax", "LOAD(from, i) - m",
      "LOAD(from, MIN(i, 65535u)) - m", "softmax", NULL, COPSE_CONFORM_QUICK,
      "softmax: many groups, mixed", false },
    { "the sign of zero is lost", "reduce/accumulate", "LOAD(acc, i) + LOAD(x, i)",
      "0.0f + (LOAD(acc, i) + LOAD(x, i))", "accumulate", NULL, COPSE_CONFORM_QUICK, "tail, zeros",
      true },
    { "a rotation that ignores its direction", "attention/rotary_wide", "p.factor * load16(s + k)",
      "load16(s + k)", "rotary_wide", NULL, COPSE_CONFORM_QUICK, "halves: one short, mixed",
      false },
    { "a rotation that ignores its direction", "attention/rotary", "p.factor * LOAD(turns",
      "-LOAD(turns", "rotary", NULL, COPSE_CONFORM_QUICK, "adjacent: one short, mixed", false },
    { "chunks of an exclusive, reversed sum that begin at 0", "reduce/scan", "if (LATER != 0)",
      "if (LATER * (2 - REVERSE - EXCLUSIVE) != 0)", "scan", NULL, COPSE_CONFORM_QUICK,
      "reversed, exclusive, later: few groups, usual", false },
    { "keys from 2,048 on are not seen", "attention/attention_wide",
      "end = end_key(last, p.window, i0 < behind ? length : 0);",
      "end = min(2048u, end_key(last, p.window, i0 < behind ? length : 0));", "attention_wide",
      NULL, COPSE_CONFORM_QUICK, "long: few groups, usual", false },
    { "keys from 2,048 on are not seen", "attention/attention",
      "until = MIN(end, p.first + p.count);", "until = MIN(MIN(end, 2048u), p.first + p.count);",
      "attention", NULL, COPSE_CONFORM_QUICK, "long: few groups, usual", false },
    { "earlier values that are not scaled", "attention/attention_tile",
      "o##0 * TO_QUAD(keep.x) + t0", "o##0 + t0", "attention_tile", NULL, COPSE_CONFORM_QUICK,
      "every key: few groups, usual", false },
    { "the half of the columns that is not joined", "attention/attention_grad_query_tile",
      "o##0 = o##0 + weights[mine];", "", "attention_grad_query_tile", NULL, COPSE_CONFORM_QUICK,
      "every key: few groups, usual", false },
    { "NaN of a query that does not see the key", "attention/attention_grad_key_tile",
      "PICK_QUAD(SEES(0, column + n), value, none)", "value", "attention_grad_key_tile", NULL,
      COPSE_CONFORM_QUICK, "causal: few groups, mixed", false },
    { "only the first head that shares a key", "attention/attention_grad_key_tile",
      "h < (kv + 1u) * p.share", "h < kv * p.share + 1u", "attention_grad_key_tile", NULL,
      COPSE_CONFORM_QUICK, "every query: few groups, usual", false },
    { "queries from 2,048 on are not seen", "attention/attention_grad_key",
      "MIN(end, p.first + p.count)", "MIN(MIN(end, 2048u), p.first + p.count)",
      "attention_grad_key", NULL, COPSE_CONFORM_QUICK, "long: few groups, usual", false },
    { "the derivative of a cap that is left out", "attention/attention_grad_key",
      "bend = 1.0f - t * t;", "bend = 1.0f;", "attention_grad_key", NULL, COPSE_CONFORM_QUICK,
      "cap: few groups, usual", false },
    { "a cap that is left out", "attention/attention_tile", "s##r.f = p.cap * BENT(s##r.f);",
      "s##r.f = s##r.f;", "attention_tile", NULL, COPSE_CONFORM_QUICK, "cap: few groups, usual",
      false },
    { "the last element where n % 1,024 is 1,023", "elementwise/unary", "STORE(to, i, y);",
      "STORE(to, i, SELECT(p.n % 1024u == 1023u && i + 1u == p.n, 0.5f, y));", "unary", NULL,
      COPSE_CONFORM_QUICK, "exp: one short, mixed", false },
    { "the last element where n % 1,024 is 1,023", "elementwise/binary", "STORE(to, i, y);",
      "STORE(to, i, SELECT(p.n % 1024u == 1023u && i + 1u == p.n, 0.5f, y));", "binary", NULL,
      COPSE_CONFORM_QUICK, "add: one short, mixed", false },
    { "the last element where n % 1,024 is 1,023", "elementwise/unary_wide", "if (i < end)",
      "if (i < end && p.n % 1024u != 1023u)", "unary_wide", NULL, COPSE_CONFORM_QUICK,
      "relu: one short, mixed", false },
    { "another bias after step 1,000", "rule/adam", "sqrt(AS_FLOAT(step[8]))",
      "sqrt(SELECT(step[0] > 1000u, 0.25f, 1.0f) * AS_FLOAT(step[8]))", "adam", NULL,
      COPSE_CONFORM_QUICK, "one short, mixed", false },
    { "another bias after step 1,000, in training", "rule/adam", "sqrt(AS_FLOAT(step[8]))",
      "sqrt(SELECT(step[0] > 1000u, 0.25f, 1.0f) * AS_FLOAT(step[8]))", "adam", NULL,
      COPSE_CONFORM_QUICK, "opt/defaults, steps beyond 1000", false },
    { "another rate after step 1,000", "rule/sgd",
      "const float rate = AS_FLOAT(step[6u + p.group])",
      "const float rate = SELECT(step[0] > 1000u, 0.5f, 1.0f) * AS_FLOAT(step[6u + p.group])",
      "sgd", NULL, COPSE_CONFORM_QUICK, "opt/defaults, steps beyond 1000", false },
    { "powers that are zero lose their sign", "elementwise/unary", "STORE(to, i, y);",
      "STORE(to, i, SELECT(OP == 15 && AS_UINT(y) == 0x80000000u, 0.0f, y));", "unary", NULL,
      COPSE_CONFORM_QUICK, "pow, exponent 3: tail, zeros", true },
    { "powers that are zero lose their sign", "elementwise/unary_wide", "    return y;",
      "    return SELECT(AS_UINT(y) == 0x80000000u, 0.0f, y);", "unary_wide", NULL,
      COPSE_CONFORM_QUICK, "pow, exponent 3: tail, zeros", true },
    { "one element past whole chunks of a long row", "reduce/reduce",
      "total = combine(total, combine(a, b));",
      "total = SELECT(p.count > 4097u && p.count % 64u == 1u && at + 8u * p.chunks >= p.count, "
      "total, "
      "combine(total, combine(a, b)));",
      "reduce", NULL, COPSE_CONFORM_QUICK, "sum, long: few groups, usual", false },
    { "one pair past whole chunks of a long row", "softmax/row_stats",
      "SELECT(x == -INF, 0.0f, more)",
      "SELECT(x == -INF || (p.count > 4097u && p.count % 64u == 1u && k + 1u == p.count), 0.0f, "
      "more)",
      "row_stats", NULL, COPSE_CONFORM_QUICK, "later, long: few groups, usual", false },
};

static copse_context *ctx;

#define ROOM 65536

static char *read_file(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "kernels/%s", name);
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot open %s: run from the top of the source tree", path);
    char *text = calloc(1, ROOM);
    assert_non_null(text);
    assert_true(fread(text, 1, ROOM - 1, f) < ROOM - 1);
    fclose(f);
    return text;
}

/* With the texts of the files that it includes. */
static char *read_kernel(const char *kernel)
{
    static const char include[] = "#include \"";
    char name[96];
    snprintf(name, sizeof name, "%s.cl", kernel);
    char *text = read_file(name);
    for (char *at; (at = strstr(text, include)) != NULL;) {
        char *out = calloc(1, ROOM);
        const size_t length = strcspn(at + strlen(include), "\"");
        assert_non_null(out);
        snprintf(name, sizeof name, "%.*s", (int)length, at + strlen(include));
        char *inner = read_file(name);
        const int n = snprintf(out, ROOM, "%.*s%s%s", (int)(at - text), text, inner,
                               at + strlen(include) + length + 1);
        assert_true(n >= 0 && n < ROOM);
        free(inner);
        free(text);
        text = out;
    }
    return text;
}

/* Some kernels say that they are for one API only. */
static bool has_form(const struct mutant *m, const char *device)
{
    static const char only[] = "/* only: opencl */";
    char *text = read_kernel(m->kernel);
    const bool has = (!m->is_opencl && strncmp(text, only, sizeof only - 1) != 0) ||
                     strncmp(device, "opencl", 6) == 0;
    free(text);
    return has;
}

static char *mutate(const struct mutant *m)
{
    char *text = read_kernel(m->kernel), *at = strstr(text, m->from);
    if (!at)
        fail_msg("%s: '%s' is not in kernels/%s.cl", m->fault, m->from, m->kernel);
    char *out = calloc(1, strlen(text) + strlen(m->to) + 1);
    assert_non_null(out);
    memcpy(out, text, (size_t)(at - text));
    strcat(out, m->to);
    strcat(out, at + strlen(m->from));
    free(text);
    return out;
}

/* SPIR-V of a text in the dialect, by the compiler of the build; NULL when there is none. */
static void *to_spirv(const char *text, size_t *size)
{
    static char glsl[1 << 18];
    size_t needed;
    char source[] = "/tmp/mutantXXXXXX", command[256], binary[64];
    if (copse_kernel_complete(COPSE_KERNEL_GLSL, text, glsl, sizeof glsl, &needed) != COPSE_OK)
        fail_msg("%s", copse_last_error());
    const int fd = mkstemp(source);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    fputs(glsl, f);
    fclose(f);
    snprintf(binary, sizeof binary, "%s.spv", source);
    snprintf(command, sizeof command,
             "glslangValidator -V --target-env vulkan1.1 -S comp -o %s %s >/dev/null 2>&1", binary,
             source);
    void *words = NULL;
    if (system(command) == 0 && (f = fopen(binary, "rb")) != NULL) {
        words = calloc(1, 1 << 20);
        assert_non_null(words);
        *size = fread(words, 1, 1 << 20, f);
        fclose(f);
    }
    remove(source);
    remove(binary);
    return words;
}

struct outcome {
    const struct mutant *mutant;
    uint64_t failures, passes;
    char first[256];
};

static void note(void *user, const struct copse_case_result *r)
{
    struct outcome *o = user;
    o->passes += r->verdict == COPSE_VERDICT_PASS;
    if (r->verdict != COPSE_VERDICT_FAIL && r->verdict != COPSE_VERDICT_MISTRUSTED)
        return;
    if (o->failures++ == 0)
        snprintf(o->first, sizeof o->first, "%s %s/%s: %s", copse_verdict_name(r->verdict), r->op,
                 r->name, r->text);
}

static void run(const char *device, const struct mutant *m, const char *text, struct outcome *o)
{
    const bool is_vulkan = strncmp(device, "vulkan", 6) == 0;
    size_t size = strlen(text);
    void *words = is_vulkan ? to_spirv(text, &size) : NULL;
    if (is_vulkan && !words) {
        printf("  skipped on %s: glslangValidator is not installed\n", device);
        o->failures = 1;
        return;
    }
    const struct copse_own_kernel own = { strchr(m->kernel, '/') + 1, words ? words : text, size };
    const bool is_opt = m->launch && strncmp(m->launch, "opt/", 4) == 0;
    const struct copse_conformance_params params = {
        .device = device,
        .modes = is_opt      ? COPSE_CONFORM_OPT
                 : m->launch ? COPSE_CONFORM_LAUNCH
                             : COPSE_CONFORM_RUN,
        .tier = m->tier,
        .ops = m->ops,
        .case_name = is_opt ? m->launch + 4 : m->launch,
        .variant = m->variant,
        .own = &own,
        .result = note,
        .user = o,
    };
    struct copse_conformance_summary summary;
    if (copse_conformance_run(ctx, &params, &summary) != COPSE_OK)
        fail_msg("%s on %s: %s", m->fault, device, copse_last_error());
    free(words);
}

static const char *const devices[] = { "opencl:0", "vulkan:0" };

static bool is_present(const char *id)
{
    const struct copse_device_info *list;
    size_t count;
    copse_context_devices(ctx, &list, &count);
    for (size_t i = 0; i < count; i++)
        if (list[i].is_usable && strcmp(list[i].id, id) == 0)
            return true;
    return false;
}

static bool is_here(const char *id)
{
    const bool is_it = is_present(id);
    if (!is_it)
        printf("  skipped on %s: there is no such device\n", id);
    return is_it;
}

/* A fault has its turn on one device, the two in turn, where both have it; with COPSE_TEST_ALL, in the
   test mutants.all, on both. Without it one fault of three is planted. */
static bool is_turn(size_t i, size_t d)
{
    const size_t other = 1 - d;
    if (!getenv("COPSE_TEST_ALL") && i / 2 % 3 != 0)
        return false;
    return getenv("COPSE_TEST_ALL") || i % 2 == d || !has_form(&mutants[i], devices[other]) ||
           !is_present(devices[other]);
}

static void every_planted_fault_is_found(void **state)
{
    (void)state;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
        for (size_t i = 0; i < sizeof mutants / sizeof *mutants && is_here(devices[d]); i++) {
            if (!has_form(&mutants[i], devices[d]) || !is_turn(i, d))
                continue;
            struct outcome o = { .mutant = &mutants[i] };
            char *text = mutate(&mutants[i]);
            run(devices[d], &mutants[i], text, &o);
            printf("  %s: %s: %llu failures, first %s\n", devices[d], mutants[i].fault,
                   (unsigned long long)o.failures, o.first);
            if (o.failures == 0)
                fail_msg("%s: '%s' was not found", devices[d], mutants[i].fault);
            free(text);
        }
}

/* Without COPSE_TEST_ALL half of the kernels in which a fault is planted. */
static void kernel_without_fault_passes(void **state)
{
    (void)state;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
        for (size_t i = 0; i < sizeof mutants / sizeof *mutants && is_here(devices[d]); i++) {
            if (!has_form(&mutants[i], devices[d]) || !is_turn(i, d))
                continue;
            if (!getenv("COPSE_TEST_ALL") && i / 6 % 2 != 0)
                continue;
            if (i > 0 && strcmp(mutants[i].kernel, mutants[i - 1].kernel) == 0)
                continue;
            struct outcome o = { .mutant = &mutants[i] };
            char *text = read_kernel(mutants[i].kernel);
            run(devices[d], &mutants[i], text, &o);
            if (o.failures > 0 && o.first[0])
                fail_msg("%s: %s: %s", devices[d], mutants[i].kernel, o.first);
            free(text);
        }
}

static void check_refused(const char *device, struct copse_own_kernel own, const char *ops,
                          copse_status wanted, const char *word)
{
    const struct copse_conformance_params params = {
        .device = device, .modes = COPSE_CONFORM_RUN, .ops = ops, .own = &own
    };
    struct copse_conformance_summary summary;
    assert_int_equal(copse_conformance_run(ctx, &params, &summary), wanted);
    if (!strstr(copse_last_error(), word))
        fail_msg("'%s' does not say '%s'", copse_last_error(), word);
}

static void kernel_that_breaks_its_contract_is_refused(void **state)
{
    (void)state;
    static const char wrong_name[] = "KERNEL2(other, IN(real, a), OUT(real, b)) {}";
    static const char bad_include[] = "#include \"nowhere.clh\"\nKERNEL2(softmax, a, b)";
    static const uint32_t cut[6] = { 0x07230203, 0x00010300, 0, 1, 0, 0x00ff0000 };
    char *softmax = read_kernel("softmax/softmax");
    check_refused("host:0", (struct copse_own_kernel){ "softmax", softmax, 100 }, "softmax",
                  COPSE_ERR_ARGUMENT, "another device");
    if (is_here("opencl:0")) {
        check_refused("opencl:0", (struct copse_own_kernel){ "nothing", softmax, 100 }, "softmax",
                      COPSE_ERR_ARGUMENT, "no kernel 'nothing'; there are");
        check_refused("opencl:0",
                      (struct copse_own_kernel){ "softmax", wrong_name, sizeof wrong_name - 1 },
                      "softmax", COPSE_ERR_FORMAT, "no kernel named 'softmax'");
        check_refused("opencl:0",
                      (struct copse_own_kernel){ "softmax", bad_include, sizeof bad_include - 1 },
                      "softmax", COPSE_ERR_FORMAT, "nowhere.clh");
        check_refused("opencl:0", (struct copse_own_kernel){ "softmax", softmax, strlen(softmax) },
                      "relu", COPSE_ERR_ARGUMENT, "--ops");
    }
    if (is_here("vulkan:0")) {
        check_refused("vulkan:0", (struct copse_own_kernel){ "softmax", cut, sizeof cut },
                      "softmax", COPSE_ERR_FORMAT, "damaged SPIR-V");
        check_refused("vulkan:0", (struct copse_own_kernel){ "softmax", softmax, strlen(softmax) },
                      "softmax", COPSE_ERR_FORMAT, "SPIR-V");
    }
    free(softmax);
}

static int open_context(void **state)
{
    (void)state;
    return copse_context_create(NULL, &ctx) == COPSE_OK ? 0 : -1;
}

static int close_context(void **state)
{
    (void)state;
    copse_context_release(&ctx);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_planted_fault_is_found),
        cmocka_unit_test(kernel_without_fault_passes),
        cmocka_unit_test(kernel_that_breaks_its_contract_is_refused),
    };
    return cmocka_run_group_tests_name("mutants", tests, open_context, close_context);
}
