/* SPDX-License-Identifier: MIT */
/* How long a server has heard nothing of a worker, and when it has waited long enough. */
#ifndef COPSE_SILENCE_H
#define COPSE_SILENCE_H

#include "core/comm/beat.h"

struct copse_silence {
    struct copse_parcel parcel; /* of the next beat */
    struct copse_beat beat;
    bool has_beaten; /* else it never will, and nothing is made of its silence */
    bool has_warned;
    uint64_t ns; /* in which this process could have heard it */
};

/* Ask for the first beat. */
copse_status copse__silence_begin(copse_cluster *c, uint32_t worker, struct copse_silence *s);
/* It has made a request. */
void copse__silence_break(struct copse_silence *s);
/* `passed` since the last look. COPSE_ERR_TIMEOUT with text: it has been silent for the
   cluster's deadline. At warn_ns a line goes to the log. */
copse_status copse__silence_look(copse_cluster *c, uint32_t worker, struct copse_silence *s,
                                 uint64_t passed);
void copse__silence_end(copse_cluster *c, struct copse_silence *s);

#endif
