/* SPDX-License-Identifier: MIT */
/* Results of convolutions as numbers, computed by NumPy from padded copies of x (transposed: by
   adding each product at its place). */
#ifndef COPSE_CORE_OPS_CONV_WANTED_H
#define COPSE_CORE_OPS_CONV_WANTED_H

static const double conv_x[] = { 1, -2, 3, 0, 2, -1, 4, -3, 1, 2, -4 },
                    conv_w[] = { 2, -1, 0, 1, 3, -2, 1 };

#define CONV_X_1 (1, 4, 3, 2)
#define CONV_W_1 (3, 2, 2, 2)
static const double conv_wanted_1[] = { /* [1, 2, 4, 2] */
                                        -19, 9, -8, -8, 0, -9, 0, 0, 31, 1, -6, 24, -9, 22, 0, 0
};
#define CONV_X_2 (1, 4, 5, 1)
#define CONV_W_2 (2, 3, 1, 2)
static const double conv_wanted_2[] = { /* [1, 4, 3, 2] */
                                        -1, 17, 4, 16,  -1, 4,  17, -6, 17,  2,  5,  7,
                                        0,  -9, 3, -20, 2,  -9, -3, 4,  -11, 11, -6, 4
};
#define CONV_X_3 (1, 5, 3, 4)
#define CONV_W_3 (2, 2, 2, 4)
static const double conv_wanted_3[] = { /* [1, 3, 2, 4] */
                                        -6, 20, 3, 17, -9, -13, 0,  -16, -1, -6, -10, -6,
                                        14, -7, 2, 3,  12, -5,  27, -10, 7,  -1, -7,  6
};
#define CONV_X_4 (1, 2, 3, 2)
#define CONV_W_4 (3, 2, 2, 2)
static const double conv_wanted_4[] = { /* [1, 4, 6, 2] */
                                        -3, -6, -6,  3,   -3, 0,  -6, 3,  -3,  -3, -6, 3,
                                        2,  -2, 12,  -12, 2,  4,  8,  8,  -11, 9,  -8, 14,
                                        -7, -9, -14, 7,   1,  6,  2,  -1, 5,   3,  10, -5,
                                        -9, 10, 7,   8,   6,  -3, -1, 2,  3,   -6, -5, -8
};
#define CONV_X_5 (1, 2, 2, 1)
#define CONV_W_5 (3, 4, 1, 2)
static const double conv_wanted_5[] = { /* [1, 4, 6, 2] */
                                        2,  -1, 0, 1, 3,  -2, -3, 4,  0,  -2, -6, 4,
                                        -1, 0,  1, 3, -2, 1,  4,  -1, -2, -6, 4,  -2,
                                        6,  -2, 3, 1, 10, -4, 2,  4,  -6, 4,  -2, -4,
                                        -3, 0,  3, 9, -6, 3,  6,  -3, 0,  0,  0,  0
};
#define CONV_X_6 (2, 7, 2)
#define CONV_W_6 (3, 2, 2)
static const double conv_wanted_6[] = { /* [2, 4, 2] */
                                        -2, -9, 8, -3, 14, 8, -1, 11, 6, 7, -11, 4, -8, -5, 7, -9
};

#endif
