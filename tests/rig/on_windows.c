/* SPDX-License-Identifier: MIT */
/* fopen of tests for Windows reads and writes bytes. The runtime of mingw-w64 reads this variable. */
#include "tests/rig/on_windows.h"

extern int _CRT_fmode;
int _CRT_fmode = 0x8000; /* _O_BINARY */
