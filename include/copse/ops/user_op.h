/* SPDX-License-Identifier: MIT */
/** @file Ops of the application: a kernel for each API, rules for shapes and launches, a gradient,
 * and a reference. The library treats the kernel as one of its own: self-test, cross-check, audits,
 * block lists, kernel cache and conformance. docs/user-ops.md is the manual, examples/user_op.c an
 * example.
 */
#ifndef COPSE_PUBLIC_OPS_USER_OP_H
#define COPSE_PUBLIC_OPS_USER_OP_H

#include "copse/context.h"
#include "copse/tensor.h"

#if defined(__cplusplus)
extern "C" {
#endif

#define COPSE_USER_OPERANDS 4
#define COPSE_USER_PARAMS   31
#define COPSE_USER_SPECS    6

/** An op that the application has registered. Lifetime: that of its context. */
typedef struct copse_user_op copse_user_op;

/** A buffer as a reference gets it: `count` elements of a tensor. i32 elements are int32_t; f32
    elements are float or double: see copse_host_load. */
struct copse_host_arg {
    void *data;
    size_t count;
    bool is_double;
};
/** Element i of a buffer of f32 elements; 0 outside of the buffer. Thread-safety: any. */
COPSE_API double copse_host_load(const struct copse_host_arg *buffer, size_t i);
/** Set element i, rounded to the type of the buffer; outside of the buffer nothing. */
COPSE_API void copse_host_store(const struct copse_host_arg *buffer, size_t i, double value);

/** The function of a kernel in double precision: the whole launch. `params` are the words and
    `spec` the constants of the launch, `buffers` the operands and, last, the result. It may be
    called by several threads at a time. */
typedef void copse_user_reference_fn(const void *params, const int32_t *spec,
                                     const struct copse_host_arg *buffers);

/** A call of the op. Arrays live during the callback. */
struct copse_user_call {
    uint32_t count;            /**< operands */
    const copse_shape *shapes; /**< of the operands */
    const void *settings;      /**< of copse_user_op_add; settings_size bytes */
    copse_shape shape;         /**< of the result; not in `shape` callbacks */
    /** of the launch: a power of two, at most that of the op; only in `launch` */
    uint32_t group_size;
    copse_tensor *const *operands; /**< only in `gradient` */
    copse_tensor *result;          /**< only in `gradient` */
    uint64_t reserved[4];          /**< 0 */
};

/** The shape of the result. Not COPSE_OK: the operands do not fit; the error text names the op and
    their shapes. */
typedef copse_status copse_user_shape_fn(void *user, const struct copse_user_call *call,
                                         copse_shape *out);

/** A launch. The library zeroes it before the callback. */
struct copse_user_launch {
    uint32_t params[COPSE_USER_PARAMS]; /**< words of PARAMS, in order; floats by their bits */
    int32_t spec[COPSE_USER_SPECS];     /**< values of SPEC(0, ..), SPEC(1, ..) */
    uint64_t groups;                    /**< 0: nothing to compute. At most 2^31 invocations */
    uint64_t reserved[4];               /**< 0 */
};
/** The launch of a call. */
typedef copse_status copse_user_launch_fn(void *user, const struct copse_user_call *call,
                                          struct copse_user_launch *out);

/** Add the nodes of the derivatives to g, with ops of the library or of the application: dx[i] is
    the derivative with respect to operand i, of its shape. NULL stays where it is zero, and for i32
    operands. */
typedef void copse_user_gradient_fn(void *user, copse_graph *g, const struct copse_user_call *call,
                                    copse_tensor *dy, copse_tensor **dx);

/** Operands for the self-test and for conformance. */
struct copse_user_sample {
    /** "a matrix"; unique within the op, up to 60 bytes */
    const char *name;
    copse_shape shapes[COPSE_USER_OPERANDS]; /**< of the operands */
    /** settings_size bytes [NULL = zeros] */
    const void *settings;
    /** range of the operands' numbers [0, 0 = -2 to 2] */
    double low, high;
    uint64_t reserved[4]; /**< 0 */
};

/** How to register an op. A zeroed struct means the defaults in brackets. Texts and arrays are
    copied. */
struct copse_user_op_params {
    /** of the op and of its kernel: a C identifier of up to 32 bytes; not the name of a kernel of
       the library, nor of another op of the context */
    const char *name;
    uint32_t operands;                     /**< 1 to COPSE_USER_OPERANDS */
    copse_type types[COPSE_USER_OPERANDS]; /**< COPSE_F32 or COPSE_I32       [COPSE_F32] */
    copse_type type; /**< of the result: likewise                [COPSE_F32] */
    /** for OpenCL devices: the kernel in the dialect of docs/add-an-op.md or in OpenCL C 1.2
       [NULL = none] */
    const char *text;
    /** for Vulkan devices: SPIR-V 1.3, compiled from the dialect by copse_kernel_complete and a
       GLSL compiler, or with the same bindings [NULL = none] */
    const uint32_t *spirv;
    size_t spirv_bytes;
    /** invocations of a group: a power of two up to 1024 [0 = 256] */
    uint32_t group_size;
    uint32_t params;            /**< words of PARAMS, up to COPSE_USER_PARAMS */
    uint32_t specs;             /**< SPEC constants, up to COPSE_USER_SPECS */
    size_t settings_size;       /**< bytes of settings of a call, up to 256; no pointers in them */
    copse_user_shape_fn *shape; /**< [NULL = the shape of the first operand] */
    /** [NULL = params[0] is the number of elements of the result, one invocation each] */
    copse_user_launch_fn *launch;
    copse_user_gradient_fn *gradient;   /**< [NULL = no derivative] */
    copse_user_reference_fn *reference; /**< required */
    /** largest error [ULP of the result]; with ratio 0, too: the same bits as the reference */
    double ulp;
    /** for sums: added to it, times 2^-24 and the reference of the operands' magnitudes */
    double ratio;
    double gradient_ulp, gradient_ratio; /**< the same for the derivatives */
    /** at least one; the operands of the first have up to 2048 elements */
    const struct copse_user_sample *samples;
    size_t sample_count; /**< up to 64 */
    /** axis 0 of all operands may have any size, the same for all: conformance tries some */
    bool any_rows;
    /** conformance also tries NaN, infinities, subnormal and largest numbers */
    bool any_numbers;
    void *user;           /**< of the callbacks; lives as long as the context */
    uint64_t reserved[8]; /**< 0 */
};

/**
 * Register an op. Callbacks follow docs/callbacks.md: in `shape`, `launch` and `gradient` the same
 * calls are allowed as in a loss function.
 *
 * @retval COPSE_ERR_ARGUMENT     A number or name out of its range, no reference, no samples, or no
 *                                free place: a process has 64 registered ops.
 * @retval COPSE_ERR_FORMAT       The text or the SPIR-V is not what the contract of the op says;
 *                                the error names the word.
 * @retval COPSE_ERR_SHAPE        A sample that `shape` refuses.
 *
 * Nothing is compiled yet. Lifetime of *out: that of the context. Thread-safety: any.
 */
COPSE_API COPSE_CHECKED copse_status copse_user_op_register(
    copse_context *ctx, const struct copse_user_op_params *params, copse_user_op **out);

/**
 * Add a call to a graph.
 *
 * @param operands  `count` tensors of g or variables' tensors, as many as the op has.
 * @param settings  settings_size bytes, which are copied; NULL: zeros.
 *
 * @retval COPSE_ERR_SHAPE     Wrong element types, or shapes that `shape` refuses.
 * @retval COPSE_ERR_ARGUMENT  The op is of another context.
 *
 * A device without a form of the kernel, and one on which it is blocked, is refused when a program
 * is made, with COPSE_ERR_UNSUPPORTED.
 */
COPSE_API COPSE_CHECKED copse_tensor *copse_user_op_add(copse_graph *g, const copse_user_op *op,
                                                        copse_tensor *const *operands,
                                                        uint32_t count, const void *settings);

/** The name of the kernel in lists of blocked kernels and in conformance: "NAME@HASH", where HASH
    is that of the kernel's code, so that a changed kernel is another one. NULL for NULL. */
COPSE_API const char *copse_user_op_kernel(const copse_user_op *op);

#if defined(__cplusplus)
}
#endif
#endif
