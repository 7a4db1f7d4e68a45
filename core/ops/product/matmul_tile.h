/* SPDX-License-Identifier: MIT */
/* Products in tiles for GPUs, of matrices and of convolutions: which tiles and how many parts of k a
   product gets. The parts depend on its shape alone, so that every device adds in the same order.
   Tiles are chosen by the number of compute units, too: they change no order. */
#ifndef COPSE_MATMUL_TILE_H
#define COPSE_MATMUL_TILE_H

#include "core/ops/product/product.h"

/* SHAPE of the kernel. */
enum copse_tile_shape {
    COPSE_TILE_LARGE, /* 128 x 128, an invocation has 8 x 8; the others 4 x 4 */
    COPSE_TILE_SMALL, /* 64 x 64 */
    COPSE_TILE_FLAT,  /* 32 x 128 */
    COPSE_TILE_THIN,  /* 128 x 32 */
    COPSE_TILE_SHAPES
};
#define COPSE_TILE_LEAST_GROUP 64u /* invocations; 256 where the device has them */

/* Rows and columns of a tile in groups of so many invocations. */
COPSE_PRIVATE void copse__tile_size(enum copse_tile_shape shape, uint32_t group, uint32_t *rows,
                                    uint32_t *cols);

struct copse_tile_choice {
    enum copse_tile_shape shape;
    uint32_t part, parts; /* terms of a part; parts of k */
};
/* The shape with the least time, estimated in multiply-adds of an invocation:
       rounds of groups * elements of a tile / share of multiply-adds in the kernel's loop
   where a round is a group on each compute unit. k > 0. */
struct copse_tile_choice copse__tile_choice(const struct copse_limits *limits,
                                            const struct copse_product *p);

/* How k is split: the least terms of a part, at least a chain, so that parts add no roundings; the
   most; and the most parts that a product gets because it has few tiles. */
struct copse_tile_split {
    uint32_t least, most, parts;
};
struct copse_tile_choice copse__tile_choice_of(const struct copse_limits *limits,
                                               const struct copse_product *p,
                                               struct copse_tile_split split);
/* Tiles of this shape in groups of so many invocations. */
uint64_t copse__tile_count(const struct copse_product *p, enum copse_tile_shape shape,
                           uint32_t group);
/* The largest number of roundings of a term (struct copse_law): of a part, and of `terms` in parts
   that are added one by one, for any number of parts that copse__tile_choice_of may choose. */
uint64_t copse__tile_part_roundings(uint64_t terms);
uint64_t copse__tile_roundings(uint64_t terms, struct copse_tile_split split);
/* The same where a part of `terms` has the roundings of `part`. */
uint64_t copse__parts_roundings(uint64_t terms, struct copse_tile_split split,
                                uint64_t (*part)(uint64_t terms));
/* The split of matmul_tile: whether its parts fit into the memory of a device, and the launch that
   adds them, from `parts` results of p->c; `kept` is z (product_end.h). */
extern const struct copse_tile_split copse__tile_split;
bool copse__parts_fit(const struct copse_limits *limits, const struct copse_product *p);
copse_status copse__join_parts(struct copse_lowering *l, const struct copse_product *p,
                               uint32_t parts, struct copse_operand from,
                               struct copse_operand kept);

bool copse__tile_fits(const struct copse_limits *limits, const struct copse_product *p);
/* `p` has operands of f32. */
copse_status copse__lower_tile(struct copse_lowering *l, const struct copse_product *p);

/* ---- matrix units: operands of 16 bits (matmul_cooperative.c) ---- */

bool copse__cooperative_fits(const struct copse_limits *limits, const void *work);
bool copse__cooperative_leads(const copse_device *dev, const void *work);
copse_status copse__lower_cooperative(struct copse_lowering *l, const void *work);
/* Rows and columns of a tile, for the constant FORM of the kernel. */
#define COPSE_COOPERATIVE_IN_EIGHTS   1 /* the rows of A; 2: the rows of B */
#define COPSE_COOPERATIVE_LARGE       4
#define COPSE_COOPERATIVE_LEAST_GROUP 128u /* invocations; 256 where the device has them */
static inline uint32_t copse__cooperative_tile(int32_t form)
{
    return form & COPSE_COOPERATIVE_LARGE ? 128 : 64;
}

#endif
