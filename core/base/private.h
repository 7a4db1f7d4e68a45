/* SPDX-License-Identifier: MIT */
/* Internal functions and tables that libcopse exports for the library copse-conformance (prover/),
   and for nothing else: they are no API, and they change from build to build. COPSE_PRIVATE on a
   declaration means: the prover uses it. tests/tree/symbols.sh fails if it does not. */
#ifndef COPSE_PRIVATE_H
#define COPSE_PRIVATE_H

#include "copse/status.h"

#define COPSE_PRIVATE COPSE_API

/* Version and layout of this libcopse: "0.1.0 (layout 5f2c91aa)". The layout is a digest of the
   headers of core/ and include/ and of the generated ones. The prover compares it with its own
   before it uses anything else (prover/conformance/verdict/library.h). */
COPSE_PRIVATE const char *copse__build(void);

#endif
