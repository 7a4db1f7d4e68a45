/* SPDX-License-Identifier: MIT */
/* Layers: a tree of kinds with settings; once it is built, also with shapes and variables. A kind
   is a table of functions in a file of its own; layer_kinds.c lists the kinds. */
#ifndef COPSE_NN_LAYER_H
#define COPSE_NN_LAYER_H

#include "copse/nn/layers.h"
#include "core/base/base.h"

#define COPSE_LAYER_SETTINGS  10
#define COPSE_LAYER_VARIABLES 4
#define COPSE_LAYER_DEPTH     64    /* layers in braces within layers in braces */
#define COPSE_LAYER_MOST      10000 /* layers of a tree */
#define COPSE_LAYER_NAME      96    /* bytes of a layer in messages */

/* ---- settings ---- */

/* What a setting is in a description. */
enum copse_setting_form {
    COPSE_SETTING_COUNT,       /* a whole number from 1 to 2^31-1 */
    COPSE_SETTING_UNITS,       /* the same, or `out`: 0 */
    COPSE_SETTING_TOKENS,      /* the same, or `in`: 0 */
    COPSE_SETTING_SIDES,       /* 3x5: 3 << 16 | 5; or 3: 3. Each is 1 to 32767 */
    COPSE_SETTING_NUMBER,      /* a decimal number, low <= it < high */
    COPSE_SETTING_FLAG,        /* yes or no */
    COPSE_SETTING_CHOICE,      /* one of `names` */
    COPSE_SETTING_INITIALIZER, /* a name, or a number for a constant */
};

struct copse_setting_value {
    /* the flag, the index of the choice or the initializer (enum copse_layer_initializer), too */
    uint32_t count;
    float number; /* or the constant */
};

struct copse_setting {
    const char *name;
    enum copse_setting_form form;
    bool is_word; /* written by position, without "name=" */
    bool is_required;
    double low, high;                  /* of a number */
    const char *const *names;          /* of a choice, up to NULL */
    struct copse_setting_value normal; /* where it is not written */
};

enum copse_layer_initializer {
    COPSE_LAYER_INIT_AUTO,
    COPSE_LAYER_INIT_GLOROT,
    COPSE_LAYER_INIT_HE,
    COPSE_LAYER_INIT_NORMAL,
    COPSE_LAYER_INIT_TRUNCATED_NORMAL,
    COPSE_LAYER_INIT_ORTHOGONAL,
    COPSE_LAYER_INIT_ZEROS,
    COPSE_LAYER_INIT_ONES,
    COPSE_LAYER_INIT_CONSTANT, /* behind the names */
};

/* By enum copse_activation, up to NULL. */
extern const char *const copse__activation_names[];

/* Read a value of `size` bytes. False: it breaks the rule that copse__setting_rule states. */
bool copse__setting_parse(const struct copse_setting *s, const char *text, size_t size,
                          struct copse_setting_value *out);
void copse__setting_rule(const struct copse_setting *s, char *text, size_t room);
/* Write a value, NUL-terminated; the locale does not matter. */
void copse__setting_print(const struct copse_setting *s, struct copse_setting_value v, char *text,
                          size_t room);
/* COPSE_ERR_ARGUMENT for a value that a description could not give. */
copse_status copse__setting_check(const struct copse_setting *s, struct copse_setting_value v,
                                  const char *layer);
bool copse__setting_is_normal(const struct copse_setting *s, struct copse_setting_value v);
/* The automatic one of a weight: He for what keeps positive values alone (or nearly), Glorot for
   the others. */
copse_initializer copse__layer_initializer(copse_activation a);
/* The initializer of a variable; `automatic` for AUTO. `scale` 0: the initializer's own. */
void copse__setting_initialize(struct copse_setting_value v, copse_initializer automatic,
                               float scale, struct copse_variable_params *p);

/* ---- kinds ---- */

/* What flows from a layer to the next one: type and shape of one example; and the outputs and
   tokens of the whole tree. */
struct copse_flow {
    copse_type type;
    copse_shape shape;
    uint32_t outputs, tokens;
};

struct copse_layer_maker;

struct copse_layer_kind {
    const char *name;                                   /* NULL: layers in a row */
    struct copse_setting setting[COPSE_LAYER_SETTINGS]; /* up to the first without a name */
    bool has_inner;                                     /* contains layers */
    bool takes_all;                                     /* inputs of any type, else of `takes` */
    copse_type takes;
    /* Check the input and change it to the output; no variable is made. */
    copse_status (*infer)(copse_layer *l, struct copse_flow *f);
    /* variables; NULL: it has none */
    copse_status (*make)(copse_layer *l, const struct copse_layer_maker *m);
    copse_tensor *(*apply)(const copse_layer *l, copse_graph *g, const copse_batch *in,
                           copse_tensor *x);
    /* of an activation */
    copse_tensor *(*function)(copse_graph *g, copse_tensor *x);
};

extern const struct copse_layer_kind copse__layer_row, copse__layer_residual, copse__layer_shortcut,
    copse__layer_dense, copse__layer_embedding, copse__layer_positions, copse__layer_attention,
    copse__layer_glu, copse__layer_gru, copse__layer_lstm, copse__layer_rnn, copse__layer_flatten,
    copse__layer_layer_norm, copse__layer_rms_norm, copse__layer_batch_norm, copse__layer_dropout,
    copse__layer_group_norm, copse__layer_instance_norm, copse__layer_conv,
    copse__layer_conv_transposed, copse__layer_max_pool, copse__layer_average_pool,
    copse__layer_global_pool, copse__layer_adaptive_pool, copse__layer_resize,
    copse__layer_pixel_shuffle, copse__layer_prelu, copse__layer_squeeze,
    copse__layer_activations[]; /* without the linear one: [a - 1] */
/* Settings of `mlp:WIDTH,...`, which is a short form of other layers. */
extern const struct copse_layer_kind copse__layer_mlp;
/* Settings that others set. */
enum { COPSE_DENSE_UNITS, COPSE_DENSE_ACTIVATION };
enum { COPSE_DROPOUT_RATE };
enum { COPSE_MLP_ACTIVATION, COPSE_MLP_DROPOUT };
#define COPSE_LAYER_KINDS 64 /* at most */
/* All kinds that have a name, up to NULL. */
extern const struct copse_layer_kind *const copse__layer_kinds[];

/* ---- the tree ---- */

struct copse_layer {
    copse_refs refs;
    copse_context *ctx;
    const struct copse_layer_kind *kind;
    struct copse_setting_value value[COPSE_LAYER_SETTINGS];
    struct {
        copse_layer **at;
        size_t count, room;
    } inner;
    uint32_t line; /* in its description; 0: made by a call */
    /* a build sets: */
    uint32_t number;  /* in the tree, from 1; 0 of layers in a row */
    uint32_t ordinal; /* among the layers of its kind, from 1 */
    bool casts;       /* its input has a stored type and is converted to kind->takes */
    struct copse_flow in, out;
    uint64_t elements[2]; /* of its variables: trained, others */
    bool is_planned;      /* in the root: all but the variables is set */
    copse_variable *variable[COPSE_LAYER_VARIABLES];
    copse_type type;          /* of the input of the whole tree, in its root alone; as the next */
    copse_strategy *strategy; /* NULL: not built */
};

/* A layer with its normal settings and no inner ones. */
copse_status copse__layer_new(copse_context *ctx, const struct copse_layer_kind *kind,
                              copse_layer **out);
/* The body of a public constructor: the first `count` settings are given and checked. */
copse_status copse__layer_create(copse_context *ctx, const struct copse_layer_kind *kind,
                                 const struct copse_setting_value *values, uint32_t count,
                                 copse_layer **out);
/* Add a layer to the inner ones of `l`, which takes the reference over in any case. Of layers in a
   row all are added. */
copse_status copse__layer_append(copse_layer *l, copse_layer *inner);
/* The description alone, without what a build has made. */
copse_status copse__layer_copy(const copse_layer *l, copse_layer **out);
/* COPSE_ERR_ARGUMENT if the tree has too many layers, or is nested too deep. */
copse_status copse__layer_check(const copse_layer *l);

/* "line 2, layer 3 'dense 10'" in `text` of COPSE_LAYER_NAME bytes. */
char *copse__layer_where(const copse_layer *l, char *text);
/* Fail with a text that begins with that. */
copse_status copse__layer_fail(const copse_layer *l, copse_status code, const char *file, int line,
                               const char *fmt, ...) COPSE_PRINTF(5, 6);
#define copse_layer_fail(l, code, ...) copse__layer_fail(l, code, __FILE__, __LINE__, __VA_ARGS__)

/* ---- text (layer_print.c) ---- */

struct copse_layer_writer {
    char *text;      /* NULL: only `at` counts */
    size_t room, at; /* `at` may pass `room` */
};
void copse__layer_write(struct copse_layer_writer *w, const char *fmt, ...) COPSE_PRINTF(2, 3);
/* The settings of one layer, each behind a blank. */
void copse__layer_write_settings(struct copse_layer_writer *w, const copse_layer *l);
/* What a function with `room` and `needed` returns for a complete text. */
copse_status copse__layer_written(const struct copse_layer_writer *w, const char *what,
                                  size_t *needed);

/* ---- building (layer_build.c) ---- */

struct copse_layer_maker {
    copse_strategy *strategy;
    const char *scope; /* "" = none */
    uint64_t seed;
    /* only check that the variables can be made, and count; `strategy` may be NULL */
    bool is_trial;
};
/* The first `count` inner layers, one behind the other. */
copse_status copse__layers_infer(copse_layer *l, size_t count, struct copse_flow *f);
/* Variable `i` of a layer, "dense1.<part>"; `p` has all but name and seed. */
copse_status copse__layer_variable(copse_layer *l, const struct copse_layer_maker *m, uint32_t i,
                                   const char *part, const struct copse_variable_params *p);

/* ---- applying (layer_apply.c) ---- */

/* The first `count` inner layers, one behind the other. */
copse_tensor *copse__layers_apply(const copse_layer *l, size_t count, copse_graph *g,
                                  const copse_batch *in, copse_tensor *x);
/* Variable `i` as an operand; NULL: the layer has none. */
copse_tensor *copse__layer_tensor(const copse_layer *l, uint32_t i);
/* COPSE_ERR_ARGUMENT if the layers are not built, COPSE_ERR_SHAPE if they were built for other
   inputs. */
copse_status copse__layer_check_input(const copse_layer *l, const copse_tensor *x);

#endif
