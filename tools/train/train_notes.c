/* SPDX-License-Identifier: MIT */
/* Texts at the end of `copse train --help`. */
#include "tools/train/train.h"

const char train_note_strategies[] =
    "Strategies:\n"
    "  one_device        One replica: on the named device, or on the first of `auto` or `all`.\n"
    "                    No gradients are summed, and no step waits for another device.\n"
    "  mirrored          One synchronous replica on each device of this process: each gets a "
    "shard\n"
    "                    of every batch, gradients are summed, and all hold the same values.\n"
    "  collective        The same over several processes or machines: one synchronous replica on\n"
    "                    each device of every worker of the job, over MPI or Gloo.\n"
    "  parameter_server  Servers hold the variables; each worker trains on its own batches and "
    "does\n"
    "                    not wait for others. Without a job one device of this process serves.\n"
    "  accelerator       One replica on each core, several steps per submission. A device that is\n"
    "                    named n times has n cores. For short steps.";

const char train_note_lines[] =
    "Lines:\n"
    "  Each line is of an epoch. The first loss and accuracy are of its training examples, each\n"
    "  counted when its step trained on it: while the weights change and with dropout on. So they "
    "can\n"
    "  be worse than the held-out ones, which are of the weights after the epoch, without "
    "dropout.\n"
    "  With parameter servers the first are of the batches of the worker that prints. A resumed "
    "run\n"
    "  counts all examples of its first epoch. A terminal gets a line for every tenth of the run. "
    "A pipe\n"
    "  or a file gets all lines up to 40 epochs; of more epochs the first, the last of every "
    "twentieth\n"
    "  of the run, the best one so far before it, and one a minute. --verbose and --json have all.";
