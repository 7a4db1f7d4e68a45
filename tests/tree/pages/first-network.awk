# SPDX-License-Identifier: MIT
# Two runs, each with the accuracy of the trained and of the reloaded network: four equal ones above 0.9.
/^accuracy / { a[++n] = $2 }
END { exit !(n == 4 && a[1] > 0.9 && a[1] == a[2] && a[3] == a[4] && a[1] == a[3]) }
