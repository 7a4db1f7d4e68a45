/* SPDX-License-Identifier: MIT */
/* `copse train` of a network in an ONNX file. */
#ifndef TRAIN_ONNX_H
#define TRAIN_ONNX_H

#include <stdbool.h>

/* Whether the command line names an ONNX file as --model. */
bool train_onnx_is_meant(int argc, char **argv);
/* The command; returns the exit code. */
int train_onnx(int argc, char **argv);

#endif
