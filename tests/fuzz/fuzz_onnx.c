/* SPDX-License-Identifier: MIT */
/* Networks of ONNX files: read, and built as a graph. */
#include "tests/fuzz/fuzz.h"
#include "tests/onnx/onnx_rig.h"

static void write_seed(struct model_rig *r, const char *seeds, const char *name)
{
    size_t size;
    const uint8_t *bytes = rig_bytes(r, &size);
    fuzz_seed(seeds, name, bytes, size);
    rig_free(r);
}

static void put_equation(struct model_rig *r, CopseOnnx__Node *n, const char *text)
{
    CopseOnnx__Attribute *at = rig_attribute(r, n, "equation");
    at->has_s = true;
    at->s = (ProtobufCBinaryData){ strlen(text), (uint8_t *)rig_text(r, text) };
}

static const float numbers[32] = { 1, 2, 3, 4, -1, 0.5f };

static void begin_onnx(copse_context *context, const char *seeds)
{
    struct model_rig r;
    ctx = context;
    temp_begin();
    atexit(temp_end);
    rig_begin(&r, 17);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(-1, 2));
    rig_reals(&r, "w", DIMS(2, 2), numbers, true);
    rig_reals(&r, "bias", DIMS(2), numbers, false);
    rig_wholes(&r, "shape", (const int64_t[]){ -1, 1, 2 }, 2);
    rig_node(&r, "MatMul", "x w", "a");
    rig_node(&r, "Add", "a bias", "b");
    rig_node(&r, "Reshape", "b shape", "y");
    rig_output(&r, "y");
    write_seed(&r, seeds, "product");

    rig_begin(&r, 13);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(1, 2));
    rig_reals(&r, "w", DIMS(2, 1, 3, 3), numbers, true);
    rig_wholes(&r, "picture", (const int64_t[]){ 1, 1, 4, 4 }, 4);
    rig_wholes(&r, "times", (const int64_t[]){ 1, 8 }, 2);
    rig_node(&r, "Tile", "x times", "t");
    rig_node(&r, "Reshape", "t picture", "p");
    CopseOnnx__Node *n = rig_node(&r, "Conv", "p w", "a");
    rig_ints(&r, n, "pads", (const int64_t[]){ 1, 1, 1, 1 }, 4);
    rig_ints(&r, n, "strides", (const int64_t[]){ 2, 1 }, 2);
    n = rig_node(&r, "MaxPool", "a", "b");
    rig_ints(&r, n, "kernel_shape", (const int64_t[]){ 2, 2 }, 2);
    rig_node(&r, "Shape", "b", "s");
    rig_node(&r, "Flatten", "b", "c");
    n = rig_node(&r, "Softmax", "c", "y");
    rig_int(&r, n, "axis", -1);
    rig_output(&r, "y");
    write_seed(&r, seeds, "pictures");

    rig_begin(&r, 23);
    rig_input(&r, "x", ONNX_FLOAT, DIMS(1, 2));
    rig_reals(&r, "w", DIMS(2, 12), numbers, true);
    rig_reals(&r, "turns", DIMS(1, 2, 1), numbers, true);
    rig_reals(&r, "mask", DIMS(2, 1), numbers, true);
    rig_wholes(&r, "heads", (const int64_t[]){ 1, 2, 6 }, 3);
    put_equation(&r, rig_node(&r, "Einsum", "x w", "a"), "...i,ik->...k");
    rig_node(&r, "Reshape", "a heads", "b");
    n = rig_node(&r, "RotaryEmbedding", "b turns turns", "c");
    rig_int(&r, n, "num_heads", 3);
    n = rig_node(&r, "Attention", "c b b mask", "y");
    rig_int(&r, n, "q_num_heads", 3);
    rig_int(&r, n, "kv_num_heads", 3);
    rig_int(&r, n, "is_causal", 1);
    rig_output(&r, "y");
    write_seed(&r, seeds, "attention");
}

static void read_onnx(const uint8_t *bytes, size_t size)
{
    copse_onnx *m = NULL;
    if (copse_onnx_open(ctx, temp_write("input.onnx", bytes, size), &m) == COPSE_OK)
        (void)!rig_run(m, (struct given[]){ { "x", COPSE_F32, COPSE_SHAPE(1, 2), numbers } }, 1,
                       NULL, NULL, NULL);
    copse_onnx_release(&m);
}

const struct fuzz_target fuzz_onnx_targets[] = { { "onnx", begin_onnx, read_onnx },
                                                 { .name = NULL } };
