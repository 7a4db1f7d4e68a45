# SPDX-License-Identifier: MIT
# `copse info` describes the file that the program of ten lines has written.
/ten-lines/ { found = 1 }
END { exit !found }
