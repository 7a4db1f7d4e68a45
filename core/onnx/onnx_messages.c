/* SPDX-License-Identifier: MIT */
/* Messages of files: their memory, names of nodes, attributes, types of elements. */
#include "core/onnx/onnx.h"

/* ---- memory of messages ---- */

#define HEAD 16 /* bytes: the size of a block, before it */

static void *message_alloc(void *user, size_t size)
{
    copse_onnx *m = user;
    uint64_t *block = NULL;
    if (size < m->limit && m->used + size + HEAD <= m->limit)
        block = copse__alloc(m->arena.mem, size + HEAD, 1);
    if (!block) {
        m->is_full = true;
        return NULL;
    }
    m->used += size + HEAD;
    *block = size + HEAD;
    return (char *)block + HEAD;
}

static void message_free(void *user, void *block)
{
    copse_onnx *m = user;
    if (!block)
        return;
    uint64_t *head = (uint64_t *)(void *)((char *)block - HEAD);
    m->used -= *head;
    copse__free(m->arena.mem, head);
}

ProtobufCAllocator copse__onnx_allocator(copse_onnx *m)
{
    return (ProtobufCAllocator){ message_alloc, message_free, m };
}

/* ---- nodes ---- */

const char *copse__onnx_node_name(const onnx_node *n)
{
    if (n->name && *n->name)
        return n->name;
    for (size_t i = 0; i < n->n_output; i++)
        if (*n->output[i])
            return n->output[i];
    return "?";
}

const CopseOnnx__Attribute *copse__onnx_attribute(const onnx_node *n, const char *name)
{
    for (size_t i = 0; i < n->n_attribute; i++)
        if (n->attribute[i]->name && strcmp(n->attribute[i]->name, name) == 0)
            return n->attribute[i];
    return NULL;
}

int64_t copse__onnx_int(const onnx_node *n, const char *name, int64_t normal)
{
    const CopseOnnx__Attribute *a = copse__onnx_attribute(n, name);
    return a && a->has_i ? a->i : normal;
}

float copse__onnx_float(const onnx_node *n, const char *name, float normal)
{
    const CopseOnnx__Attribute *a = copse__onnx_attribute(n, name);
    return a && a->has_f ? a->f : normal;
}

bool copse__onnx_text_is(const onnx_node *n, const char *name, const char *normal, const char *text)
{
    const CopseOnnx__Attribute *a = copse__onnx_attribute(n, name);
    if (!a || !a->has_s)
        return strcmp(normal, text) == 0;
    return a->s.len == strlen(text) && memcmp(a->s.data, text, a->s.len) == 0;
}

const int64_t *copse__onnx_ints(const onnx_node *n, const char *name, size_t *count)
{
    const CopseOnnx__Attribute *a = copse__onnx_attribute(n, name);
    *count = a ? a->n_ints : 0;
    return a && a->n_ints > 0 ? a->ints : NULL;
}

static const char *const type_names[] = {
    "unknown",        "float",      "uint8",          "int8",       "uint16",   "int16",
    "int32",          "int64",      "string",         "bool",       "float16",  "double",
    "uint32",         "uint64",     "complex64",      "complex128", "bfloat16", "float8e4m3fn",
    "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4",      "int4",     "float4e2m1",
};

const char *copse__onnx_type_name(int32_t type)
{
    return type_names[type > 0 && type < (int32_t)COPSE_COUNT(type_names) ? type : 0];
}

bool copse__onnx_is_real(int32_t type)
{
    return type == ONNX_FLOAT || type == ONNX_DOUBLE || type == ONNX_FLOAT16 ||
           type == ONNX_BFLOAT16;
}

bool copse__onnx_is_whole(int32_t type)
{
    return (type >= ONNX_UINT8 && type <= ONNX_INT64) || type == ONNX_BOOL || type == ONNX_UINT32 ||
           type == ONNX_UINT64;
}
