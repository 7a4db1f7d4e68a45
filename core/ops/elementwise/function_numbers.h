/* SPDX-License-Identifier: MIT */
/* Numbers of the elementwise functions, as the kernels have them. */
#ifndef COPSE_FUNCTION_NUMBERS_H
#define COPSE_FUNCTION_NUMBERS_H

enum {
#define UNARY(name, number, ...)  UNARY_##name = number,
#define SCALED(name, number, ...) UNARY_##name = number,
#include "kernels/elementwise/unary.def"
#undef UNARY
#undef SCALED
};
enum {
#define BINARY(name, number, ...) BINARY_##name = number,
#define COMPARE(name, number, f)  BINARY_##name = number,
#include "kernels/elementwise/binary.def"
#undef BINARY
#undef COMPARE
};

#endif
