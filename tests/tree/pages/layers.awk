# SPDX-License-Identifier: MIT
# The network by calls, the built one with its table, the loss of the program; three runs of the command.
/^network: dense 64 relu; residual \{ layer_norm; dense 64 gelu; dense 64 \}; dense/ { networks++ }
/^total  *13,258$/ { tables++ }
/^loss / { sub(",", "", $2); losses += $2 < 0.3 && $4 > 0.9 }
/^epoch  *2\/2 / { runs++ }
END { exit !(networks == 2 && tables == 1 && losses == 1 && runs == 3) }
