/* SPDX-License-Identifier: MIT */
/* Files that are no ONNX files, or break its rules: an error in one line, and no memory left. */
#include "tests/onnx/onnx_rig.h"

static const float one[] = { 1, 2, 3, 4 };

/* x [n, 2] times w, plus a bias. */
static void put_small(struct model_rig *r)
{
    rig_begin(r, 17);
    rig_input(r, "x", ONNX_FLOAT, DIMS(-1, 2));
    rig_reals(r, "w", DIMS(2, 2), one, true);
    rig_reals(r, "bias", DIMS(2), one, false);
    rig_node(r, "MatMul", "x w", "a");
    rig_node(r, "Add", "a bias", "y");
    rig_output(r, "y");
}

static copse_status open_bytes(const void *bytes, size_t size)
{
    copse_onnx *m = NULL;
    const copse_status s = copse_onnx_open(ctx, temp_write("bad.onnx", bytes, size), &m);
    if (s == COPSE_OK)
        (void)!rig_run(m, (struct given[]){ { "x", COPSE_F32, COPSE_SHAPE(1, 2), one } }, 1, NULL,
                       NULL, NULL);
    copse_onnx_release(&m);
    return s;
}

static void test_truncated(void **state)
{
    (void)state;
    struct model_rig r;
    size_t size, refused = 0;
    put_small(&r);
    const uint8_t *bytes = rig_bytes(&r, &size);
    for (size_t n = 0; n < size; n++)
        refused += open_bytes(bytes, n) != COPSE_OK;
    assert_true(refused > size / 2); /* a cut between messages may leave a smaller network */
    OK(open_bytes(bytes, size));
    rig_free(&r);
}

static void test_changed_bytes(void **state)
{
    (void)state;
    struct model_rig r;
    size_t size;
    put_small(&r);
    uint8_t *bytes = rig_bytes(&r, &size);
    static const uint8_t values[] = { 0, 1, 0x7f, 0x80, 0xff };
    for (size_t i = 0; i < size; i++)
        for (size_t k = 0; k < sizeof values; k++) {
            const uint8_t kept = bytes[i];
            bytes[i] = values[k];
            (void)!open_bytes(bytes, size);
            bytes[i] = kept;
        }
    OK(open_bytes(bytes, size));
    rig_free(&r);
}

static void test_other_files(void **state)
{
    (void)state;
    copse_onnx *m = NULL;
    FAILS(COPSE_ERR_FORMAT, open_bytes("", 0), "no ONNX file");
    FAILS(COPSE_ERR_FORMAT, open_bytes("hello, world\n", 13), "no ONNX file");
    FAILS(COPSE_ERR_IO, copse_onnx_open(ctx, temp_path("none.onnx"), &m), "none.onnx");
    assert_null(m);
}

#define REFUSED(r, code, word)                  \
    do {                                        \
        copse_onnx *m_ = NULL;                  \
        FAILS(code, rig_open(&(r), &m_), word); \
        assert_null(m_);                        \
        rig_free(&(r));                         \
    } while (0)

static void test_dims(void **state)
{
    (void)state;
    struct model_rig r;
    static const int64_t bad[][2] = {
        { INT64_MAX, 2 }, { -1, 2 }, { 1 << 20, 1 << 20 }, { INT64_MIN, 1 }, { 3, 2 }
    };
    for (size_t i = 0; i < COPSE_COUNT(bad); i++) {
        put_small(&r);
        memcpy(r.tensors[0]->dims, bad[i], sizeof bad[i]);
        REFUSED(r, COPSE_ERR_FORMAT, "tensor 'w'");
    }
    put_small(&r);
    r.tensors[1]->n_float_data = 1;
    REFUSED(r, COPSE_ERR_FORMAT, "data of 1 elements");
    put_small(&r);
    r.tensors[0]->raw_data.len = 15;
    REFUSED(r, COPSE_ERR_FORMAT, "tensor 'w'");
}

static void test_types(void **state)
{
    (void)state;
    static const int32_t types[] = { 0, ONNX_STRING, ONNX_COMPLEX64, 17, 22, 99, -1 };
    for (size_t i = 0; i < COPSE_COUNT(types); i++) {
        struct model_rig r;
        copse_onnx *m = NULL;
        put_small(&r);
        r.tensors[0]->data_type = types[i];
        OK(rig_open(&r, &m));
        FAILS(COPSE_ERR_UNSUPPORTED, copse_onnx_check(m), "operand 'w' has the type");
        copse_onnx_release(&m);
        rig_free(&r);
    }
}

/* Sizes of a type that has NaN. */
static void test_numbers(void **state)
{
    (void)state;
    static const float shape[] = { 2, NAN };
    struct model_rig r;
    copse_onnx *m = NULL;
    put_small(&r);
    rig_reals(&r, "shape", DIMS(2), shape, false);
    rig_node(&r, "Reshape", "y shape", "z");
    r.outputs[0]->name = rig_text(&r, "z");
    OK(rig_open(&r, &m));
    const struct given given = { "x", COPSE_F32, COPSE_SHAPE(1, 2), one };
    FAILS(COPSE_ERR_UNSUPPORTED, rig_run(m, &given, 1, NULL, NULL, NULL), "NaN");
    copse_onnx_release(&m);
    rig_free(&r);
}

/* A tensor of a type that is not read is an output by itself. */
static void test_output(void **state)
{
    (void)state;
    struct model_rig r;
    copse_onnx *m = NULL;
    put_small(&r);
    r.tensors[0]->data_type = 0;
    r.tensors[0]->has_raw_data = false;
    r.nodes[0]->input[1] = rig_text(&r, "x");
    r.outputs[0]->name = rig_text(&r, "w");
    OK(rig_open(&r, &m));
    const struct given given = { "x", COPSE_F32, COPSE_SHAPE(1, 2), one };
    FAILS(COPSE_ERR_UNSUPPORTED, rig_run(m, &given, 1, NULL, NULL, NULL), "type unknown");
    copse_onnx_release(&m);
    rig_free(&r);
}

static void test_names(void **state)
{
    (void)state;
    struct model_rig r;
    put_small(&r);
    r.nodes[0]->input[0] = rig_text(&r, "y"); /* a cycle */
    REFUSED(r, COPSE_ERR_FORMAT, "node 'a' reads 'y', which no node before it makes");
    put_small(&r);
    r.nodes[0]->output[0] = rig_text(&r, "w");
    REFUSED(r, COPSE_ERR_FORMAT, "makes 'w' again");
    put_small(&r);
    r.tensors[1]->name = rig_text(&r, "w");
    REFUSED(r, COPSE_ERR_FORMAT, "two tensors have the name 'w'");
    put_small(&r);
    r.outputs[0]->name = rig_text(&r, "nothing");
    REFUSED(r, COPSE_ERR_FORMAT, "nothing makes the output 'nothing'");
    put_small(&r);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(1));
    REFUSED(r, COPSE_ERR_FORMAT, "two inputs have the name 'x'");
}

static void test_opset(void **state)
{
    (void)state;
    struct model_rig r;
    copse_onnx *m = NULL;
    put_small(&r);
    r.set.version = COPSE_ONNX_OPSET + 1;
    REFUSED(r, COPSE_ERR_UNSUPPORTED, "operator set 29");
    put_small(&r);
    r.set.version = 6; /* Add had another form of broadcasting */
    OK(rig_open(&r, &m));
    FAILS(COPSE_ERR_UNSUPPORTED, copse_onnx_check(m), "operator set 6");
    copse_onnx_release(&m);
    rig_free(&r);
}

/* Graphs within nodes stay bytes, however deep they are. */
static void test_depth(void **state)
{
    (void)state;
    struct model_rig r;
    copse_onnx *m = NULL;
    enum { DEPTH = 1 << 20 };
    uint8_t *bytes = malloc(DEPTH);
    assert_non_null(bytes);
    memset(bytes, 0x0a, DEPTH); /* a field that is a message, again and again */
    put_small(&r);
    CopseOnnx__Attribute *a = rig_attribute(&r, r.nodes[1], "then_branch");
    a->has_g = true;
    a->g = (ProtobufCBinaryData){ DEPTH, bytes };
    OK(rig_open(&r, &m));
    FAILS(COPSE_ERR_UNSUPPORTED, copse_onnx_check(m), "graphs within nodes");
    copse_onnx_release(&m);
    rig_free(&r);
    (void)!open_bytes(bytes, DEPTH);
    free(bytes);
}

/* A file of many empty messages needs much more memory than it has bytes. */
static void test_memory(void **state)
{
    (void)state;
    enum { NODES = 1 << 20 };
    uint8_t *bytes = malloc(2 * NODES + 16);
    assert_non_null(bytes);
    size_t at = 0, left = 2 * NODES;
    bytes[at++] = 0x3a; /* the graph */
    for (; left >= 0x80; left >>= 7)
        bytes[at++] = (uint8_t)(left | 0x80);
    bytes[at++] = (uint8_t)left;
    for (size_t i = 0; i < NODES; i++) {
        bytes[at++] = 0x0a; /* a node of no bytes */
        bytes[at++] = 0;
    }
    FAILS(COPSE_ERR_NO_MEMORY, open_bytes(bytes, at), "48 MiB");
    free(bytes);
}

/* ---- data in files of their own ---- */

static void put_external(struct model_rig *r, const char *location, const char *offset,
                         const char *length)
{
    static const char *const keys[] = { "location", "offset", "length" };
    const char *const values[] = { location, offset, length };
    put_small(r);
    CopseOnnx__Tensor *t = r->tensors[0];
    t->has_raw_data = false;
    t->has_data_location = true;
    t->data_location = 1;
    t->external_data = rig_block(r, 3 * sizeof *t->external_data);
    for (size_t i = 0; i < 3; i++) {
        CopseOnnx__StringPair *p = rig_block(r, sizeof *p);
        copse_onnx__string_pair__init(p);
        p->key = rig_text(r, keys[i]);
        p->value = rig_text(r, values[i]);
        t->external_data[t->n_external_data++] = p;
    }
}

static void test_external(void **state)
{
    (void)state;
    struct model_rig r;
    copse_onnx *m = NULL;
    float data[8] = { 0, 0, 0, 0, 1, 0, 0, 1 }, y[2];
    copse_shape shape;
    temp_write("weights.bin", data, sizeof data);
    put_external(&r, "weights.bin", "16", "16");
    OK(rig_open(&r, &m));
    OK(rig_run(m, (struct given[]){ { "x", COPSE_F32, COPSE_SHAPE(1, 2), one } }, 1, NULL, y,
               &shape));
    assert_true(y[0] == 2 && y[1] == 4); /* the identity, and a bias */
    /* saved, the model has its weights in itself */
    OK(copse_onnx_save(m, temp_path("whole.onnx")));
    copse_onnx_release(&m);
    unlink(temp_path("weights.bin"));
    OK(copse_onnx_open(ctx, temp_path("whole.onnx"), &m));
    copse_onnx_release(&m);
    rig_free(&r);
    put_external(&r, "weights.bin", "16", "16");
    REFUSED(r, COPSE_ERR_IO, "tensor 'w'");
    temp_write("weights.bin", data, sizeof data);
    static const char *const outside[] = { "../weights.bin", "/etc/passwd", "a/../../b", "", "..",
                                           "a\\b",           "c:b" };
    for (size_t i = 0; i < COPSE_COUNT(outside); i++) {
        put_external(&r, outside[i], "0", "16");
        REFUSED(r, COPSE_ERR_FORMAT, "in the folder of the model");
    }
    put_external(&r, "weights.bin", "24", "16");
    REFUSED(r, COPSE_ERR_FORMAT, "outside");
    put_external(&r, "weights.bin", "18446744073709551615", "16");
    REFUSED(r, COPSE_ERR_FORMAT, "outside");
    put_external(&r, "weights.bin", "-1", "16");
    REFUSED(r, COPSE_ERR_FORMAT, "offset");
    put_external(&r, "weights.bin", "0", "99999999999999999999");
    REFUSED(r, COPSE_ERR_FORMAT, "length");
    put_external(&r, "weights.bin", "0", "12");
    REFUSED(r, COPSE_ERR_FORMAT, "data of 3 elements");
}

/* Settings out of their range: the node is refused by name. */
static void test_settings(void **state)
{
    (void)state;
    static const struct {
        const char *op, *attribute;
        int64_t value;
    } bad[] = { { "Softmax", "axis", 2 },
                { "Softmax", "axis", INT64_MIN },
                { "Flatten", "axis", -9 },
                { "Concat", "axis", 7 },
                { "ReduceMax", "axes", 5 },
                { "Transpose", "perm", 1 },
                { "DepthToSpace", "blocksize", 0 },
                { "Cast", "to", 8 },
                { "Cast", "to", 12345 },
                { "MaxPool", "kernel_shape", 0 },
                { "LRN", "size", INT64_MAX },
                { "TopK", "k", -1 } };
    for (size_t i = 0; i < COPSE_COUNT(bad); i++) {
        struct model_rig r;
        copse_onnx *m = NULL;
        rig_begin(&r, 9);
        rig_input(&r, "x", ONNX_FLOAT, DIMS(-1, 2));
        CopseOnnx__Node *n = rig_node(&r, bad[i].op, "x", "y");
        rig_int(&r, n, bad[i].attribute, bad[i].value);
        rig_ints(&r, n, bad[i].attribute, &bad[i].value, 1);
        n->attribute[0]->n_ints = 1; /* the first attribute of a name counts: both forms */
        n->attribute[0]->ints = n->attribute[1]->ints;
        n->n_attribute = 1;
        rig_output(&r, "y");
        OK(rig_open(&r, &m));
        const struct given given = { "x", COPSE_F32, COPSE_SHAPE(1, 2), one };
        const copse_status s = rig_run(m, &given, 1, NULL, NULL, NULL);
        if (s != COPSE_ERR_UNSUPPORTED || !strstr(copse_last_error(), bad[i].op))
            fail_msg("%s: %s %lld: %s", bad[i].op, bad[i].attribute, (long long)bad[i].value,
                     copse_status_name(s));
        copse_onnx_release(&m);
        rig_free(&r);
    }
}

/* Batches of the indices and of the data are the same ones. */
static void test_batch_dims(void **state)
{
    (void)state;
    enum { MANY = 400 };
    static int64_t at[MANY];
    const float x[] = { 1, 2, 3, 4, 5, 6 };
    for (int i = 0; i < 2; i++) {
        struct model_rig r;
        copse_onnx *m = NULL;
        copse_shape shape;
        float y[MANY];
        const bool fits = i == 0;
        at[0] = 2;
        at[1] = -2;
        rig_begin(&r, 17);
        rig_input(&r, "x", ONNX_FLOAT, DIMS(2, 3));
        CopseOnnx__Tensor *t = rig_wholes(&r, "at", at, fits ? 2 : MANY);
        t->n_dims = 2;
        t->dims = memcpy(rig_block(&r, 2 * sizeof *t->dims),
                         (const int64_t[]){ fits ? 2 : MANY, 1 }, 2 * sizeof *t->dims);
        rig_int(&r, rig_node(&r, "GatherND", "x at", "y"), "batch_dims", 1);
        rig_output(&r, "y");
        OK(rig_open(&r, &m));
        const struct given given = { "x", COPSE_F32, COPSE_SHAPE(2, 3), x };
        if (fits) {
            OK(rig_run(m, &given, 1, NULL, y, &shape));
            assert_true(y[0] == 3 && y[1] == 5);
        } else {
            FAILS(COPSE_ERR_UNSUPPORTED, rig_run(m, &given, 1, NULL, y, &shape),
                  "indices of shape [400, 1] for [2, 3]");
        }
        copse_onnx_release(&m);
        rig_free(&r);
    }
}

static void test_pads(void **state)
{
    (void)state;
    static const int64_t pads[][4] = { { 0, INT64_MIN, 0, 0 },
                                       { 0, 0, 0, INT64_MIN },
                                       { INT64_MAX, 0, INT64_MAX, 0 },
                                       { 0, (1 << 24) + 1, 0, 0 } };
    for (size_t i = 0; i < COPSE_COUNT(pads); i++) {
        struct model_rig r;
        copse_onnx *m = NULL;
        rig_begin(&r, 17);
        rig_input(&r, "x", ONNX_FLOAT, DIMS(-1, 2));
        rig_wholes(&r, "pads", pads[i], 4);
        rig_node(&r, "Pad", "x pads", "y");
        rig_output(&r, "y");
        OK(rig_open(&r, &m));
        const struct given given = { "x", COPSE_F32, COPSE_SHAPE(1, 2), one };
        FAILS(COPSE_ERR_UNSUPPORTED, rig_run(m, &given, 1, NULL, NULL, NULL), " pads");
        copse_onnx_release(&m);
        rig_free(&r);
    }
}

static void test_axes(void **state)
{
    (void)state;
    struct model_rig r;
    copse_onnx *m = NULL;
    static const int64_t axes[7] = { 0 };
    rig_begin(&r, 17);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(-1, 2));
    rig_ints(&r, rig_node(&r, "MeanVarianceNormalization", "x", "y"), "axes", axes, 7);
    rig_output(&r, "y");
    OK(rig_open(&r, &m));
    const struct given given = { "x", COPSE_F32, COPSE_SHAPE(1, 2), one };
    FAILS(COPSE_ERR_UNSUPPORTED, rig_run(m, &given, 1, NULL, NULL, NULL), "7 axes");
    copse_onnx_release(&m);
    rig_free(&r);
}

/* Many tensors that read the same bytes need more memory than the files have. */
static void test_external_memory(void **state)
{
    (void)state;
    enum { FLOATS = 10 << 20, TENSORS = 8 };
    float *data = calloc(FLOATS, sizeof *data);
    assert_non_null(data);
    temp_write("large.bin", data, FLOATS * sizeof *data);
    free(data);
    for (size_t count = 2; count <= TENSORS; count += TENSORS - 2) { /* 80 MiB, 320 MiB */
        static const char *const paths[] = { "large.bin", "./large.bin", ".//./large.bin" };
        struct model_rig r;
        copse_onnx *m = NULL;
        rig_begin(&r, 17);
        rig_input(&r, "x", ONNX_FLOAT, DIMS(1));
        for (size_t i = 0; i < count; i++) {
            char name[8];
            snprintf(name, sizeof name, "w%zu", i);
            CopseOnnx__Tensor *t = rig_tensor(&r, name, ONNX_FLOAT, DIMS(FLOATS));
            CopseOnnx__StringPair *p = rig_block(&r, sizeof *p);
            copse_onnx__string_pair__init(p);
            p->key = rig_text(&r, "location");
            p->value = rig_text(&r, paths[i % COPSE_COUNT(paths)]);
            t->has_data_location = true;
            t->data_location = 1;
            t->external_data = rig_block(&r, sizeof *t->external_data);
            t->external_data[t->n_external_data++] = p;
        }
        rig_node(&r, "Relu", "x", "y");
        rig_output(&r, "y");
        if (count == TENSORS) {
            REFUSED(r, COPSE_ERR_NO_MEMORY, "the files beside it");
        } else {
            OK(rig_open(&r, &m));
            copse_onnx_release(&m);
            rig_free(&r);
        }
    }
    unlink(temp_path("large.bin"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_changed_bytes),
        cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_dims),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_output),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_opset),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_external),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_batch_dims),
        cmocka_unit_test(test_pads),
        cmocka_unit_test(test_axes),
        cmocka_unit_test(test_external_memory),
    };
    temp_begin();
    OK(copse_context_create(NULL, &ctx));
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    copse_context_release(&ctx);
    temp_end();
    return failed;
}
