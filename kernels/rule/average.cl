/* SPDX-License-Identifier: MIT */
/* mean += weight (value - mean): moving averages of the variables, stored in the slots from element `at` on. */
GROUP(64, 1)
SPEC(0, PER)
SPEC(1, RUNS)
PARAMS(uint n; uint at;)
#include "stream.clh"

KERNEL3(average, IN(real, value), OUT(real, slots), IN(uint, step))
{
    const float weight = AS_FLOAT(step[11]);
    STREAM(i, p.n)
    {
        EXACT float mean = LOAD(slots, p.at + i);
        EXACT float change = LOAD(value, i) - mean;
        mean = mean + weight * change;
        STORE(slots, p.at + i, mean);
    }
}
