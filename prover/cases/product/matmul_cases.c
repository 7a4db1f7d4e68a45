/* SPDX-License-Identifier: MIT */
/* Cases of matrix products, each with every variant of the kernel and all four transpositions.
   Tiles have 6, 8 or 64 rows, 16, 32 or 64 columns; sums have steps of 4, 16 and 256. Whole numbers
   give exact results in any order of summation. */
#include "copse/matmul.h"
#include "prover/cases/cases.h"

struct transposed {
    bool a, b;
};
static const struct transposed nn = { false, false }, tn = { true, false }, nt = { false, true },
                               tt = { true, true };

static copse_tensor *matmul_build(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct transposed *t = user;
    return copse_matmul(g, in[0], in[1], t->a, t->b);
}

/* Both operands of 16 bits. */
struct sixteen {
    copse_type type;
    struct transposed t;
};

static copse_tensor *build_16(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct sixteen *s = user;
    copse_tensor *a = copse_cast(g, in[0], s->type);
    copse_tensor *b = copse_cast(g, in[1], s->type);
    return copse_matmul(g, a, b, s->t.a, s->t.b);
}

/* f16 by f32. */
static copse_tensor *build_mixed(copse_graph *g, copse_tensor *const *in, const void *user)
{
    const struct transposed *t = user;
    copse_tensor *a = copse_cast(g, in[0], COPSE_F16);
    return copse_matmul(g, a, in[1], t->a, t->b);
}

static const struct copse_case_op ops[] = {
    { .name = "matmul",
      .accuracy = COPSE_ACCURACY_product,
      .call = matmul_build,
      .user = &nn,
      .in = { F32_OF(2, 2), F32_OF(2, 2) },
      .in_count = 2 },
};

#define SPEED(label, way, n, ...)                                                \
    {                                                                            \
        .op = "matmul", .name = label, .build = matmul_build, .user = &way,      \
        .in = { F32_OF(n, n), F32_OF(n, n) }, .in_count = 2, .family = "matmul", \
        .flops = 2.0 * (n) * (n) * (n), __VA_ARGS__                              \
    }
static const struct copse_case speeds[] = {
    SPEED("512", nn, 512, QUICK),
    SPEED("512, a transposed", tn, 512, STANDARD),
    SPEED("512, b transposed", nt, 512, STANDARD),
    SPEED("1024", nn, 1024, STANDARD),
    { .op = "matmul",
      .name = "512, f16",
      .build = build_16,
      .user = &(const struct sixteen){ COPSE_F16, { false, false } },
      .in = { F32_OF(512, 512), F32_OF(512, 512) },
      .in_count = 2,
      .family = "matmul",
      .operands = COPSE_F16,
      .flops = 2.0 * 512 * 512 * 512,
      STANDARD },
};

static const struct copse_case stress[] = {
    { .op = "matmul",
      .name = "k of 70,001",
      .build = matmul_build,
      .user = &nn,
      TWO_INPUTS(WHOLE(-1, 1, DIMS(4, 70001)), WHOLE(-1, 1, DIMS(70001, 5))),
      .family = "matmul" },
};

static void matmul_refusals(struct copse_refusals *r)
{
    copse_graph *g = r->graph;
    copse_tensor *a = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(4, 5));
    copse_tensor *b = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(6, 3));
    copse_tensor *v = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(5));
    copse_tensor *one = copse__refusals_input(r, COPSE_F32, COPSE_SCALAR);
    copse_tensor *i = copse__refusals_input(r, COPSE_I32, COPSE_SHAPE(5, 3));
    REFUSES(r, SHAPE, "matmul: operands f32[4, 5] and f32[6, 3]: expected equal inner sizes",
            copse_matmul(g, a, b, false, false));
    REFUSES(r, SHAPE, "expected f32", copse_matmul(g, a, i, false, false));
    copse_tensor *two = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(2, 4, 5));
    copse_tensor *three = copse__refusals_input(r, COPSE_F32, COPSE_SHAPE(3, 5, 4));
    REFUSES(
        r, SHAPE,
        "matmul: operands f32[2, 4, 5] and f32[3, 5, 4]: expected leading axes that are equal or 1",
        copse_matmul(g, two, three, false, false));
    REFUSES(r, SHAPE, "expected equal inner sizes; a has 5, b (transposed) has 4",
            copse_matmul(g, a, three, false, true));
    REFUSES(r, SHAPE, "expected ranks of at least 2", copse_matmul(g, a, v, false, false));
    REFUSES(r, SHAPE, "of at least 2", copse_matmul(g, one, one, false, false));
    REFUSES(r, ARGUMENT, "matmul: operand 1", copse_matmul(g, a, NULL, false, false));
}

#define ROW(label, way, a, b, ...)                                                    \
    {                                                                                 \
        .op = "matmul", .name = label ", " #way, .build = matmul_build, .user = &way, \
        .in = { UNWRAP a, UNWRAP b }, .in_count = 2, .family = "matmul", __VA_ARGS__  \
    }
#define EXACT     .skips_differences = true
#define FORWARD   .has_no_gradient = true
#define WITHIN(r) .forward = { .ratio = r }, .backward = { .ratio = r }

/* m x n x k, op(A) m x k and op(B) k x n; n: not transposed, t: transposed. */
#define WAYS(label, kind, m, n, k, ...)                                              \
    ROW(label, nn, FILL(kind, DIMS(m, k)), FILL(kind, DIMS(k, n)), __VA_ARGS__),     \
        ROW(label, tn, FILL(kind, DIMS(k, m)), FILL(kind, DIMS(k, n)), __VA_ARGS__), \
        ROW(label, nt, FILL(kind, DIMS(m, k)), FILL(kind, DIMS(n, k)), __VA_ARGS__), \
        ROW(label, tt, FILL(kind, DIMS(k, m)), FILL(kind, DIMS(n, k)), __VA_ARGS__)
/* The two that differ most in the standard tier, for expensive sizes. */
#define TWO_WAYS(label, kind, m, n, k, ...)                                                \
    ROW(label, nn, FILL(kind, DIMS(m, k)), FILL(kind, DIMS(k, n)), STANDARD, __VA_ARGS__), \
        ROW(label, tn, FILL(kind, DIMS(k, m)), FILL(kind, DIMS(k, n)), FULL, __VA_ARGS__), \
        ROW(label, nt, FILL(kind, DIMS(m, k)), FILL(kind, DIMS(n, k)), FULL, __VA_ARGS__), \
        ROW(label, tt, FILL(kind, DIMS(k, m)), FILL(kind, DIMS(n, k)), STANDARD, __VA_ARGS__)
#define BATCHES(label, kind, batch, m, n, k, ...)                                                  \
    ROW(label, nn, FILL(kind, DIMS(batch, m, k)), FILL(kind, DIMS(batch, k, n)), __VA_ARGS__),     \
        ROW(label, tn, FILL(kind, DIMS(batch, k, m)), FILL(kind, DIMS(batch, k, n)), __VA_ARGS__), \
        ROW(label, nt, FILL(kind, DIMS(batch, m, k)), FILL(kind, DIMS(batch, n, k)), __VA_ARGS__), \
        ROW(label, tt, FILL(kind, DIMS(batch, k, m)), FILL(kind, DIMS(batch, n, k)), __VA_ARGS__)

/* Leading axes of a and b that broadcast; 7 x 18 x 5 with normal numbers, exact ones with whole
   numbers. */
#define LEADS(label, a, b, ...)                                                                   \
    ROW(label, nn, FILL(INTEGERS, DIMS(UNWRAP a 7, 5)), FILL(INTEGERS, DIMS(UNWRAP b 5, 18)),     \
        EXACT, __VA_ARGS__),                                                                      \
        ROW(label, tn, FILL(INTEGERS, DIMS(UNWRAP a 5, 7)), FILL(INTEGERS, DIMS(UNWRAP b 5, 18)), \
            EXACT, __VA_ARGS__),                                                                  \
        ROW(label, nt, FILL(NORMAL, DIMS(UNWRAP a 7, 5)), FILL(NORMAL, DIMS(UNWRAP b 18, 5)),     \
            WITHIN(16), __VA_ARGS__),                                                             \
        ROW(label, tt, FILL(INTEGERS, DIMS(UNWRAP a 5, 7)), FILL(INTEGERS, DIMS(UNWRAP b 18, 5)), \
            EXACT, __VA_ARGS__)

#define SIZE(m, n, k) WAYS(#m " x " #n " x " #k, INTEGERS, m, n, k, EXACT, STANDARD)

/* Every m with every n, and every k: all edges of all tiles. */
#define EDGE(m, n)                                                      \
    ROW("edges: " #m " x " #n " x 67", nn, FILL(INTEGERS, DIMS(m, 67)), \
        FILL(INTEGERS, DIMS(67, n)), EXACT, FULL)
#define EDGES_OF(m)                                                                                \
    EDGE(m, 1), EDGE(m, 2), EDGE(m, 3), EDGE(m, 13), EDGE(m, 15), EDGE(m, 16), EDGE(m, 17),        \
        EDGE(m, 31), EDGE(m, 32), EDGE(m, 33), EDGE(m, 61), EDGE(m, 63), EDGE(m, 64), EDGE(m, 65), \
        EDGE(m, 129)
#define DEPTH(k) WAYS("depths: 7 x 33 x " #k, INTEGERS, 7, 33, k, EXACT, FULL)

/* R of long sums: no chain of additions is longer than 256, so 16 for every k. */
#define LONG(k) TWO_WAYS("positive numbers, k " #k, POSITIVE, 20, 40, k, WITHIN(16), FORWARD)

static const double one[] = { 1 }, third[] = { 1.0 / 3 }, most[] = { 1.7 };
static const double signs[] = { 1, 0x1.fffffep-25, -1, 0x1.fffffep-25 };
static const double columns[] = { 1.1,  1.2,  1.3,  1.4,  1.5,  1.6,  1.7,  1.8, 1.9,
                                  1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 1.08 };

/* Sums whose roundings all go the same way: of equal terms, and of terms that the first one
   loses. */
#define ANY(label, way, a, b, k, ...) \
    ROW(label ", k " #k, way, a, b, FORWARD, .terms = k, __VA_ARGS__)
#define ANY_ROWS(k, ...)                                                                    \
    ANY("one number in each row", nn, FILL(ROWS, DIMS(64, k)), VALUES(one, DIMS(k, 33)), k, \
        __VA_ARGS__)
#define ANY_NUMBERS(k, ...)                                                                        \
    ANY_ROWS(k, __VA_ARGS__),                                                                      \
        ANY("one number in each column", tn, VALUES(columns, DIMS(k, 17)),                         \
            VALUES(one, DIMS(k, 9)), k, __VA_ARGS__),                                              \
        ANY("equal numbers", nt, VALUES(third, DIMS(7, k)), VALUES(most, DIMS(17, k)), k,          \
            .is_poor = true, __VA_ARGS__),                                                         \
        ANY("one and numbers that it loses", nn, FILL(LOST, DIMS(9, k)), VALUES(one, DIMS(k, 17)), \
            k, __VA_ARGS__),                                                                       \
        ANY("signs that cancel", nt, VALUES(signs, DIMS(7, k)), FILL(ROWS, DIMS(17, k)), k,        \
            __VA_ARGS__)
#define ANY_16(type, ta, tb, a_, b_, k, ...)                                                       \
    SIXTEEN("one number in each row, " #type ", k " #k, type, ta, tb, a_, b_, FORWARD, .terms = k, \
            __VA_ARGS__)

static const double huge_and_tiny[] = { 0x1p40, 0.1, 0.2, 0.3, -0.1, 0.7,  0.5, -0.25, 0.125, 3,
                                        0.3,    0.2, 0.1, 0.7, -0.1, 0.25, 0.5, 0.75,  -3,    1 };

#define SIXTEEN(label, type_, ta, tb, a_, b_, ...)                                        \
    {                                                                                     \
        .op = "matmul", .name = label, .build = build_16,                                 \
        .user = &(const struct sixteen){ COPSE_##type_, { ta, tb } }, TWO_INPUTS(a_, b_), \
        .family = "matmul", .operands = COPSE_##type_, EXACT, __VA_ARGS__                 \
    }
#define NO_TERMS(label, ...)                                                                    \
    {                                                                                           \
        .op = "matmul", .name = label, .build = build_16,                                       \
        .user = &(const struct sixteen){ COPSE_F16, { false, false } },                         \
        TWO_INPUTS(FILL(INTEGERS, DIMS(3, 0)), FILL(INTEGERS, DIMS(0, 4))), .family = "matmul", \
        EXACT, __VA_ARGS__                                                                      \
    }
#define F16_SIZE(label, ta, tb, a_, b_, ...)                                              \
    SIXTEEN("f16: " label, F16, ta, tb, FILL(INTEGERS, DIMS a_), FILL(INTEGERS, DIMS b_), \
            __VA_ARGS__)

static const struct copse_case cases[] = {
    SIXTEEN("f16, whole numbers, nn", F16, false, false, FILL(INTEGERS, DIMS(9, 19)),
            FILL(INTEGERS, DIMS(19, 35)), QUICK),
    SIXTEEN("f16, whole numbers, tn", F16, true, false, FILL(INTEGERS, DIMS(19, 9)),
            FILL(INTEGERS, DIMS(19, 35)), QUICK),
    SIXTEEN("f16, whole numbers, nt", F16, false, true, FILL(INTEGERS, DIMS(9, 19)),
            FILL(INTEGERS, DIMS(35, 19)), QUICK),
    SIXTEEN("f16, whole numbers, tt", F16, true, true, FILL(INTEGERS, DIMS(19, 9)),
            FILL(INTEGERS, DIMS(35, 19)), STANDARD),
    SIXTEEN("bf16, whole numbers, a batch", BF16, false, false, WHOLE(-9, 9, DIMS(3, 7, 5)),
            WHOLE(-9, 9, DIMS(3, 5, 17)), QUICK),
    SIXTEEN("f16, whole numbers, one b", F16, true, false, FILL(INTEGERS, DIMS(3, 4, 5)),
            FILL(INTEGERS, DIMS(4, 2)), STANDARD),
    SIXTEEN("f16, normal numbers", F16, false, false, FILL(NORMAL, DIMS(17, 300)),
            FILL(NORMAL, DIMS(300, 21)), WITHIN(16), STANDARD),
    F16_SIZE("1 x 1 x 1", false, false, (1, 1), (1, 1), STANDARD),
    F16_SIZE("past every tile", true, true, (33, 65), (67, 33), STANDARD),
    F16_SIZE("whole tiles", false, true, (64, 32), (128, 32), STANDARD),
    F16_SIZE("several chains of sums", true, false, (257, 129), (257, 63), STANDARD),
    F16_SIZE("k of 8201, in two launches", false, false, (3, 8201), (8201, 5), FORWARD, STANDARD),
    F16_SIZE("a batch of odd matrices", false, true, (5, 7, 9), (5, 3, 9), STANDARD),
    F16_SIZE("a batch that repeats one a", false, false, (1, 7, 9), (3, 9, 5), STANDARD),
    SIXTEEN("bf16: past every tile", BF16, true, false, WHOLE(-9, 9, DIMS(33, 65)),
            WHOLE(-9, 9, DIMS(33, 67)), STANDARD),
    SIXTEEN("bf16: whole tiles", BF16, false, true, WHOLE(-9, 9, DIMS(64, 32)),
            WHOLE(-9, 9, DIMS(128, 32)), STANDARD),
    SIXTEEN("bf16, normal numbers", BF16, true, true, FILL(NORMAL, DIMS(300, 17)),
            FILL(NORMAL, DIMS(21, 300)), WITHIN(16), STANDARD),
    NO_TERMS("f16, nothing to add", .is_poor = true, STANDARD), /* `shared` computes it */
    { .op = "matmul",
      .name = "f16 by f32",
      .build = build_mixed,
      .user = &nn,
      TWO_INPUTS(FILL(INTEGERS, DIMS(9, 19)), FILL(INTEGERS, DIMS(19, 35))),
      .family = "matmul",
      EXACT,
      QUICK },
    ROW("a layer of 10", nn, FILL(INTEGERS, DIMS(64, 128)), FILL(INTEGERS, DIMS(128, 10)), EXACT,
        QUICK),
    ROW("past every tile", tt, FILL(INTEGERS, DIMS(67, 65)), FILL(INTEGERS, DIMS(65, 67)), EXACT,
        QUICK),
    ROW("normal numbers", nn, FILL(NORMAL, DIMS(33, 300)), FILL(NORMAL, DIMS(300, 47)), WITHIN(16),
        .skips_differences = true, QUICK),
    SIZE(1, 1, 1),
    SIZE(2, 3, 1),
    SIZE(3, 2, 5),
    SIZE(5, 7, 3),
    SIZE(6, 16, 16),
    SIZE(7, 17, 15),
    SIZE(8, 32, 4),
    SIZE(9, 33, 12),
    SIZE(12, 64, 255),
    SIZE(13, 63, 256),
    SIZE(11, 65, 257),
    SIZE(63, 64, 16),
    SIZE(64, 63, 17),
    SIZE(65, 65, 31),
    SIZE(64, 10, 128),
    SIZE(129, 127, 36),
    SIZE(1, 61, 13),
    SIZE(61, 1, 2),
    WAYS("no rows", INTEGERS, 0, 3, 4, EXACT, STANDARD),
    WAYS("no columns", INTEGERS, 3, 0, 4, EXACT, STANDARD),
    WAYS("nothing to add: zeros", INTEGERS, 3, 4, 0, EXACT, .is_poor = true, STANDARD),
    BATCHES("three small ones", INTEGERS, 3, 7, 5, 6, EXACT, STANDARD),
    BATCHES("a batch of one", INTEGERS, 1, 7, 17, 6, EXACT, STANDARD),
    BATCHES("a batch of whole tiles", INTEGERS, 2, 16, 68, 64, EXACT, STANDARD),
    BATCHES("a batch of inner products", INTEGERS, 5, 1, 1, 3, EXACT, STANDARD),
    BATCHES("a batch of nine", INTEGERS, 9, 7, 17, 6, EXACT, STANDARD),
    BATCHES("a batch of none", INTEGERS, 0, 7, 5, 6, EXACT, STANDARD),
    ROW("a batch of two axes", nn, FILL(NORMAL, DIMS(2, 3, 3, 4)), FILL(NORMAL, DIMS(2, 3, 4, 6)),
        WITHIN(16), STANDARD),
    ROW("a batch of two axes", tt, FILL(NORMAL, DIMS(2, 3, 4, 3)), FILL(NORMAL, DIMS(2, 3, 6, 4)),
        WITHIN(16), STANDARD),
    LEADS("leading axes: [3] and none", (3, ), (), QUICK),
    LEADS("leading axes: none and [3]", (), (3, ), STANDARD),
    LEADS("leading axes: [2, 3] and none", (2, 3, ), (), STANDARD),
    LEADS("leading axes: [2, 3] and [3]", (2, 3, ), (3, ), STANDARD),
    LEADS("leading axes: [2, 3] and [2, 1]", (2, 3, ), (2, 1, ), STANDARD),
    LEADS("leading axes: [2, 1] and [1, 3]", (2, 1, ), (1, 3, ), STANDARD),
    LEADS("leading axes: [1] and [2, 1]", (1, ), (2, 1, ), STANDARD),
    LEADS("leading axes: [2, 3, 2] and [1, 3, 1]", (2, 3, 2, ), (1, 3, 1, ), STANDARD),
    LEADS("leading axes: [2, 3, 2] and [2, 1, 2], copied", (2, 3, 2, ), (2, 1, 2, ), STANDARD),
    LEADS("leading axes: [2, 1, 2, 1] and [1, 3, 1, 2], copied", (2, 1, 2, 1, ), (1, 3, 1, 2, ),
          FULL),
    LEADS("leading axes: [0] and none", (0, ), (), STANDARD),
    LEADS("leading axes: [0] and [1]", (0, ), (1, ), QUICK),
    ROW("more than 65,535 groups, one b", tn, FILL(INTEGERS, DIMS(65537, 2, 3)),
        FILL(INTEGERS, DIMS(2, 2)), EXACT, FULL),
    ROW("large operands, one a", nt, FILL(INTEGERS, DIMS(33, 1500)),
        FILL(INTEGERS, DIMS(2, 300, 1500)), FORWARD, STANDARD),
    WAYS("derivatives", NORMAL, 9, 18, 5, WITHIN(16), STANDARD),
    /* Large enough for variants that copy large operands. */
    WAYS("large operands: 33 x 64 x 6401", INTEGERS, 33, 64, 6401, FORWARD, STANDARD),
    WAYS("large operands: 330 x 640 x 700", INTEGERS, 330, 640, 700, FORWARD, FULL),
    ROW("a few rows by a large matrix", nn, FILL(INTEGERS, DIMS(24, 1024)),
        FILL(INTEGERS, DIMS(1024, 1024)), FORWARD, STANDARD),
    ROW("a large transposed matrix by a few columns", tn, FILL(INTEGERS, DIMS(1024, 1024)),
        FILL(INTEGERS, DIMS(1024, 8)), FORWARD, STANDARD),
    /* More than the 65535 rounds after which some drivers leave a loop. */
    TWO_WAYS("k of 66,001", INTEGERS, 2, 3, 66001, FORWARD),
    ROW("k of 140,000", nn, FILL(INTEGERS, DIMS(1, 140000)), FILL(INTEGERS, DIMS(140000, 4)),
        FORWARD, FULL),
    LONG(16),
    LONG(300),
    LONG(1024),
    LONG(4096),
    LONG(20000),
    TWO_WAYS("normal numbers, k 1000", NORMAL, 20, 40, 1000, WITHIN(16), .skips_differences = true),
    TWO_WAYS("numbers that cancel, k 1000", CANCELLING, 20, 40, 1000, WITHIN(16),
             .skips_differences = true),
    TWO_WAYS("magnitudes from 2^-60 to 2^60", SPREAD, 20, 40, 300, WITHIN(16),
             .skips_differences = true),
    ROW("one huge number among tiny ones", nn, VALUES(huge_and_tiny, DIMS(21, 303)),
        FILL(NORMAL, DIMS(303, 19)), WITHIN(16), .skips_differences = true, STANDARD),

    ANY_NUMBERS(256, QUICK),
    ANY_NUMBERS(257, STANDARD),
    ANY_NUMBERS(1000, STANDARD),
    ANY_NUMBERS(4096, STANDARD),
    ANY_ROWS(8201, STANDARD),
    ANY_NUMBERS(70001, FULL),
    ANY("a batch with one number in each row", nt, FILL(ROWS, DIMS(3, 7, 300)),
        VALUES(one, DIMS(3, 17, 300)), 300, STANDARD),
    ANY_16(F16, false, true, FILL(ROWS, DIMS(64, 256)), FILL(ROWS, DIMS(33, 256)), 256, QUICK),
    ANY_16(BF16, false, true, FILL(ROWS, DIMS(64, 4096)), FILL(ROWS, DIMS(33, 4096)), 4096,
           STANDARD),
    ANY_16(F16, true, true, VALUES(columns, DIMS(8201, 17)), FILL(ROWS, DIMS(33, 8201)), 8201,
           STANDARD),

    DEPTH(1),
    DEPTH(2),
    DEPTH(3),
    DEPTH(5),
    DEPTH(6),
    DEPTH(7),
    DEPTH(13),
    DEPTH(15),
    DEPTH(16),
    DEPTH(17),
    DEPTH(31),
    DEPTH(32),
    DEPTH(33),
    DEPTH(61),
    DEPTH(63),
    DEPTH(64),
    DEPTH(65),
    DEPTH(129),
    DEPTH(255),
    DEPTH(256),
    DEPTH(257),
    DEPTH(513),
    EDGES_OF(1),
    EDGES_OF(2),
    EDGES_OF(3),
    EDGES_OF(5),
    EDGES_OF(6),
    EDGES_OF(7),
    EDGES_OF(8),
    EDGES_OF(9),
    EDGES_OF(13),
    EDGES_OF(17),
    EDGES_OF(61),
    EDGES_OF(63),
    EDGES_OF(64),
    EDGES_OF(65),
    EDGES_OF(129),
};

COPSE_CASE_TABLE(matmul, OPS, STRESS, SPEEDS, .refusals = matmul_refusals)
