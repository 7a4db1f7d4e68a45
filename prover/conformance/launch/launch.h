/* SPDX-License-Identifier: MIT */
/* Mode launch: every kernel of the kernel table without a graph, over launch regimes and classes of
   values. A form is one way to launch a kernel: specialisation constants, sizes by the number of
   groups, contents of the buffers, the tolerance. The cases of a kernel are the product of its
   forms, the regimes and the classes. */
#ifndef COPSE_CORE_CONFORMANCE_LAUNCH_H
#define COPSE_CORE_CONFORMANCE_LAUNCH_H

#include "core/graph/op.h"
#include "prover/conformance/rig/fence.h"
#include "prover/conformance/verdict/mode.h"
#include "prover/conformance/verdict/value_class.h"

/* How many groups a launch has. */
enum copse_regime {
    COPSE_REGIME_ONE,  /* one group, partly used */
    COPSE_REGIME_FEW,  /* 3 groups, all used */
    COPSE_REGIME_TAIL, /* 5 groups, one invocation of the last one used */
    /* 32 groups, one invocation of the last one not used: the elements are one less than a multiple
       of 1,024 where a group has 32, 64, ... of them. Settings differ from the other regimes' */
    COPSE_REGIME_SHORT,
    COPSE_REGIME_MANY, /* up to 1021 groups, the last one partly used */
    COPSE_REGIME_AXIS, /* more groups than 65,535, which is the limit of an axis on many devices */
    COPSE_REGIME_COUNT
};
#define COPSE_AXIS_GROUPS 65535u

extern const char *const copse_regime_names[COPSE_REGIME_COUNT];

/* Initial content of a buffer. */
enum copse_content {
    COPSE_CONTENT_RESULT = 0, /* f32 result: poison */
    COPSE_CONTENT_WORDS,      /* i32 result: poison */
    COPSE_CONTENT_VALUES,     /* f32 of the class */
    COPSE_CONTENT_USUAL,      /* usual f32 */
    COPSE_CONTENT_WHOLE,      /* i32 of the class */
    COPSE_CONTENT_INDEX,      /* i32 below `range`; class edges: also the first ones out of range */
    COPSE_CONTENT_STEP,       /* the step buffer of an optimizer */
    COPSE_CONTENT_ARRANGED,   /* i32 that `arrange` sets */
};

struct copse_launch {
    const struct copse_launch_form *form;
    enum copse_regime regime;
    enum copse_values values;
    int32_t spec[COPSE_MAX_SPECS];
    uint32_t group_x, group_y, per; /* per: elements of an invocation, for kernels with streams */
    uint64_t want;                  /* groups */
    uint64_t seed;
    /* Set by the plan: */
    uint32_t params[COPSE_MAX_PARAM_WORDS];
    uint64_t groups;
    uint32_t grid[2]; /* of groups; 0: `groups`, along one axis as long as it fits */
    size_t counts[COPSE_MAX_BINDINGS]; /* words */
    uint32_t range;                    /* of indices */
};

/* A function of one number, or its derivative times a slope. */
enum copse_every_what { COPSE_EVERY_NOTHING, COPSE_EVERY_VALUE, COPSE_EVERY_DERIVATIVE };

#define COPSE_ALL_VALUES  (COPSE_BIT(COPSE_VALUES_COUNT) - 1u)
#define COPSE_ALL_REGIMES (COPSE_BIT(COPSE_REGIME_COUNT) - 1u)
/* Integers have no NaN, infinity or subnormal number. */
#define COPSE_WHOLE_VALUES                                           \
    (COPSE_BIT(COPSE_VALUES_USUAL) | COPSE_BIT(COPSE_VALUES_ZEROS) | \
     COPSE_BIT(COPSE_VALUES_EXTREMES) | COPSE_BIT(COPSE_VALUES_EDGES))

struct copse_launch_form {
    enum copse_kernel_id kernel;
    const char *name; /* unique among the kernel's forms; "" for the only one */
    int32_t spec[COPSE_MAX_SPECS];
    uint8_t contents[COPSE_MAX_BINDINGS]; /* enum copse_content */
    void (*plan)(struct copse_launch *l);
    /* Sets words that depend on others, after the contents were filled.            [NULL] */
    void (*arrange)(const struct copse_launch *l, uint32_t *const *words);
    bool is_proven; /* the ratio comes from core/device/kernel/sum_bound.h */
    /* largest finite magnitude, so that no intermediate result overflows [0 = none] */
    float cap;
    /* invocations that a group needs [1] */
    uint32_t least_group;
    bool is_stream; /* spec[0] and spec[1] are PER and RUNS of kernels/stream.clh */
    bool is_single; /* the truth takes float, not double */
    bool is_rare;   /* one special value spoils many results: fewer of them */
    bool is_long;   /* lines of COPSE_LONG_LINE elements: see COPSE_LONG */
    /* the sign of a zero counts in class zeros, too, though the limit is not zero */
    bool has_zero_signs;
    /* why it does not, where the limit is ULPs alone [NULL] */
    const char *zero_why;
    bool is_poor; /* equal results are meant */
    /* a device that flushes may flush the square of an operand and so change the result */
    bool has_squares;
    /* a product of operands may be too small for f32, on every device; times infinity it is NaN */
    bool underflows;
    bool keeps_subnormals; /* the kernel computes with integers: exact also on devices that flush */
    copse_conformance_tier tier;
    /* tier exhaustive runs its function for all bit patterns (every.h) [COPSE_EVERY_NOTHING] */
    enum copse_every_what every;
    /* classes that are not mixed with others: a launch of their own in every regime */
    unsigned apart;
    /* Cells that cannot exist, with the reason. 0 = every one can. */
    unsigned no_regimes, no_values;
    const char *why;
};

/* A form with lines of 65 tiles of 64 elements and one element, for the regime of few groups. */
#define COPSE_LONG_LINE 4161u
#define COPSE_LONG      .is_long = true, COPSE_FEW_ALONE
#define COPSE_FEW_ALONE .no_regimes = COPSE_ALL_REGIMES & ~COPSE_BIT(COPSE_REGIME_FEW)

/* Elements of a launch with `each` elements to a group. */
uint64_t copse__launch_extent(const struct copse_launch *l, uint64_t each); /* launch_values.c */
/* The limit of a form, from the law of its kernel; all zero: the same bits, including the sign of
   zero. */
struct copse_case_limit copse__launch_limit(const struct copse_launch_form *f);

static inline uint32_t copse__launch_group(const struct copse_launch *l)
{
    return l->group_x * l->group_y;
}
/* A setting, and the other one of regime `short`: a kernel that ignores a setting agrees with the
   first one only by chance. */
static inline float copse__launch_either(const struct copse_launch *l, float usual, float other)
{
    return l->regime == COPSE_REGIME_SHORT ? other : usual;
}
/* One number of the class, for kernels whose number is a parameter. */
float copse__launch_number(const struct copse_launch *l);
/* Set the words of buffer `arg` to numbers of the class of 16 bits, two in a word. */
void copse__launch_halves(const struct copse_launch *l, uint32_t arg, bool is_bfloat,
                          uint32_t *words);
/* Terms of sums of products whose roundings go the same way. Rows of operand 0 have `row` elements.
   Every other row has ones; the rows between have a 1 and numbers that are lost when they are added
   to it. Operand 1 has one number for each of `columns`. With halves, two in a word, the elements
   of each row are equal. */
void copse__launch_any(const struct copse_launch *l, uint32_t *const *words, size_t row,
                       size_t columns);
void copse__launch_any_halves(const struct copse_launch *l, bool is_bfloat, uint32_t *const *words,
                              size_t row, size_t columns);
int32_t copse__launch_whole(const struct copse_launch *l);

/* Plan a launch with regime and values set. Where many groups are too large, there are fewer of
   them; where an axis of groups is, they are smaller: *limits, those of the device, get the lower
   ones. Returns the bytes of all buffers. */
size_t copse__launch_size(struct copse_launch *l, struct copse_limits *limits);

/* The plan's result: COPSE_LAUNCH_PLAN(l, params, groups, words of each buffer...). */
#define COPSE_LAUNCH_PLAN(l, p, groups_, ...)         \
    do {                                              \
        const size_t counts_[] = { __VA_ARGS__ };     \
        memcpy((l)->params, &(p), sizeof(p));         \
        memcpy((l)->counts, counts_, sizeof counts_); \
        (l)->groups = (groups_);                      \
    } while (0)

/* The initial content of buffer `arg` (launch_values.c). */
void copse__launch_fill(const struct copse_launch *l, uint32_t arg, uint32_t *words);
void copse__launch_step(const struct copse_launch *l, uint32_t *words, size_t count);
bool copse__content_is_real(uint8_t content);

#define COPSE_LAUNCH_POISON 0xffffdeadu /* a NaN */

/* The buffers of a launch on a device, each between guards, and their words before and after it
   (mode_launch.c). */
#define COPSE_LAUNCH_BAND COPSE_ALIGNMENT
struct copse_launch_rig {
    copse_queue *queue;
    copse_device *dev;
    struct copse_fenced buffers[COPSE_MAX_BINDINGS];
    uint32_t *before[COPSE_MAX_BINDINGS], *after[COPSE_MAX_BINDINGS]; /* with bands */
};
copse_status copse__launch_open(struct copse_conform_run *r, copse_device *dev,
                                const struct copse_launch *l, uint32_t arg_count,
                                struct copse_launch_rig *g);
/* Write the buffers, launch, read them. */
copse_status copse__launch_run(const struct copse_launch *l, struct copse_kernel *k,
                               struct copse_launch_rig *g);
void copse__launch_check_untouched(const struct copse_launch *l, const struct copse_kernel_row *row,
                                   const struct copse_launch_rig *g,
                                   struct copse_conform_outcome *out);
/* Also after copse__launch_open failed. */
void copse__launch_close(struct copse_conform_run *r, struct copse_launch_rig *g);
static inline uint32_t *copse__launch_words(uint32_t *with_bands)
{
    return with_bands + COPSE_LAUNCH_BAND / COPSE_WORD_BYTES;
}

/* What the cases of a kernel cannot tell of its forms: which parameter is the length of the line
   (row, chain, keys of a query) that an invocation, or a group, walks. */
struct copse_launch_line {
    enum copse_kernel_id kernel;
    uint32_t word;        /* 1 + the parameter [0: none] */
    const char *no_line;  /* why no case has a long line [NULL] */
    const char *no_flags; /* why not every combination of flags has a case [NULL] */
};
#define COPSE_WALKS_NONE "an invocation walks no line"

/* Forms of a family, each in one file, with a line for each of its kernels, but for kernels of
   streams; the last list is NULL. */
struct copse_launch_list {
    const struct copse_launch_form *forms;
    size_t count;
    const struct copse_launch_line *lines;
    size_t line_count;
};
extern const struct copse_launch_list copse_launch_elementwise, copse_launch_moves,
    copse_launch_optim, copse_launch_sums, copse_launch_rows, copse_launch_held, copse_launch_sorts,
    copse_launch_products, copse_launch_panels, copse_launch_convs, copse_launch_pools,
    copse_launch_channels, copse_launch_attention, copse_launch_recurrent, copse_launch_decoders,
    copse_launch_blocks;
extern const struct copse_launch_list *const copse_launch_lists[];

/* What the cases of a kernel must have besides the launch sizes and classes of values
   (launch_classes.c). */
enum copse_launch_class {
    COPSE_CLASS_LONG,     /* lines (rows, keys, chains) of more than 2,048 elements */
    COPSE_CLASS_PAST,     /* lines of more than 4,097 elements, 64 k + 1 of them */
    COPSE_CLASS_FLAGS,    /* every combination of flags; in lines of more than 64 elements */
    COPSE_CLASS_SETTINGS, /* two values of every setting, so that its effect shows */
    COPSE_CLASS_FIRST_STEP,
    COPSE_CLASS_FEW_STEPS,
    COPSE_CLASS_LATE_STEPS, /* of a number above 1,000 */
    COPSE_CLASS_ZERO_SIGNS, /* zeros of both signs, in every form, whose signs are compared */
    COPSE_LAUNCH_CLASS_COUNT
};
#define COPSE_ANY_REGIME "any" /* of their cells of the coverage table */
extern const char *const copse_class_names[COPSE_LAUNCH_CLASS_COUNT];

struct copse_class_cell {
    uint32_t case_count; /* 0: none, or `missing` says what they lack */
    copse_conformance_tier tier;
    char names[256], missing[96];
    const char *why; /* there can be none [NULL] */
};
void copse__launch_classes(const struct copse_launch_list *const *lists,
                           enum copse_kernel_id kernel,
                           struct copse_class_cell cells[COPSE_LAUNCH_CLASS_COUNT]);

/* Every case of the mode. Its name lives during the call. */
struct copse_launch_case {
    const struct copse_launch_form *form;
    enum copse_regime regime;
    enum copse_values values;
    copse_conformance_tier tier; /* the lowest one that runs it */
    char name[80];
};
typedef void copse_launch_case_fn(void *user, const struct copse_launch_case *c);
void copse__launch_cases(const struct copse_launch_list *const *lists, copse_launch_case_fn *visit,
                         void *user);
void copse__launch_cases_of(const struct copse_launch_list *const *lists,
                            enum copse_kernel_id kernel, copse_launch_case_fn *visit, void *user);
/* copse_conformance_coverage with other forms than the library's, for tests (coverage.c). */
void copse__launch_coverage(const struct copse_launch_list *const *lists, copse_coverage_fn *visit,
                            void *user);

/* The words before and after a launch, and its expected results (launch_judge.c). */
struct copse_launch_image {
    const struct copse_launch *launch;
    const struct copse_case_limit *limit; /* of a user's kernel [the form's] */
    const struct copse_kernel_row *row;   /* of the library */
    uint32_t *before[COPSE_MAX_BINDINGS], *after[COPSE_MAX_BINDINGS];
};
copse_status copse__launch_judge(struct copse_conform_run *r,
                                 const struct copse_launch_image *image, bool keeps_subnormals,
                                 struct copse_conform_outcome *out);

/* The mode. */
copse_status copse__conform_launch(struct copse_conform_run *r);
/* The cases of a user's launch: one for each class of values, and repeated ones (own_cases.c). */
copse_status copse__own_launch_cases(struct copse_conform_run *r);

#endif
