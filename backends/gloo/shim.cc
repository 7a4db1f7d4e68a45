// SPDX-License-Identifier: MIT
// Gloo as C. A wait of Gloo's whose time is up closes every connection of its buffer's context; so our buffers
// belong to a context that has none, and are handed to the connections of another. Another thread that calls a
// wait off would do so before the wait has seen what is there as well as after.
#include "shim.h"

#include <signal.h>
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>

#include <gloo/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

namespace tcp = gloo::transport::tcp;

namespace {

// While it lives, writing to a closed connection raises no signal in this thread; threads that start
// meanwhile have SIGPIPE blocked for good.
class NoSigpipe {
 public:
    NoSigpipe() {
        sigset_t pending;
        sigpending(&pending);
        was_pending_ = sigismember(&pending, SIGPIPE) == 1;
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe_, &old_);
    }
    ~NoSigpipe() {
        const struct timespec none = {0, 0};
        if (!was_pending_)
            while (sigtimedwait(&pipe_, nullptr, &none) == SIGPIPE) {
            }
        pthread_sigmask(SIG_SETMASK, &old_, nullptr);
    }
    NoSigpipe(const NoSigpipe &) = delete;
    NoSigpipe &operator=(const NoSigpipe &) = delete;

 private:
    sigset_t pipe_, old_;
    bool was_pending_;
};

using Buffer = gloo::transport::UnboundBuffer;

class Mesh : public gloo::Context {
 public:
    Mesh(std::shared_ptr<gloo::transport::Device> device, int rank_in, int size_in,
         std::chrono::milliseconds timeout)
        : gloo::Context(rank_in, size_in) {
        device_ = device;
        transportContext_ = device->createContext(rank_in, size_in);
        transportContext_->setTimeout(timeout / 5); // Gloo waits for 5 of these
        unconnected_ = device->createContext(rank_in, size_in);
    }
    void listen() {
        for (int i = 0; i < size; i++)
            if (i != rank)
                transportContext_->createPair(i);
    }
    // Gloo's thread may still hold a buffer for an instant after it is done, and whoever frees it
    // meanwhile sleeps for milliseconds. So the newest ones that are done live on for a while.
    void bury(std::unique_ptr<Buffer> buffer) {
        buried_.push_back(std::move(buffer));
        if (buried_.size() > 64)
            buried_.pop_front();
    }
    std::deque<std::unique_ptr<Buffer>> buried_;
    std::shared_ptr<gloo::transport::Context> unconnected_; // of the buffers
};

void set_text(char *text, size_t room, const char *what) {
    std::snprintf(text, room, "%s", what);
}

// Runs `body`, with what it throws in `text`.
template <typename Body, typename Result>
Result guarded(Result failed, char *text, size_t room, Body body) {
    NoSigpipe quiet;
    try {
        return body();
    } catch (const std::exception &e) {
        set_text(text, room, e.what());
    } catch (...) {
        set_text(text, room, "unknown exception");
    }
    return failed;
}

}  // namespace

struct shim_mesh {
    std::shared_ptr<Mesh> mesh;
};

struct shim_message {
    std::unique_ptr<Buffer> buffer;
    std::shared_ptr<Mesh> mesh;
    int peer;
    bool is_send, is_done;
};

shim_mesh *shim_mesh_open(const char *host, int rank, int size, int64_t timeout_ms, char *text,
                          size_t room) {
    return guarded(static_cast<shim_mesh *>(nullptr), text, room, [&] {
        const tcp::attr attr(host);
        auto device = tcp::CreateDevice(attr);
        auto mesh = std::make_shared<Mesh>(device, rank, size,
                                           std::chrono::milliseconds(timeout_ms));
        return new shim_mesh{mesh};
    });
}

int shim_mesh_listen(shim_mesh *mesh, char *text, size_t room) {
    return guarded(0, text, room, [&] {
        mesh->mesh->listen();
        return 1;
    });
}

int shim_mesh_address(shim_mesh *mesh, int peer, void *bytes, char *text, size_t room) {
    return guarded(0, text, room, [&] {
        const std::vector<char> at = mesh->mesh->getPair(peer)->address().bytes();
        if (at.size() > SHIM_ADDRESS_BYTES) {
            set_text(text, room, "an address that is too long");
            return 0;
        }
        std::memset(bytes, 0, SHIM_ADDRESS_BYTES);
        std::memcpy(bytes, at.data(), at.size());
        return 1;
    });
}

int shim_mesh_connect(shim_mesh *mesh, int peer, const void *bytes, char *text, size_t room) {
    return guarded(0, text, room, [&] {
        auto &pair = mesh->mesh->getPair(peer);
        std::vector<char> at = pair->address().bytes(); // for its size
        std::memcpy(at.data(), bytes, at.size());
        pair->connect(at);
        return 1;
    });
}

void shim_mesh_close(shim_mesh *mesh) {
    char text[64];
    guarded(0, text, sizeof text, [&] {
        delete mesh;
        return 0;
    });
}

static shim_message *start(shim_mesh *mesh, int peer, bool is_send, uint64_t tag, void *bytes,
                           size_t size, char *text, size_t room) {
    return guarded(static_cast<shim_message *>(nullptr), text, room, [&] {
        auto buffer = mesh->mesh->unconnected_->createUnboundBuffer(bytes, size);
        auto &pair = mesh->mesh->getPair(peer);
        if (is_send)
            pair->send(buffer.get(), tag, 0, size);
        else
            pair->recv(buffer.get(), tag, 0, size);
        return new shim_message{std::move(buffer), mesh->mesh, peer, is_send, false};
    });
}

shim_message *shim_send(shim_mesh *mesh, int peer, uint64_t tag, const void *bytes, size_t size,
                        char *text, size_t room) {
    return start(mesh, peer, true, tag, const_cast<void *>(bytes), size, text, room);
}

shim_message *shim_recv(shim_mesh *mesh, int peer, uint64_t tag, void *bytes, size_t size,
                        char *text, size_t room) {
    return start(mesh, peer, false, tag, bytes, size, text, room);
}

// Whether the time is up. For a connection that broke Gloo's type is the same.
static bool is_late(const std::exception &e) {
    return std::strstr(e.what(), "Timed out waiting") != nullptr;
}

int shim_wait(shim_message *m, int64_t timeout_ns, char *text, size_t room) {
    const std::chrono::milliseconds most((timeout_ns + 999999) / 1000000);
    const int state = guarded(-1, text, room, [&] {
        try {
            return (m->is_send ? m->buffer->waitSend(nullptr, most) : m->buffer->waitRecv(nullptr, most)) ? 1 : 0;
        } catch (const std::exception &e) {
            if (!is_late(e))
                throw;
            return 0;
        }
    });
    m->is_done = state > 0;
    return state;
}

int shim_peer(const shim_message *m) {
    return m->peer;
}

void shim_free(shim_message *m) {
    char text[64];
    guarded(0, text, sizeof text, [&] {
        if (m->is_done)
            m->mesh->bury(std::move(m->buffer));
        delete m;
        return 0;
    });
}
