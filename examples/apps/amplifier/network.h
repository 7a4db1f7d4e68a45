/* SPDX-License-Identifier: MIT */
/* The network: dilated causal convolutions with gated units, as the WaveNet of Neural Amp
   Modeler. */
#ifndef AMPLIFIER_NETWORK_H
#define AMPLIFIER_NETWORK_H

#include "copse/copse.h"

enum {
    CHANNELS = 8,
    TAPS = 3,
    LAYERS = 10,                                  /* dilations 1, 2, 4 .. 512 */
    FIELD = 1 + (TAPS - 1) * ((1 << LAYERS) - 1), /* samples that one sample of the output needs */
};

/* An array of a network, in the order of a .nam file. */
struct part {
    copse_variable *v; /* NULL: zeros that no output depends on */
    uint32_t taps, in, out;
};

struct network {
    struct part rechannel;
    struct layer {
        struct part conv, conv_bias; /* both halves of the gated units: tanh, then sigmoid */
        struct part mix;             /* of the dry signal */
        struct part out, out_bias;   /* to the next layer */
    } layers[LAYERS];
    struct part head, head_bias;
    float scale; /* the network computes the wet signal divided by this */
    /* what the loss function needs */
    float emphasised_power; /* mean square of the divided signal after pre-emphasis */
    float spectral_weight;  /* 0: the loss has no spectral part */
};

/* Make the variables. `level`: root mean square of the dry signal. */
copse_status network_build(copse_strategy *st, uint64_t seed, double level, struct network *n);

/* Call `each` with every part, in the order of a .nam file, until it returns an error. */
copse_status network_parts(struct network *n, void *user,
                           copse_status (*each)(void *user, struct part *p));

/* A copse_predict_fn of the input "dry", [FIELD - 1 + samples]: [examples, samples]. */
copse_tensor *network_predict(copse_graph *g, const copse_batch *in, void *network);

/* A copse_loss_fn of the inputs "dry" and "wet", [samples] divided by `scale`: esr + emphasised +
   spectral_weight spectral. It reports these:
   esr         error-to-signal ratio: mean square of the error, divided by the mean square of the wet signal
   emphasised  the same after pre-emphasis
   spectral    of frames of 128, 512 and 2,048 samples: spectral convergence, and the mean
               difference of the logarithms of magnitudes
   Means over all examples are ratios of the whole signal, and a silent example divides nothing by
   0. */
copse_tensor *network_loss(copse_graph *g, const copse_batch *in, void *network);

/* A copse_predict_fn of the inputs "output" and "wet", [samples] divided by `scale`: these three
   numbers for one example. */
copse_tensor *network_compare(copse_graph *g, const copse_batch *in, void *network);

/* y(t) = x(t) - EMPHASIS x(t - 1) is the pre-emphasis. */
#define EMPHASIS 0.85f

#endif
