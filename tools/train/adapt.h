/* SPDX-License-Identifier: MIT */
/* `copse train` of a language model: an adapter is trained on a text. */
#ifndef ADAPT_TOOL_H
#define ADAPT_TOOL_H

#include "copse/train/adapt.h"

#include "tools/train/bits.h"
#include "tools/train/hash_file.h"

#define ADAPT_UNSET UINT32_MAX /* of a count that was not given */

struct adapt_settings {
    const char *model, *data, *held_out, *save, *init, *devices, *schedule, *targets, *checkpoint;
    const char *date;     /* of conversations [NULL = the one in the model] */
    uint32_t rank;        /* 0: 8, or that of --init */
    float alpha, dropout; /* alpha 0: the default; below 0: not given */
    bool is_rank_stabilised, is_dora;
    uint32_t context;                               /* ADAPT_UNSET: not given */
    uint32_t batch, epochs, steps, every, patience; /* 0: the default */
    float lr;
    uint64_t seed, memory;
    uint32_t checkpoint_every; /* steps; ADAPT_UNSET: after each epoch */
    bool is_resume, saves_last, has_no_cross_check, is_json, is_quiet;
    struct hash_options hashes;
    struct bits_options bits;
    struct option_choice weights; /* values of copse_weights */
    struct session_how how;
    double part; /* of --held-out; below 0: a file; 0: none */
};

/* Why --save does not take NAME.gguf. */
extern const char adapt_no_dora[];
/* Whether the command line names a language model, or an option of adapters. */
bool adapt_is_meant(int argc, char **argv);
/* -1 to continue, else the exit code. (adapt_settings.c) */
int adapt_settings_parse(int argc, char **argv, struct adapt_settings *out);
/* The command. (adaptation.c) */
int train_adapter(int argc, char **argv);

#endif
