# SPDX-License-Identifier: MIT
# `copse info` describes the file that the program has written.
/trained/ { found = 1 }
END { exit !found }
