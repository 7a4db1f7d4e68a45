/* SPDX-License-Identifier: MIT */
/* Kernel variants: several kernels that compute the same. A family is a table of variants, one row
   each, in core/ops/<family>_variants.c; the build finds the files. For all families copse__choose
   selects the row for a piece of work: the forced row, otherwise one whose kernel a user replaced
   (copse_own_kernel), otherwise the fastest one by measurement (copse/device/tuning.h), otherwise
   the one with the lowest prior of the device's class. */
#ifndef COPSE_VARIANT_H
#define COPSE_VARIANT_H

#include "core/graph/op.h"

/* Classes of devices by their limits; each has its own priors. A device is of the last one that it
   fits. */
enum copse_device_class {
    COPSE_CLASS_PLAIN,        /* devices in no other class: host:0, accelerators */
    COPSE_CLASS_WIDE_VECTORS, /* has_wide_vectors: CPUs through OpenCL */
    COPSE_CLASS_FAST_TEXELS,  /* has_fast_texels: CPUs through Vulkan */
    COPSE_CLASS_GPU,          /* is_gpu */
    COPSE_CLASS_COUNT
};
COPSE_PRIVATE enum copse_device_class copse__device_class(const struct copse_limits *limits);

#define COPSE_NO_PRIOR       255 /* never chosen by prior: forced or measured only */
#define COPSE_ON_GPUS_ONLY   COPSE_NO_PRIOR, COPSE_NO_PRIOR, COPSE_NO_PRIOR /* the other classes */
#define COPSE_LIBRARY_KERNEL COPSE_KERNEL_COUNT /* the matrix product of a vendor's library */

struct copse_variant {
    const char *name; /* "wide": unique in the family */
    /* the kernel that is blocked, measured and tested for it: unique in all families */
    enum copse_kernel_id kernel;
    /* For each class of devices, in the order of enum copse_device_class. The lowest one that fits
       is chosen; of equal priors the first row. */
    uint8_t prior[COPSE_CLASS_COUNT];
    /* Whether it can do this work at all; NULL = all work of the family. */
    bool (*fits)(const struct copse_limits *limits, const void *work);
    /* Whether its prior counts for this work on this device [always]. */
    bool (*leads)(const copse_device *dev, const void *work);
    copse_status (*lower)(struct copse_lowering *l, const void *work);
    /* Other kernels that `lower` may launch: COPSE_NEEDS. The variant is not chosen where one of
       them is blocked. */
    const enum copse_kernel_id *needs;
    size_t need_count;
};

/* In a row: COPSE_NEEDS(COPSE_KERNEL_matmul_pad). */
#define COPSE_NEEDS(...)                                    \
    .needs = (const enum copse_kernel_id[]){ __VA_ARGS__ }, \
    .need_count =                                           \
        sizeof((const enum copse_kernel_id[]){ __VA_ARGS__ }) / sizeof(enum copse_kernel_id)

#define COPSE_TUNE_INPUTS 3
#define COPSE_TUNE_WORK   256
/* Bytes of the name of a size class: "nt-32-128-512". "nt-32-128-512_f16" is a part of that class:
   it has measurements of its own where the variant of lowest prior was measured in it, and
   otherwise those of the class. */
#define COPSE_SIZE_CLASS 24

/* Work of one size class, for mode tune and for queries of the choice. In brackets: where the job
   of the family leaves the member zero. */
struct copse_tune_job {
    char name[96];     /* "32 x 32 x 128, a transposed" [the shape of in[0], and the kind] */
    double operations; /* [by the family's number for each element] */
    size_t in_count;   /* [counted] */
    copse_shape in[COPSE_TUNE_INPUTS]; /* f32; filled with small whole numbers */
    /* input of `fits`, `size` and `size_class`: COPSE_TUNE_WORK bytes, allocated by the caller */
    void *work;
};
#define COPSE_JOB_WORK(j, w)                                           \
    do {                                                               \
        _Static_assert(sizeof(w) <= COPSE_TUNE_WORK, "work of a job"); \
        memcpy((j)->work, &(w), sizeof(w));                            \
    } while (0)

/* What decides the speed of a piece of work. */
#define COPSE_KINDS      2
#define COPSE_SIZE_LISTS 2
#define COPSE_MAX_SIZES  4
struct copse_size {
    size_t job;                    /* for a job: its number */
    uint32_t kind;                 /* of the kinds of the family */
    uint32_t of[COPSE_SIZE_LISTS]; /* one for each list of sizes */
};

/* In brackets: without the member. */
struct copse_family {
    const char *name; /* "matmul" */
    /* COPSE_VARIANTS. The first row fits all work; it is used if the forced row does not fit. */
    const struct copse_variant *variants;
    size_t count;
    /* Whether the row takes operands of this type; conformance forces it in cases of such operands
       only. [all do] */
    bool (*takes_operands)(const struct copse_variant *v, copse_type type);
    /* Largest error of a job's result, relative to 1 + |expected|. [exact] */
    float slack;
    /* The size classes: each kind with each size of each list, "forward-32", "32-128" or "32". Mode
       tune measures all of them, from small to large, and the kinds of a size one after the other.
       Sizes end with 0. [one kind without a name; one list] */
    const char *kinds[COPSE_KINDS];
    uint32_t sizes[COPSE_SIZE_LISTS][COPSE_MAX_SIZES];
    /* The kind and the sizes of the work; *out is zeroed. False: it is not measured. */
    bool (*size)(const void *work, struct copse_size *out);
    /* Instead of the three members above: the name of the class, and the number of jobs. [NULL] */
    bool (*size_class)(const void *work, char name[COPSE_SIZE_CLASS]);
    size_t job_count;
    /* The job of a size: its work and its shapes; *out is zeroed, and its work is. */
    void (*job)(const struct copse_size *at, struct copse_tune_job *out);
    /* Operations for each element of in[0], by kind. [the job sets its number of them] */
    double operations[COPSE_KINDS];
    /* Whether the job is measured on a device with these limits. [every one] */
    bool (*takes_job)(const struct copse_limits *limits, const void *work);
    /* Adds the nodes of a job to a graph with its inputs. */
    copse_tensor *(*build)(copse_graph *g, const struct copse_tune_job *j, copse_tensor *const *in);
};
#define COPSE_VARIANTS(rows) .variants = (rows), .count = COPSE_COUNT(rows)

/* The size class in which the work is measured; false: it is not measured. */
COPSE_PRIVATE bool copse__size_class_of(const struct copse_family *f, const void *work,
                                        char name[COPSE_SIZE_CLASS]);
COPSE_PRIVATE size_t copse__tune_jobs(const struct copse_family *f);
/* The index-th job; *out is zeroed but for `work`, whose bytes are set. */
COPSE_PRIVATE void copse__tune_job(const struct copse_family *f, size_t index,
                                   struct copse_tune_job *out);

/* By name, NULL-terminated. The build generates it from the file names. */
extern COPSE_PRIVATE const struct copse_family *const copse_families[];
#define COPSE_MAX_FAMILIES 24

/* NULL = none. */
COPSE_PRIVATE const struct copse_family *copse__family(const char *name);
/* By its own name or its kernel's; NULL = none. */
COPSE_PRIVATE const struct copse_variant *copse__variant(const struct copse_family *f,
                                                         const char *name);
/* "matmul_wide". */
COPSE_PRIVATE const char *copse__variant_kernel(const struct copse_variant *v);

/* Sizes are grouped in classes: n belongs to the first of these sizes whose double is at least n,
   otherwise to the last one. */
uint32_t copse__size_class(const uint32_t *sizes, size_t count, uint32_t n);

/* ---- forced rows ---- */

/* A forced row, by name. */
struct copse_choice {
    const char *family, *variant;
};

struct copse_choices {
    struct copse_choice at[COPSE_MAX_FAMILIES]; /* names are static */
    size_t count;
};

/* "matmul=wide,column_sum=reduce" into *out; NULL = nothing is forced. COPSE_ERR_ARGUMENT: the text
   lists the valid names. */
copse_status copse__choices_parse(const char *kernels, struct copse_choices *out);
/* The same text from the choices, by family; "auto" if nothing is forced. Returns text. */
#define COPSE_CHOICES_TEXT 512
char *copse__choices_text(const struct copse_choices *c, char text[COPSE_CHOICES_TEXT]);

/* ---- the choice ---- */

/* The row for this work. COPSE_ERR_UNSUPPORTED: the device cannot run the forced row. */
copse_status copse__choose(const struct copse_lowering *l, const struct copse_family *f,
                           const void *work, const struct copse_variant **out);
/* Choose, and lower. */
copse_status copse__lower_variant(struct copse_lowering *l, const struct copse_family *f,
                                  const void *work);

#endif
