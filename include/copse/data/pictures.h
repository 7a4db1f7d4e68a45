/* SPDX-License-Identifier: MIT */
/** @file Pictures: PNG and JPEG files as rows of a dataset, and changes of pictures while a network
 * is trained.
 *
 * copse_dataset_open reads a folder with one sub-folder for each class, a folder of pictures
 * without classes, or one picture. Hidden files are ignored; any other file must be a picture,
 * which is recognised by its content. Classes are the names of the sub-folders, rows are in the
 * order of classes and then of file names; both are sorted by bytes. "x" is u8: [height, width] if
 * all pictures are grey, as pictures of IDX files are, otherwise [height, width, 3], red first. The
 * network computes with x / 255.
 *
 * Without `resize` (data/source.h) all pictures must have one size. With it they are stretched to
 * the given size by a triangle filter (bilinear; when it shrinks, as wide as a pixel of the result)
 * in fixed-point numbers: all machines compute the same pixels. Exif orientation is applied.
 * Palettes, 1 to 4 bits and 16 bits become 8 bits; a palette of grey is grey. Refused: transparent
 * pixels, CMYK, JPEG with arithmetic coding, and what is damaged or cut off. Gamma and colour
 * profiles are not applied. A schema of grey pictures reads colour as grey, (19595 red + 38470
 * green + 7471 blue + 32768) / 65536.
 *
 * Limits: 32768 pixels a side and 2^26 pixels in a file; params.max_bytes, 8 GiB, does not apply. A
 * file that is too short for its pixels is refused before memory is allocated for them. The headers
 * of all files are read at once. If all pixels fit into `picture_bytes` they are decoded at once,
 * too, by up to 4 threads; otherwise as many as fit are kept, and the others are decoded in each
 * epoch, ahead of their batches. A file that is found damaged then fails copse_loader_next with
 * COPSE_ERR_FORMAT or COPSE_ERR_IO and its name.
 */
#ifndef COPSE_PUBLIC_DATA_PICTURES_H
#define COPSE_PUBLIC_DATA_PICTURES_H

#include "copse/data/source.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** Whether this library reads pictures: it was built with libpng and libjpeg. Otherwise opening one
    is COPSE_ERR_UNSUPPORTED. */
COPSE_API bool copse_pictures_are_read(void);

/** The file of a row, as a path. NULL: the row is not of a picture. Lifetime: as long as
    the dataset's. */
COPSE_API const char *copse_dataset_file(const copse_dataset *data, size_t row);

/**
 * Check a description of changes, copse_loader_params.augment: steps separated by `;`, each at
 * most once, applied in the order of this list.
 *
 *     flip          mirror left and right, every second picture
 *     crop P        cut out a part with 100 - P to 100 % of the sides, at any place, and stretch it
 *                   to the size of the picture, 1 to 90
 *     zoom P        enlarge to 100 - P to 100 + P % about the centre, 1 to 90
 *     rotate D      turn by -D to D whole degrees about the centre, 1 to 180
 *     shift N       move by -N to N pixels in both directions, 1 to 32767; pixels from outside are
 *                   0
 *     brightness P  multiply by 1 - P/100 to 1 + P/100 in steps of 1/100, 1 to 100; at most 255
 *
 *     erase P       set a rectangle of a pixel to P % of each side to 0, at any place, every second
 *                   picture, 1 to 100 (random erasing, AAAI 2020)
 *     mixup A       mix two neighbours of a batch by a part drawn from Beta(A, A), 0.01 to 1
 *                   (Zhang et al., ICLR 2018)
 *
 * crop, zoom and rotate are one bilinear interpolation; what is outside of the picture is 0.
 * mixup needs a class of each picture in column "y" (i32), batches of 2 or more, and a random
 * order. A batch gets two more columns: COPSE_MIXUP_LABEL (i32), the class of the other picture,
 * and COPSE_MIXUP_PART (f32, 0.5 to 1 in steps of 1/256), the part of its own. A pair gets one
 * part: of part and 1 - part the larger one, which makes the same two pictures. copse_model_loss
 * takes part * loss(y) + (1 - part) * loss(other); a loss function of the application does so
 * itself.
 *
 * They change column "x", which must be u8 [height, width] or [height, width, channels]. They
 * depend on seed, epoch and row alone, so that neither the number of threads and replicas nor a
 * resumed run changes them. mixup also depends on the size of the batch, which decides about the
 * neighbours, and its part on log and exp of the C library.
 * @retval COPSE_ERR_ARGUMENT  The description is wrong; the text names the step.
 */
COPSE_API COPSE_CHECKED copse_status copse_augment_check(const char *augment);

/** Columns that mixup adds. */
#define COPSE_MIXUP_LABEL "y_other"
#define COPSE_MIXUP_PART  "y_part"

#if defined(__cplusplus)
}
#endif
#endif
