/* SPDX-License-Identifier: MIT */
/* Gloo as C: a mesh of TCP connections, and messages over them. No exception leaves the shim, and
   no function raises SIGPIPE. */
#ifndef COPSE_GLOO_SHIM_H
#define COPSE_GLOO_SHIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHIM_ADDRESS_BYTES 192 /* room for the address of one end of a connection */

struct shim_mesh;
struct shim_message;

/* Connections to every other rank on `host`, not open yet; connecting takes up to `timeout_ms` for
   each. NULL: see `text`. */
struct shim_mesh *shim_mesh_open(const char *host, int rank, int size, int64_t timeout_ms,
                                 char *text, size_t room);
/* Open them: each listens, and takes the first that connects. 0: see `text`. */
int shim_mesh_listen(struct shim_mesh *mesh, char *text, size_t room);
/* Address of the end towards `peer`, zero-padded. 0: see `text`. */
int shim_mesh_address(struct shim_mesh *mesh, int peer, void *bytes, char *text, size_t room);
/* Connect the end towards `peer` with the peer's end. 0: see `text`. */
int shim_mesh_connect(struct shim_mesh *mesh, int peer, const void *bytes, char *text, size_t room);
/* Close all connections, once what was sent has been handed to the system. */
void shim_mesh_close(struct shim_mesh *mesh);

/* NULL: see `text`. */
struct shim_message *shim_send(struct shim_mesh *mesh, int peer, uint64_t tag, const void *bytes,
                               size_t size, char *text, size_t room);
struct shim_message *shim_recv(struct shim_mesh *mesh, int peer, uint64_t tag, void *bytes,
                               size_t size, char *text, size_t room);
/* 1: done, 0: not yet, -1: the connection is broken, see `text`. What is done already is never 0.
   In ms, rounded up. */
int shim_wait(struct shim_message *m, int64_t timeout_ns, char *text, size_t room);
int shim_peer(const struct shim_message *m);
void shim_free(struct shim_message *m); /* done or not */

#ifdef __cplusplus
}
#endif
#endif
