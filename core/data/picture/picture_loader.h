/* SPDX-License-Identifier: MIT */
/* The rows of a column of pictures: files that are decoded. */
#ifndef COPSE_DATA_PICTURE_LOADER_H
#define COPSE_DATA_PICTURE_LOADER_H

#include "core/data/array.h"
#include "core/data/picture/picture_list.h"
#include "core/data/row_source.h"

/* All pictures, decoded now by several threads: U8 [pictures, height, width, channels], without the
   last axis if it is 1. */
copse_status copse__pictures_decode(struct copse_picture_list *list,
                                    const struct copse_picture_shape *shape, copse_array **out);

/* Pictures that are decoded when they are read or announced, by `threads` threads. At most `kept`
   bytes of the first ones stay in memory; the others are decoded whenever they are read. */
copse_status copse__picture_loader_create(struct copse_picture_list *list,
                                          const struct copse_picture_shape *shape, uint32_t threads,
                                          size_t kept, struct copse_row_source **out);

#endif
