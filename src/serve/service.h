/* The addresses of a server. */
#ifndef TRI_SERVE_SERVICE_H
#define TRI_SERVE_SERVICE_H

#include "http/server.h"
#include "serve/front.h"

/* Returns the service of a front, for tri_http_server_start. */
tri_http_service tri_serve_service(tri_serve_front *front);

#endif
