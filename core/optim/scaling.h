/* SPDX-License-Identifier: MIT */
/* Gradient scaling: the scale of losses, and which updates were skipped. */
#ifndef COPSE_SCALING_H
#define COPSE_SCALING_H

#include <stdbool.h>
#include <stdint.h>

#include "copse/status.h"

struct copse_optimizer;

#define COPSE_SCALING_TEXT 64

struct copse_scaling {
    float scale;      /* of the step under way; 0: off */
    uint32_t good;    /* updates in a row that were finite, since the scale was changed */
    uint64_t skipped; /* updates that were not */
    bool is_skipped;  /* the newest one is among them */
    bool has_updated, has_skipped; /* of a named optimizer: in the step under way */
};

/* The scale, or 1 where there is none. */
float copse__scaling_of(const struct copse_optimizer *o);
/* An update is decided: the sums of all replicas and workers were finite, or it is skipped. The
   scale changes. A step may update a named optimizer several times: its scale changes in
   copse__scaling_end. */
void copse__scaling_note(struct copse_optimizer *o, bool is_finite);
void copse__scaling_end(struct copse_optimizer *o);

/* State as text, "scale good skipped". COPSE_ERR_FORMAT: `text` is none. */
void copse__scaling_write(const struct copse_optimizer *o, char text[COPSE_SCALING_TEXT]);
copse_status copse__scaling_read(const char *path, const char *text, struct copse_scaling *out);
/* Take over what was read. Where this optimizer scales and that one did not, or the other way
   round, its own scale stays. */
void copse__scaling_set(struct copse_optimizer *o, const struct copse_scaling *from);

#endif
