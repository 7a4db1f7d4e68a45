/* SPDX-License-Identifier: MIT */
/* The main loop of a shader in AMD's assembly: what it has under way, and how much of it multiplies. */
#ifndef MAIN_LOOP_H
#define MAIN_LOOP_H

#include <stdbool.h>

struct main_loop {
    unsigned instructions; /* 0: it does not read memory, or not in a loop that multiplies */
    unsigned fused;        /* multiply-adds of f32 */
    unsigned words;        /* most words of 32 bits that loads from memory have under way at once */
};

/* Of the loops that read memory, and with `multiplies` have multiply-adds, and contain no other such
   loop: the one with the most multiply-adds, then with the most loads. A shader without such loops
   is one. */
void find_main_loop(const char *assembly, bool multiplies, struct main_loop *out);

/* The part of the instructions that are multiply-adds, in percent, rounded down. */
unsigned fused_share(const struct main_loop *loop);

/* Checks find_main_loop with texts; prints what is wrong. */
bool main_loop_is_found(void);

#endif
