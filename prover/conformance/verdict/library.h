/* SPDX-License-Identifier: MIT */
/* The check that this library runs with the libcopse of its own build. It uses functions and
   structs of libcopse that are no API (core/base/private.h), so that any other libcopse is
   refused. */
#ifndef COPSE_CONFORMANCE_LIBRARY_H
#define COPSE_CONFORMANCE_LIBRARY_H

#include "copse/status.h"

/* COPSE_ERR_UNSUPPORTED, with both versions, for a libcopse of another build. Every public function
   of this library that uses more of libcopse than its errors calls it first, unless its caller has
   results or a job of this library. */
copse_status copse__conform_library(void);

#endif
